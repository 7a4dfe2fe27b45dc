/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * libweft-nvmf: a host of NVMe over Fabrics, by RDMA and TCP, in user space.
 *
 *	struct weft_options *o;		what is connected to, and how
 *	struct weft_group *g;		what one thread looks after
 *	struct weft_ctrl *c;		an association with one controller
 *	struct weft_queue *q;		its admin queue or one of its I/O queues
 *
 * A request is submitted to a queue and is under way until its function is called, exactly once if
 * the submission returned 0. Functions are called from within weft_group_poll(), weft_group_arm(),
 * weft_group_wait(), from those that wait (weft_ctrl_open(), weft_ctrl_close(), weft_queue_exec(),
 * weft_ctrl_identify() and its kin, weft_discovery_read()) and from weft_ctrl_destroy(); never from
 * a submission. A function is called rather than a ring filled: the next request can be submitted
 * where the last one ends, nothing has to be sized, and whoever wants a ring has one in three
 *lines.
 *
 * Threads: of a group, its controllers and their queues one thread at a time may use any, but for
 * weft_group_interrupt(). Groups have nothing in common; a program has as many as it has threads.
 * Options belong to whoever has them. There are no threads of the library's own and no signal
 * handlers.
 *
 * From within a function that is called, requests may be submitted, and controllers made, reset and
 * shut down; whatever waits, polls or destroys says -EBUSY there.
 *
 * Errors: functions return 0 or a negative errno, or what they say. Times are milliseconds, lengths
 * bytes, block counts count from 1. Texts are of one line; they name what failed and what to do.
 *
 * Memory of a request's data may be any, in any number of pieces, and is the library's from the
 * submission to the call. The array that names the pieces is the caller's again at once. Over TCP
 * data go straight between the memory and the socket. Over RDMA they go straight where they lie in
 * one piece of memory that weft_ctrl_register() made known, or in up to 4 pieces of such within a
 * capsule; all else is copied once, through memory of weft_options_set_bounce_bytes().
 *
 * libibverbs and librdmacm are found as the program weft finds them: weft's own, unless
 * LD_LIBRARY_PATH leads to others, or the program itself is linked with others.
 *
 * What the specifications are called here: Base is NVM Express Base 2.0, NVM the NVM command set
 * 1.0, Fabrics chapter is Base 2.0's chapters on fabrics.
 */
#ifndef WEFT_NVMF_H
#define WEFT_NVMF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weft_options;
struct weft_group;
struct weft_ctrl;
struct weft_queue;
struct weft_discovery;

#define WEFT_DISCOVERY_NQN "nqn.2014-08.org.nvmexpress.discovery"
#define WEFT_NSID_ALL	   0xffffffffu
#define WEFT_IDENTIFY_LEN  4096u
#define WEFT_RANGES_MAX	   256u /* of one Dataset Management or Copy */
#define WEFT_IO_QUEUES_MAX 128u /* of a controller */

/* "0.1.0". Static. */
const char *weft_nvmf_version(void);

/* --- options -----------------------------------------------------------------------------------
 *
 * What a controller is to be. One object may serve for any number of controllers, with changes in
 * between. A setter that fails (-EINVAL, -ENOMEM) changes nothing, and weft_options_error() has the
 * reason.
 */

/* All as it is by default. -ENOMEM. Freed by weft_options_destroy(), which wipes keys; NULL is fine
 * there. */
int weft_options_create(struct weft_options **ret);
void weft_options_destroy(struct weft_options *o);
/* Why the last call with o failed; "" if none did. Valid until the next call with o. */
const char *weft_options_error(const struct weft_options *o);

/*
 * nvme+rdma://HOST[:PORT][/NQN][?ns=N&hostnqn=NQN&hostid=UUID], nvme+tcp, nvme+tcp+tls; of RDMA
 * transport=roce|iwarp besides: sets what it names and leaves the rest; TLS that
 * weft_options_set_tls() has asked for stays asked for. HOST is a name, an IPv4 address or an IPv6
 * address in brackets.
 */
