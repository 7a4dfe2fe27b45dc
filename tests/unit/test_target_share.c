/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Shares of queues and memory, and whose turn it is, without any device. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <arpa/inet.h>
#include <string.h>
#include <cmocka.h>

#include "nvmf/transport/rdma_target_internal.h"

#define HOSTS 3
#define MIB   (1024u * 1024)

static struct rdma_target rt;
static struct rdma_queue queues[HOSTS][2];
static struct rdma_cmd cmds[64];
static unsigned served_count;
static struct rdma_cmd *served[64];

void rdma_cmd_has_memory(struct rdma_cmd *c)
{
	served[served_count++] = c;
}

static struct rdma_host *host_of(const char *address)
{
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
	struct sockaddr_in v4 = {.sin_family = AF_INET};

	if (strchr(address, ':')) {
		inet_pton(AF_INET6, address, &v6.sin6_addr);
		return rdma_host_get(&rt, (struct sockaddr *)&v6);
	}
	inet_pton(AF_INET, address, &v4.sin_addr);
	return rdma_host_get(&rt, (struct sockaddr *)&v4);
}

static int set_up(void **state)
{
	(void)state;
	rt = (struct rdma_target){.budget = {{.len = 8 * MIB}, {.len = MIB}}};
	list_init(&rt.hosts);
	list_init(&rt.waiting);
	list_init(&rt.young);
	assert_int_equal(data_pool_init(&rt.pool, 9 * MIB), 0);
	memset(queues, 0, sizeof(queues));
	memset(cmds, 0, sizeof(cmds));
	served_count = 0;
	for (int h = 0; h < HOSTS; h++)
		for (int i = 0; i < 2; i++) {
			char address[] = "10.0.0.1";
			struct rdma_queue *q = &queues[h][i];

			address[7] = (char)('1' + h);
			q->rt = &rt;
			q->host = host_of(address);
			q->tq.qid = 1;
			list_init(&q->turn);
			list_init(&q->young);
			list_init(&q->pool_wait);
		}
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (int i = 0; i < 64; i++)
		if (cmds[i].send_hook.queue)
			rdma_memory_put(&cmds[i]);
	for (int h = 0; h < HOSTS; h++)
		for (int i = 0; i < 2; i++)
			rdma_host_put(queues[h][i].host);
	assert_true(list_empty(&rt.hosts));
	assert_int_equal(rt.pool.used, 0);
	data_pool_fini(&rt.pool);
	return 0;
}

static bool ask(struct rdma_cmd *c, struct rdma_queue *q, uint32_t len)
{
	c->send_hook.queue = q;
	c->req.data_len = len;
	c->req.data = NULL;
	return rdma_memory_take(c);
}

/* How many commands of a queue get what they ask for; the rest does not wait. */
static unsigned fill(unsigned first, struct rdma_queue *q, uint32_t len)
{
	unsigned n = 0;

	while (ask(&cmds[first + n], q, len))
		n++;
	rdma_memory_forget(&cmds[first + n]);
	cmds[first + n].send_hook.queue = NULL;
	return n;
}

static void an_address_is_a_host_and_so_is_a_network_of_ipv6(void **state)
{
	struct rdma_host *a = host_of("fd77::1"), *b = host_of("fd77::2:3"),
			 *c = host_of("fd78::1");

	(void)state;
	assert_ptr_equal(a, b);
	assert_ptr_not_equal(a, c);
	assert_ptr_equal(queues[0][0].host, queues[0][1].host);
	assert_ptr_not_equal(queues[0][0].host, queues[1][0].host);
	rdma_host_put(a);
	rdma_host_put(b);
	rdma_host_put(c);
}

static void nobody_holds_more_memory_than_is_left(void **state)
{
	static struct target_ns other = {.nsid = 2};
	unsigned n = 0;

	(void)state;
	n += fill(n, &queues[0][0], MIB / 4);
	assert_int_equal(n, 8); /* of 32: as much for another queue, namespace, host */
	n += fill(n, &queues[0][1], MIB / 4);
	assert_in_range(n, 9, 10); /* a third of it is for the host's work on one namespace */
	for (unsigned i = n; i < 32; i++)
		cmds[i].req.ns = &other;
	for (int i = 0; i < 2; i++)
		n += fill(n, &queues[0][i], MIB / 4);
	for (unsigned i = n; i < 32; i++)
		cmds[i].req.ns = NULL;
	assert_in_range(n, 12, 16); /* half of it is the host's */
	assert_in_range(fill(n, &queues[1][0], MIB / 4), 4, 8);
	assert_true(ask(&cmds[63], &queues[2][0], MIB)); /* and there is still something */
}

