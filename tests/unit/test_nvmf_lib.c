/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What <weft/nvmf.h> says, by each transport: the library here, a target in another thread.
 * Argument: rdma or tcp.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <cmocka.h>
#include <weft/nvmf.h>

#include "base/time.h"
#include "far_target.h"
#include "netns.h"
#include "nvmf/rdma/rdma.h"
#include "nvmf/tcp/tcp.h"

#define PATIENCE (20 * NSEC_PER_SEC)

enum { QUEUES = 2, LEN = 1 << 20 };

static const struct nvmf_transport *kind;
static struct weft_options *o;
static struct weft_group *g;
static uint8_t out[LEN], in[LEN];

static struct seen {
	enum weft_ctrl_state to[32];
	unsigned int changes, events;
	int (*in_state)(struct weft_ctrl *c); /* called from within the function */
	int said;
} seen;

static void on_state(void *arg, struct weft_ctrl *c, enum weft_ctrl_state from,
		     enum weft_ctrl_state to)
{
	assert_ptr_equal(arg, &seen);
	assert_int_not_equal(from, to);
	assert_int_equal(weft_ctrl_state(c), to);
	if (seen.changes < ARRAY_SIZE(seen.to))
		seen.to[seen.changes] = to;
	seen.changes++;
	if (seen.in_state)
		seen.said = seen.in_state(c);
}

