/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Connections and controllers come and go, and tell of it, whatever they go by: the same cases over
 * each transport.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nvmf/host/discovery.h"
#include "transport_bed.h"

static void discovered(struct host_discovery *d, uint64_t now_ns)
{
	(void)now_ns;
	*(bool *)d->arg = true;
}

/* Of another subsystem, and so by another key. */
static void ask_discovery(void)
{
	bed.here->ops->destroy(bed.here);
	create_host(NVMF_DISCOVERY_NQN);
	strcpy(bed.config.subnqn, NVMF_DISCOVERY_NQN);
	bed.config.io_queues = 0;
}

static void discovery_lists_the_subsystem(void **state)
{
	static struct nvmf_disc_entry entries[8];
	bool ready = false;
	struct host_discovery d = {.buffer = mem.in,
				   .entries = entries,
				   .max = ARRAY_SIZE(entries),
				   .done = discovered,
				   .arg = &ready};

	(void)state;
	ask_discovery();
	bring_up();
	assert_int_equal(host_discovery_start(&d, &bed.host, time_now_ns()), 0);
	turn_until(ready);
	assert_int_equal(d.error, 0);
	assert_int_equal(d.count, 2);
	assert_string_equal(entries[1].subnqn, NQN);
	assert_int_equal(entries[1].trtype, kind == &rdma_transport  ? NVMF_TRTYPE_RDMA
					    : kind == &tcp_transport ? NVMF_TRTYPE_TCP
								     : NVMF_TRTYPE_LOOP);
	assert_memory_equal(entries[1].traddr, "127.0.0.1", 9);
	assert_memory_equal(entries[1].trsvcid, "4420", 4);
	assert_int_equal(entries[1].treq & NVMF_TREQ_SECURE_MASK, tls ? NVMF_TREQ_REQUIRED : 0);
	if (kind == &tcp_transport)
		assert_int_equal(entries[1].tsas[0], tls ? NVMF_SECTYPE_TLS13 : NVMF_SECTYPE_NONE);
}

/* A controller that is to stay tells when its log changes, and again once that was read. */
static void a_change_of_what_discovery_lists_is_told(void **state)
{
	static struct nvmf_disc_entry entries[8];
	static struct target_subsys more[2];
	bool ready = false;
	struct host_discovery d = {.buffer = mem.in,
				   .entries = entries,
				   .max = ARRAY_SIZE(entries),
				   .done = discovered,
				   .arg = &ready};

	(void)state;
	memset(more, 0, sizeof(more));
	ask_discovery();
	bed.config.keep_alive_ms = 30000;
	bring_up();
	for (unsigned int i = 0; i < 2; i++) {
		sprintf(more[i].nqn, "nqn.2026-11.io.example:more%u", i);
		assert_int_equal(target_subsys_add(&bed.target, &more[i]), 0);
		turn_until(bed.events == i + 1);
		ready = false;
		assert_int_equal(host_discovery_start(&d, &bed.host, time_now_ns()), 0);
		turn_until(ready);
		assert_int_equal(d.error, 0);
		assert_int_equal(d.count, 3 + i);
	}
}

static void events_come_when_they_happen(void **state)
{
	struct host_request req = {0};

	(void)state;
	bring_up();
	for (int i = 0; i < 20; i++)
		turn();
	assert_int_equal(bed.events, 0);
	target_ns_changed(&bed.ns, &bed.subsys);
	turn_until(bed.events == 1);
	host_prepare_get_log(&req, NVME_LID_CHANGED_NS, 0, mem.in, 4096);
	req.sqe.cdw10 &= ~(1u << 15); /* RAE: it is taken note of */
	assert_int_equal(exec(&req, 0), NVME_SC_SUCCESS);
	assert_int_equal(ld_le32(mem.in), 1);
	target_ns_changed(&bed.ns, &bed.subsys);
	turn_until(bed.events == 2);
}

/* What was not answered is sent again, whatever was under way. */
static void after_a_reset_commands_go_on(void **state)
{
	static struct host_request reqs[8];
	unsigned int answered = 0;

	(void)state;
	bed.config.loss_timeout_ns = PATIENCE;
	bed.config.reconnect_delay_ns = NSEC_PER_MSEC;
	bring_up();
	for (unsigned int round = 0; round < 5; round++) {
		answered = 0;
		bed.slow.hold = round % 2;
		for (unsigned int i = 0; i < ARRAY_SIZE(reqs); i++) {
			reqs[i] = (struct host_request){.again = true};
			fill(mem.many[i], 65536, i + round);
			host_prepare_write(&reqs[i], 1, i * 128, 128, mem.many[i], 65536, false);
			submit(&reqs[i], (uint16_t)(1 + i % 2), &answered);
		}
		for (unsigned int i = 0; i < round; i++)
			turn();
		host_reset(&bed.host, time_now_ns());
		let_store_work();
		turn_until(answered == ARRAY_SIZE(reqs));
		for (unsigned int i = 0; i < ARRAY_SIZE(reqs); i++) {
			assert_int_equal(reqs[i].error, 0);
			assert_int_equal(reqs[i].cqe.status, 0);
			assert_int_equal(do_read(i * 128, mem.in, 65536), NVME_SC_SUCCESS);
			assert_memory_equal(mem.in, mem.many[i], 65536);
		}
	}
	assert_in_range(bed.host.reconnects, 1, 5);
}

