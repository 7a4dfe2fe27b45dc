/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Shares of queues and memory, and whose turn it is, without any device. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "nvmf/transport/share.h"

#define HOSTS 3
#define MIB   (1024u * 1024)

/* What a transport has for each queue and each command. */
struct conn {
	struct target_queue tq;
	struct share_queue share;
};

struct cmd {
	struct target_req req;
	struct share_cmd share;
};

static struct shares shares;
static struct conn queues[HOSTS][2];
static struct cmd cmds[64];
static unsigned served_count;
static struct cmd *served[64];
static struct conn *gave_way;

static void has_memory(struct share_cmd *c)
{
	served[served_count++] = container_of(c, struct cmd, share);
}

static void give_way(struct share_queue *q)
{
	gave_way = container_of(q, struct conn, share);
	share_queue_grown(q);
}

static const struct share_ops ops = {.has_memory = has_memory, .give_way = give_way};

static bool open_from(struct conn *q, const char *address)
{
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	bool is_v6 = strchr(address, ':');
	uint8_t key[16];

	inet_pton(is_v6 ? AF_INET6 : AF_INET, address,
		  is_v6 ? (void *)&v6.sin6_addr : (void *)&v4.sin_addr);
	share_key_of(is_v6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4, key);
	return share_queue_init(&q->share, &shares, &ops, key);
}

static int set_up(void **state)
{
	(void)state;
	assert_int_equal(shares_init(&shares, 8 * MIB), 0);
	shares.budget[SHARE_FOR_ADMIN].len = MIB;
	memset(queues, 0, sizeof(queues));
	memset(cmds, 0, sizeof(cmds));
	served_count = 0;
	gave_way = NULL;
	for (int h = 0; h < HOSTS; h++)
		for (int i = 0; i < 2; i++) {
			char address[] = "10.0.0.1";
			struct conn *q = &queues[h][i];

			address[7] = (char)('1' + h);
			q->tq.qid = 1;
			assert_true(open_from(q, address));
			share_queue_grown(&q->share);
		}
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (int i = 0; i < 64; i++)
		if (cmds[i].share.queue)
			share_memory_put(&cmds[i].share);
	for (int h = 0; h < HOSTS; h++)
		for (int i = 0; i < 2; i++)
			share_queue_fini(&queues[h][i].share);
	assert_true(list_empty(&shares.hosts));
	assert_int_equal(shares.pool.used, 0);
	shares_fini(&shares);
	return 0;
}

static bool ask(struct cmd *c, struct conn *q, uint32_t len)
{
	c->share.queue = &q->share;
	c->share.req = &c->req;
	c->req.queue = &q->tq;
	c->req.data_len = len;
	c->req.data = NULL;
	return share_memory_take(&c->share);
}

/* How many commands of a queue get what they ask for; the rest does not wait. */
static unsigned fill(unsigned first, struct conn *q, uint32_t len)
{
	unsigned n = 0;

	while (ask(&cmds[first + n], q, len))
		n++;
	share_memory_forget(&cmds[first + n].share);
	cmds[first + n].share.queue = NULL;
	return n;
}

static void an_address_is_a_host_and_so_is_a_network_of_ipv6(void **state)
{
	struct conn a, b, c;

	(void)state;
	assert_true(open_from(&a, "fd77::1"));
	assert_true(open_from(&b, "fd77::2:3"));
	assert_true(open_from(&c, "fd78::1"));
	assert_ptr_equal(a.share.host, b.share.host);
	assert_ptr_not_equal(a.share.host, c.share.host);
	assert_ptr_equal(queues[0][0].share.host, queues[0][1].share.host);
	assert_ptr_not_equal(queues[0][0].share.host, queues[1][0].share.host);
	share_queue_fini(&a.share);
	share_queue_fini(&b.share);
	share_queue_fini(&c.share);
}

static void nobody_holds_more_memory_than_is_left(void **state)
{
	static struct target_ns other = {.number = 2};
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
	shares.budget[SHARE_FOR_IO].len = MIB;
	assert_true(ask(&cmds[0], &queues[0][0], MIB));
}

