/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the commands share: statistics and the two forms of output. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/time.h"
#include "cli/bench_pattern.h"
#include "cli/hexdump.h"
#include "cli/histogram.h"
#include "cli/output.h"
#include "cli/process.h"
#include "cli/serve_file.h"
#include "cli/serve_say.h"
#include "store/store.h"

static void percentiles_are_within_a_sixty_fourth(void **state)
{
	static struct histogram h;

	(void)state;
	for (uint64_t i = 1; i <= 100000; i++)
		histogram_add(&h, i * 10);
	assert_int_equal(h.min_ns, 10);
	assert_int_equal(h.max_ns, 1000000);
	assert_int_equal(histogram_mean(&h), 500005);
	/* Of 10, 20, ... 1000000: 10 * sqrt((n * n - 1) / 12). */
	assert_true(fabs(histogram_deviation(&h) - 288675.13) < 1);
	for (unsigned int p = 100; p <= 10000; p += 100) {
		uint64_t truth = p * 100ull;
		uint64_t got = histogram_percentile(&h, p);

		assert_in_range(got, truth, truth + truth / 64 + 10);
	}
	assert_int_equal(histogram_percentile(&h, 10000), 1000000);
}

static void one_sample_is_every_percentile(void **state)
{
	static const uint64_t samples[] = {0,	1,   127,  128,	       129,
					   255, 256, 4097, 1ull << 40, UINT64_MAX};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		struct histogram *h = calloc(1, sizeof(*h));

		histogram_add(h, samples[i]);
		assert_int_equal(histogram_percentile(h, 1), samples[i]);
		assert_int_equal(histogram_percentile(h, 9990), samples[i]);
		free(h);
	}
}

static void an_empty_histogram_says_zero(void **state)
{
	static struct histogram h, into;

	(void)state;
	assert_int_equal(histogram_percentile(&h, 5000), 0);
	assert_int_equal(histogram_mean(&h), 0);
	histogram_merge(&into, &h);
	assert_int_equal(into.count, 0);
	histogram_add(&h, 5);
	histogram_merge(&into, &h);
	assert_int_equal(into.min_ns, 5);
	assert_int_equal(histogram_percentile(&into, 10000), 5);
}

static char *printed(enum output_format format)
{
	struct output o;
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	output_init(&o, f, format);
	o.width = 6;
	output_object(&o, "disk", "disk %d", 1);
	output_number(&o, "size", NULL, 4096, "4 KiB");
	output_string(&o, "name", "name", "a\"b");
	output_list(&o, "ns", NULL);
	output_object(&o, NULL, NULL);
	output_bool(&o, "ro", NULL, true);
	output_close(&o);
	output_close(&o);
	output_close(&o);
	output_note(&o, "end");
	assert_true(output_finish(&o));
	fclose(f);
	return text;
}

static void text_is_an_aligned_hierarchy(void **state)
{
	char *text = printed(OUTPUT_TEXT);

	(void)state;
	assert_string_equal(text, "disk 1\n"
				  "  size  : 4 KiB\n"
				  "  name  : a\"b\n"
				  "      ro    : yes\n"
				  "end\n");
	free(text);
}

static void numbers_of_128_bits_are_whole(void **state)
{
	struct output o;
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	(void)state;
	output_init(&o, f, OUTPUT_JSON);
	output_be_list(&o);
	output_object(&o, NULL, NULL);
	output_wide(&o, "a", NULL, 0, 7);
	output_wide(&o, "b", NULL, UINT64_MAX, UINT64_MAX);
	assert_true(output_bytes(&o, "c", NULL, (const uint8_t *)"\x01\xab", 2));
	output_close(&o);
	assert_true(output_finish(&o));
	fclose(f);
	assert_string_equal(text, "[\n"
				  "  {\n"
				  "    \"a\": 7,\n"
				  "    \"b\": 340282366920938463463374607431768211455,\n"
				  "    \"c\": \"01ab\"\n"
				  "  }\n"
				  "]\n");
	free(text);
}

static void a_dump_has_offsets_and_what_can_be_printed(void **state)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	(void)state;
	hexdump(f, (const uint8_t *)"0123456789abcdef\x7f!", 18);
	fclose(f);
	assert_string_equal(
		text, "       0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f\n"
		      "0000: 30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66 \"0123456789abcdef\"\n"
		      "0010: 7f 21                                           \".!\"\n");
	free(text);
}

static void json_has_the_same_shape(void **state)
{
	char *text = printed(OUTPUT_JSON);

	(void)state;
	assert_string_equal(text, "{\n"
				  "  \"disk\": {\n"
				  "    \"size\": 4096,\n"
				  "    \"name\": \"a\\\"b\",\n"
				  "    \"ns\": [\n"
				  "      {\n"
				  "        \"ro\": true\n"
				  "      }\n"
				  "    ]\n"
				  "  }\n"
				  "}\n");
	free(text);
}