/* The host's memory is its own again, whatever the store still does. */
static void who_has_closed_is_not_written_to(void **state)
{
	struct host_request req = {0};
	unsigned int answered = 0;

	(void)state;
	bring_up();
	bed.slow.hold = true;
	memset(mem.in, 0xee, 65536);
	host_prepare_read(&req, 1, 0, 128, mem.in, 65536);
	submit(&req, 1, &answered);
	turn_until(bed.slow.count == 1);
	host_reset(&bed.host, time_now_ns());
	assert_int_equal(answered, 1);
	assert_int_equal(req.error, -ENOTCONN);
	let_store_work();
	turn_until(bed.there->ops->idle(bed.there));
	for (int i = 0; i < 65536; i++)
		assert_int_equal(mem.in[i], 0xee);
}

static void a_controller_is_shut_down_in_order(void **state)
{
	(void)state;
	bring_up();
	host_shutdown(&bed.host, time_now_ns());
	turn_until(bed.host.state == HOST_CLOSED);
	assert_int_equal(bed.host.failure.kind, HOST_FAIL_NONE);
	turn_until(bed.there->ops->idle(bed.there));
	assert_int_equal(bed.target.ctrl_count, 0);
}

/* The target's end of a connection. */
static bool is_its_end(int fd)
{
	struct sockaddr_in own = {0};
	int listens = 1;

	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &(socklen_t){sizeof(int)}) ==
		       0 &&
	       getsockname(fd, (struct sockaddr *)&own, &(socklen_t){sizeof(own)}) == 0 &&
	       own.sin_family == AF_INET && own.sin_port == htons(4420) && !listens;
}

/* Its socket may live on for a moment, in a child that has not begun its program yet. */
static void who_is_gone_is_not_looked_at(void **state)
{
	struct pollfd there = {.events = POLLIN};
	int copies[1 + IO_QUEUES], n = 0;

	(void)state;
	bring_up();
	for (int fd = 3; fd < 64; fd++)
		if (n <= IO_QUEUES && is_its_end(fd))
			copies[n++] = fcntl(fd, F_DUPFD, 64);
	host_shutdown(&bed.host, time_now_ns());
	turn_until(bed.host.state == HOST_CLOSED && bed.there->ops->idle(bed.there));
	there.fd = bed.there->ops->fd(bed.there);
	turn_until(poll(&there, 1, 0) == 0); /* RDMA has a word of its own at the end */
	bring_up();			     /* where its places are others' */
	assert_int_equal(do_read(0, mem.in, 4096), 0);
	for (int i = 0; i < n; i++)
		close(copies[i]);
}

static void when_the_target_ends_hosts_are_told(void **state)
{
	(void)state;
	bring_up();
	bed.there->ops->shutdown(bed.there);
	turn_until(bed.host.state == HOST_FAILED);
	assert_int_equal(bed.host.failure.kind, HOST_FAIL_LOST);
	assert_string_equal(bed.here->ops->error(bed.here),
			    "connection to 127.0.0.1:4420 lost: the target closed it");
}

/* Its place is another's: more come and go than there is room for at once. */
static void a_port_closes_with_its_connections_alone(void **state)
{
	struct target_port *first;
	char why[256] = "", port[8];

	(void)state;
	first = list_entry(bed.target.ports.prev, struct target_port, link);
	bring_up();
	for (int i = 0; i < 70; i++) {
		snprintf(port, sizeof(port), "%d", 5000 + i % 3);
		assert_int_equal(
			bed.there->ops->listen(bed.there, "127.0.0.1", port, why, sizeof(why)), 0);
		bed.there->ops->unlisten(
			bed.there, list_entry(bed.target.ports.prev, struct target_port, link));
		turn();
	}
	assert_ptr_equal(bed.target.ports.prev, &first->link);
	assert_int_equal(bed.host.state, HOST_LIVE);
	bed.there->ops->unlisten(bed.there, first);
	turn_until(bed.host.state == HOST_FAILED);
	assert_int_equal(bed.host.failure.kind, HOST_FAIL_LOST);
	turn_until(bed.there->ops->idle(bed.there));
	assert_int_equal(bed.there->ops->listen(bed.there, "127.0.0.1", "4420", why, sizeof(why)),
			 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest of_concatenation[] = {
		BED_TEST(events_come_when_they_happen),
		BED_TEST(after_a_reset_commands_go_on),
		BED_TEST(a_controller_is_shut_down_in_order),
		BED_TEST(when_the_target_ends_hosts_are_told),
	};
	const struct CMUnitTest tests[] = {
		BED_TEST(discovery_lists_the_subsystem),
		BED_TEST(a_change_of_what_discovery_lists_is_told),
		BED_TEST(events_come_when_they_happen),
		BED_TEST(after_a_reset_commands_go_on),
		BED_TEST(who_has_closed_is_not_written_to),
		BED_TEST(a_controller_is_shut_down_in_order),
		BED_TEST(who_is_gone_is_not_looked_at),
		BED_TEST(when_the_target_ends_hosts_are_told),
		BED_TEST(a_port_closes_with_its_connections_alone),
	};

	if (transport_choose(argc, argv))
		return 2;
	return concat ? cmocka_run_group_tests(of_concatenation, NULL, NULL)
		      : cmocka_run_group_tests(tests, NULL, NULL);
}