static void what_is_as_large_as_memory_can_be_had(void **state)
{
	(void)state;
	rt.budget[RDMA_FOR_IO].len = MIB;
	assert_true(ask(&cmds[0], &queues[0][0], MIB));
}

/* Small commands of others would always find room first. */
static void what_is_freed_is_kept_for_a_large_command_that_waits(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		assert_true(ask(&cmds[i], &queues[0][i], MIB / 4));
	rt.budget[RDMA_FOR_IO].len = MIB;
	assert_false(ask(&cmds[2], &queues[1][0], MIB / 2 + MIB / 4)); /* too large to wait for */
	rdma_memory_forget(&cmds[2]);
	rt.budget[RDMA_FOR_IO].len = 5 * MIB;
	rt.budget[RDMA_FOR_IO].used += 4 * MIB; /* somebody else's */
	assert_false(ask(&cmds[4], &queues[1][0], MIB));
	assert_false(ask(&cmds[5], &queues[2][1], 4096));
	rdma_memory_put(&cmds[0]);
	assert_false(rdma_memory_pump(&rt)); /* it is not enough yet */
	rdma_memory_put(&cmds[1]);
	assert_true(rdma_memory_pump(&rt));
	assert_ptr_equal(served[0], &cmds[4]);
	rt.budget[RDMA_FOR_IO].used -= 4 * MIB;
	rt.memory_freed = true;
	assert_true(rdma_memory_pump(&rt));
	assert_ptr_equal(served[1], &cmds[5]);
}

/* Its store may hang: what goes to another one finds memory, past those that wait. */
static void a_namespace_leaves_memory_of_its_queue_to_another(void **state)
{
	static struct target_ns ns[2] = {{.nsid = 1}, {.nsid = 2}};
	struct rdma_queue *q = &queues[0][0];
	unsigned n = 0;

	(void)state;
	while (n < 60 && (cmds[n].req.ns = &ns[0], ask(&cmds[n], q, MIB / 4)))
		n++;
	assert_in_range(n, 1, 59);
	cmds[n + 1].req.ns = &ns[1];
	assert_true(ask(&cmds[n + 1], q, MIB / 4));
	/* The same when it is known only later that there is room. */
	rt.budget[RDMA_FOR_IO].len -= 5 * MIB;
	cmds[n + 2].req.ns = &ns[1];
	assert_false(ask(&cmds[n + 2], q, MIB / 4));
	rt.budget[RDMA_FOR_IO].len += 5 * MIB;
	rt.memory_freed = true;
	assert_true(rdma_memory_pump(&rt));
	assert_int_equal(served_count, 1);
	assert_ptr_equal(served[0], &cmds[n + 2]);
	rdma_memory_forget(&cmds[n]);
	cmds[n].send_hook.queue = NULL;
}

/* By whatever number of its queues, and whatever the two are called. */
static void a_namespace_leaves_memory_of_its_host_to_another(void **state)
{
	static struct target_ns ns[2] = {{.nsid = 1}, {.nsid = 33}};
	struct rdma_queue more[8];
	unsigned n = 0;

	(void)state;
	for (unsigned i = 0; i < 61; i++)
		cmds[i].req.ns = &ns[0];
	for (unsigned i = 0; i < ARRAY_SIZE(more); i++) {
		more[i] = queues[0][0];
		list_init(&more[i].turn);
		list_init(&more[i].pool_wait);
		n += fill(n, &more[i], MIB / 16);
	}
	assert_in_range(n, 32, 48); /* of 128 */
	cmds[61].req.ns = cmds[62].req.ns = &ns[1];
	assert_true(ask(&cmds[61], &more[0], MIB / 4));
	assert_true(ask(&cmds[62], &queues[0][1], MIB / 4));
	for (unsigned i = 0; i < 64; i++)
		if (cmds[i].send_hook.queue) {
			rdma_memory_put(&cmds[i]);
			cmds[i].send_hook.queue = NULL;
		}
}