int weft_options_set_uri(struct weft_options *o, const char *uri);
/* ns= of the URI; 0: it names none. */
uint32_t weft_options_nsid(const struct weft_options *o);
/* "rdma" (default) or "tcp". */
int weft_options_set_transport(struct weft_options *o, const char *name);
/* Name or address of the target; it has to be set, here or by URI. */
int weft_options_set_address(struct weft_options *o, const char *address);
/* 1 to 65535, decimal; "4420" by default. NULL: the default. */
int weft_options_set_port(struct weft_options *o, const char *port);
/* Own address to connect from; NULL (default): any. */
int weft_options_set_source(struct weft_options *o, const char *address);
/* TCP: connect by this network interface and no other (SO_BINDTODEVICE); NULL (default): as the
 * kernel routes. */
int weft_options_set_interface(struct weft_options *o, const char *name);
/* RDMA: by a device of RoCE ("roce"; of InfiniBand, too) or of iWARP ("iwarp") and no other; NULL
 * (default): as the route leads. */
int weft_options_set_rdma_transport(struct weft_options *o, const char *name);
/* Type of service (IPv4) or traffic class (IPv6) of what is sent, 0 to 255; default 0. */
int weft_options_set_tos(struct weft_options *o, unsigned int tos);
/* NVMe qualified name of the subsystem (Base 4.5); it has to be set, here or by URI. Of
 * WEFT_DISCOVERY_NQN there are no I/O queues and no keep-alives. */
int weft_options_set_nqn(struct weft_options *o, const char *nqn);
/* Of this host; NULL (default): what /etc/nvme/hostnqn and /etc/nvme/hostid say, or what is made of
 * this machine's ID and stays the same. hostid: a UUID. */
int weft_options_set_hostnqn(struct weft_options *o, const char *nqn);
int weft_options_set_hostid(struct weft_options *o, const char *uuid);
/* Wanted; the controller may grant fewer. 0 to 128, default 1. */
int weft_options_set_io_queues(struct weft_options *o, unsigned int queues);
/* Of each I/O queue, of which one less are commands under way. 2 to 1024, default 128. */
int weft_options_set_queue_entries(struct weft_options *o, unsigned int entries);
/* 0: none. Default 30000. (Base 3.9) */
int weft_options_set_keep_alive_ms(struct weft_options *o, uint32_t ms);
/* Of a command, from when it is sent; one that is not answered costs the connection. Default 30000.
 */
int weft_options_set_command_timeout_ms(struct weft_options *o, uint32_t ms);
/* Of a connection that is made, and of a shutdown. Defaults 15000, 5000. */
int weft_options_set_connect_timeout_ms(struct weft_options *o, uint32_t ms);
int weft_options_set_shutdown_timeout_ms(struct weft_options *o, uint32_t ms);
/*
 * After a live connection is lost: attempts every delay_ms (default 1000) for as long as
 * give_up_ms (default 30000; 0: no attempt; -1: for ever). Meanwhile requests wait, and those that
 * may be sent again are, up to five times. The first connection is attempted once.
 */
int weft_options_set_reconnect(struct weft_options *o, uint32_t delay_ms, int64_t give_up_ms);
/* TCP: CRC32C of headers and data (NVMe/TCP 3.3.1.1). Default none. */
int weft_options_set_digests(struct weft_options *o, bool header, bool data);
/*
 * DH-HMAC-CHAP (Base 8.13): this host's key, and the controller's, which then has to prove that it
 * has it: "DHHC-1:HH:BASE64:". NULL (default): none. The text is copied.
 */
int weft_options_set_dhchap_key(struct weft_options *o, const char *key);
int weft_options_set_dhchap_ctrl_key(struct weft_options *o, const char *key);
/*
 * TCP: TLS 1.3 with a pre-shared key (NVMe/TCP 3.6), also where the URI is nvme+tcp+tls://. The key
 * is a configured PSK, "NVMeTLSkey-1:HH:BASE64:", of which the one that is used is made by the
 * names of host and subsystem; NULL (default): none. The text is copied. A key and no TLS over TCP
 * is -EINVAL of weft_ctrl_create().
 */
int weft_options_set_tls(struct weft_options *o, bool tls);
int weft_options_set_tls_key(struct weft_options *o, const char *key);
/*
 * How the key that is used is made of it: by an identity of version 1 (default) or 0, which is all
 * that older targets know (NVMe/TCP 3.6.1.3); compat: as older nvme-cli (libnvme 1.13) does it.
 */
int weft_options_set_tls_identity(struct weft_options *o, unsigned int version, bool compat);
/*
 * Of WEFT_DISCOVERY_NQN: with keep-alives, so that the controller stays, and tells of changes of
 * its log by events (weft_options_set_event_fn(); Base 3.1.3.3). Default: no.
 */