static void sizes_and_durations_read_well(void **state)
{
	char b[32];

	(void)state;
	assert_string_equal(text_bytes(b, sizeof(b), 0), "0 B");
	assert_string_equal(text_bytes(b, sizeof(b), 1536), "1.50 KiB");
	assert_string_equal(text_bytes(b, sizeof(b), 64ull << 20), "64 MiB");
	assert_string_equal(text_duration(b, sizeof(b), 999), "999 ns");
	assert_string_equal(text_duration(b, sizeof(b), 1500), "1.50 µs");
	assert_string_equal(text_duration(b, sizeof(b), 150000000), "150 ms");
}

static void a_pattern_tells_torn_misplaced_and_stale_blocks(void **state)
{
	struct pattern p = {.bytes = "ab", .bytes_len = 2};
	uint8_t block[512], other[512];

	(void)state;
	for (unsigned int kind = 0; kind < PATTERN_META; kind++) {
		p.kind = (enum pattern_kind)kind;
		pattern_fill(&p, block, sizeof(block), 8192, 3);
		memcpy(other, block, sizeof(block));
		assert_null(pattern_check(&p, block, sizeof(block), 8192, 3));
		assert_memory_equal(block, other, sizeof(block));
		assert_null(pattern_check(&p, block, sizeof(block), 8192, 0));
		assert_non_null(strstr(pattern_check(&p, block, sizeof(block), 0, 3), "elsewhere"));
		assert_non_null(strstr(pattern_check(&p, block, sizeof(block), 8192, 4), "older"));
		for (size_t i = 0; i < sizeof(block); i++) {
			memcpy(other, block, sizeof(block));
			other[i] ^= 0x10;
			assert_non_null(pattern_check(&p, other, sizeof(other), 8192, 3));
		}
		memset(other, 0, sizeof(other));
		assert_non_null(
			strstr(pattern_check(&p, other, sizeof(other), 0, 0), "not written"));
		pattern_fill(&p, other, sizeof(other), 8192, 4);
		assert_memory_not_equal(other + PATTERN_HEADER_LEN, block + PATTERN_HEADER_LEN,
					sizeof(block) - PATTERN_HEADER_LEN);
		p.kind = (enum pattern_kind)((kind + 1) % PATTERN_META);
		assert_non_null(
			strstr(pattern_check(&p, block, sizeof(block), 8192, 3), "another"));
	}
}

static void a_pattern_without_a_checksum_has_place_and_writing(void **state)
{
	const struct pattern p = {.kind = PATTERN_META};
	uint8_t block[512];

	(void)state;
	pattern_fill(&p, block, sizeof(block), 8192, 3);
	block[200] ^= 1;
	assert_null(pattern_check(&p, block, sizeof(block), 8192, 3));
	assert_non_null(strstr(pattern_check(&p, block, sizeof(block), 512, 3), "elsewhere"));
	assert_non_null(strstr(pattern_check(&p, block, sizeof(block), 8192, 4), "older"));
}

static void plain_bytes_are_a_word_or_digits(void **state)
{
	struct pattern p = {.kind = PATTERN_BYTES};
	uint8_t block[512];
	enum pattern_kind kind;

	(void)state;
	assert_true(pattern_bytes_parse("0xDEadbe", &p));
	assert_int_equal(p.bytes_len, 3);
	pattern_fill(&p, block, sizeof(block), 0, 9);
	assert_memory_equal(block, "\xde\xad\xbe\xde", 4);
	assert_null(pattern_check(&p, block, sizeof(block), 512, 1));
	block[511] ^= 1;
	assert_non_null(pattern_check(&p, block, sizeof(block), 512, 1));
	assert_true(pattern_bytes_parse("weft", &p));
	assert_int_equal(p.bytes_len, 4);
	for (size_t i = 0; i < 4; i++)
		assert_false(
			pattern_bytes_parse(((const char *[]){"", "0x", "0x1", "0xzz"})[i], &p));
	assert_true(pattern_kind_parse("sha512", &kind));
	assert_int_equal(kind, PATTERN_SHA512);
	assert_string_equal(pattern_name(kind), "sha512");
	assert_false(pattern_kind_parse("md5", &kind));
}

static void samples_below_a_limit_are_counted(void **state)
{
	static struct histogram h;

	(void)state;
	for (uint64_t i = 0; i < 100; i++)
		histogram_add(&h, i);
	assert_int_equal(histogram_below(&h, 0), 0);
	assert_int_equal(histogram_below(&h, 2), 2);
	assert_int_equal(histogram_below(&h, 50), 50);
	assert_int_equal(histogram_below(&h, UINT64_MAX), 100);
}

static void a_file_s_last_word_says_how_it_is_served(void **state)
{
	static const struct {
		const char *text, *path;
		bool alone, with_all; /* read-only without --read-only, and with it */
	} rows[] = {
		{"disk.img", "disk.img", false, true},
		{"disk.img,ro", "disk.img", true, true},
		{"disk.img,rw", "disk.img", false, false},
		{"a,b", "a,b", false, true},
		{"a,b,ro", "a,b", true, true},
		{"disk,ro,rw", "disk,ro", false, false},
		{"disk,ro/x.img", "disk,ro/x.img", 0, true},
		{"disk,", "disk,", false, true},
	};
	struct serve_file f;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(serve_file_parse(rows[i].text, &f), 0);
		assert_string_equal(f.path, rows[i].path);
		assert_int_equal(serve_file_read_only(&f, false), rows[i].alone);
		assert_int_equal(serve_file_read_only(&f, true), rows[i].with_all);
		assert_null(f.made);
		free(f.path);
	}
	assert_int_equal(serve_file_parse(",ro", &f), -EINVAL);
	assert_int_equal(serve_file_parse("", &f), -EINVAL);
}

