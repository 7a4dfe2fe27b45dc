/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Feeds each file named, and each file in a directory named, to a fuzzer once. */
#include "fuzz.h"

#include <dirent.h>
#include <limits.h>
#include <string.h>

#define INPUT_MAX (1 << 20)

static int feed(const char *path)
{
	FILE *f = fopen(path, "rb");
	uint8_t *room = malloc(INPUT_MAX), *exact;
	size_t len;

	if (!f || !room) {
		perror(path);
		exit(1);
	}
	len = fread(room, 1, INPUT_MAX, f);
	fclose(f);
	/* In memory of just this length, so that a sanitizer sees a read past the end. */
	exact = malloc(len + !len);
	if (!exact)
		abort();
	memcpy(exact, room, len);
	free(room);
	LLVMFuzzerTestOneInput(exact, len);
	free(exact);
	return 1;
}

static int feed_all(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	int fed = 0;

	if (!d)
		return feed(path);
	while ((e = readdir(d)) != NULL) {
		char file[PATH_MAX];

		if (e->d_name[0] == '.')
			continue;
		snprintf(file, sizeof(file), "%s/%s", path, e->d_name);
		fed += feed(file);
	}
	closedir(d);
	return fed;
}

int main(int argc, char **argv)
{
	int fed = 0;

	LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
	for (int i = 1; i < argc; i++)
		fed += feed_all(argv[i]);
	printf("%d inputs\n", fed);
	return fed ? 0 : 1;
}
