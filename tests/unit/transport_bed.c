/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <errno.h>
#include <sys/random.h>

#include "heap_env.h"
#include "netns.h"
#include "plain_host.h"
#include "transport_bed.h"

const struct nvmf_transport *kind;
bool digests, tls, concat;
struct transport_bed bed;
struct transport_memory mem __attribute__((aligned(4096)));

/* --- the store ----------------------------------------------------------------------------------
 */

static void slow_submit(struct store *s, struct store_op *op)
{
	struct slow_store *slow = container_of(s, struct slow_store, store);
	int error = slow->error;

	slow->error = 0;
	if (error)
		op->done(op, error);
	else if (slow->hold)
		slow->held[slow->count++] = op;
	else
		store_submit(slow->below, op);
}

static const struct store_ops slow_ops = {.name = "slow", .submit = slow_submit};

void let_store_work(void)
{
	bed.slow.hold = false;
	while (bed.slow.count)
		store_submit(bed.slow.below, bed.slow.held[--bed.slow.count]);
}

/* --- turns --------------------------------------------------------------------------------------
 */

void turn(void)
{
	struct pollfd fds[TRANSPORT_HOST_FDS];
	unsigned int n = bed.here->ops->pollfds(bed.here, fds);
	uint64_t now = time_now_ns(), now_there = bed.stopped_ns ? bed.stopped_ns : now;

	if (now_there >= target_next_deadline(&bed.target))
		target_tick(&bed.target, now_there);
	bed.there->ops->process(bed.there, now_there, true);
	for (unsigned int i = 0; i < n; i++)
		fds[i].revents = POLLIN; /* it looks for itself */
	bed.here->ops->polled(bed.here, fds, n);
	bed.here->ops->process(bed.here, now, true);
	if (bed.host.state != HOST_IDLE && now >= host_next_deadline(&bed.host))
		host_tick(&bed.host, now);
}

static void on_event(void *arg, uint32_t result)
{
	(void)arg;
	(void)result;
	bed.events++;
}

/* Of one host, for one subsystem as for another. */
static struct auth_key tls_key = {.hash = NVMF_AUTH_SHA384, .len = 48, .key = "secret"};

static bool find_tls_key(void *ctx, const char *hostnqn, struct auth_key *ret)
{
	(void)ctx;
	*ret = tls_key;
	return strcmp(hostnqn, HOSTNQN) == 0;
}

void create_host(const char *subnqn)
{
	const struct auth_psk_way way = {.version = 1};
	struct transport_host_config where = {.host = "127.0.0.1",
					      .port = "4420",
					      .io_queues = IO_QUEUES,
					      .io_entries = IO_ENTRIES,
					      .resolve_timeout_ms = 2000,
					      .bounce_bytes = 1 << 20,
					      .header_digest = digests,
					      .data_digest = digests};
	struct auth_psk psk;
	char why[256] = "";

	if (tls) {
		assert_true(auth_psk_derive(&tls_key, way, HOSTNQN, subnqn, &psk));
		where.tls = &psk;
	}
	bed.here = kind->host_create(&where, why, sizeof(why));
	assert_non_null(bed.here);
	bed.here->ops->attach(bed.here, &bed.host);
	assert_int_equal(bed.here->ops->add_memory(bed.here, &mem, sizeof(mem)), 0);
}

#define KEY	  "DHHC-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:"
#define OTHER_KEY "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:"

struct target_host known;

static void random_bytes(void *ctx, void *p, size_t len)
{
	(void)ctx;
	assert_int_equal(getrandom(p, len, 0), len);
}

static struct auth_key key_of(const char *text)
{
	struct auth_key k;
	const char *why;

	assert_int_equal(auth_key_parse(text, &k, &why), 0);
	return k;
}

void with_keys(void)
{
	if (bed.config.key.len)
		return;
	known = (struct target_host){
		.nqn = HOSTNQN, .key = key_of(KEY), .ctrl_key = key_of(OTHER_KEY)};
	bed.target.env.random = bed.config.random = random_bytes;
	bed.config.key = known.key;
	bed.config.ctrl_key = known.ctrl_key;
	assert_int_equal(target_host_add(&bed.target, &known), 0);
}

void secure(enum target_tls how)
{
	target_port_secure(&bed.target, list_entry(bed.target.ports.prev, struct target_port, link),
			   how);
}