static void a_disk_is_made_of_a_kind_and_a_size(void **state)
{
	static const char *const kinds[] = {"memory", "null"};
	static const char *const words[] = {"mem:64k,ro", "null:64k,ro"};
	struct serve_file f;
	struct store *s;
	const char *why;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		assert_int_equal(serve_file_parse(words[i], &f), 0);
		assert_int_equal(strlen(f.path), strlen(words[i]) - strlen(",ro"));
		assert_memory_equal(f.path, words[i], strlen(f.path));
		assert_string_equal(f.size, "64k");
		assert_true(serve_file_read_only(&f, false));
		f.made_bytes = 64 << 10;
		assert_int_equal(serve_file_make(&f, 4096, true, &s, &why), 0);
		assert_string_equal(s->ops->name, kinds[i]);
		assert_int_equal(s->size, 64 << 10);
		assert_int_equal(s->block_size, 4096);
		assert_true(s->read_only);
		store_destroy(s);
		f.made_bytes = 1024;
		assert_int_equal(serve_file_make(&f, 4096, false, &s, &why), -EINVAL);
		assert_non_null(strstr(why, "block size"));
		free(f.path);
	}
	/* A file that is called so. */
	assert_int_equal(serve_file_parse("./mem:64k", &f), 0);
	assert_null(f.made);
	free(f.path);
}

/* ---- what weft serve says ----------------------------------------------------------------------
 */

static unsigned lines_in(int fd)
{
	char text[65536];
	ssize_t n = read(fd, text, sizeof(text));
	unsigned lines = 0;

	for (ssize_t i = 0; i < n; i++)
		lines += text[i] == '\n';
	return lines;
}

static void a_flood_of_lines_is_left_out_and_counted(void **state)
{
	struct serve_say say = {0};
	char text[4096];
	int ends[2];
	ssize_t n;

	(void)state;
	assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
	say.fd = ends[1];
	for (uint64_t second = 0; second < 59; second++) {
		for (int i = 0; i < 50; i++)
			serve_say(&say, LOG_LEVEL_INFO, second * NSEC_PER_SEC, "refused: %d", i);
		/* So many in a second, and in a minute; and what the operator asked for. */
		serve_answer(&say, "read again");
		assert_int_equal(lines_in(ends[0]), second < 5 ? 21 : 1);
	}
	serve_say(&say, LOG_LEVEL_INFO, 60 * NSEC_PER_SEC, "connected: somebody");
	n = read(ends[0], text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = '\0';
	/* Those that said how many were left out were lines, too. */
	assert_non_null(strstr(text, " lines left out)\nconnected: somebody\n"));
	close(ends[0]);
	close(ends[1]);
}

static void a_process_is_called_by_its_command(void **state)
{
	char command[4096], cut[8];

	(void)state;
	process_command(command, sizeof(command), getpid());
	assert_non_null(strstr(command, "test_cli"));
	process_command(cut, sizeof(cut), getpid());
	assert_int_equal(strlen(cut), 7);
	assert_memory_equal(cut, command, 7);
	assert_string_equal(process_name(command, sizeof(command), getpid()), "test_cli");
	assert_string_equal(process_command(command, sizeof(command), 0), "?");
	assert_string_equal(user_name(command, sizeof(command), 0), "root");
	assert_string_equal(user_name(command, sizeof(command), 3999999999u), "3999999999");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flood_of_lines_is_left_out_and_counted),
		cmocka_unit_test(percentiles_are_within_a_sixty_fourth),
		cmocka_unit_test(one_sample_is_every_percentile),
		cmocka_unit_test(an_empty_histogram_says_zero),
		cmocka_unit_test(text_is_an_aligned_hierarchy),
		cmocka_unit_test(json_has_the_same_shape),
		cmocka_unit_test(numbers_of_128_bits_are_whole),
		cmocka_unit_test(a_dump_has_offsets_and_what_can_be_printed),
		cmocka_unit_test(sizes_and_durations_read_well),
		cmocka_unit_test(a_file_s_last_word_says_how_it_is_served),
		cmocka_unit_test(a_disk_is_made_of_a_kind_and_a_size),
		cmocka_unit_test(a_pattern_tells_torn_misplaced_and_stale_blocks),
		cmocka_unit_test(a_pattern_without_a_checksum_has_place_and_writing),
		cmocka_unit_test(plain_bytes_are_a_word_or_digits),
		cmocka_unit_test(samples_below_a_limit_are_counted),
		cmocka_unit_test(a_process_is_called_by_its_command),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