int weft_options_set_persistent(struct weft_options *o, bool persistent);
/*
 * TCP: secure channel concatenation (Base 8.13.5.9): the controller connects in plain, host and
 * controller prove themselves by DH-HMAC-CHAP, and of that comes a key of TLS by which all queues
 * are connected then. It takes a key of DH-HMAC-CHAP and none of TLS. Not for discovery, which is
 * plain. Default: it is not done.
 */
int weft_options_set_concat(struct weft_options *o, bool concat);
/* RDMA: of each controller, for data that have to be copied; taken when that first happens. At
 * least 1 MiB, default 16 MiB. Requests that find it used up wait. */
int weft_options_set_bounce_bytes(struct weft_options *o, size_t bytes);
/* RDMA: keys of their own for each command's memory, where the device has type 2 memory windows
 * (default), or the registration's own for all. */
int weft_options_set_memory_windows(struct weft_options *o, bool windows);

/*
 * What to do about a failure, as far as that is said differently in each program: a text (of at
 * most 127 characters, copied) for the place of one that suits all; NULL: that.
 */
enum weft_advice {
	WEFT_ADVICE_HOSTNQN,	/* "have it allowed there, or <connect as another host>" */
	WEFT_ADVICE_TIMEOUT,	/* "look there, or <give it longer>" */
	WEFT_ADVICE_KEEP_ALIVE, /* "<a longer keep-alive timeout> gives it longer" */
	WEFT_ADVICE_KEYS,	/* "<look at both sides' keys>" */
	WEFT_ADVICE_NSID,	/* "say which: ?ns=1< or ...>", to which the number is appended */
};
int weft_options_set_advice(struct weft_options *o, enum weft_advice which, const char *text);

/* --- groups ------------------------------------------------------------------------------------
 *
 * Progress is made by whoever calls, in one of three ways:
 *	weft_group_poll() over and over: lowest latency, for a whole core;
 *	weft_group_wait(): sleeps in it;
 *	weft_group_fd() within an event loop of the caller's: before each sleep weft_group_arm() is
 *	called until it says 0; when the descriptor is readable, again.
 */

/* -ENOMEM; -EMFILE, -ENFILE: it has a descriptor. */
int weft_group_create(struct weft_group **ret);
/* -EBUSY while it has controllers. */
int weft_group_destroy(struct weft_group *g);
/* Handles what has happened, without waiting: 1 if anything had, 0 if not; -EBUSY. */
int weft_group_poll(struct weft_group *g);
/* The same, and if nothing had: until the next call the descriptor becomes readable as soon as
 * something has, timeouts included. -errno of the kernel's; -EBUSY. */
int weft_group_arm(struct weft_group *g);
/* One for all controllers of the group; to wait on for reading, and for nothing else. It is made by
 * the first call and is the group's. -errno. */
int weft_group_fd(struct weft_group *g);
/* Handles what has happened; where nothing had, sleeps until something has and handles it, or
 * timeout_ns (nanoseconds) are over (-1: never). 1, 0, -EINTR (a signal came); -EBUSY. */
int weft_group_wait(struct weft_group *g, int64_t timeout_ns);
/*
 * Ends what waits for a controller of the group, or the next that will, once: weft_group_wait(),
 * weft_ctrl_open(), which gives up, and what waits for a command (weft_queue_exec(),
 * weft_ctrl_identify() and its kin, weft_discovery_read()), where the controller is shut down
 * first, so that the command is over. They say -EINTR. From handlers of signals, or from any
 * thread; weft_ctrl_close() goes on to the end.
 */
void weft_group_interrupt(struct weft_group *g);

/* --- controllers -------------------------------------------------------------------------------
 */

enum weft_ctrl_state {
	WEFT_CTRL_CONNECTING,	/* for the first time */
	WEFT_CTRL_LIVE,		/* requests are sent */
	WEFT_CTRL_RECONNECTING, /* it was live; requests wait */
	WEFT_CTRL_CLOSING,	/* it is being shut down */
	WEFT_CTRL_CLOSED,	/* for good; every request has been called */
	WEFT_CTRL_FAILED,	/* the same; weft_ctrl_error() has the reason */
};

