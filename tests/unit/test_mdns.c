/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What is said of a discovery controller by DNS-SD, and what others may say of theirs. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "mdns/mdns.h"

#define take(t, text) mdns_txt_take(t, text, sizeof(text) - 1)

static void each_transport_has_its_type_and_word(void **state)
{
	(void)state;
	assert_string_equal(mdns_type(MDNS_TCP), "_nvme-disc._tcp");
	assert_string_equal(mdns_type(MDNS_ROCE), "_nvme-disc._udp");
	assert_string_equal(mdns_type(MDNS_IWARP), "_nvme-disc._tcp");
	for (unsigned i = 0; i < MDNS_KINDS; i++) {
		struct mdns_txt t = {0};
		char text[16];
		enum mdns_kind kind;

		snprintf(text, sizeof(text), "p=%s", mdns_word((enum mdns_kind)i));
		mdns_txt_take(&t, text, strlen(text));
		assert_true(mdns_kind_of(&t, mdns_type((enum mdns_kind)i), &kind));
		assert_int_equal(kind, i);
	}
}

static void the_first_of_a_key_counts_in_letters_of_either_case(void **state)
{
	struct mdns_txt t = {0};
	enum mdns_kind kind;

	(void)state;
	take(&t, "org.freedesktop.Avahi.cookie=1");
	take(&t, "P=TCP");
	take(&t, "p=roce");
	take(&t, "NQN=nqn.a:first");
	take(&t, "nqn=nqn.a:second");
	assert_true(mdns_kind_of(&t, MDNS_TYPE_TCP, &kind));
	assert_int_equal(kind, MDNS_TCP);
	assert_string_equal(t.nqn, "nqn.a:first");
	assert_false(t.bad_nqn);
}

static void without_a_word_the_type_says_it(void **state)
{
	struct mdns_txt t = {0};
	enum mdns_kind kind;

	(void)state;
	take(&t, "p"); /* a key without a value says nothing */
	take(&t, "=tcp");
	assert_true(mdns_kind_of(&t, MDNS_TYPE_TCP, &kind));
	assert_int_equal(kind, MDNS_TCP);
	assert_true(mdns_kind_of(&t, MDNS_TYPE_UDP, &kind));
	assert_int_equal(kind, MDNS_ROCE);
	take(&t, "p=rdma");
	assert_true(mdns_kind_of(&t, MDNS_TYPE_TCP, &kind));
	assert_int_equal(kind, MDNS_IWARP);
	assert_true(mdns_kind_of(&t, MDNS_TYPE_UDP, &kind));
	assert_int_equal(kind, MDNS_ROCE);
}

static void a_word_that_there_is_not_is_no_way(void **state)
{
	static const char *const words[] = {"p=",     "p=fc",	 "p=tcpp",
					    "p=tcp ", "p=tcp\n", "p=roceroceroceroceroceroce"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		struct mdns_txt t = {0};
		enum mdns_kind kind;

		mdns_txt_take(&t, words[i], strlen(words[i]));
		if (mdns_kind_of(&t, MDNS_TYPE_TCP, &kind))
			fail_msg("'%s' is taken", words[i]);
	}
}

static void an_nqn_that_is_too_long_or_cut_is_none(void **state)
{
	struct mdns_txt t = {0}, longest = {0}, longer = {0};
	char text[4 + MDNS_NQN_MAX + 1];

	(void)state;
	take(&t, "nqn=nqn.a\0b");
	assert_true(t.bad_nqn);
	assert_string_equal(t.nqn, "");
	memset(text, 'x', sizeof(text));
	memcpy(text, "nqn=", 4);
	mdns_txt_take(&longest, text, sizeof(text) - 1);
	assert_false(longest.bad_nqn);
	assert_int_equal(strlen(longest.nqn), MDNS_NQN_MAX);
	mdns_txt_take(&longer, text, sizeof(text));
	assert_true(longer.bad_nqn);
	assert_string_equal(longer.nqn, "");
}

