/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the files of weft serve share: what it was told, and what it is. */
#ifndef WEFT_CLI_SERVE_H
#define WEFT_CLI_SERVE_H

#include <signal.h>
#include <sys/epoll.h>

#include "base/time.h"
#include "cli/control.h"
#include "cli/control_request.h"
#include "cli/live.h"
#include "cli/manager.h"
#include "cli/nvme_uri.h"
#include "cli/output.h"
#include "cli/serve_file.h"
#include "cli/serve_hosts.h"
#include "cli/serve_say.h"
#include "cli/serve_threads.h"
#include "cli/serve_tls.h"
#include "cli/serve_transports.h"
#include "nvmf/target/target.h"
#include "nvmf/transport/share.h"

#define LISTEN_MAX CONFIG_PORTS_MAX
#define HOSTS_MAX  64
/* A socket that is called so is not for hosts. */
#define SERVE_METRICS_SOCKET "metrics"
/* So many changes are told by name. */
#define CHANGES_TOLD 100
/* At the end, what takes so long is given up. */
#define SERVE_GIVE_UP_NS (60 * NSEC_PER_SEC)

struct serve_options {
	const char *config; /* a file; NULL: the rest says what is served */
	struct serve_file files[TARGET_NS_MAX];
	const char *texts[TARGET_NS_MAX]; /* as the files were given */
	uint32_t file_count;
	struct nvme_uri listen[LISTEN_MAX];
	uint32_t listen_count;
	const char *hosts[HOSTS_MAX];
	uint32_t host_count;
	struct serve_secret {
		const char *text;
		bool ctrl;
	} * secrets; /* as they were given, until they are read */
	unsigned secret_count;
	struct serve_hosts keys;
	struct serve_tls tls;
	const char *nqn, *serial, *provider, *capture, *metrics;
	const char *control; /* a path; "none"; NULL: where they usually are */
	struct store_file_options file;
	bool mdns;
	size_t pool_bytes; /* 0: as many as usual */
	unsigned threads;
	enum output_format format;
	int ready_fd;
};

struct serve {
	struct serve_options opt;
	struct target target;
	struct live live;
	struct store_engine *engine;
	struct shares shares;
	struct serve_transports transports;
	struct serve_threads threads; /* besides this one */
	struct metrics *metrics;      /* NULL: nobody asked for them */
	struct mdns_publisher *mdns;  /* NULL: nobody asked for it */
	size_t mdns_left;	      /* ports that are too many for it, as was told */
	struct control *control;      /* NULL: there is none */
	struct control_service requests;
	pid_t control_pid; /* whose request is carried out */
	int epoll_fd, signal_fd;
	struct serve_say say;
	struct manager manager;
	uint32_t told_hosts;   /* controllers of theirs, as the manager knows */
	uint64_t tell_ns;      /* not before then anew */
	struct config *coming; /* waits for disks and servers; NULL: none */
	struct tls_keys coming_keys;
	bool resuming;	     /* what has waited for them is carried out */
	bool reload_again;   /* after what waits for them */
	uint32_t changes;    /* by the configuration that is being taken */
	uint64_t measure_ns; /* next look at what is served: its sizes, what takes long */
	bool stopping;
	uint64_t told_ns, give_up_ns; /* of the end */
};

/* The loop wakes when a descriptor is readable, until that is closed; -1 and errno. */
static inline int serve_wake_by(struct serve *s, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

/* --- serve_doc.c ------------------------------------------------------------------------------ */

/* The document that says what the options say. -errno, and why. */
int serve_document(struct serve_options *o, struct json_object **ret, char *why,
		   size_t room) must_use;

/* --- serve_config.c --------------------------------------------------------------------------- */

/* Has the target serve what is asked for. The exit status. */
int serve_begin(struct serve *s) must_use;
/* Where sockets were handed over that nothing listens on. */
void serve_tell_unused(void);
/* While it serves: as live_become(), with the place in the document in why. */
int serve_become(struct serve *s, struct config *to, size_t *ret_steps, char *why,
		 size_t room) must_use;
/*
 * Has the disks opened that it names and that are not there yet, beside the loop, as a disk may
 * hang and a server not answer: true, it is to be asked again by serve_go_on(), and not to be
 * carried out before. One at a time: true as well where another waits for its own.
 */
bool serve_looks(struct serve *s, const struct config *c) must_use;
/* The file says something else, perhaps; it waits likewise. It is all done, or nothing is. */
void serve_reload(struct serve *s);
/* Carries out what has waited for disks and servers, in the order in which it came. */
void serve_go_on(struct serve *s);

/* Hosts are told of a namespace that has another size, and so is who reads what we say; of disks
 * that take long or fail that one alone. */
void serve_look_at_stores(struct serve *s, uint64_t now);

/* --- serve_control.c -------------------------------------------------------------------------- */

/* Has a control socket, if that is wanted. The exit status. */
int serve_control(struct serve *s) must_use;
void serve_control_end(struct serve *s);

/* --- serve_mdns.c ----------------------------------------------------------------------------- */

/* Speaks to avahi-daemon, if that is wanted. The exit status. */
int serve_mdns(struct serve *s) must_use;
/* Where discovery is answered, from now on. */
void serve_mdns_publish(struct serve *s);
/* Whether a descriptor is its, which is readable when there is something to say: that is said. */
bool serve_mdns_is(const struct serve *s, int fd);
void serve_mdns_process(struct serve *s);
/* Nobody is to come any more. */
void serve_mdns_withdraw(struct serve *s);
void serve_mdns_end(struct serve *s);

/* --- serve_loop.c ----------------------------------------------------------------------------- */

/* To be waked by signals and disks, and by whoever wants figures; the exit status. */
int serve_loop_init(struct serve *s, const sigset_t *signals) must_use;
int serve_metrics(struct serve *s) must_use;
int serve_watch_control(struct serve *s) must_use;
/* And by the other threads; -errno, and why. */
int serve_loop_join(struct serve *s, char *why, size_t room) must_use;
/* Serves until it is told to end; false: at its end work was left undone. */
bool serve_loop(struct serve *s) must_use;
/*
 * What hosts wrote and did not flush is still on its way to the disks. False: one has not answered,
 * and its operation is its own.
 */
bool serve_flush(struct serve *s) must_use;
void serve_loop_fini(struct serve *s);

/* --- serve_tell.c ----------------------------------------------------------------------------- */

/* How hosts connect; false: nobody could be told. */
bool serve_tell(struct serve *s) must_use;
/* What the service is at: for whoever manages it. */
void serve_status(struct serve *s);

#endif