/* Small commands of others would always find room first. */
static void what_is_freed_is_kept_for_a_large_command_that_waits(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		assert_true(ask(&cmds[i], &queues[0][i], MIB / 4));
	shares.budget[SHARE_FOR_IO].len = MIB;
	assert_false(ask(&cmds[2], &queues[1][0], MIB / 2 + MIB / 4)); /* too large to wait for */
	share_memory_forget(&cmds[2].share);
	shares.budget[SHARE_FOR_IO].len = 5 * MIB;
	shares.budget[SHARE_FOR_IO].used += 4 * MIB; /* somebody else's */
	assert_false(ask(&cmds[4], &queues[1][0], MIB));
	assert_false(ask(&cmds[5], &queues[2][1], 4096));
	share_memory_put(&cmds[0].share);
	assert_false(shares_pump(&shares)); /* it is not enough yet */
	share_memory_put(&cmds[1].share);
	assert_true(shares_pump(&shares));
	assert_ptr_equal(served[0], &cmds[4]);
	shares.budget[SHARE_FOR_IO].used -= 4 * MIB;
	shares.memory_freed = true;
	assert_true(shares_pump(&shares));
	assert_ptr_equal(served[1], &cmds[5]);
}

/* Its store may hang: what goes to another one finds memory, past those that wait. */
static void a_namespace_leaves_memory_of_its_queue_to_another(void **state)
{
	static struct target_ns ns[2] = {{.number = 1}, {.number = 2}};
	struct conn *q = &queues[0][0];
	unsigned n = 0;

	(void)state;
	while (n < 60 && (cmds[n].req.ns = &ns[0], ask(&cmds[n], q, MIB / 4)))
		n++;
	assert_in_range(n, 1, 59);
	cmds[n + 1].req.ns = &ns[1];
	assert_true(ask(&cmds[n + 1], q, MIB / 4));
	/* The same when it is known only later that there is room. */
	shares.budget[SHARE_FOR_IO].len -= 5 * MIB;
	cmds[n + 2].req.ns = &ns[1];
	assert_false(ask(&cmds[n + 2], q, MIB / 4));
	shares.budget[SHARE_FOR_IO].len += 5 * MIB;
	shares.memory_freed = true;
	assert_true(shares_pump(&shares));
	assert_int_equal(served_count, 1);
	assert_ptr_equal(served[0], &cmds[n + 2]);
	share_memory_forget(&cmds[n].share);
	cmds[n].share.queue = NULL;
}

/* By whatever number of its queues, and however many there are: both may have one NSID, in two
 * subsystems, or one after the other. */
static void a_namespace_leaves_memory_of_its_host_to_another(void **state)
{
	static struct target_ns ns[2] = {{.nsid = 1, .number = 1},
					 {.nsid = 1, .number = 1 + (1ull << 32)}};
	struct conn more[8];
	unsigned n = 0;

	(void)state;
	for (unsigned i = 0; i < 61; i++)
		cmds[i].req.ns = &ns[0];
	for (unsigned i = 0; i < ARRAY_SIZE(more); i++) {
		more[i].tq.qid = 1;
		assert_true(open_from(&more[i], "10.0.0.1"));
		n += fill(n, &more[i], MIB / 16);
	}
	assert_in_range(n, 32, 48); /* of 128 */
	cmds[61].req.ns = cmds[62].req.ns = &ns[1];
	assert_true(ask(&cmds[61], &more[0], MIB / 4));
	assert_true(ask(&cmds[62], &queues[0][1], MIB / 4));
	for (unsigned i = 0; i < 64; i++)
		if (cmds[i].share.queue) {
			share_memory_put(&cmds[i].share);
			cmds[i].share.queue = NULL;
		}
	for (unsigned i = 0; i < ARRAY_SIZE(more); i++)
		share_queue_fini(&more[i].share);
}