/* Why a connection could not be made, or was lost. */
enum weft_failure {
	WEFT_FAILURE_NONE,
	WEFT_FAILURE_CONNECT,	 /* it could not be made */
	WEFT_FAILURE_LOST,	 /* it was lost */
	WEFT_FAILURE_REFUSED,	 /* a command of the bring-up was: weft_ctrl_info.failure_status */
	WEFT_FAILURE_TIMEOUT,	 /* a command was not answered */
	WEFT_FAILURE_KEEP_ALIVE, /* nor a keep-alive */
	WEFT_FAILURE_NOT_READY,	 /* the controller did not become ready (CSTS.RDY) */
	WEFT_FAILURE_FATAL,	 /* it reports a fatal status (CSTS.CFS) */
	WEFT_FAILURE_PROTOCOL,	 /* the other side broke the protocol */
	WEFT_FAILURE_UNFIT,	 /* the controller lacks what this library needs */
	WEFT_FAILURE_AUTH,	 /* one side has not proved who it is */
};

/* Told of every change of state, after it happened; of the last, when every request was called. */
typedef void weft_state_fn(void *arg, struct weft_ctrl *c, enum weft_ctrl_state from,
			   enum weft_ctrl_state to);
/*
 * Told of every asynchronous event: dword 0 of its completion (Base 5.2). Of changes of namespaces
 * the next comes when the Changed Namespace List was read (Base 5.16.1.5), which is up to who has
 * such a function; without one the library reads it.
 */
typedef void weft_event_fn(void *arg, struct weft_ctrl *c, uint32_t event);

/* Of the controllers that are made from now on. NULL (default): nobody wants to know. */
int weft_options_set_state_fn(struct weft_options *o, weft_state_fn *fn, void *arg);
int weft_options_set_event_fn(struct weft_options *o, weft_event_fn *fn, void *arg);

/*
 * Begins to connect. The name of the target is looked up before this returns. It comes to be
 * WEFT_CTRL_LIVE or WEFT_CTRL_FAILED by the group's turns, or has failed already. -EINVAL (no
 * address, no NQN, options that do not go together), -EIO (no such host, no RDMA here), -ENOMEM:
 * weft_options_error() says why.
 */
int weft_ctrl_create(struct weft_group *g, struct weft_options *o, struct weft_ctrl **ret);
/* The same, and waits until it is live. -EIO as well where it fails; weft_options_error() has the
 * controller's reason then, and there is none. */
int weft_ctrl_open(struct weft_group *g, struct weft_options *o, struct weft_ctrl **ret);
/* Ends it in order, as far as it is live (CC.SHN, Base 3.6.2). Requests end with -ECANCELED. It
 * comes to be WEFT_CTRL_CLOSED by the group's turns. */
int weft_ctrl_shutdown(struct weft_ctrl *c);
/* At once, whatever it is doing; requests end with -ECANCELED before this returns. -EBUSY from
 * within a function that is called; NULL is fine. */
int weft_ctrl_destroy(struct weft_ctrl *c);
/* weft_ctrl_shutdown(), waits for its end, weft_ctrl_destroy(). -EBUSY as there; -EIO: it had been
 * live and did not shut down in order, its connection being lost, say: what was written and not
 * flushed may be lost; it is gone all the same. 0 of one that has failed, of which its state has
 * told. */
int weft_ctrl_close(struct weft_ctrl *c);
/* Drops the connection as if it had been lost: what follows is what the reconnect policy says.
 * -ENOTCONN: it is not live. */
int weft_ctrl_reset(struct weft_ctrl *c);
/* Has both sides prove who they are once more, on the admin queue; where that fails the connection
 * is lost. -ENOTCONN; -EALREADY: it is under way; -EINVAL: there is no key. */
int weft_ctrl_authenticate(struct weft_ctrl *c);

enum weft_ctrl_state weft_ctrl_state(const struct weft_ctrl *c);
/* "connecting" and so on. Static. */
const char *weft_ctrl_state_name(enum weft_ctrl_state state);
/* Why the last connection failed or was lost; "" if none did. Stays over a reconnection; valid
 * until the next call with c's group. */
const char *weft_ctrl_error(const struct weft_ctrl *c);

