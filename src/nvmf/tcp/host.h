/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * NVMe/TCP for the host: host.c has connections, host_queue.c commands and what comes of them.
 *
 * Data go straight between the socket and the requests' memory. What is submitted while process()
 * handles what came is sent together when that is done.
 */
#ifndef WEFT_NVMF_TCP_HOST_H
#define WEFT_NVMF_TCP_HOST_H

#include <netdb.h>
#include <sys/socket.h>

#include "nvmf/tcp/rx.h"
#include "nvmf/tcp/tcp.h"
#include "nvmf/tcp/tls.h"
#include "nvmf/tcp/tx.h"

#define TCP_NO_ANSWER "the machine is not there, or the port is filtered on the way; look there"

enum {
	TCP_HOST_R2TS_MAX = 8, /* outstanding of one command */
	TCP_HOST_BUFFER = 128 << 10,
	TCP_HOST_TURN = 1 << 20, /* received of one queue before others have theirs */
	TCP_HOST_ERROR_LEN = 256,
};

struct tcp_host;

struct tcp_host_command {
	struct tcp_host_queue *queue;
	struct host_request *req; /* NULL: the slot is free */
	struct tcp_out out;	  /* the capsule, then H2CData */
	bool capsule_sent, in_capsule;
	bool damaged;	/* a data digest was wrong */
	uint32_t got;	/* bytes of C2HData */
	uint32_t asked; /* bytes that R2Ts have asked for */
	struct {
		uint32_t at, end;
		uint16_t ttag;
	} r2ts[TCP_HOST_R2TS_MAX]; /* a ring */
	uint8_t r2t_first, r2t_count;
};

enum tcp_host_queue_state {
	TCP_HOST_CLOSED,
	TCP_HOST_CONNECTING,
	TCP_HOST_SHAKING, /* hands: TLS */
	TCP_HOST_ICREQ,	  /* is sent */
	TCP_HOST_UP,
};

struct tcp_host_queue {
	struct tcp_host *t;
	uint16_t qid;
	uint16_t entries;
	enum tcp_host_queue_state state;
	uint32_t generation; /* of the connection */
	int fd;
	bool full;	     /* the socket takes no more at present */
	uint32_t events;     /* that it is watched for */
	struct tcp_tls *tls; /* NULL: it is plain */
	struct tcp_rx rx;
	struct tcp_tx tx;
	struct tcp_out icreq, term;
	uint8_t wrong[NVME_TCP_TERM_DATA_MAX];
	uint32_t maxh2cdata;
	struct tcp_host_command *commands; /* [entries], by slot */
	struct tcp_host_command *incoming; /* whose data are on their way */
	uint32_t outstanding;
	bool sending; /* something waits that the socket was not given */
};

struct tcp_host {
	struct transport_host transport;
	struct transport_host_config config;
	char host[256], port[8], source[64], interface[16];
	struct sockaddr_storage source_address; /* valid if source is not empty */
	struct addrinfo *addresses, *address;	/* all; the one in use */
	struct host *h;
	int epoll_fd;
	char error[TCP_HOST_ERROR_LEN];
	uint64_t now_ns;    /* of the call that is under way */
	uint64_t looked_ns; /* when all sockets were looked at last */
	bool notified;	    /* something has happened on one */
	bool batching;	    /* commands are sent when the present call ends */
	uint8_t buffer[TCP_HOST_BUFFER];
	uint8_t plain[TCP_TLS_RECORD]; /* what records say */
	struct tcp_tls_context *tls;   /* NULL: no connection was by TLS yet */
	struct auth_psk psk;	       /* of no length: they are plain */
	bool generated;		       /* it is the host core's; else the caller's */
	struct tcp_host_queue *queues; /* [1 + config.io_queues] */
};

/* As the transport's operation of that name. */
struct transport_host *tcp_host_create(const struct transport_host_config *config, char *why,
				       size_t room);

static inline struct tcp_host *tcp_host_of(const struct transport_host *t)
{
	return container_of(t, struct tcp_host, transport);
}

/* --- host_queue.c ----------------------------------------------------------------------------- */

/* "connection to HOST:PORT lost: ..." and the like. */
void tcp_host_say(struct tcp_host *t, const char *fmt, ...) printf_like(2, 3);
/* Sends what waits, or has the socket say when it takes more; a failure loses the connection. */
void tcp_host_queue_flush(struct tcp_host_queue *q);
/* Has epoll say what it has to. */
void tcp_host_queue_watch(struct tcp_host_queue *q, uint32_t events);
/* The connection is there: shakes hands, and asks for what it is to be like. */
void tcp_host_queue_begin(struct tcp_host_queue *q);
/* Reads and handles what there is; true if there was anything. */
bool tcp_host_queue_receive(struct tcp_host_queue *q);
/* Memory of commands; -ENOMEM. */
int tcp_host_queue_setup(struct tcp_host_queue *q) must_use;
void tcp_host_queue_teardown(struct tcp_host_queue *q);
/* As the host's operations of these names. */
int tcp_host_queue_submit(void *t, uint16_t qid, struct host_request *req, bool in_capsule);
void tcp_host_queue_release(void *t, uint16_t qid, struct host_request *req);

#endif
