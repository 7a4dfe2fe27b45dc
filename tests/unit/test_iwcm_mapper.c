/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Port mappers of peers: the test is one, with the connection manager of iWARP asking it. */
#include "iwcm_bed.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netns.h"
#include "wire/iwpm.h"

/* A port of TCP that is refused, at an address that has a mapper, which is this test; and another
 * where the listener is. */
static int open_mapper(struct sockaddr_in *ret_refused)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(IWPM_PORT)};
	const struct timeval patience = {.tv_sec = 30};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
	iwcm_unlisten(iwb.listener);
	iwb_listen_at(ntohl(at.sin_addr.s_addr), 0);
	*ret_refused = iwb.at;
	ret_refused->sin_port = htons(1);
	return fd;
}

static struct iwpm mapper_hears(int fd, struct sockaddr_in *ret_from)
{
	uint8_t in[IWPM_REQUEST_LEN + 1];
	socklen_t len = sizeof(*ret_from);
	ssize_t got = recvfrom(fd, in, sizeof(in), 0, (struct sockaddr *)ret_from, &len);
	struct iwpm m;

	assert_true(got > 0);
	assert_int_equal(iwpm_get(&m, in, (size_t)got), 0);
	return m;
}

static void mapper_says(int fd, const struct sockaddr_in *to, struct iwpm m, enum iwpm_type type,
			uint16_t port)
{
	uint8_t out[IWPM_REQUEST_LEN];
	size_t len;

	m.type = type;
	m.called.port = port;
	len = iwpm_put(out, &m);
	assert_int_equal(sendto(fd, out, len, 0, (const struct sockaddr *)to, sizeof(*to)), len);
}

static void a_mapper_says_where_the_port_is(void **state)
{
	struct sockaddr_storage own, peer;
	struct sockaddr_in refused, from;
	int mapper = open_mapper(&refused);
	const uint16_t port = ntohs(iwb.at.sin_port);
	struct iwcm_link *a = iwb_call(&refused, ""), *p;
	struct iwpm m = mapper_hears(mapper, &from), ack;

	(void)state;
	assert_int_equal(m.type, IWPM_REQUEST);
	assert_int_equal(m.called.port, 1);
	assert_memory_equal(m.called.addr, &refused.sin_addr, 4);
	assert_memory_equal(m.caller.addr, &refused.sin_addr, 4);
	/* The first is lost. */
	ack = mapper_hears(mapper, &from);
	assert_memory_equal(&ack, &m, sizeof(m));
	mapper_says(mapper, &from, m, IWPM_ACCEPT, port);
	ack = mapper_hears(mapper, &from);
	assert_int_equal(ack.type, IWPM_ACK);
	assert_int_equal(ack.called.port, port);
	assert_true(ack.handle == m.handle);
	p = iwb_take();
	/* It comes from where it said. */
	assert_int_equal(iwcm_addresses(p, &own, &peer), 0);
	assert_int_equal(ntohs(((struct sockaddr_in *)(void *)&peer)->sin_port),
			 m.mapped_caller.port);
	iwcm_put(p);
	iwb_expect(CALLER, IWCM_REJECTED, -ECONNREFUSED);
	iwcm_put(a);
	close(mapper);
}

/* What is no answer to what was asked is none: another's, of another address, of no port. */
static void who_is_no_mapper_of_ours_is_not_believed(void **state)
{
	struct sockaddr_in refused, from;
	int mapper = open_mapper(&refused);
	const uint16_t port = ntohs(iwb.at.sin_port);
	struct iwcm_link *a = iwb_call(&refused, "");
	struct iwpm m = mapper_hears(mapper, &from), bad;

	(void)state;
	bad = m;
	bad.handle++;
	mapper_says(mapper, &from, bad, IWPM_ACCEPT, port);
	mapper_says(mapper, &from, bad, IWPM_REJECT, port);
	bad = m;
	bad.called.addr[3]++;
	mapper_says(mapper, &from, bad, IWPM_ACCEPT, port);
	bad = m;
	bad.caller.port++;
	mapper_says(mapper, &from, bad, IWPM_ACCEPT, port);
	mapper_says(mapper, &from, m, IWPM_ACCEPT, 0);
	mapper_says(mapper, &from, m, IWPM_ACK, port);
	mapper_says(mapper, &from, m, IWPM_REQUEST, port);
	assert_int_equal(sendto(mapper, "?", 1, 0, (struct sockaddr *)&from, sizeof(from)), 1);
	/* It is asked three times in all; then the refusal holds. */
	for (int i = 0; i < IWCM_MAP_ASKS - 1; i++)
		assert_int_equal(mapper_hears(mapper, &from).type, IWPM_REQUEST);
	iwb_expect(CALLER, IWCM_REJECTED, -ECONNREFUSED);
	assert_int_equal(iwb_next_within(0).what, 0);
	iwcm_put(a);
	close(mapper);
}