/* What is known of a controller. Where it was never live, what it says of itself is 0. */
struct weft_ctrl_info {
	char transport[8];	    /* "rdma", "tcp" */
	char address[256], port[8]; /* the target's, as the options had them */
	char nqn[224], hostnqn[224];
	char device[64];  /* RDMA device; "" */
	char keys[16];	  /* by which it reaches memory: "windows", "plain", "" */
	uint32_t nsid;	  /* of the options' URI */
	uint32_t failure; /* enum weft_failure */
	uint16_t failure_status;
	uint16_t cntlid;
	uint16_t io_queues;	/* granted */
	uint16_t queue_entries; /* of each, granted: one less are commands under way */
	uint64_t cap;		/* property CAP */
	uint32_t vs;		/* property VS */
	uint32_t transfer_max;	/* bytes of one command's data */
	uint32_t capsule_max;	/* bytes of data that go with an I/O command */
	uint32_t reconnects;	/* so far */
	uint8_t authenticated;	/* this connection is, by DH-HMAC-CHAP */
	uint8_t volatile_cache; /* writes are durable only after a Flush, or with WEFT_FUA */
	uint16_t oncs;		/* Identify Controller: optional commands */
};
/* size: of *ret, as the caller knows it. */
int weft_ctrl_info(const struct weft_ctrl *c, struct weft_ctrl_info *ret, size_t size);

/* The queues: valid as long as the controller is. index: from 0, below the number that the options
 * asked for; NULL beyond. Of those that the controller does not grant, others do the work. */
struct weft_queue *weft_ctrl_admin_queue(struct weft_ctrl *c);
struct weft_queue *weft_ctrl_io_queue(struct weft_ctrl *c, unsigned int index);

/* --- memory ------------------------------------------------------------------------------------
 */

/* Makes memory known, so that data in it are not copied; over TCP there is nothing to do. It stays
 * where it is until weft_ctrl_unregister() or the controller's end, reconnections included. -errno
 * of the device's: weft_ctrl_error() has the text. */
int weft_ctrl_register(struct weft_ctrl *c, void *addr, size_t len);
/* By the address that it was registered by. -EBUSY: requests are under way there; -ENOENT. */
int weft_ctrl_unregister(struct weft_ctrl *c, void *addr);

/* --- requests ----------------------------------------------------------------------------------
 */

/* How a request ended. */
struct weft_result {
	/*
	 * 0: as it should. Else a negative errno: -ENOTCONN (the connection was lost), -ETIMEDOUT,
	 * -ECANCELED (shut down, or destroyed), -ENOMEM (RDMA: its data are in memory that is not
	 * registered, and there is none to copy them into), -ENODEV and no status (the namespace is
	 * another disk than weft_ctrl_namespace() found, or none), or what the controller's status
	 * means:
	 * -EOPNOTSUPP, -EINVAL, -ERANGE (beyond the namespace's end), -ENODEV (no such namespace),
	 * -ENOSPC, -EACCES, -EROFS, -EILSEQ (Compare: it is different), -EBUSY, -ENODATA
	 * (unrecovered read error), -EIO.
	 */
	int error;
	uint16_t status;   /* of the completion: bits 10:0 type and code, bit 14 DNR; 0: success */
	uint16_t attempts; /* times it was sent */
	uint64_t result;   /* dwords 0 and 1 of the completion */
};
typedef void weft_done_fn(void *arg, const struct weft_result *r);

/* Flags of requests; those that mean nothing to a command are ignored. */
#define WEFT_FUA	   (1u << 0) /* durable when it is done */
#define WEFT_LIMITED_RETRY (1u << 1) /* the disk is not to try for long */
#define WEFT_DEALLOCATE	   (1u << 2) /* Write Zeroes: the blocks may be given up */
/*
 * Whether it may be sent again after its connection was lost, when nobody knows whether it had been
 * carried out. By default commands of which it makes no difference are: all below but Copy and
 * those of weft_queue_submit().
 */
#define WEFT_AGAIN (1u << 3)
#define WEFT_ONCE  (1u << 4)
/* Which way data go, where the opcode of weft_queue_submit() does not say. */
#define WEFT_TO_CTRL (1u << 5)
#define WEFT_TO_HOST (1u << 6)

/*
 * All of these: -ENOTCONN: the controller is not live and will not be again, or not yet; -EINVAL:
 * lengths that are no whole blocks, no function, no pieces; -EMSGSIZE: more than transfer_max or
 * than a command counts; -EAGAIN: 65536 requests of the queue are waiting; -ENODEV: I/O to a
 * namespace that is another disk than weft_ctrl_namespace() found; -ENOMEM. Otherwise done() is
 * called later. What finds a queue full waits in it. On the admin queue all but
 * weft_queue_submit() are -EINVAL.
 *
 * iov: iovcnt pieces, which together are `blocks` blocks of the namespace (NVM 3.2).
 */
