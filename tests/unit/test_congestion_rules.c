/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The file of congestion control: which line is whose, and what is said of lines that are wrong. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/congestion_rules.h"

static char path[] = "/tmp/test-congestion-XXXXXX";
static char said[8192];

/* And what standard error had of it meanwhile. */
static struct congestion_rules *read_rules(void)
{
	struct congestion_rules *r;
	int before = dup(STDERR_FILENO), now = fileno(tmpfile());
	ssize_t n;

	dup2(now, STDERR_FILENO);
	r = congestion_read();
	dup2(before, STDERR_FILENO);
	close(before);
	n = pread(now, said, sizeof(said) - 1, 0);
	assert_true(n >= 0);
	said[n] = '\0';
	assert_non_null(r);
	return r;
}

static struct congestion_rules *rules_of(const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	return read_rules();
}

static struct flow way(uint8_t tos, const char *peer)
{
	struct flow f = {.tos = tos, .dgid = {.raw = {[10] = 0xff, [11] = 0xff}}};

	if (inet_pton(AF_INET, peer, f.dgid.raw + 12) != 1)
		assert_int_equal(inet_pton(AF_INET6, peer, f.dgid.raw), 1);
	return f;
}

/* Which line is that way's; 0: none. */
static unsigned int line_of(const struct congestion_rules *r, const char *device, uint8_t dscp,
			    const char *peer)
{
	struct flow f = way((uint8_t)(dscp << 2 | 1), peer);

	return congestion_choose(r, device, &f)->line;
}

static void the_first_line_that_fits_counts(void **state)
{
	struct congestion_rules *r = rules_of("# of the storage network\n"
					      "\n"
					      "device weft_eth1 dscp 26 dcqcn,rp_max_rate=25000\n"
					      "dscp 26\tpeer 10.1.0.0/15 none # slow\n"
					      "peer 10.1.2.3 dscp 0 dcqcn\n"
					      "  dscp 26 dcqcn,rp_ai_rate=5,np_cnp_dscp=40\r\n"
					      "peer fd00:1::/33 none\n"
					      "device weft_ib* none\n"
					      "np_cnp_dscp=46\n"
					      "dscp 10 none");
	const struct congestion *c;
	struct flow f = way(26 << 2, "192.0.2.1");

	(void)state;
	assert_string_equal(said, "");
	assert_int_equal(line_of(r, "weft_eth1", 26, "10.1.2.3"), 3);
	assert_int_equal(line_of(r, "weft_eth10", 26, "10.1.2.3"), 4);
	assert_int_equal(line_of(r, "weft_lo", 26, "10.0.255.255"), 4);
	assert_int_equal(line_of(r, "weft_lo", 26, "10.1.255.255"), 4);
	assert_int_equal(line_of(r, "weft_lo", 26, "10.2.0.0"), 6);
	assert_int_equal(line_of(r, "weft_lo", 0, "10.1.2.3"), 5);
	assert_int_equal(line_of(r, "weft_lo", 0, "10.1.2.4"), 9);
	assert_int_equal(line_of(r, "weft_lo", 26, "fd00:1::1"), 6);
	assert_int_equal(line_of(r, "weft_lo", 0, "fd00:1:7fff::1"), 7);
	assert_int_equal(line_of(r, "weft_lo", 0, "fd00:1:8000::1"), 9);
	assert_int_equal(line_of(r, "weft_ib0", 0, "192.0.2.1"), 8);
	assert_int_equal(line_of(r, "weft_lo", 10, "192.0.2.1"), 9); /* a later one has no chance */
	c = congestion_choose(r, "weft_lo", &f);
	assert_ptr_equal(c->cc, &cc_dcqcn);
	assert_int_equal(c->params.rp_ai_rate, 5);
	assert_int_equal(c->params.np_cnp_dscp, 40);
	assert_int_equal(c->params.rp_max_rate, cc_defaults.rp_max_rate);
	c = congestion_choose(r, NULL, NULL); /* of datagrams */
	assert_int_equal(c->line, 9);
	assert_null(c->cc);
	assert_int_equal(c->params.np_cnp_dscp, 46);
	congestion_free(r);
}