int transport_set_up(void **state)
{
	char why[256] = "";

	(void)state;
	memset(&bed, 0, sizeof(bed));
	target_init(&bed.target, &heap_env, time_now_ns());
	strcpy(bed.subsys.nqn, NQN);
	assert_int_equal(target_subsys_add(&bed.target, &bed.subsys), 0);
	assert_int_equal(store_mem_create(BLOCKS * 512, 512, 0, &bed.slow.below), 0);
	bed.slow.store = *bed.slow.below;
	bed.slow.store.ops = &slow_ops;
	bed.ns = (struct target_ns){.nsid = 1, .store = &bed.slow.store, .lba_shift = 9};
	assert_int_equal(target_ns_add(&bed.subsys, &bed.ns), 0);
	assert_int_equal(store_mem_create(1 << 20, 512, 0, &bed.ro_store), 0);
	bed.ro = (struct target_ns){
		.nsid = 2, .store = bed.ro_store, .lba_shift = 9, .read_only = true};
	assert_int_equal(target_ns_add(&bed.subsys, &bed.ro), 0);
	assert_int_equal(shares_init(&bed.shares, 8 << 20), 0);
	if (kind->target_create(&bed.target.group, &bed.shares, NULL, &bed.there, why,
				sizeof(why)) != 0 ||
	    bed.there->ops->listen(bed.there, "127.0.0.1", "4420", why, sizeof(why)) != 0) {
		print_error("%s\n", why);
		return -1;
	}
	bed.target.env.tls_key = find_tls_key;
	secure(tls ? TARGET_TLS_REQUIRED : concat ? TARGET_TLS_OFFERED : TARGET_TLS_NONE);
	create_host(NQN);
	bed.config = plain_host(NQN, IO_QUEUES, IO_ENTRIES);
	bed.config.event = on_event;
	bed.config.reads_changes = true; /* the cases do */
	if (concat) {
		with_keys();
		bed.config.concat = true;
	}
	return 0;
}

int transport_tear_down(void **state)
{
	(void)state;
	let_store_work();
	bed.here->ops->destroy(bed.here);
	bed.there->ops->shutdown(bed.there);
	for (uint64_t end = time_now_ns() + PATIENCE;
	     !bed.there->ops->idle(bed.there) && time_now_ns() < end;)
		bed.there->ops->process(bed.there, time_now_ns(), true);
	assert_true(bed.there->ops->idle(bed.there));
	bed.there->ops->destroy(bed.there);
	assert_int_equal(bed.shares.pool.used, 0);
	shares_fini(&bed.shares);
	target_fini(&bed.target);
	store_destroy(bed.slow.below);
	store_destroy(bed.ro_store);
	return 0;
}

void begin(void)
{
	assert_int_equal(host_init(&bed.host, &bed.config, bed.here->ops->queues, bed.here,
				   bed.queues, bed.places, mem.scratch),
			 0);
	host_start(&bed.host, time_now_ns());
}

void bring_up(void)
{
	begin();
	turn_until(bed.host.state == HOST_LIVE || bed.host.state == HOST_FAILED);
	assert_string_equal(host_state_name(bed.host.state), "live");
}

/* --- requests -----------------------------------------------------------------------------------
 */

static void done(struct host_request *req, uint64_t now_ns)
{
	unsigned int *count = req->arg;

	(void)now_ns;
	++*count;
}

void submit(struct host_request *req, uint16_t qid, unsigned int *count)
{
	req->done = done;
	req->arg = count;
	assert_int_equal(host_submit(&bed.host, qid, req, time_now_ns()), 0);
}

uint16_t exec(struct host_request *req, uint16_t qid)
{
	unsigned int count = 0;

	submit(req, qid, &count);
	turn_until(count == 1);
	return req->error ? 0xffff : req->cqe.status & NVME_STATUS_CODE;
}

uint16_t do_write(uint64_t slba, const void *p, uint32_t len)
{
	struct host_request req = {0};

	host_prepare_write(&req, 1, slba, len / 512, p, len, false);
	return exec(&req, 1);
}

uint16_t do_read(uint64_t slba, void *p, uint32_t len)
{
	struct host_request req = {0};

	host_prepare_read(&req, 1, slba, len / 512, p, len);
	return exec(&req, 2);
}

void fill(uint8_t *p, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(i * 37 + i / 251 + seed * 101);
}
/* --- which transport ---------------------------------------------------------------------------
 */

int transport_choose(int argc, char **argv)
{
	const char *name = argc == 2 ? argv[1] : "";

	tls = strncmp(name, "tcp-tls", 7) == 0;
	digests = strstr(name, "-digests");
	concat = strcmp(name, "tcp-concat") == 0;
	if (strcmp(name, "loop") == 0)
		kind = &loop_transport;
	else if (strcmp(name, "rdma") == 0)
		kind = &rdma_transport;
	else if (strncmp(name, "tcp", 3) == 0)
		kind = &tcp_transport;
	else {
		print_error("usage: %s loop|rdma|tcp[-tls][-digests]|tcp-concat\n", argv[0]);
		return -1;
	}
	netns_enter();
	return 0;
}