int weft_queue_read(struct weft_queue *q, uint32_t nsid, uint64_t lba, uint32_t blocks,
		    const struct iovec *iov, int iovcnt, unsigned int flags, weft_done_fn *done,
		    void *arg);
int weft_queue_write(struct weft_queue *q, uint32_t nsid, uint64_t lba, uint32_t blocks,
		     const struct iovec *iov, int iovcnt, unsigned int flags, weft_done_fn *done,
		     void *arg);
/* error -EILSEQ: the blocks hold something else. */
int weft_queue_compare(struct weft_queue *q, uint32_t nsid, uint64_t lba, uint32_t blocks,
		       const struct iovec *iov, int iovcnt, unsigned int flags, weft_done_fn *done,
		       void *arg);
/* What was written and answered before is durable after it. */
int weft_queue_flush(struct weft_queue *q, uint32_t nsid, unsigned int flags, weft_done_fn *done,
		     void *arg);
int weft_queue_write_zeroes(struct weft_queue *q, uint32_t nsid, uint64_t lba, uint32_t blocks,
			    unsigned int flags, weft_done_fn *done, void *arg);
int weft_queue_write_uncorrectable(struct weft_queue *q, uint32_t nsid, uint64_t lba,
				   uint32_t blocks, unsigned int flags, weft_done_fn *done,
				   void *arg);
int weft_queue_verify(struct weft_queue *q, uint32_t nsid, uint64_t lba, uint32_t blocks,
		      unsigned int flags, weft_done_fn *done, void *arg);

struct weft_range {
	uint64_t lba;
	uint32_t blocks;     /* Copy: at most 65536 */
	uint32_t attributes; /* Dataset Management: of the range (NVM figure 41) */
};
#define WEFT_DSM_READ	    (1u << 0) /* the ranges will be read as a whole */
#define WEFT_DSM_WRITE	    (1u << 1)
#define WEFT_DSM_DEALLOCATE (1u << 2)
/* 1 to WEFT_RANGES_MAX ranges, the caller's again at once. attributes: WEFT_DSM_* */
int weft_queue_dsm(struct weft_queue *q, uint32_t nsid, const struct weft_range *ranges,
		   unsigned int count, uint32_t attributes, unsigned int flags, weft_done_fn *done,
		   void *arg);
/* The ranges, one after the other, to lba on; the controller moves the data. */
int weft_queue_copy(struct weft_queue *q, uint32_t nsid, uint64_t lba,
		    const struct weft_range *ranges, unsigned int count, unsigned int flags,
		    weft_done_fn *done, void *arg);

/* A command as it is: dwords 0 to 3 and 10 to 15 of its submission queue entry (Base 3.3.3.1), in
 * host byte order. Command ID, PSDT and data pointer are the library's. */
struct weft_command {
	uint8_t opcode;
	uint8_t fuse; /* 0; 1 the first, 2 the second of two that are carried out as one; to 3 */
	uint16_t reserved;
	uint32_t nsid; /* fabrics commands (opcode 7Fh): bits 7:0 are the command type */
	uint32_t cdw2, cdw3;
	uint32_t cdw10, cdw11, cdw12, cdw13, cdw14, cdw15;
};
/*
 * Any admin, I/O or fabrics command. Its opcode says which way data go (Base figure 138): bits 1:0
 * of the opcode, of a fabrics command those of its type, or the flags if these are 0; iovcnt 0:
 * there are none. -EINVAL also for both ways, and for Asynchronous Event Request, of which the
 * library has one under way.
 */
int weft_queue_submit(struct weft_queue *q, const struct weft_command *command,
		      const struct iovec *iov, int iovcnt, unsigned int flags, weft_done_fn *done,
		      void *arg);
/* The same, and waits for it: ret->error, or what submitting it said. -EINTR: see
 * weft_group_interrupt(); signals as such do not end it. */
int weft_queue_exec(struct weft_queue *q, const struct weft_command *command,
		    const struct iovec *iov, int iovcnt, unsigned int flags,
		    struct weft_result *ret);

/* "LBA Out of Range (SCT 0h, SC 80h, do not retry)": a status in words, at most room bytes; returns
 * text. io: of an I/O queue, where some mean another thing. */