static void a_name_fits_a_label_and_ends_between_characters(void **state)
{
	char name[MDNS_LABEL_MAX + 1], host[129];

	(void)state;
	mdns_name(name, "store.example.com", MDNS_TCP, "", 8009);
	assert_string_equal(name, "weft on store, tcp 8009");
	mdns_name(name, "store", MDNS_ROCE, "192.0.2.7", 4420);
	assert_string_equal(name, "weft at 192.0.2.7, rdma 4420");
	mdns_name(name, "store", MDNS_ROCE, "fe80::1%eth0", 4420);
	assert_string_equal(name, "weft at fe80::1, rdma 4420");
	mdns_name(name, "store", MDNS_ROCE, "2001:db8:1111:2222:3333:4444:5555:6666", 65535);
	assert_string_equal(name, "weft at 2001:db8:1111:2222:3333:4444:5555:6666, rdma 65535");
	for (size_t i = 0; i + 2 < sizeof(host); i += 2)
		memcpy(host + i, "\xc3\xa4", 3);
	for (uint16_t port = 1; port < 20000; port = (uint16_t)(port * 10)) {
		mdns_name(name, host, MDNS_TCP, "", port);
		assert_true(strlen(name) <= MDNS_LABEL_MAX && strlen(name) > MDNS_LABEL_MAX - 2);
		/* Each is two bytes. */
		assert_int_equal((strcspn(name, ",") - strlen("weft on ")) % 2, 0);
	}
}

static void a_hosts_label_has_letters_digits_and_hyphens(void **state)
{
	char label[MDNS_LABEL_MAX + 1];

	(void)state;
	mdns_host_label(label, MDNS_TCP, "192.0.2.7", 8009);
	assert_string_equal(label, "weft-tcp-8009-192-0-2-7");
	mdns_host_label(label, MDNS_ROCE, "fd77::", 4420);
	assert_string_equal(label, "weft-roce-4420-fd77");
	mdns_host_label(label, MDNS_IWARP, "2001:db8:1111:2222:3333:4444:5555:6666", 65535);
	assert_true(strlen(label) <= MDNS_LABEL_MAX);
}

static void what_could_steer_a_terminal_is_shown_as_bytes(void **state)
{
	char out[MDNS_PLAIN_ROOM], small[8], worst[MDNS_LABEL_MAX + 1];

	(void)state;
	assert_string_equal(mdns_plain(out, sizeof(out), "a\x1b[2J\\\x7f\xc2\x9b"),
			    "a\\x1b[2J\\\\\\x7f\\xc2\\x9b");
	assert_string_equal(mdns_plain(small, sizeof(small), "ab\x1b\x1b\x1b"), "ab\\x1b");
	memset(worst, 0xff, MDNS_LABEL_MAX);
	worst[MDNS_LABEL_MAX] = '\0';
	assert_int_equal(strlen(mdns_plain(out, sizeof(out), worst)), 4 * (MDNS_LABEL_MAX - 1) + 4);
}

static bool usable(const char *text, bool local)
{
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
	struct sockaddr_in v4 = {.sin_family = AF_INET};

	if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
		return mdns_address_usable((const struct sockaddr *)&v4, local);
	assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
	return mdns_address_usable((const struct sockaddr *)&v6, local);
}

static void addresses_of_nobody_and_of_many_are_not_asked(void **state)
{
	static const char *const good[] = {"192.0.2.7", "10.0.0.1", "169.254.1.2", "2001:db8::7",
					   "fe80::1"};
	static const char *const bad[] = {"0.0.0.0",	      "224.0.0.1",  "255.255.255.255",
					  "240.0.0.1",	      "::",	    "ff02::fb",
					  "::ffff:192.0.2.7", "::192.0.2.7"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_true(usable(good[i], false));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(usable(bad[i], true));
	assert_false(usable("127.0.0.1", false));
	assert_false(usable("::1", false));
	assert_true(usable("127.0.0.1", true));
	assert_true(usable("::1", true));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_transport_has_its_type_and_word),
		cmocka_unit_test(the_first_of_a_key_counts_in_letters_of_either_case),
		cmocka_unit_test(without_a_word_the_type_says_it),
		cmocka_unit_test(a_word_that_there_is_not_is_no_way),
		cmocka_unit_test(an_nqn_that_is_too_long_or_cut_is_none),
		cmocka_unit_test(a_name_fits_a_label_and_ends_between_characters),
		cmocka_unit_test(a_hosts_label_has_letters_digits_and_hyphens),
		cmocka_unit_test(what_could_steer_a_terminal_is_shown_as_bytes),
		cmocka_unit_test(addresses_of_nobody_and_of_many_are_not_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