static void those_that_none_fits_have_the_default(void **state)
{
	struct congestion_rules *r = rules_of("dscp 26 dcqcn\n");
	char buf[CONGESTION_TEXT_MAX];
	const struct congestion *c;

	(void)state;
	c = congestion_choose(r, "weft_lo", &(struct flow){0});
	assert_null(c->cc);
	assert_memory_equal(&c->params, &cc_defaults, sizeof(c->params));
	assert_string_equal(congestion_said_by(r, c, buf), "default");
	assert_string_equal(congestion_whom(c, buf), "");
	congestion_free(r);
}

static void each_that_a_device_may_have_is_told(void **state)
{
	struct congestion_rules *r = rules_of("device weft_eth1 none\n"
					      "device weft_lo dscp 26 peer 10.0.0.0/8 dcqcn\n"
					      "peer fd00::/8 none\n"
					      "device w*_l? dcqcn\n"
					      "dscp 1 none\n");
	char buf[CONGESTION_TEXT_MAX], want[CONGESTION_TEXT_MAX];
	const struct congestion *c = congestion_next(r, "weft_lo", NULL);

	(void)state;
	assert_string_equal(congestion_whom(c, buf), "device weft_lo dscp 26 peer 10.0.0.0/8");
	snprintf(want, sizeof(want), "%s:2", path);
	assert_string_equal(congestion_said_by(r, c, buf), want);
	c = congestion_next(r, "weft_lo", c);
	assert_string_equal(congestion_whom(c, buf), "peer fd00::/8");
	c = congestion_next(r, "weft_lo", c);
	assert_string_equal(congestion_whom(c, buf), "device w*_l?");
	assert_null(congestion_next(r, "weft_lo", c));
	c = congestion_next(r, "weft_eth1", NULL);
	assert_int_equal(c->line, 1);
	assert_null(congestion_next(r, "weft_eth1", c));
	c = congestion_next(r, "weft_eth2", NULL);
	assert_int_equal(c->line, 3);
	c = congestion_next(r, "weft_eth2", c);
	assert_int_equal(c->line, 5);
	c = congestion_next(r, "weft_eth2", c);
	assert_int_equal(c->line, 0);
	assert_null(congestion_next(r, "weft_eth2", c));
	congestion_free(r);
}

static void of_a_line_that_is_wrong_the_log_tells_and_the_others_count(void **state)
{
	static const struct {
		const char *line, *says;
	} wrong[] = {
		{"dscp 64 none", ": dscp wants a number from 0 to 63, not '64'"},
		{"dscp 0x1a none", "not '0x1a'"},
		{"dscp -1 none", "not '-1'"},
		{"dscp", ": dscp wants a number from 0 to 63, not ''"},
		{"peer 10.0.0 none", ": peer wants an address or a network"},
		{"peer 10.0.0.0/33 none", "not '10.0.0.0/33'"},
		{"peer fd00::/129 none", "not 'fd00::/129'"},
		{"peer 10.0.0.0/ none", "not '10.0.0.0/'"},
		{"device eth0 none",
		 ": device wants a device's name, such as weft_eth0, not 'eth0'"},
		{"device eth* none", "not 'eth*'"},
		{"device weft none", "not 'weft'"},
		{"device weft_lo", ": it is not said what is to be"},
		{"device weft_lo dscp 1 dscp 2 none", ": there is dscp twice"},
		{"class 26 dcqcn", ": class is none of device, dscp and peer"},
		{"dscp 1 dcqcn, rp_gd=2", ": dcqcn, is none of device, dscp and peer"},
		{"cubic", ": cubic is none of halving"},
		{"dscp 1 dcqcn,", ":  is none of halving"},
	};
	char text[128], place[64];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct congestion_rules *r;

		snprintf(text, sizeof(text), "dscp 5 none\n%s\ndscp 6 none\n", wrong[i].line);
		r = rules_of(text);
		snprintf(place, sizeof(place), "%s:2: ", path);
		assert_non_null(strstr(said, place));
		if (!strstr(said, wrong[i].says))
			fail_msg("%s: %s", wrong[i].line, said);
		assert_non_null(strstr(said, "the line is passed over"));
		assert_int_equal(line_of(r, "weft_lo", 5, "10.0.0.1"), 1);
		assert_int_equal(line_of(r, "weft_lo", 6, "10.0.0.1"), 3);
		assert_int_equal(line_of(r, "weft_lo", 7, "10.0.0.1"), 0);
		congestion_free(r);
	}
}