static int set_up(void **state)
{
	(void)state;
	memset(&seen, 0, sizeof(seen));
	far_start(kind);
	assert_int_equal(weft_group_create(&g), 0);
	assert_int_equal(weft_options_create(&o), 0);
	assert_int_equal(weft_options_set_transport(o, kind->name), 0);
	assert_int_equal(weft_options_set_address(o, "127.0.0.1"), 0);
	assert_int_equal(weft_options_set_port(o, FAR_PORT), 0);
	assert_int_equal(weft_options_set_nqn(o, FAR_NQN), 0);
	assert_int_equal(weft_options_set_io_queues(o, QUEUES), 0);
	assert_int_equal(weft_options_set_reconnect(o, 20, 20000), 0);
	assert_int_equal(weft_options_set_state_fn(o, on_state, &seen), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	far_hold(false);
	far_stop();
	far_nguid(0);
	far_entries(0);
	far_key(NULL);
	assert_int_equal(weft_group_destroy(g), 0);
	weft_options_destroy(o);
	return 0;
}

static struct weft_ctrl *open_ctrl(void)
{
	struct weft_ctrl *c = NULL;

	if (weft_ctrl_open(g, o, &c))
		fail_msg("%s", weft_options_error(o));
	assert_int_equal(weft_ctrl_state(c), WEFT_CTRL_LIVE);
	return c;
}

#define wait_until(condition)                                           \
	do {                                                            \
		uint64_t end_ = time_now_ns() + PATIENCE;               \
		while (!(condition) && time_now_ns() < end_)            \
			assert_true(weft_group_wait(g, 10000000) >= 0); \
		assert_true(condition);                                 \
	} while (0)

struct outcome {
	struct weft_result r;
	unsigned int times;
};

static void done(void *arg, const struct weft_result *r)
{
	struct outcome *at = arg;

	at->r = *r;
	at->times++;
}

/* What a submission that said 0 ended with. */
static int ended(int submitted, struct outcome *at)
{
	assert_int_equal(submitted, 0);
	assert_int_equal(at->times, 0); /* not from within */
	wait_until(at->times);
	assert_int_equal(at->times, 1);
	return at->r.error;
}
static struct outcome last;
#define END(call) (last = (struct outcome){{0}, 0}, ended((call), &last))

static void fill(uint8_t *p, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(i * 31 + i / 253 + seed * 97);
}

static struct iovec piece(void *p, size_t len)
{
	return (struct iovec){p, len};
}

/* --- cases --------------------------------------------------------------------------------------
 */

static void options_say_what_is_wrong_with_them(void **state)
{
	struct weft_options *x;
	struct weft_ctrl *c = NULL;

	(void)state;
	assert_int_equal(weft_options_create(&x), 0);
	assert_string_equal(weft_options_error(x), "");
	assert_int_equal(weft_options_set_uri(x, "http://there"), -EINVAL);
	assert_non_null(strstr(weft_options_error(x), "http://there"));
	assert_int_equal(weft_options_set_uri(x, NULL), -EINVAL);
	assert_int_equal(weft_options_set_transport(x, "fc"), -EINVAL);
	assert_non_null(strstr(weft_options_error(x), "fc"));
	assert_int_equal(weft_options_set_port(x, "0"), -EINVAL);
	assert_int_equal(weft_options_set_port(x, "65536"), -EINVAL);
	assert_int_equal(weft_options_set_nqn(x, "disk"), -EINVAL);
	assert_int_equal(weft_options_set_hostnqn(x, "host"), -EINVAL);
	assert_int_equal(weft_options_set_hostid(x, "1234"), -EINVAL);
	assert_int_equal(weft_options_set_io_queues(x, 129), -EINVAL);
	assert_int_equal(weft_options_set_queue_entries(x, 1), -EINVAL);
	assert_int_equal(weft_options_set_queue_entries(x, 1025), -EINVAL);
	assert_int_equal(weft_options_set_command_timeout_ms(x, 0), -EINVAL);
	assert_int_equal(weft_options_set_reconnect(x, 0, 1000), -EINVAL);
	assert_int_equal(weft_options_set_reconnect(x, 0, -2), -EINVAL);
	assert_int_equal(weft_options_set_bounce_bytes(x, 4096), -EINVAL);
	assert_int_equal(weft_options_set_tls_identity(x, 2, false), -EINVAL);
	assert_int_equal(weft_options_set_advice(x, WEFT_ADVICE_NSID + 1, ""), -EINVAL);
	memset(out, 'x', 128);
	out[128] = 0;
	assert_int_equal(weft_options_set_advice(x, WEFT_ADVICE_KEYS, (const char *)out), -EINVAL);
	assert_int_equal(weft_options_set_dhchap_key(x, "secret"), -EINVAL);
	assert_null(strstr(weft_options_error(x), "secret"));
	assert_int_equal(weft_ctrl_create(g, x, &c), -EINVAL);
	assert_non_null(strstr(weft_options_error(x), "address"));
	assert_int_equal(weft_options_set_address(x, "127.0.0.1"), 0);
	assert_int_equal(weft_ctrl_create(g, x, &c), -EINVAL);
	assert_non_null(strstr(weft_options_error(x), "discover nvme+rdma://127.0.0.1:4420`"));
	assert_int_equal(weft_options_set_nqn(x, FAR_NQN), 0);
	assert_int_equal(weft_options_set_transport(x, "rdma"), 0);
	assert_int_equal(weft_options_set_digests(x, true, false), 0);
	assert_int_equal(weft_ctrl_create(g, x, &c), -EINVAL);
	assert_non_null(strstr(weft_options_error(x), "digests"));
	assert_int_equal(
		weft_options_set_uri(x, "nvme+tcp://[::1]:5000/nqn.2026-11.io.example:x?ns=7"), 0);
	assert_int_equal(weft_options_nsid(x), 7);
	assert_int_equal(weft_options_set_uri(x, "nvme+tcp+tls://127.0.0.1/" FAR_NQN), 0);
	assert_int_equal(weft_ctrl_create(g, x, &c), -EINVAL);
	assert_non_null(strstr(weft_options_error(x), "TLS takes a key"));
	assert_int_equal(weft_options_set_tls_key(x, "NVMeTLSkey-1:01:short:"), -EINVAL);
	assert_int_equal(weft_options_set_transport(x, "rdma"), 0);
	assert_int_equal(weft_options_set_digests(x, false, false), 0);
	assert_int_equal(weft_ctrl_create(g, x, &c), -EINVAL);
	assert_non_null(strstr(weft_options_error(x), "TLS is for TCP"));
	assert_int_equal(weft_options_set_tls(x, false), 0);
	assert_int_equal(weft_options_set_interface(x, "a-name-too-long!"), -EINVAL);
	assert_int_equal(weft_options_set_interface(x, "lo"), 0);
	assert_int_equal(weft_ctrl_create(g, x, &c), -EINVAL);
	assert_non_null(strstr(weft_options_error(x), "an interface is chosen for TCP alone"));
	assert_int_equal(weft_options_set_interface(x, NULL), 0);
	assert_int_equal(weft_options_set_rdma_transport(x, "ib"), -EINVAL);
	assert_non_null(strstr(weft_options_error(x), "roce or iwarp, not 'ib'"));
	assert_int_equal(weft_options_set_rdma_transport(x, "iwarp"), 0);
	assert_int_equal(weft_options_set_transport(x, "tcp"), 0);
	assert_int_equal(weft_ctrl_create(g, x, &c), -EINVAL);
	assert_non_null(strstr(weft_options_error(x), "transport=iwarp is for RDMA"));
	assert_int_equal(weft_options_set_transport(x, "rdma"), 0);
	assert_int_equal(weft_options_set_rdma_transport(x, NULL), 0);
	assert_int_equal(weft_options_set_tls(x, true), 0);
	assert_int_equal(weft_options_set_tos(x, 256), -EINVAL);
	assert_int_equal(weft_options_set_tos(x, 255), 0);
	assert_int_equal(weft_options_set_concat(x, true), 0);
	assert_int_equal(weft_options_set_transport(x, "tcp"), 0);
	assert_int_equal(
		weft_options_set_tls_key(x, "NVMeTLSkey-1:01:"
					    "VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:"),
		0);
	assert_int_equal(weft_ctrl_create(g, x, &c), -EINVAL);
	assert_non_null(strstr(weft_options_error(x), "no key that is set"));
	/* A key is not there for nothing, and no order of what is said makes a connection plain. */
	assert_int_equal(weft_options_set_concat(x, false), 0);
	assert_int_equal(weft_options_set_tls(x, false), 0);
	assert_int_equal(weft_options_set_uri(x, "nvme+tcp://127.0.0.1/" FAR_NQN), 0);
	assert_int_equal(weft_ctrl_create(g, x, &c), -EINVAL);
	assert_non_null(strstr(weft_options_error(x), "TLS is not asked for"));
	assert_int_equal(weft_options_set_tls_key(x, NULL), 0);
	assert_int_equal(weft_options_set_tls(x, true), 0);
	assert_int_equal(weft_options_set_uri(x, "nvme+tcp://127.0.0.1/" FAR_NQN), 0);
	assert_int_equal(weft_ctrl_create(g, x, &c), -EINVAL);
	assert_non_null(strstr(weft_options_error(x), "TLS takes a key"));
	assert_int_equal(weft_options_set_uri(x, "nvme+tcp+tls://127.0.0.1/" FAR_NQN), 0);
	assert_int_equal(weft_ctrl_create(g, x, &c), -EINVAL);
	assert_non_null(strstr(weft_options_error(x), "TLS takes a key"));
	assert_int_equal(weft_options_set_concat(x, true), 0);
	assert_int_equal(weft_options_set_tls(x, false), 0);
	assert_int_equal(weft_ctrl_create(g, x, &c), -EINVAL);
	assert_non_null(strstr(weft_options_error(x), "takes a DH-HMAC-CHAP key"));
	assert_int_equal(weft_options_set_transport(x, "rdma"), 0);
	assert_int_equal(weft_ctrl_create(g, x, &c), -EINVAL);
	assert_non_null(strstr(weft_options_error(x), "it is for TCP"));
	weft_options_destroy(x);
	weft_options_destroy(NULL);
	assert_null(c);
}

static void a_controller_says_what_it_is(void **state)
{
	static const enum weft_ctrl_state states[] = {WEFT_CTRL_LIVE, WEFT_CTRL_CLOSING,
						      WEFT_CTRL_CLOSED};
	struct weft_ctrl *c = open_ctrl();
	struct {
		struct weft_ctrl_info i;
		uint8_t behind[8];
	} x;
	struct weft_namespace ns;
	uint8_t page[WEFT_IDENTIFY_LEN];
	uint32_t ids[4], nsid;

	(void)state;
	memset(&x, 0xee, sizeof(x));
	assert_int_equal(weft_ctrl_info(c, &x.i, sizeof(x.i)), 0);
	assert_int_equal(x.behind[0], 0xee);
	assert_string_equal(x.i.transport, kind->name);
	assert_string_equal(x.i.address, "127.0.0.1");
	assert_string_equal(x.i.port, FAR_PORT);
	assert_string_equal(x.i.nqn, FAR_NQN);
	assert_int_equal(x.i.io_queues, QUEUES);
	assert_int_equal(x.i.queue_entries, 128);
	assert_int_equal(x.i.transfer_max, LEN);
	assert_int_equal(!!x.i.device[0], kind == &rdma_transport);
	assert_int_equal(x.i.failure, WEFT_FAILURE_NONE);
	/* Who was built with a shorter one gets as much. */
	memset(&x, 0xee, sizeof(x));
	assert_int_equal(weft_ctrl_info(c, &x.i, 8), 0);
	assert_string_equal(x.i.transport, kind->name);
	assert_int_equal((uint8_t)x.i.address[0], 0xee);

	assert_int_equal(weft_ctrl_namespaces(c, 0, ids, 4), 2);
	assert_int_equal(ids[1], 2);
	assert_int_equal(weft_ctrl_namespaces(c, 1, ids, 4), 1);
	assert_int_equal(weft_ctrl_namespace(c, 1, &ns, sizeof(ns)), 0);
	assert_int_equal(ns.blocks, FAR_BLOCKS);
	assert_int_equal(ns.block_bytes, 512);
	assert_false(ns.read_only);
	assert_int_equal(weft_ctrl_namespace(c, 2, &ns, sizeof(ns)), 0);
	assert_true(ns.read_only);
	assert_int_equal(ns.block_bytes, 4096);
	assert_int_equal(weft_ctrl_namespace(c, 3, &ns, sizeof(ns)), -ENODEV);
	assert_non_null(strstr(weft_ctrl_error(c), "there are 1, 2"));
	assert_int_equal(weft_ctrl_namespace(c, 0, &ns, sizeof(ns)), -ENOTUNIQ);
	assert_string_equal(strstr(weft_ctrl_error(c), "say which"), "say which: ?ns=1");
	nsid = 0;
	assert_int_equal(weft_ctrl_identify_namespace(c, &nsid, page), -ENOTUNIQ);
	nsid = 3;
	assert_int_equal(weft_ctrl_identify_namespace(c, &nsid, page), -ENODEV);
	nsid = 2;
	assert_int_equal(weft_ctrl_identify_namespace(c, &nsid, page), 0);
	assert_int_equal(page[0] | page[1] << 8, ns.blocks); /* NSZE */
	assert_int_equal(weft_ctrl_identify(c, 1, 0, page), 0);
	assert_memory_equal(page + 768, FAR_NQN, strlen(FAR_NQN)); /* SUBNQN */
	assert_int_not_equal(weft_ctrl_identify(c, 0xfe, 0, page), 0);
	assert_non_null(strstr(weft_ctrl_error(c), "Identify at 127.0.0.1:" FAR_PORT ": "));

	assert_int_equal(weft_ctrl_close(c), 0);
	assert_int_equal(seen.changes, 3);
	assert_memory_equal(seen.to, states, sizeof(states));

	/* What is granted counts. */
	far_stop();
	far_entries(32);
	far_start(kind);
	c = open_ctrl();
	assert_int_equal(weft_ctrl_info(c, &x.i, sizeof(x.i)), 0);
	assert_int_equal(x.i.queue_entries, 32);
	assert_int_equal(weft_ctrl_close(c), 0);
}

static void blocks_are_read_as_they_were_written(void **state)
{
	struct weft_ctrl *c = open_ctrl();
	struct weft_queue *q[QUEUES] = {weft_ctrl_io_queue(c, 0), weft_ctrl_io_queue(c, 1)};
	static const uint32_t lens[] = {512, 4096, 8192, 65536, LEN};

	(void)state;
	assert_null(weft_ctrl_io_queue(c, QUEUES));
	for (unsigned int i = 0; i < 2 * ARRAY_SIZE(lens); i++) {
		uint32_t len = lens[i / 2], blocks = len / 512;
		/* In the second round out of memory that is known. */
		struct iovec pieces[6] = {piece(out, 100),	piece(out + 100, 0),
					  piece(out + 100, 12), piece(out + 112, 300),
					  piece(out + 412, 99), piece(out + 511, len - 511)};
		struct iovec to[2] = {piece(in, len - 9), piece(in + len - 9, 9)};

		if (i == 1) {
			assert_int_equal(weft_ctrl_register(c, out, LEN), 0);
			assert_int_equal(weft_ctrl_register(c, in, LEN), 0);
		}
		fill(out, len, i);
		memset(in, 0, len);
		assert_int_equal(
			END(weft_queue_write(q[0], 1, i, blocks, pieces, 6, 0, done, &last)), 0);
		assert_int_equal(END(weft_queue_flush(q[0], 1, 0, done, &last)), 0);
		assert_int_equal(END(weft_queue_read(q[1], 1, i, blocks, to, 2, 0, done, &last)),
				 0);
		assert_memory_equal(in, out, len);
	}
	assert_int_equal(weft_ctrl_unregister(c, out), 0);
	assert_int_equal(weft_ctrl_unregister(c, in), 0);
	assert_int_equal(weft_ctrl_close(c), 0);
}

static void every_command_does_what_it_is_called(void **state)
{
	struct weft_ctrl *c = open_ctrl();
	struct weft_queue *q = weft_ctrl_io_queue(c, 0);
	struct iovec from = piece(out, 8192), to = piece(in, 8192);
	struct weft_range r[2] = {{.lba = 8, .blocks = 8}, {.lba = 0, .blocks = 8}};

	(void)state;
	fill(out, 8192, 5);
	assert_int_equal(END(weft_queue_write(q, 1, 0, 16, &from, 1, WEFT_FUA, done, &last)), 0);
	assert_int_equal(END(weft_queue_compare(q, 1, 0, 16, &from, 1, 0, done, &last)), 0);
	assert_int_equal(END(weft_queue_verify(q, 1, 0, 16, 0, done, &last)), 0);
	assert_int_equal(END(weft_queue_copy(q, 1, 100, r, 2, 0, done, &last)), 0);
	assert_int_equal(END(weft_queue_read(q, 1, 100, 16, &to, 1, 0, done, &last)), 0);
	assert_memory_equal(in, out + 4096, 4096);
	assert_memory_equal(in + 4096, out, 4096);
	assert_int_equal(END(weft_queue_write_zeroes(q, 1, 0, 8, WEFT_DEALLOCATE, done, &last)), 0);
	assert_int_equal(END(weft_queue_compare(q, 1, 0, 16, &from, 1, 0, done, &last)), -EILSEQ);
	assert_int_equal(END(weft_queue_read(q, 1, 0, 16, &to, 1, 0, done, &last)), 0);
	for (unsigned int i = 0; i < 4096; i++)
		assert_int_equal(in[i], 0);
	assert_memory_equal(in + 4096, out + 4096, 4096);
	r[0] = (struct weft_range){.lba = 8, .blocks = 8};
	assert_int_equal(END(weft_queue_dsm(q, 1, r, 1, WEFT_DSM_DEALLOCATE, 0, done, &last)), 0);
	assert_int_equal(
		END(weft_queue_read(q, 1, 8, 8, &(struct iovec){in, 4096}, 1, 0, done, &last)), 0);
	for (unsigned int i = 0; i < 4096; i++)
		assert_int_equal(in[i], 0);
	assert_int_equal(END(weft_queue_write_uncorrectable(q, 1, 8, 1, 0, done, &last)), 0);
	assert_int_equal(
		END(weft_queue_read(q, 1, 8, 8, &(struct iovec){in, 4096}, 1, 0, done, &last)),
		-ENODATA);
	assert_int_equal(
		END(weft_queue_write(q, 1, 8, 1, &(struct iovec){out, 512}, 1, 0, done, &last)), 0);
	assert_int_equal(
		END(weft_queue_read(q, 1, 8, 8, &(struct iovec){in, 4096}, 1, 0, done, &last)), 0);
	assert_int_equal(weft_ctrl_close(c), 0);
}

static void what_a_controller_refuses_is_an_errno_and_a_status(void **state)
{
	struct weft_ctrl *c = open_ctrl();
	struct weft_queue *q = weft_ctrl_io_queue(c, 0);
	struct iovec v = piece(out, 512), big = piece(out, 4096);
	struct weft_command command = {.opcode = 0xc0 | 0x1c};
	struct outcome x = {0};
	struct weft_result r;
	char text[64];

	(void)state;
	assert_int_equal(ended(weft_queue_read(q, 1, FAR_BLOCKS, 1, &v, 1, 0, done, &x), &x),
			 -ERANGE);
	assert_int_equal(x.r.status & 0x7ff, 0x080);
	assert_non_null(
		strstr(weft_status_text(x.r.status, true, text, sizeof(text)), "LBA Out of Range"));
	assert_int_equal(END(weft_queue_read(q, 1, UINT64_MAX, 1, &v, 1, 0, done, &last)), -ERANGE);
	assert_int_equal(END(weft_queue_read(q, 9, 0, 1, &v, 1, 0, done, &last)), -ENODEV);
	assert_int_equal(END(weft_queue_write(q, 2, 0, 1, &big, 1, 0, done, &last)), -EROFS);
	assert_int_equal(weft_queue_exec(q, &command, NULL, 0, 0, &r), -EOPNOTSUPP);
	assert_int_equal(r.error, -EOPNOTSUPP);
	assert_int_equal(weft_ctrl_close(c), 0);
}

static void any_command_goes_as_it_is(void **state)
{
	struct weft_ctrl *c = open_ctrl();
	struct iovec v = piece(in, 4096);
	struct weft_command get_log = {
		.opcode = 0x02, .nsid = WEFT_NSID_ALL, .cdw10 = 0x02 | (511u << 16)};
	struct weft_command identify = {.opcode = 0x06, .nsid = 1};
	struct weft_command get_features = {.opcode = 0x0a, .cdw10 = 0x07};
	struct weft_command get_property = {.opcode = 0x7f, .nsid = 0x04, .cdw11 = 0x08};
	struct weft_command read = {.opcode = 0x02, .nsid = 1};
	struct weft_command keep_alive = {.opcode = 0x18}, vendor = {.opcode = 0xc0},
			    fused = {.opcode = 0x18, .fuse = 1};
	struct weft_queue *admin = weft_ctrl_admin_queue(c), *q = weft_ctrl_io_queue(c, 1);
	struct weft_ctrl_info info;
	struct weft_result r;

	(void)state;
	v.iov_len = 2048;
	assert_int_equal(weft_queue_exec(admin, &get_log, &v, 1, 0, &r), 0);
	v.iov_len = 4096;
	assert_int_equal(weft_queue_exec(admin, &identify, &v, 1, 0, &r), 0);
	assert_int_equal(in[0] | in[1] << 8, FAR_BLOCKS);
	assert_int_equal(weft_queue_exec(admin, &get_features, NULL, 0, 0, &r), 0);
	assert_int_equal(r.result & 0xffff, QUEUES - 1);
	assert_int_equal(weft_queue_exec(admin, &get_property, NULL, 0, 0, &r), 0);
	assert_int_equal(weft_ctrl_info(c, &info, sizeof(info)), 0);
	assert_int_equal(r.result, info.vs);
	assert_int_equal(weft_queue_exec(q, &read, &(struct iovec){in, 512}, 1, 0, &r), 0);
	assert_int_equal(weft_queue_exec(admin, &keep_alive, NULL, 0, 0, &r), 0);
	/* What no opcode says, a flag does; what the controller thinks of it, its status. */
	assert_int_equal(weft_queue_exec(admin, &vendor, &v, 1, 0, &r), -EINVAL);
	assert_int_equal(weft_queue_exec(admin, &vendor, &v, 1, WEFT_TO_HOST, &r), -EOPNOTSUPP);
	assert_int_equal(weft_queue_exec(admin, &vendor, &v, 1, WEFT_TO_CTRL, &r), -EOPNOTSUPP);
	assert_int_equal(weft_queue_exec(admin, &fused, NULL, 0, 0, &r), -EINVAL);
	assert_int_not_equal(r.status, 0);
	assert_int_equal(weft_ctrl_close(c), 0);
}

static void misuse_is_an_errno(void **state)
{
	struct weft_ctrl *c = open_ctrl();
	struct weft_queue *q = weft_ctrl_io_queue(c, 0), *admin = weft_ctrl_admin_queue(c);
	struct iovec v = piece(out, 1024), null = piece(NULL, 512), huge = piece(out, SIZE_MAX);
	struct weft_command event = {.opcode = 0x0c}, both = {.opcode = 0x03},
			    fused = {.opcode = 0x06, .fuse = 4}, no_data = {.opcode = 0x00};
	struct weft_range r = {.blocks = 1};
	struct outcome x = {0};
	struct weft_result result;

	(void)state;
	assert_int_equal(weft_queue_read(q, 1, 0, 2, &v, 1, 0, NULL, NULL), -EINVAL);
	assert_int_equal(weft_queue_read(q, 1, 0, 0, &v, 1, 0, done, &x), -EINVAL);
	assert_int_equal(weft_queue_read(q, 1, 0, 3, &v, 1, 0, done, &x), -EINVAL);
	assert_int_equal(weft_queue_read(q, 1, 0, 2, &v, 0, 0, done, &x), -EINVAL);
	assert_int_equal(weft_queue_read(q, 1, 0, 2, &v, -1, 0, done, &x), -EINVAL);
	assert_int_equal(weft_queue_read(q, 1, 0, 2, NULL, 1, 0, done, &x), -EINVAL);
	assert_int_equal(weft_queue_read(q, 1, 0, 1, &null, 1, 0, done, &x), -EINVAL);
	assert_int_equal(weft_queue_read(q, 1, 0, 1, &huge, 1, 0, done, &x), -EMSGSIZE);
	assert_int_equal(weft_queue_read(q, 1, 0, 65537, &v, 1, 0, done, &x), -EMSGSIZE);
	assert_int_equal(
		weft_queue_read(q, 1, 0, 4096, &(struct iovec){out, 2 * LEN}, 1, 0, done, &x),
		-EMSGSIZE);
	assert_int_equal(weft_queue_read(admin, 1, 0, 2, &v, 1, 0, done, &x), -EINVAL);
	assert_int_equal(weft_queue_flush(admin, 1, 0, done, &x), -EINVAL);
	assert_int_equal(weft_queue_verify(q, 1, 0, 65537, 0, done, &x), -EMSGSIZE);
	assert_int_equal(weft_queue_dsm(q, 1, &r, 0, 0, 0, done, &x), -EINVAL);
	assert_int_equal(weft_queue_dsm(q, 1, &r, 257, 0, 0, done, &x), -EMSGSIZE);
	r.blocks = 65537;
	assert_int_equal(weft_queue_copy(q, 1, 0, &r, 1, 0, done, &x), -EMSGSIZE);
	assert_int_equal(weft_queue_submit(admin, &event, NULL, 0, 0, done, &x), -EINVAL);
	assert_int_equal(weft_queue_submit(q, &both, &v, 1, 0, done, &x), -EINVAL);
	assert_int_equal(weft_queue_submit(admin, &fused, &v, 1, 0, done, &x), -EINVAL);
	assert_int_equal(weft_queue_submit(q, &no_data, &v, 1, 0, done, &x), -EINVAL);
	assert_int_equal(
		weft_queue_submit(q, &no_data, &v, 1, WEFT_TO_HOST | WEFT_TO_CTRL, done, &x),
		-EINVAL);
	assert_int_equal(weft_group_destroy(g), -EBUSY);
	assert_int_equal(weft_ctrl_register(c, NULL, 5), -EINVAL);
	assert_int_equal(weft_ctrl_authenticate(c), -EINVAL);
	assert_int_equal(weft_ctrl_close(c), 0);
	assert_int_equal(x.times, 0);

	/* Nor before it is live, nor after that. */
	assert_int_equal(weft_ctrl_create(g, o, &c), 0);
	q = weft_ctrl_io_queue(c, 0);
	assert_int_equal(weft_queue_flush(q, 1, 0, done, &x), -ENOTCONN);
	assert_int_equal(weft_ctrl_reset(c), -ENOTCONN);
	wait_until(weft_ctrl_state(c) == WEFT_CTRL_LIVE);
	assert_int_equal(weft_ctrl_shutdown(c), 0);
	wait_until(weft_ctrl_state(c) == WEFT_CTRL_CLOSED);
	assert_int_equal(weft_queue_flush(q, 1, 0, done, &x), -ENOTCONN);
	assert_int_equal(weft_queue_exec(q, &no_data, NULL, 0, 0, &result), -ENOTCONN);
	assert_int_equal(weft_ctrl_destroy(c), 0);
	assert_int_equal(weft_ctrl_destroy(NULL), 0);
	assert_int_equal(weft_ctrl_close(NULL), 0);
	assert_int_equal(weft_group_destroy(NULL), 0);
	assert_int_equal(x.times, 0);
}

/* --- from within functions ----------------------------------------------------------------------
 */

struct within {
	struct weft_ctrl *c;
	unsigned int times, left;
};

static void try_within(void *arg, const struct weft_result *r)
{
	struct within *w = arg;
	struct weft_command flush = {.nsid = 1};
	struct weft_namespace ns;
	struct weft_discovery *d;
	struct weft_ctrl *another;

	assert_int_equal(r->error, 0);
	w->times++;
	assert_int_equal(weft_group_poll(g), -EBUSY);
	assert_int_equal(weft_group_arm(g), -EBUSY);
	assert_int_equal(weft_group_wait(g, 0), -EBUSY);
	assert_int_equal(weft_group_destroy(g), -EBUSY);
	assert_int_equal(weft_ctrl_open(g, o, &another), -EBUSY);
	assert_int_equal(weft_ctrl_destroy(w->c), -EBUSY);
	assert_int_equal(weft_ctrl_close(w->c), -EBUSY);
	assert_int_equal(weft_ctrl_namespace(w->c, 1, &ns, sizeof(ns)), -EBUSY);
	assert_int_equal(weft_discovery_read(w->c, &d), -EBUSY);
	assert_int_equal(weft_queue_exec(weft_ctrl_io_queue(w->c, 0), &flush, NULL, 0, 0, NULL),
			 -EBUSY);
	if (w->left-- > 1)
		assert_int_equal(weft_queue_flush(weft_ctrl_io_queue(w->c, 0), 1, 0, try_within, w),
				 0);
}

static void a_function_submits_and_does_not_wait(void **state)
{
	struct within w = {.c = open_ctrl(), .left = 50};

	(void)state;
	assert_int_equal(weft_queue_flush(weft_ctrl_io_queue(w.c, 0), 1, 0, try_within, &w), 0);
	wait_until(w.times == 50);
	assert_int_equal(weft_ctrl_close(w.c), 0);
}

static int shut_down_when_live(struct weft_ctrl *c)
{
	return weft_ctrl_state(c) == WEFT_CTRL_LIVE ? weft_ctrl_shutdown(c) : 0;
}

static void a_function_may_ask_for_the_end(void **state)
{
	struct weft_ctrl *c;

	(void)state;
	seen.in_state = shut_down_when_live;
	assert_int_equal(weft_ctrl_create(g, o, &c), 0);
	wait_until(weft_ctrl_state(c) == WEFT_CTRL_CLOSED);
	assert_int_equal(weft_ctrl_destroy(c), 0);
}

/* --- losses -------------------------------------------------------------------------------------
 */

static void requests_outlive_their_connection(void **state)
{
	static const enum weft_ctrl_state states[] = {WEFT_CTRL_LIVE, WEFT_CTRL_RECONNECTING,
						      WEFT_CTRL_LIVE};
	struct weft_ctrl *c = open_ctrl();
	struct weft_queue *q = weft_ctrl_io_queue(c, 0);
	struct outcome x[40] = {0}, once = {0}, later = {0};
	struct weft_ctrl_info info;

	(void)state;
	fill(out, LEN, 8);
	assert_int_equal(weft_ctrl_unregister(c, out), -ENOENT);
	assert_int_equal(weft_ctrl_register(c, out, LEN), 0);
	assert_int_equal(weft_ctrl_register(c, in, LEN), 0);
	far_hold(true);
	for (unsigned int i = 0; i < ARRAY_SIZE(x); i++) {
		struct iovec v = piece(out + i * 8192, 8192);

		assert_int_equal(weft_queue_write(q, 1, i * 16, 16, &v, 1, 0, done, &x[i]), 0);
	}
	assert_int_equal(weft_queue_write(q, 1, 4000, 1, &(struct iovec){out, 512}, 1, WEFT_ONCE,
					  done, &once),
			 0);
	wait_until(far_held() == ARRAY_SIZE(x) + 1);
	assert_int_equal(weft_ctrl_unregister(c, out), -EBUSY);
	assert_int_equal(weft_ctrl_unregister(c, in), 0);
	far_stop();
	wait_until(weft_ctrl_state(c) == WEFT_CTRL_RECONNECTING);
	assert_int_equal(weft_ctrl_unregister(c, out), -EBUSY);
	assert_int_not_equal(weft_ctrl_error(c)[0], 0);
	assert_int_equal(once.times, 1);
	assert_int_equal(once.r.error, -ENOTCONN);
	assert_int_equal(x[0].times, 0);
	assert_int_equal(weft_queue_flush(q, 1, 0, done, &later), 0);
	far_start(kind);
	wait_until(later.times);
	for (unsigned int i = 0; i < ARRAY_SIZE(x); i++) {
		wait_until(x[i].times);
		assert_int_equal(x[i].r.error, 0);
		assert_int_equal(x[i].times, 1);
	}
	assert_int_equal(x[0].r.attempts, 2);
	assert_int_equal(weft_ctrl_unregister(c, out), 0);
	assert_int_equal(weft_ctrl_unregister(c, out), -ENOENT);
	assert_memory_equal(seen.to, states, sizeof(states));
	assert_int_equal(weft_ctrl_info(c, &info, sizeof(info)), 0);
	assert_int_equal(info.reconnects, 1);
	assert_int_equal(info.failure, WEFT_FAILURE_LOST);
	assert_int_equal(END(weft_queue_read(q, 1, 0, 640, &(struct iovec){in, 640 * 512}, 1, 0,
					     done, &last)),
			 0);
	assert_memory_equal(in, out, 640 * 512);
	assert_int_equal(weft_ctrl_close(c), 0);
}

static void another_disk_is_not_taken_for_the_one_before(void **state)
{
	struct weft_ctrl *c = open_ctrl();
	struct weft_queue *q = weft_ctrl_io_queue(c, 0);
	struct iovec v = piece(in, 512), known = piece(in + 512, 512);
	struct outcome sent = {0}, waits = {0}, other = {0};
	struct weft_namespace ns;

	(void)state;
	/* Of the second one nobody has asked what it is. */
	assert_int_equal(weft_ctrl_namespace(c, 1, &ns, sizeof(ns)), 0);
	assert_int_equal(weft_ctrl_namespace(c, 1, &ns, sizeof(ns)), 0);
	far_hold(true);
	assert_int_equal(weft_queue_read(q, 1, 0, 1, &v, 1, 0, done, &sent), 0);
	wait_until(far_held() == 1);
	far_stop();
	wait_until(weft_ctrl_state(c) == WEFT_CTRL_RECONNECTING);
	assert_int_equal(weft_queue_read(q, 1, 1, 1, &known, 1, 0, done, &waits), 0);
	assert_int_equal(weft_queue_flush(q, 2, 0, done, &other), 0);
	far_nguid(7);
	far_start(kind);
	wait_until(other.times);
	assert_int_equal(other.r.error, 0);
	assert_int_equal(sent.times, 1);
	assert_int_equal(sent.r.error, -ENODEV);
	assert_int_equal(waits.times, 1);
	assert_int_equal(waits.r.error, -ENODEV);
	assert_int_equal(waits.r.attempts, 0);
	assert_int_equal(weft_ctrl_state(c), WEFT_CTRL_LIVE);
	assert_non_null(strstr(weft_ctrl_error(c), "another disk"));
	assert_int_equal(weft_queue_read(q, 1, 0, 1, &v, 1, 0, done, &last), -ENODEV);
	assert_int_equal(weft_ctrl_namespace(c, 1, &ns, sizeof(ns)), -ENODEV);
	assert_non_null(strstr(weft_ctrl_error(c), "connect anew"));
	assert_int_equal(weft_ctrl_close(c), 0);
	c = open_ctrl();
	assert_int_equal(weft_ctrl_namespace(c, 1, &ns, sizeof(ns)), 0);
	assert_int_equal(weft_ctrl_close(c), 0);
}

static int over_by_now(struct weft_ctrl *c)
{
	(void)c;
	return (int)last.times;
}

static void who_does_not_reconnect_fails(void **state)
{
	struct weft_ctrl *c;
	struct outcome x = {0};

	(void)state;
	assert_int_equal(weft_options_set_reconnect(o, 0, 0), 0);
	c = open_ctrl();
	far_hold(true);
	last = (struct outcome){{0}, 0};
	seen.in_state = over_by_now;
	assert_int_equal(weft_queue_read(weft_ctrl_io_queue(c, 1), 1, 0, 1,
					 &(struct iovec){in, 512}, 1, 0, done, &last),
			 0);
	wait_until(far_held());
	far_stop();
	wait_until(weft_ctrl_state(c) == WEFT_CTRL_FAILED);
	assert_int_equal(seen.said, 1); /* before its state was told */
	x = last;
	assert_int_equal(x.r.error, -ENOTCONN);
	assert_non_null(strstr(weft_ctrl_error(c), "127.0.0.1"));
	/* It hides nothing: it ended before it was to be shut down. */
	assert_int_equal(weft_ctrl_close(c), 0);
	far_start(kind);
}

static void who_is_away_does_not_end_in_order(void **state)
{
	struct weft_ctrl *c = open_ctrl();

	(void)state;
	far_stop();
	wait_until(weft_ctrl_state(c) == WEFT_CTRL_RECONNECTING);
	assert_int_equal(weft_ctrl_close(c), -EIO);
	assert_int_equal(seen.to[seen.changes - 1], WEFT_CTRL_CLOSED);
	/* One that never was there has nothing to lose. */
	assert_int_equal(weft_ctrl_create(g, o, &c), 0);
	assert_int_equal(weft_ctrl_close(c), 0);
	far_start(kind);
}

static void a_reset_begins_anew(void **state)
{
	struct weft_ctrl *c = open_ctrl();
	struct weft_ctrl_info info;

	(void)state;
	assert_int_equal(weft_ctrl_reset(c), 0);
	assert_int_equal(weft_ctrl_state(c), WEFT_CTRL_LIVE); /* until the next turn */
	wait_until(weft_ctrl_state(c) == WEFT_CTRL_RECONNECTING);
	wait_until(weft_ctrl_state(c) == WEFT_CTRL_LIVE);
	assert_int_equal(weft_ctrl_info(c, &info, sizeof(info)), 0);
	assert_int_equal(info.reconnects, 1);
	assert_int_equal(END(weft_queue_flush(weft_ctrl_io_queue(c, 0), 1, 0, done, &last)), 0);
	assert_int_equal(weft_ctrl_close(c), 0);
}

static void what_is_destroyed_ends_its_requests(void **state)
{
	struct weft_ctrl *c = open_ctrl();
	struct outcome x[3] = {0};

	(void)state;
	far_hold(true);
	for (unsigned int i = 0; i < ARRAY_SIZE(x); i++)
		assert_int_equal(weft_queue_read(weft_ctrl_io_queue(c, 0), 1, i, 1,
						 &(struct iovec){in + i * 512, 512}, 1, 0, done,
						 &x[i]),
				 0);
	last = (struct outcome){{0}, 0};
	assert_int_equal(weft_queue_read(weft_ctrl_io_queue(c, 1), 1, 8, 1,
					 &(struct iovec){in + 4096, 512}, 1, 0, done, &last),
			 0);
	seen.in_state = over_by_now;
	wait_until(far_held() == ARRAY_SIZE(x) + 1);
	assert_int_equal(weft_ctrl_destroy(c), 0);
	assert_int_equal(seen.said, 1);
	assert_int_equal(seen.to[seen.changes - 1], WEFT_CTRL_CLOSED);
	for (unsigned int i = 0; i < ARRAY_SIZE(x); i++) {
		assert_int_equal(x[i].times, 1);
		assert_int_equal(x[i].r.error, -ECANCELED);
	}
}

static void a_command_that_is_not_answered_costs_the_connection(void **state)
{
	struct weft_ctrl *c;
	struct outcome x = {0};
	struct weft_ctrl_info info;

	(void)state;
	assert_int_equal(weft_options_set_command_timeout_ms(o, 200), 0);
	assert_int_equal(weft_options_set_reconnect(o, 0, 0), 0);
	c = open_ctrl();
	far_hold(true);
	assert_int_equal(weft_queue_read(weft_ctrl_io_queue(c, 0), 1, 0, 1,
					 &(struct iovec){in, 512}, 1, 0, done, &x),
			 0);
	wait_until(x.times);
	assert_int_equal(x.r.error, -ETIMEDOUT);
	assert_int_equal(weft_ctrl_state(c), WEFT_CTRL_FAILED);
	assert_non_null(strstr(weft_ctrl_error(c), "Read within 200 ms"));
	assert_int_equal(weft_ctrl_info(c, &info, sizeof(info)), 0);
	assert_int_equal(info.failure, WEFT_FAILURE_TIMEOUT);
	assert_int_equal(weft_ctrl_destroy(c), 0);
}

static void who_cannot_connect_says_why(void **state)
{
	struct weft_ctrl *c = NULL;

	(void)state;
	assert_int_equal(weft_options_set_nqn(o, "nqn.2026-11.io.example:another"), 0);
	assert_int_equal(weft_ctrl_open(g, o, &c), -EIO);
	assert_non_null(strstr(weft_options_error(o), "no subsystem"));
	assert_non_null(strstr(weft_options_error(o), "weft discover"));
	assert_int_equal(weft_options_set_port(o, "4421"), 0);
	assert_int_equal(weft_ctrl_open(g, o, &c), -EIO);
	assert_non_null(strstr(weft_options_error(o), "127.0.0.1:4421"));
	assert_non_null(strstr(weft_options_error(o), "does a target listen there"));
	assert_int_equal(weft_options_set_address(o, "nobody.invalid"), 0);
	assert_int_equal(weft_ctrl_open(g, o, &c), -EIO);
	assert_non_null(strstr(weft_options_error(o), "nobody.invalid"));
	assert_null(c);
}

/* --- several, and descriptors --------------------------------------------------------------------
 */

/* As an event loop has it: nothing but the descriptor wakes it. */
static void loop_until(struct weft_group *of, const unsigned int *times, unsigned int wanted)
{
	struct pollfd p = {.fd = weft_group_fd(of), .events = POLLIN};

	assert_true(p.fd >= 0);
	while (*times < wanted) {
		int r = weft_group_arm(of);

		assert_true(r >= 0);
		if (r == 0)
			assert_int_equal(poll(&p, 1, (int)(PATIENCE / NSEC_PER_MSEC)), 1);
	}
}

static void one_descriptor_tells_of_all(void **state)
{
	struct weft_ctrl *c[3];
	struct outcome x = {0};
	struct iovec v = piece(in, 8192);

	(void)state;
	for (unsigned int i = 0; i < ARRAY_SIZE(c); i++)
		assert_int_equal(weft_ctrl_create(g, o, &c[i]), 0);
	loop_until(g, &seen.changes, 3);
	for (unsigned int i = 0; i < 300; i++)
		assert_int_equal(weft_queue_read(weft_ctrl_io_queue(c[i % 3], i % QUEUES), 1, i, 16,
						 &v, 1, 0, done, &x),
				 0);
	loop_until(g, &x.times, 300);
	assert_int_equal(x.r.error, 0);
	/* Connections come and go under it. */
	assert_int_equal(weft_ctrl_reset(c[0]), 0);
	loop_until(g, &seen.changes, 5);
	assert_int_equal(weft_ctrl_state(c[0]), WEFT_CTRL_LIVE);
	assert_int_equal(weft_queue_read(weft_ctrl_io_queue(c[0], 0), 1, 0, 16, &v, 1, 0, done, &x),
			 0);
	loop_until(g, &x.times, 301);
	assert_int_equal(weft_ctrl_destroy(c[1]), 0);
	assert_int_equal(weft_queue_read(weft_ctrl_io_queue(c[2], 0), 1, 0, 16, &v, 1, 0, done, &x),
			 0);
	loop_until(g, &x.times, 302);
	assert_int_equal(weft_ctrl_close(c[0]), 0);
	assert_int_equal(weft_ctrl_close(c[2]), 0);
}

/* More than are asked for at a time; the library waits in the same set where they are so many. */
static void any_number_at_once_is_told(void **state)
{
	static struct weft_ctrl *c[64];
	unsigned int count = kind == &rdma_transport ? 33 : ARRAY_SIZE(c);

	(void)state;
	assert_int_equal(weft_options_set_io_queues(o, 0), 0);
	assert_int_equal(weft_options_set_reconnect(o, 20, -1), 0);
	for (unsigned int i = 0; i < count; i++)
		assert_int_equal(weft_ctrl_create(g, o, &c[i]), 0);
	loop_until(g, &seen.changes, count);
	far_stop();
	loop_until(g, &seen.changes, 2 * count);
	far_start(kind);
	while (seen.changes < 3 * count)
		assert_true(weft_group_wait(g, (int64_t)PATIENCE) > 0);
	far_stop();
	while (seen.changes < 4 * count)
		assert_true(weft_group_wait(g, (int64_t)PATIENCE) > 0);
	for (unsigned int i = 0; i < count; i++) {
		assert_int_equal(weft_ctrl_state(c[i]), WEFT_CTRL_RECONNECTING);
		assert_int_equal(weft_ctrl_destroy(c[i]), 0);
	}
	far_start(kind);
}

static void timeouts_wake_the_descriptor(void **state)
{
	struct weft_ctrl *c;
	struct outcome x = {0};

	(void)state;
	assert_int_equal(weft_options_set_command_timeout_ms(o, 150), 0);
	assert_int_equal(weft_options_set_reconnect(o, 0, 0), 0);
	c = open_ctrl();
	far_hold(true);
	assert_int_equal(weft_queue_read(weft_ctrl_io_queue(c, 0), 1, 0, 1,
					 &(struct iovec){in, 512}, 1, 0, done, &x),
			 0);
	loop_until(g, &x.times, 1);
	assert_int_equal(x.r.error, -ETIMEDOUT);
	assert_int_equal(weft_ctrl_state(c), WEFT_CTRL_FAILED);
	/* Then there is nothing to be woken for, whatever the other side says. */
	far_hold(false);
	far_stop();
	for (unsigned int i = 0; i < 5; i++) {
		struct pollfd p = {.fd = weft_group_fd(g), .events = POLLIN};

		while (weft_group_arm(g) > 0)
			;
		assert_int_equal(poll(&p, 1, 50), 0);
	}
	far_start(kind);
	assert_int_equal(weft_ctrl_destroy(c), 0);
}

static void groups_have_nothing_in_common(void **state)
{
	struct weft_group *other;
	struct weft_ctrl *c, *mine = open_ctrl();
	struct outcome x = {0}, y = {0};

	(void)state;
	assert_int_equal(weft_group_create(&other), 0);
	assert_int_equal(weft_ctrl_open(other, o, &c), 0);
	assert_int_equal(weft_queue_flush(weft_ctrl_io_queue(c, 0), 1, 0, done, &x), 0);
	assert_int_equal(weft_queue_flush(weft_ctrl_io_queue(mine, 0), 1, 0, done, &y), 0);
	wait_until(y.times);
	assert_int_equal(x.times, 0);
	loop_until(other, &x.times, 1);
	assert_int_equal(weft_ctrl_close(c), 0);
	assert_int_equal(weft_group_destroy(other), 0);
	assert_int_equal(weft_ctrl_close(mine), 0);
}

static void polling_is_enough(void **state)
{
	struct weft_ctrl *c;
	struct outcome x = {0};
	uint64_t end = time_now_ns() + PATIENCE;

	(void)state;
	assert_int_equal(weft_ctrl_create(g, o, &c), 0);
	while (weft_ctrl_state(c) != WEFT_CTRL_LIVE && time_now_ns() < end)
		assert_true(weft_group_poll(g) >= 0);
	for (unsigned int i = 0; i < 100; i++) {
		assert_int_equal(weft_queue_flush(weft_ctrl_io_queue(c, 0), 1, 0, done, &x), 0);
		while (x.times == i && time_now_ns() < end)
			assert_true(weft_group_poll(g) >= 0);
	}
	assert_int_equal(x.times, 100);
	assert_int_equal(weft_group_wait(g, 1000000), 0);
	assert_int_equal(weft_ctrl_close(c), 0);
}

static void discovery_names_the_subsystem(void **state)
{
	struct weft_discovery_entry e;
	struct weft_discovery *d;
	struct weft_ctrl *c;
	bool found = false;
	char uri[512], narrow[10];
	uint8_t bytes[8192];
	size_t len;

	(void)state;
	assert_int_equal(weft_options_set_nqn(o, WEFT_DISCOVERY_NQN), 0);
	c = open_ctrl();
	assert_null(weft_ctrl_io_queue(c, 0));
	assert_int_equal(weft_discovery_read(c, &d), 0);
	for (unsigned int i = 0; i < weft_discovery_count(d); i++) {
		assert_int_equal(weft_discovery_entry(d, i, &e, sizeof(e)), 0);
		if (strcmp(e.subnqn, FAR_NQN) != 0)
			continue;
		found = true;
		assert_string_equal(e.trsvcid, FAR_PORT);
		assert_int_equal(weft_discovery_uri(d, i, uri, sizeof(uri)), 0);
		assert_int_equal(weft_discovery_uri(d, i, narrow, sizeof(narrow)), -ENAMETOOLONG);
	}
	assert_true(found);
	assert_int_equal(weft_discovery_entry(d, weft_discovery_count(d), &e, sizeof(e)), -ENOENT);
	memset(bytes, 0xee, sizeof(bytes));
	len = weft_discovery_bytes(d, bytes, 1500);
	assert_int_equal(len, 1024 * (1 + weft_discovery_count(d)));
	assert_int_equal(bytes[8], weft_discovery_count(d)); /* NUMREC */
	assert_int_equal(bytes[1500], 0xee);
	assert_int_equal(weft_discovery_bytes(d, bytes, sizeof(bytes)), len);
	assert_memory_equal(bytes + 1024 + 256, WEFT_DISCOVERY_NQN, strlen(WEFT_DISCOVERY_NQN));
	weft_discovery_free(d);
	weft_discovery_free(NULL);
	assert_int_equal(weft_ctrl_close(c), 0);
	assert_int_equal(weft_options_set_uri(o, uri), 0);
	assert_int_equal(weft_ctrl_close(open_ctrl()), 0);
}

/* KATO, as the controller has it. */
static uint64_t keep_alive_of(struct weft_ctrl *c)
{
	struct weft_command get = {.opcode = 0x0a, .cdw10 = 0x0f};
	struct weft_result r = {0};

	assert_int_equal(weft_queue_exec(weft_ctrl_admin_queue(c), &get, NULL, 0, 0, &r), 0);
	return r.result;
}

static void a_discovery_controller_stays_if_it_is_to(void **state)
{
	struct weft_ctrl *c;

	(void)state;
	assert_int_equal(weft_options_set_nqn(o, WEFT_DISCOVERY_NQN), 0);
	assert_int_equal(weft_options_set_keep_alive_ms(o, 7000), 0);
	c = open_ctrl();
	/* What the target gives to one that asks for none. */
	assert_int_equal(keep_alive_of(c), 120000);
	assert_int_equal(weft_ctrl_close(c), 0);
	assert_int_equal(weft_options_set_persistent(o, true), 0);
	c = open_ctrl();
	assert_int_equal(keep_alive_of(c), 7000);
	assert_int_equal(weft_ctrl_close(c), 0);
}

static void a_program_says_what_to_do_in_its_words(void **state)
{
	struct weft_command read = {.opcode = 0x02, .nsid = 1};
	struct weft_namespace ns;
	struct weft_ctrl *c;

	(void)state;
	assert_int_equal(weft_options_set_advice(o, WEFT_ADVICE_NSID, " or --disk="), 0);
	assert_int_equal(weft_options_set_advice(o, WEFT_ADVICE_TIMEOUT, "say --patience"), 0);
	assert_int_equal(weft_options_set_command_timeout_ms(o, 100), 0);
	assert_int_equal(weft_options_set_reconnect(o, 0, 0), 0);
	c = open_ctrl();
	assert_int_equal(weft_ctrl_namespace(c, 0, &ns, sizeof(ns)), -ENOTUNIQ);
	assert_string_equal(strstr(weft_ctrl_error(c), "say which"),
			    "say which: ?ns=1 or --disk=1");
	far_hold(true);
	assert_int_equal(weft_queue_exec(weft_ctrl_io_queue(c, 0), &read, &(struct iovec){in, 512},
					 1, 0, NULL),
			 -ETIMEDOUT);
	assert_non_null(strstr(weft_ctrl_error(c), "within 100 ms"));
	assert_non_null(strstr(weft_ctrl_error(c), "look there, or say --patience"));
	far_hold(false);
	assert_int_equal(weft_ctrl_destroy(c), 0);
}

static void on_alarm(int sig)
{
	(void)sig;
	weft_group_interrupt(g);
}

/* Until it is switched off: one that came before the wait would end nothing. */
static void alarm_every_ms(unsigned int ms)
{
	struct itimerval t = {{0, ms * 1000}, {0, ms * 1000}};

	assert_int_equal(setitimer(ITIMER_REAL, &t, NULL), 0);
}

static void *interrupt_soon(void *arg)
{
	(void)arg;
	poll(NULL, 0, 50);
	weft_group_interrupt(g);
	return NULL;
}

/* As one by a signal that comes when nobody sleeps yet, though somebody is about to. */
static void an_interruption_is_not_slept_over(void **state)
{
	static struct weft_ctrl *c[64];
	unsigned int count = kind == &rdma_transport ? 33 : ARRAY_SIZE(c);
	pthread_t thread;
	int r;

	(void)state;
	assert_int_equal(weft_options_set_io_queues(o, 0), 0);
	for (unsigned int i = 0; i < 2; i++) { /* of few, and of so many that they wait elsewhere */
		assert_int_equal(pthread_create(&thread, NULL, interrupt_soon, NULL), 0);
		do
			r = weft_group_wait(g, (int64_t)PATIENCE);
		while (r == 1);
		assert_int_equal(r, -EINTR);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_int_equal(weft_group_wait(g, 1000000), 0);
		for (unsigned int k = 0; i == 0 && k < count; k++)
			assert_int_equal(weft_ctrl_create(g, o, &c[k]), 0);
		wait_until(i || seen.changes >= count);
	}
	for (unsigned int k = 0; k < count; k++)
		assert_int_equal(weft_ctrl_destroy(c[k]), 0);
}

static void an_interruption_ends_what_waits(void **state)
{
	struct sigaction sa = {.sa_handler = on_alarm}, before;
	struct weft_command read = {.opcode = 0x02, .nsid = 1};
	struct weft_ctrl *c, *another = NULL;

	(void)state;
	assert_int_equal(sigaction(SIGALRM, &sa, &before), 0);
	weft_group_interrupt(g);
	assert_int_equal(weft_group_wait(g, -1), -EINTR);
	assert_int_equal(weft_group_wait(g, 0), 0);
	weft_group_interrupt(g);
	assert_int_equal(weft_ctrl_open(g, o, &another), -EINTR);
	assert_non_null(strstr(weft_options_error(o), "interrupted"));
	assert_null(another);

	assert_int_equal(weft_options_set_shutdown_timeout_ms(o, 100), 0);
	c = open_ctrl();
	far_hold(true);
	alarm_every_ms(50);
	assert_int_equal(weft_queue_exec(weft_ctrl_io_queue(c, 0), &read, &(struct iovec){in, 512},
					 1, 0, NULL),
			 -EINTR);
	alarm_every_ms(0);
	far_hold(false);
	/* What was waited for is over, and it is not brought up again. */
	wait_until(weft_ctrl_state(c) == WEFT_CTRL_CLOSED ||
		   weft_ctrl_state(c) == WEFT_CTRL_FAILED);
	(void)weft_ctrl_close(c);
	assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
}

static bool reads_what_it_writes(struct weft_queue *q, unsigned int seed)
{
	struct iovec v = piece(out, 4096), back = piece(in, 4096);

	fill(out, 4096, seed);
	return END(weft_queue_write(q, 1, 0, 8, &v, 1, 0, done, &last)) == 0 &&
	       END(weft_queue_read(q, 1, 0, 8, &back, 1, 0, done, &last)) == 0 &&
	       memcmp(in, out, 4096) == 0;
}

/* As often as it likes, while its commands go on. */
static void a_host_proves_itself_again(void **state)
{
	static const char key[] = "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
			  other[] = "DHHC-1:00:gdBptlUQZJhRJWcp+9eKrCaEVRTxg81Lwu7sMWz4iI4Za/dH:";
	struct weft_ctrl *c;
	struct weft_queue *q;
	int rc = -EALREADY;

	(void)state;
	far_stop();
	far_key(key);
	far_start(kind);
	assert_int_equal(weft_ctrl_open(g, o, &c), -EIO);
	assert_non_null(strstr(weft_options_error(o), "key"));
	assert_int_equal(weft_options_set_dhchap_key(o, other), 0);
	assert_int_equal(weft_ctrl_open(g, o, &c), -EIO);
	assert_non_null(strstr(weft_options_error(o), "key"));
	assert_int_equal(weft_options_set_dhchap_key(o, key), 0);
	c = open_ctrl();
	q = weft_ctrl_io_queue(c, 0);
	wait_until(far_authentications() == 1 + QUEUES);
	for (unsigned int i = 1; i <= 3; i++) {
		/* When the one before is over on this side, too. */
		wait_until((rc == 0) || (rc = weft_ctrl_authenticate(c)) == 0);
		assert_int_equal(weft_ctrl_authenticate(c), -EALREADY);
		rc = -EALREADY;
		assert_true(reads_what_it_writes(q, i));
		wait_until(far_authentications() == 1 + QUEUES + i);
	}
	assert_int_equal(weft_ctrl_state(c), WEFT_CTRL_LIVE);
	assert_int_equal(weft_ctrl_close(c), 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(options_say_what_is_wrong_with_them),
		CASE(a_controller_says_what_it_is),
		CASE(blocks_are_read_as_they_were_written),
		CASE(every_command_does_what_it_is_called),
		CASE(what_a_controller_refuses_is_an_errno_and_a_status),
		CASE(any_command_goes_as_it_is),
		CASE(misuse_is_an_errno),
		CASE(a_function_submits_and_does_not_wait),
		CASE(a_function_may_ask_for_the_end),
		CASE(requests_outlive_their_connection),
		CASE(another_disk_is_not_taken_for_the_one_before),
		CASE(who_does_not_reconnect_fails),
		CASE(who_is_away_does_not_end_in_order),
		CASE(a_reset_begins_anew),
		CASE(what_is_destroyed_ends_its_requests),
		CASE(a_command_that_is_not_answered_costs_the_connection),
		CASE(who_cannot_connect_says_why),
		CASE(one_descriptor_tells_of_all),
		CASE(any_number_at_once_is_told),
		CASE(timeouts_wake_the_descriptor),
		CASE(groups_have_nothing_in_common),
		CASE(polling_is_enough),
		CASE(discovery_names_the_subsystem),
		CASE(a_discovery_controller_stays_if_it_is_to),
		CASE(a_program_says_what_to_do_in_its_words),
		CASE(a_host_proves_itself_again),
		CASE(an_interruption_ends_what_waits),
		CASE(an_interruption_is_not_slept_over),
	};
	int failed;

	if (argc != 2 || (strcmp(argv[1], "rdma") != 0 && strcmp(argv[1], "tcp") != 0)) {
		puts("usage: test_nvmf_lib rdma|tcp");
		return 2;
	}
	kind = strcmp(argv[1], "rdma") == 0 ? &rdma_transport : &tcp_transport;
	netns_enter();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	far_end();
	return failed;
}