char *weft_status_text(uint16_t status, bool io, char *text, size_t room);

/* --- what there is -----------------------------------------------------------------------------
 *
 * These wait; errors as of weft_queue_exec().
 */

/* Identify (Base 5.17): WEFT_IDENTIFY_LEN bytes, as they came. */
int weft_ctrl_identify(struct weft_ctrl *c, uint8_t cns, uint32_t nsid, void *page);
/* The same of a namespace (CNS 00h) that is there, be it of use or not. *nsid 0: that of the
 * options' URI, else the only one there is; it comes to be its ID. Errors as of
 * weft_ctrl_namespace(). */
int weft_ctrl_identify_namespace(struct weft_ctrl *c, uint32_t *nsid, void *page);

struct weft_namespace {
	uint32_t nsid;
	uint32_t block_bytes; /* 512 to 65536 */
	uint64_t blocks;
	uint8_t read_only;	   /* it is write-protected */
	uint8_t zeroes_deallocate; /* WEFT_DEALLOCATE has an effect */
	uint8_t reserved[6];
	uint32_t optimal_write_blocks; /* NPWG, or 0 */
	uint32_t atomic_blocks; /* written whole or not at all, also when power fails; or 0 */
};
/* nsid 0: that of the options' URI, else the only one there is. size: of *ret, as the caller knows
 * it. -ENODEV: there is none, or not that one; -ENOTUNIQ: there are several; -EOPNOTSUPP: it is of
 * no use (blocks with metadata, of odd lengths). weft_ctrl_error() has the text.
 *
 * From then on its ID has to lead to that disk, which its block size, NGUID, EUI-64 and UUID say
 * (its size may change): that is looked at when a lost connection is there again, before requests
 * that waited are sent, and when the controller tells of changes. While another disk is there, or
 * none, I/O requests for it end with -ENODEV, or are not taken, and weft_ctrl_error() says so;
 * weft_ctrl_namespace() is -ENODEV for another: a new controller takes it for what it is. Of a
 * namespace that was not looked at by this nothing is known. */
int weft_ctrl_namespace(struct weft_ctrl *c, uint32_t nsid, struct weft_namespace *ret,
			size_t size);
/* IDs of active namespaces above `after` (0: all), ascending: how many, at most room and 1024. */
int weft_ctrl_namespaces(struct weft_ctrl *c, uint32_t after, uint32_t *ids, unsigned int room);

/*
 * The discovery log of a controller that is live, one of WEFT_DISCOVERY_NQN (Base 5.16.1.23): read
 * until it did not change meanwhile. -EAGAIN: it changed each time; -EPROTO, -EMSGSIZE: it is none.
 * Freed by weft_discovery_free(), NULL included.
 */
int weft_discovery_read(struct weft_ctrl *c, struct weft_discovery **ret);
void weft_discovery_free(struct weft_discovery *d);
uint64_t weft_discovery_generation(const struct weft_discovery *d);
unsigned int weft_discovery_count(const struct weft_discovery *d);
struct weft_discovery_entry {
	uint8_t trtype;	 /* 1 RDMA, 3 TCP */
	uint8_t adrfam;	 /* 1 IPv4, 2 IPv6 */
	uint8_t subtype; /* 1 referral, 2 NVM subsystem, 3 this discovery subsystem */
	uint8_t treq;
	uint16_t portid, cntlid, asqsz, eflags;
	/* Without their padding; of what cannot be printed, '?'. */
	char trsvcid[33], traddr[257], subnqn[257];
	uint8_t tsas[256];
};
/* size: of *ret, as the caller knows it. -ENOENT beyond the last. */
int weft_discovery_entry(const struct weft_discovery *d, unsigned int index,
			 struct weft_discovery_entry *ret, size_t size);
/* Where an entry leads, as weft_options_set_uri() takes it: a referral to another discovery
 * service. By TLS, unless that is not required. -EOPNOTSUPP: by a transport that this library does
 * not know; -ENAMETOOLONG: room does not hold it. */
int weft_discovery_uri(const struct weft_discovery *d, unsigned int index, char *uri, size_t room);
/* The log as it stands on the wire, header and entries (Base figures 264, 265): as much as room
 * holds of it. How many bytes it has. */
size_t weft_discovery_bytes(const struct weft_discovery *d, void *buf, size_t room);

#ifdef __cplusplus
}
#endif

#endif
