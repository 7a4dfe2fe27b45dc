/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/hexdump.h"

#include <errno.h>
#include <string.h>

#include "cli/output.h"

enum { WIDTH = 16 };

void hexdump(FILE *f, const uint8_t *p, size_t len)
{
	fprintf(f, "     ");
	for (unsigned int i = 0; i < WIDTH; i++)
		fprintf(f, "%3x", i);
	for (size_t at = 0; at < len; at += WIDTH) {
		size_t n = len - at < WIDTH ? len - at : WIDTH;

		fprintf(f, "\n%04zx:", at);
		for (size_t i = 0; i < n; i++)
			fprintf(f, " %02x", p[at + i]);
		fprintf(f, "%*s \"", (int)(3 * (WIDTH - n)), "");
		for (size_t i = 0; i < n; i++)
			fputc(p[at + i] >= '!' && p[at + i] <= '~' ? p[at + i] : '.', f);
		fputc('"', f);
	}
	fputc('\n', f);
}

bool write_raw(FILE *f, const char *name, const void *p, size_t len)
{
	if (fwrite(p, 1, len, f) == len && fflush(f) == 0)
		return true;
	cli_fail("cannot write to %s: %s", name, strerror(errno));
	return false;
}

bool read_raw(const char *path, void *p, size_t len, const char *option)
{
	const char *name = path ? path : "standard input";
	FILE *in = path ? fopen(path, "re") : stdin;
	size_t n;

	if (!in) {
		cli_fail("cannot open %s: %s", name, strerror(errno));
		return false;
	}
	n = fread(p, 1, len, in);
	if (n < len)
		cli_fail("%s has %zu bytes; %s says %zu", name, n, option, len);
	if (in != stdin)
		fclose(in);
	return n == len;
}