/* None overtakes one that waits for the same, though there is room for it. */
static void commands_to_one_namespace_go_on_in_their_order(void **state)
{
	static struct target_ns ns[3] = {{.number = 1}, {.number = 2}, {.number = 3}};
	const unsigned order[] = {2, 3, 5, 6, 1, 4};

	(void)state;
	shares.budget[SHARE_FOR_IO].len = 0;
	for (unsigned i = 0; i < 7; i++) {
		cmds[i].req.ns = &ns[i ? (i - 1) % 3 : 0];
		assert_false(ask(&cmds[i], &queues[0][0], i < 2 ? MIB : MIB / 16));
	}
	share_memory_forget(&cmds[0].share); /* the next is the first then */
	shares.budget[SHARE_FOR_IO].len = MIB - 4096;
	shares.memory_freed = true;
	assert_true(shares_pump(&shares));
	assert_int_equal(served_count, 4);
	shares.budget[SHARE_FOR_IO].len = 8 * MIB;
	shares.memory_freed = true;
	assert_true(shares_pump(&shares));
	assert_int_equal(served_count, ARRAY_SIZE(order));
	for (unsigned i = 0; i < served_count; i++)
		assert_ptr_equal(served[i], &cmds[order[i]]);
}

static void admin_commands_do_not_wait_for_io(void **state)
{
	unsigned n = 0;

	(void)state;
	queues[2][1].tq.qid = 0;
	for (int h = 0; h < HOSTS; h++)
		n += fill(n, &queues[h][0], MIB / 4);
	shares.budget[SHARE_FOR_IO].len = shares.budget[SHARE_FOR_IO].used;
	assert_false(ask(&cmds[61], &queues[1][1], 4096));
	share_memory_forget(&cmds[61].share);
	assert_true(ask(&cmds[62], &queues[2][1], 4096));
}

static void hosts_take_turns_and_so_do_their_queues(void **state)
{
	/* Host 0 came first with all it has, on both queues; then host 1 with one command. */
	struct conn *const order[] = {&queues[0][0], &queues[1][0], &queues[0][1], &queues[0][0],
				      &queues[0][1]};

	(void)state;
	assert_true(ask(&cmds[0], &queues[2][0], MIB));
	shares.budget[SHARE_FOR_IO].len = MIB;
	assert_false(ask(&cmds[1], &queues[0][0], 4096));
	assert_false(ask(&cmds[2], &queues[0][0], 4096));
	assert_false(ask(&cmds[3], &queues[0][1], 4096));
	assert_false(ask(&cmds[4], &queues[0][1], 4096));
	assert_false(ask(&cmds[5], &queues[1][0], 4096));
	assert_false(shares_pump(&shares)); /* nothing came back */
	share_memory_put(&cmds[0].share);
	assert_true(shares_pump(&shares));
	assert_int_equal(served_count, ARRAY_SIZE(order));
	for (unsigned i = 0; i < served_count; i++)
		assert_ptr_equal(served[i]->req.queue, &order[i]->tq);
	assert_true(list_empty(&shares.waiting));
}

/* Whether one queue more is let in; it goes at once. */
static bool may_open(const char *address)
{
	struct conn q;

	if (!open_from(&q, address))
		return false;
	share_queue_fini(&q.share);
	return true;
}

/* The rule is that of connections; one that holds nothing may have all there is. */
static void a_host_may_not_have_more_entries_than_are_left(void **state)
{
	(void)state;
	assert_true(share_entries_take(&queues[0][0].share, SHARE_ENTRIES_MAX / 2 - 64));
	assert_false(share_entries_take(&queues[0][1].share, 65));
	assert_true(share_entries_take(&queues[0][1].share, 64));
	assert_false(share_entries_take(&queues[0][1].share, 1));
	assert_false(share_entries_take(&queues[1][0].share, SHARE_ENTRIES_MAX / 2 + 1));
	assert_true(share_entries_take(&queues[1][0].share, SHARE_ENTRIES_MAX / 4));
	share_queue_fini(&queues[0][0].share); /* and what it had is others' */
	assert_int_equal(shares.entry_count, SHARE_ENTRIES_MAX / 4 + 64);
	assert_true(open_from(&queues[0][0], "10.0.0.1"));
	assert_true(share_entries_take(&queues[0][1].share, 1024));
}