/* Whose port TCP has for something else, of whom TCP hears nothing; and who is in a hurry asks
 * once.
 */
static void who_asks_first_does_not_call(void **state)
{
	struct sockaddr_in refused, from;
	int mapper = open_mapper(&refused);
	struct iwcm_link *a = iwb_call_from(iwb.at.sin_addr.s_addr, &iwb.at, "", true, true);
	struct iwpm m = mapper_hears(mapper, &from);

	(void)state;
	assert_int_equal(m.called.port, ntohs(iwb.at.sin_port));
	iwb_expect(CALLER, IWCM_REJECTED, -ECONNREFUSED);
	iwcm_put(a);
	a = iwb_call_from(iwb.at.sin_addr.s_addr, &refused, "", true, true);
	m = mapper_hears(mapper, &from);
	assert_int_equal(m.called.port, 1);
	mapper_says(mapper, &from, m, IWPM_ACCEPT, ntohs(iwb.at.sin_port));
	iwcm_put(iwb_take());
	iwb_expect(CALLER, IWCM_REJECTED, -ECONNREFUSED);
	iwcm_put(a);
	close(mapper);
}

/* Nor when the mapper knows no such port: it is asked again, for the server may come. */
static void who_asks_first_asks_for_who_comes_late(void **state)
{
	struct sockaddr_in refused, from;
	int mapper = open_mapper(&refused);
	struct iwcm_link *a = iwb_call_from(iwb.at.sin_addr.s_addr, &iwb.at, "", true, false);
	struct iwpm m = mapper_hears(mapper, &from);

	(void)state;
	mapper_says(mapper, &from, m, IWPM_REJECT, 0);
	m = mapper_hears(mapper, &from);
	assert_int_equal(iwb_next_within(0).what, 0);
	mapper_says(mapper, &from, m, IWPM_ACCEPT, ntohs(iwb.at.sin_port));
	iwcm_put(iwb_take());
	iwb_expect(CALLER, IWCM_REJECTED, -ECONNREFUSED);
	iwcm_put(a);
	close(mapper);
}

/* Who has nothing else to try waits for a mapper to come. */
static void who_is_patient_asks_again(void **state)
{
	struct sockaddr_in refused, from;
	struct iwcm_link *a;
	struct iwpm m;
	int mapper;

	(void)state;
	a = iwb_call_from(iwb.at.sin_addr.s_addr, &iwb.at, "", true, false);
	assert_int_equal(iwb_next_within(0).what, 0);
	mapper = open_mapper(&refused);
	m = mapper_hears(mapper, &from);
	mapper_says(mapper, &from, m, IWPM_ACCEPT, ntohs(iwb.at.sin_port));
	iwcm_put(iwb_take());
	iwb_expect(CALLER, IWCM_REJECTED, -ECONNREFUSED);
	iwcm_put(a);
	close(mapper);
}

/* One that knows of no such port, one that sends to where nobody listens either, and a caller who
 * does not wait for it. */
static void a_mapper_cannot_help(void **state)
{
	const unsigned int before = iwb_descriptors();
	struct sockaddr_in refused, from;
	int mapper = open_mapper(&refused);
	struct iwcm_link *a;

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct iwpm m;

		a = iwb_call(&refused, "");
		m = mapper_hears(mapper, &from);
		if (i < 2) {
			mapper_says(mapper, &from, m, i ? IWPM_ACCEPT : IWPM_REJECT, 2);
			iwb_expect(CALLER, IWCM_REJECTED, -ECONNREFUSED);
		}
		iwcm_put(a);
		if (i == 1)
			assert_int_equal(mapper_hears(mapper, &from).type, IWPM_ACK);
	}
	close(mapper);
	assert_true(iwb_descriptors() <= before);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, iwb_open, iwb_close)
	const struct CMUnitTest tests[] = {
		T(a_mapper_says_where_the_port_is), T(who_is_no_mapper_of_ours_is_not_believed),
		T(who_asks_first_does_not_call),    T(who_asks_first_asks_for_who_comes_late),
		T(who_is_patient_asks_again),	    T(a_mapper_cannot_help),
	};

	netns_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
