/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Two brokers' CM services, host 1 and host 2, with the packets carried by hand. */
#ifndef WEFT_TESTS_UNIT_CM_WORLD_H
#define WEFT_TESTS_UNIT_CM_WORLD_H

#include "base/heap.h"
#include "base/list.h"
#include "base/units.h"
#include "broker/cm_service.h"
#include "wire/cm_ip.h"

#define SEC NSEC_PER_SEC

struct packet {
	struct list list;
	struct flow flow;
	size_t len;
	uint8_t data[512];
};

struct host {
	struct world *w;
	struct cm_service *svc;
	struct gid v4, v6;
	uint8_t nr;
	uint8_t path_mtu; /* of its interface */
	int neighbour;	  /* what it says of the next host, whoever that is */
	unsigned probes;
	uint32_t by_tcp; /* that listen so */
};

struct world {
	struct host host[2];
	struct list wire;
	unsigned sent; /* packets ever */
	bool cut;      /* the wire is: packets are lost */
	unsigned loss; /* percent */
	uint32_t uid;  /* of the clients that come now */
	uint64_t random, now;
};

struct client {
	struct host *host;
	struct cm_client *c;
	uint32_t channel;
	int fd;
};

/* cmocka's: *state is a struct world. The teardown demands that all comes to rest. */
int world_setup(void **state);
int world_teardown(void **state);
uint32_t world_random(struct world *);
/* Carries packets until none is left. */
void carry(struct world *);
/* Lets time pass, with all that is due in it. */
void pass(struct world *, uint64_t ns);

void open_client(struct client *, struct host *);
void close_client(struct client *);
/* The next event, which must be there and of this type. */
struct broker_cm_event event(struct client *, enum broker_cm_event_type);
void no_event(struct client *);
/* The reply goes where the request was. Returns its error. */
int ask(struct client *, void *req, size_t len);

#define ASK(client, type_, name, ...)                                            \
	({                                                                       \
		struct broker_cm_##name r_ = {.msg.type = (type_), __VA_ARGS__}; \
		ask((client), &r_, sizeof(r_));                                  \
	})

int on_id(struct client *, enum broker_cm_msg_type, uint32_t id);

/* What an identifier is of, and what its events say to its client. */
struct kind {
	enum cm_port_space ps;
	bool datagrams, xrc;
	uint64_t user;
};

#define TCP ((struct kind){.ps = CM_PS_TCP})
#define UDP ((struct kind){.ps = CM_PS_UDP, .datagrams = true})

int try_create(struct client *, struct kind, uint32_t *ret);
uint32_t create(struct client *, struct kind);
/* Returns the port or -errno. */
int bind_to(struct client *, uint32_t id, const struct gid *addr, uint16_t port);
/* At any address; a backlog of 0 is the longest. */
uint32_t listener(struct client *, struct kind, uint16_t port, uint32_t backlog);

enum { LISTENER_USER = 0x11, ACTIVE_USER = 0x22 };

/* A client on host 1 that listens, and one on host 2 with an identifier. */
struct pair {
	struct client server, user;
	uint32_t listen, passive, active;
};

void begin(struct pair *, struct world *, struct kind, uint16_t port);
void end(struct pair *);

/* What a REQ of RC is made of; private data is up to the caller. */
struct broker_cm_param req_param(const struct gid *src, const struct gid *dst, uint16_t port);

#endif