static void a_host_may_not_have_more_queues_than_are_left(void **state)
{
	struct share_host *a = queues[0][0].share.host;
	const uint32_t count = shares.queue_count;

	(void)state;
	/* Of a with the one that asks: as many as would be left behind it. */
	shares.queue_count = SHARE_QUEUES_MAX / 2 - 1;
	a->queues = SHARE_QUEUES_MAX / 2 - 1;
	assert_true(may_open("10.0.0.1"));
	shares.queue_count++;
	a->queues++;
	assert_false(may_open("10.0.0.1"));
	assert_true(may_open("10.0.0.2"));
	shares.queue_count = SHARE_QUEUES_MAX - 1;
	assert_false(may_open("10.0.0.2"));
	assert_true(may_open("10.0.0.9")); /* the first of its host */
	shares.queue_count++;
	assert_false(may_open("10.0.0.9"));
	a->queues = 2;
	shares.queue_count = count;
}

/* Where there are not descriptors for as many as elsewhere. */
static void fewer_queues_are_shared_by_the_same_rule(void **state)
{
	struct conn q[4] = {0};

	(void)state;
	assert_int_equal(shares.queues_max, SHARE_QUEUES_MAX);
	shares.queues_max = shares.queue_count + 5;
	for (int i = 0; i < 2; i++)
		assert_true(open_from(&q[i], "10.0.0.9"));
	assert_false(may_open("10.0.0.9"));
	for (int i = 2; i < 4; i++)
		assert_true(open_from(&q[i], i == 2 ? "10.0.0.10" : "10.0.0.11"));
	assert_true(may_open("10.0.0.12"));
	shares.queues_max = shares.queue_count;
	assert_false(may_open("10.0.0.12"));
	for (int i = 0; i < 4; i++)
		share_queue_fini(&q[i].share);
}

/* Who gave way to one of the host at address. */
static struct conn *gives_way_to(const char *address)
{
	struct conn q;

	gave_way = NULL;
	assert_true(open_from(&q, address));
	share_queue_fini(&q.share);
	return gave_way;
}

/* As if it had not had to: at its place again. */
static void is_young_again(struct conn *q, struct conn *before)
{
	list_push_tail(&before->share.young, &q->share.young);
	shares.young_count++;
	q->share.host->young++;
}

static void the_oldest_connections_of_whoever_has_most_make_room(void **state)
{
	static struct conn young[SHARE_YOUNG_MAX];
	const char *a = "10.0.0.1", *b = "10.0.0.2", *c = "10.0.0.3";

	(void)state;
	assert_null(gives_way_to(a));
	for (unsigned i = 0; i < SHARE_YOUNG_MAX; i++) {
		/* Beyond its share a host's own give way: the rest are as many of others. */
		char other[] = "10.0.1.100";

		snprintf(other, sizeof(other), "10.0.1.%u", i);
		assert_true(open_from(&young[i], i < 10				 ? b
						 : i < SHARE_YOUNG_HOST_MAX + 10 ? a
										 : other));
		assert_null(gave_way);
	}
	assert_ptr_equal(gives_way_to(a), &young[10]);
	is_young_again(&young[10], &young[11]);
	assert_ptr_equal(gives_way_to(c), &young[10]);
	is_young_again(&young[10], &young[11]);
	young[10].share.established = young[11].share.established = true;
	assert_ptr_equal(gives_way_to(c), &young[12]);
	is_young_again(&young[12], &young[13]);
	for (unsigned i = 0; i < SHARE_YOUNG_MAX; i++)
		young[i].share.established = true;
	assert_ptr_equal(gives_way_to(c), &young[10]);
	for (unsigned i = 0; i < SHARE_YOUNG_MAX; i++)
		share_queue_fini(&young[i].share);
	assert_int_equal(shares.young_count, 0);
	for (int h = 0; h < HOSTS; h++)
		assert_int_equal(queues[h][0].share.host->young, 0);
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
		cmocka_unit_test_setup_teardown(commands_to_one_namespace_go_on_in_their_order,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(admin_commands_do_not_wait_for_io, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(hosts_take_turns_and_so_do_their_queues, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_host_may_not_have_more_entries_than_are_left,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_host_may_not_have_more_queues_than_are_left,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(fewer_queues_are_shared_by_the_same_rule, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(
			the_oldest_connections_of_whoever_has_most_make_room, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
