/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Writes a pattern to the first blocks of namespaces, reads it back and compares, by libweft-nvmf:
 * several namespaces at a time, many requests under way, from one thread that sleeps in poll(2). A
 * target that goes away and comes back is waited for.
 *
 *	cc -o nvmf_verify nvmf_verify.c $(pkg-config --cflags --libs weft-nvmf)
 *	./nvmf_verify ROUNDS nvme+tcp://127.0.0.1/nqn.2026-11.org.example:disk?ns=1 [URI ...]
 *
 * It OVERWRITES the first MiB of each namespace.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/nvmf.h>

#define BYTES (1u << 20) /* of a namespace that are used */
#define PIECE 16384u	 /* of a request */
#define DEPTH 16

struct disk {
	const char *uri;
	struct weft_ctrl *ctrl;
	struct weft_namespace ns;
	unsigned char *data, *back; /* BYTES each */
	struct slot {
		struct disk *disk;
		unsigned int at; /* byte of the piece */
		int reading;
	} slots[DEPTH];
	unsigned int next, round, under_way;
};

static unsigned int rounds;
static int failed;

static void start(struct slot *s);

static void fill(struct disk *d)
{
	for (unsigned int i = 0; i < BYTES; i++)
		d->data[i] = (unsigned char)(i * 7 + i / 1000 + d->round * 31);
}

/* A request is over: what was written is read, what was read compared. */
static void done(void *arg, const struct weft_result *r)
{
	struct slot *s = arg;
	struct disk *d = s->disk;

	d->under_way--;
	if (r->error) {
		fprintf(stderr, "%s: byte %u: %s\n", d->uri, s->at, strerror(-r->error));
		failed = 1;
		return;
	}
	if (s->reading && memcmp(d->data + s->at, d->back + s->at, PIECE) != 0) {
		fprintf(stderr, "%s: byte %u and on: not what was written\n", d->uri, s->at);
		failed = 1;
		return;
	}
	s->reading = !s->reading;
	start(s);
}

/* The slot's next request: the read of what it has written, or the next piece. */
static void start(struct slot *s)
{
	struct disk *d = s->disk;
	struct weft_queue *q = weft_ctrl_io_queue(d->ctrl, 0);
	uint32_t blocks = PIECE / d->ns.block_bytes;
	struct iovec halves[2]; /* data may lie in pieces */
	unsigned char *from;
	int err;

	if (!s->reading) {
		if (d->next == BYTES)
			return;
		s->at = d->next;
		d->next += PIECE;
	}
	from = (s->reading ? d->back : d->data) + s->at;
	halves[0].iov_base = from;
	halves[0].iov_len = 1000;
	halves[1].iov_base = from + 1000;
	halves[1].iov_len = PIECE - 1000;
	if (s->reading)
		err = weft_queue_read(q, d->ns.nsid, s->at / d->ns.block_bytes, blocks, halves, 2,
				      0, done, s);
	else
		err = weft_queue_write(q, d->ns.nsid, s->at / d->ns.block_bytes, blocks, halves, 2,
				       0, done, s);
	if (err) {
		fprintf(stderr, "%s: %s\n", d->uri, strerror(-err));
		failed = 1;
		return;
	}
	d->under_way++;
}

/* Begins the next round of a disk that has nothing to do; 0 when it is through. */
static int go_on(struct disk *d)
{
	if (d->under_way)
		return 1;
	if (failed || d->round == rounds)
		return 0;
	d->round++;
	d->next = 0;
	fill(d);
	for (unsigned int i = 0; i < DEPTH; i++) {
		d->slots[i].disk = d;
		d->slots[i].reading = 0;
		start(&d->slots[i]);
	}
	return 1;
}

static void tell_state(void *arg, struct weft_ctrl *c, enum weft_ctrl_state from,
		       enum weft_ctrl_state to)
{
	(void)from;
	printf("%s: %s%s%s\n", (const char *)arg, weft_ctrl_state_name(to),
	       to == WEFT_CTRL_RECONNECTING ? ": " : "",
	       to == WEFT_CTRL_RECONNECTING ? weft_ctrl_error(c) : "");
	fflush(stdout);
}

static int open_disk(struct weft_group *g, struct disk *d)
{
	struct weft_options *o;
	int err = weft_options_create(&o);

	if (err)
		return err;
	if (weft_options_set_uri(o, d->uri) || weft_options_set_reconnect(o, 100, 60000) ||
	    weft_options_set_state_fn(o, tell_state, (void *)d->uri) ||
	    weft_ctrl_open(g, o, &d->ctrl)) {
		fprintf(stderr, "%s\n", weft_options_error(o));
		err = -EIO;
	} else if (weft_ctrl_namespace(d->ctrl, weft_options_nsid(o), &d->ns, sizeof(d->ns))) {
		fprintf(stderr, "%s\n", weft_ctrl_error(d->ctrl));
		err = -EIO;
	} else if (d->ns.blocks * d->ns.block_bytes < BYTES || PIECE % d->ns.block_bytes) {
		fprintf(stderr, "%s: of no use here\n", d->uri);
		err = -EINVAL;
	}
	weft_options_destroy(o);
	if (err)
		return err;
	d->data = calloc(2, BYTES);
	if (!d->data)
		return -ENOMEM;
	d->back = d->data + BYTES;
	/* What is read goes straight to its place; what is written is copied, over RDMA. */
	return weft_ctrl_register(d->ctrl, d->back, BYTES);
}

int main(int argc, char **argv)
{
	unsigned int n = argc > 2 ? (unsigned int)argc - 2 : 0, busy = 0;
	struct disk *disks = calloc(n ? n : 1, sizeof(*disks));
	struct weft_group *g;
	struct pollfd p = {.events = POLLIN};

	if (!n || !disks || weft_group_create(&g)) {
		fprintf(stderr, "usage: nvmf_verify ROUNDS URI ...\n");
		return 2;
	}
	rounds = (unsigned int)strtoul(argv[1], NULL, 0);
	for (unsigned int i = 0; i < n && !failed; i++) {
		disks[i].uri = argv[2 + i];
		failed = open_disk(g, &disks[i]) != 0;
	}
	p.fd = weft_group_fd(g);
	failed |= p.fd < 0;
	for (;;) {
		busy = 0;
		for (unsigned int i = 0; i < n; i++)
			busy += disks[i].ctrl && go_on(&disks[i]);
		if (!busy)
			break;
		if (weft_group_arm(g) == 0)
			poll(&p, 1, -1);
	}
	for (unsigned int i = 0; i < n; i++) {
		if (weft_ctrl_close(disks[i].ctrl))
			failed = 1;
		free(disks[i].data);
	}
	weft_group_destroy(g);
	free(disks);
	puts(failed ? "failed" : "verified");
	return failed;
}
