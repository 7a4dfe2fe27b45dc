/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/provider.h"

#define MARK "WEFT_PROVIDER" /* set in the process that was started anew */

#if defined(__x86_64__)
#define MULTIARCH "x86_64-linux-gnu"
#elif defined(__aarch64__)
#define MULTIARCH "aarch64-linux-gnu"
#elif defined(__riscv) && __riscv_xlen == 64
#define MULTIARCH "riscv64-linux-gnu"
#elif defined(__powerpc64__)
#define MULTIARCH "powerpc64le-linux-gnu"
#elif defined(__s390x__)
#define MULTIARCH "s390x-linux-gnu"
#else
#define MULTIARCH "."
#endif

bool provider_valid(const char *name)
{
	return strcmp(name, "weft") == 0 || strcmp(name, "system") == 0;
}

static const char *system_directory(void)
{
	static const char *const directories[] = {"/usr/lib/" MULTIARCH, "/lib/" MULTIARCH,
						  "/usr/lib64", "/lib64", "/usr/lib"};

	for (size_t i = 0; i < ARRAY_SIZE(directories); i++) {
		char path[256];

		snprintf(path, sizeof(path), "%s/libibverbs.so.1", directories[i]);
		if (access(path, R_OK) == 0)
			return directories[i];
	}
	return NULL;
}

/* The arguments as they were at the start; argp moves those of main(). NULL on failure. */
static char **first_arguments(void)
{
	size_t size = 0, room = 0, count = 0;
	char *text = NULL, **argv;
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);

	for (ssize_t n = 1; fd >= 0 && n > 0; size += (size_t)n) {
		if (room - size < 4096) {
			room += 65536;
			text = realloc(text, room + 1);
			if (!text)
				break;
		}
		n = read(fd, text + size, room - size);
		if (n < 0)
			break;
	}
	if (fd >= 0)
		close(fd);
	if (!text || size == 0)
		return NULL;
	text[size] = 0;
	for (size_t i = 0; i < size; i++)
		count += text[i] == 0;
	argv = calloc(count + 1, sizeof(*argv));
	for (size_t i = 0, at = 0; argv && i < count; i++) {
		argv[i] = text + at;
		at += strlen(text + at) + 1;
	}
	return argv;
}

bool provider_starts_anew(const char *name)
{
	const char *mark = getenv(MARK);

	return name && strcmp(name, "system") == 0 && !(mark && strcmp(mark, "system") == 0);
}

int provider_use(const char *name)
{
	const char *old = getenv("LD_LIBRARY_PATH");
	const char *directory;
	char path[4096], **argv;

	if (!provider_starts_anew(name))
		return 0;
	directory = system_directory();
	if (!directory)
		return cli_fail("the system has no libibverbs.so.1; install rdma-core "
				"(libibverbs1, librdmacm1, ibverbs-providers)");
	argv = first_arguments();
	if (!argv)
		return cli_fail("cannot read /proc/self/cmdline: %s", strerror(errno));
	snprintf(path, sizeof(path), "%s%s%s", directory, old ? ":" : "", old ? old : "");
	if (setenv("LD_LIBRARY_PATH", path, 1) || setenv(MARK, "system", 1))
		return cli_fail("cannot set the library path: %s", strerror(errno));
	execv("/proc/self/exe", argv);
	return cli_fail("cannot start weft anew: %s", strerror(errno));
}