/* As of WEFT_CC. */
static void of_a_parameter_that_is_wrong_the_rest_of_its_line_counts(void **state)
{
	struct congestion_rules *r = rules_of("dcqcn,rp_quick=1,rp_gd=16,rp_ai_rate=5\n");
	const struct congestion *c = congestion_choose(r, NULL, NULL);

	(void)state;
	assert_non_null(strstr(said, ":1: there is no parameter rp_quick"));
	assert_non_null(strstr(said, ":1: in rp_gd=16 there is no number from 0 to 15"));
	assert_ptr_equal(c->cc, &cc_dcqcn);
	assert_int_equal(c->params.rp_gd, cc_defaults.rp_gd);
	assert_int_equal(c->params.rp_ai_rate, 5);
	congestion_free(r);
}

static void a_file_has_bounds(void **state)
{
	static char text[64 << 10];
	struct congestion_rules *r;
	size_t n = 0;

	(void)state;
	memset(text, 'x', 3000);
	snprintf(text + 3000, sizeof(text) - 3000, "\ndscp 6 none\n");
	r = rules_of(text);
	assert_non_null(strstr(said, ":1: a line is text of at most 1022 bytes"));
	assert_int_equal(line_of(r, "weft_lo", 6, "10.0.0.1"), 2);
	congestion_free(r);
	for (int i = 0; i < 300; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "dscp %d peer 10.0.0.%d none\n",
				      i / 250, i % 250);
	r = rules_of(text);
	assert_non_null(strstr(said, ":257: it is the 257th"));
	assert_int_equal(line_of(r, "weft_lo", 1, "10.0.0.5"), 256);
	assert_int_equal(line_of(r, "weft_lo", 1, "10.0.0.6"), 0);
	congestion_free(r);
}

static void the_environment_wins(void **state)
{
	char buf[CONGESTION_TEXT_MAX];
	const struct congestion *c;
	struct congestion_rules *r;

	(void)state;
	setenv("WEFT_CC", "dcqcn", 1);
	r = rules_of("dscp 26 none\nwrong\n");
	unsetenv("WEFT_CC");
	assert_string_equal(said, "");
	c = congestion_next(r, "weft_lo", NULL);
	assert_ptr_equal(c->cc, &cc_dcqcn);
	assert_string_equal(congestion_said_by(r, c, buf), "WEFT_CC");
	assert_null(congestion_next(r, "weft_lo", c));
	congestion_free(r);
}

static void a_file_that_was_asked_for_and_is_not_there_is_told_of(void **state)
{
	struct congestion_rules *r;

	(void)state;
	setenv("WEFT_CC_FILE", "/nowhere/at/all", 1);
	r = read_rules();
	assert_non_null(strstr(said, "WEFT_CC_FILE=/nowhere/at/all cannot be read: No such file"));
	assert_null(congestion_choose(r, NULL, NULL)->cc);
	congestion_free(r);
	setenv("WEFT_CC_FILE", "/", 1);
	congestion_free(read_rules());
	assert_non_null(strstr(said, "/ cannot be read: Is a directory"));
	setenv("WEFT_CC_FILE", "", 1);
	congestion_free(read_rules());
	assert_string_equal(said, "");
	setenv("WEFT_CC_FILE", path, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_line_that_fits_counts),
		cmocka_unit_test(those_that_none_fits_have_the_default),
		cmocka_unit_test(each_that_a_device_may_have_is_told),
		cmocka_unit_test(of_a_line_that_is_wrong_the_log_tells_and_the_others_count),
		cmocka_unit_test(of_a_parameter_that_is_wrong_the_rest_of_its_line_counts),
		cmocka_unit_test(a_file_has_bounds),
		cmocka_unit_test(the_environment_wins),
		cmocka_unit_test(a_file_that_was_asked_for_and_is_not_there_is_told_of),
	};
	int fd = mkstemp(path), failed;

	if (fd < 0)
		return 1;
	close(fd);
	unsetenv("WEFT_LOG");
	unsetenv("WEFT_CC");
	setenv("WEFT_CC_FILE", path, 1);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return failed;
}