static void admin_commands_do_not_wait_for_io(void **state)
{
	unsigned n = 0;

	(void)state;
	queues[2][1].tq.qid = 0;
	for (int h = 0; h < HOSTS; h++)
		n += fill(n, &queues[h][0], MIB / 4);
	rt.budget[RDMA_FOR_IO].len = rt.budget[RDMA_FOR_IO].used;
	assert_false(ask(&cmds[61], &queues[1][1], 4096));
	rdma_memory_forget(&cmds[61]);
	assert_true(ask(&cmds[62], &queues[2][1], 4096));
}

static void hosts_take_turns_and_so_do_their_queues(void **state)
{
	/* Host 0 came first with all it has, on both queues; then host 1 with one command. */
	struct rdma_queue *const order[] = {&queues[0][0], &queues[1][0], &queues[0][1],
					    &queues[0][0], &queues[0][1]};

	(void)state;
	assert_true(ask(&cmds[0], &queues[2][0], MIB));
	rt.budget[RDMA_FOR_IO].len = MIB;
	assert_false(ask(&cmds[1], &queues[0][0], 4096));
	assert_false(ask(&cmds[2], &queues[0][0], 4096));
	assert_false(ask(&cmds[3], &queues[0][1], 4096));
	assert_false(ask(&cmds[4], &queues[0][1], 4096));
	assert_false(ask(&cmds[5], &queues[1][0], 4096));
	assert_false(rdma_memory_pump(&rt)); /* nothing came back */
	rdma_memory_put(&cmds[0]);
	assert_true(rdma_memory_pump(&rt));
	assert_int_equal(served_count, ARRAY_SIZE(order));
	for (unsigned i = 0; i < served_count; i++)
		assert_ptr_equal(served[i]->send_hook.queue, order[i]);
	assert_true(list_empty(&rt.waiting));
}

static void a_host_may_not_have_more_queues_than_are_left(void **state)
{
	struct rdma_host *a = queues[0][0].host, *b = queues[1][0].host;

	(void)state;
	rt.queue_count = RDMA_QUEUES_MAX / 2 - 1;
	a->queues = RDMA_QUEUES_MAX / 2;
	assert_true(rdma_host_has_room(&rt, a));
	rt.queue_count++;
	a->queues++;
	assert_false(rdma_host_has_room(&rt, a));
	assert_true(rdma_host_has_room(&rt, b));
	rt.queue_count = RDMA_QUEUES_MAX - 1;
	assert_false(rdma_host_has_room(&rt, b));
	b->queues = 1;
	assert_true(rdma_host_has_room(&rt, b));
	rt.queue_count++;
	assert_false(rdma_host_has_room(&rt, b));
	a->queues = b->queues = 2;
}

static void the_oldest_connections_of_whoever_has_most_make_room(void **state)
{
	static struct rdma_queue young[RDMA_YOUNG_MAX];
	struct rdma_host *a = queues[0][0].host, *b = queues[1][0].host, *c = queues[2][0].host;

	(void)state;
	assert_null(rdma_young_victim(&rt, a));
	for (unsigned i = 0; i < RDMA_YOUNG_MAX; i++) {
		young[i] = (struct rdma_queue){.rt = &rt, .host = i < 10 ? b : a};
		list_init(&young[i].young);
		if (i == RDMA_YOUNG_HOST_MAX + 10)
			assert_ptr_equal(rdma_young_victim(&rt, a), &young[10]);
		rdma_young_add(&young[i]);
	}
	assert_ptr_equal(rdma_young_victim(&rt, c), &young[10]);
	young[10].established = young[11].established = true;
	assert_ptr_equal(rdma_young_victim(&rt, c), &young[12]);
	for (unsigned i = 0; i < RDMA_YOUNG_MAX; i++)
		young[i].established = true;
	assert_ptr_equal(rdma_young_victim(&rt, c), &young[10]);
	for (unsigned i = 0; i < RDMA_YOUNG_MAX; i++)
		rdma_young_remove(&young[i]);
	assert_int_equal(rt.young_count + a->young + b->young, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_address_is_a_host_and_so_is_a_network_of_ipv6,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(nobody_holds_more_memory_than_is_left, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(what_is_as_large_as_memory_can_be_had, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_namespace_leaves_memory_of_its_queue_to_another,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_namespace_leaves_memory_of_its_host_to_another,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			what_is_freed_is_kept_for_a_large_command_that_waits, set_up, tear_down),
		cmocka_unit_test_setup_teardown(admin_commands_do_not_wait_for_io, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(hosts_take_turns_and_so_do_their_queues, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_host_may_not_have_more_queues_than_are_left,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			the_oldest_connections_of_whoever_has_most_make_room, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
