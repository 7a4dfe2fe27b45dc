/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Preloaded to nvme-cli: its commands go to no kernel, but to the controller that WEFT_URI names,
 * by `weft admin-passthru` and `weft io-passthru` (the program is WEFT). So nvme-cli, unmodified,
 * shows what weft's own commands are to show of the same controller. The device that it is given is
 * /dev/null: a character device is all that it looks for.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/nvme_ioctl.h>

int ioctl(int fd, unsigned long request, ...);

/* What weft says: "..., data and result" on success, a status in its words otherwise. */
static int understand(const char *said, int status, uint64_t *ret_result)
{
	unsigned int sct, sc;
	unsigned long long result;
	const char *at;

	at = strstr(said, "result: ");
	if (status == 0 && at && sscanf(at, "result: %llx", &result) == 1) {
		*ret_result = result;
		return 0;
	}
	at = strstr(said, "(SCT ");
	if (at && sscanf(at, "(SCT %xh, SC %xh", &sct, &sc) == 2)
		return (int)(sct << 8 | sc | (strstr(at, "do not retry") ? 0x4000 : 0));
	fprintf(stderr, "nvme_ioctl: %s\n", said);
	errno = EIO;
	return -1;
}

static int run(char *const argv[], char *said, size_t room)
{
	int fds[2], status = -1;
	size_t n = 0;
	ssize_t got;
	pid_t pid;

	if (pipe(fds))
		return -1;
	pid = fork();
	if (pid == 0) {
		dup2(fds[1], 2);
		close(fds[0]);
		unsetenv("LD_PRELOAD");
		execv(argv[0], argv);
		_exit(127);
	}
	close(fds[1]);
	while (pid > 0 && n + 1 < room && (got = read(fds[0], said + n, room - 1 - n)) > 0)
		n += (size_t)got;
	said[n] = 0;
	close(fds[0]);
	if (pid > 0)
		waitpid(pid, &status, 0);
	return status;
}

static int carry_out(const struct nvme_passthru_cmd *c, int admin, uint64_t *ret_result)
{
	char *weft = getenv("WEFT"), *uri = getenv("WEFT_URI");
	char words[16][32], path[] = "/tmp/nvme_ioctl.XXXXXX", said[1024];
	char *argv[40] = {weft, (char *)(admin ? "admin-passthru" : "io-passthru"), uri};
	const struct {
		const char *option;
		uint32_t value;
	} all[] = {
		{"--opcode", c->opcode}, {"--flags", c->flags},	      {"--cdw2", c->cdw2},
		{"--cdw3", c->cdw3},	 {"--cdw10", c->cdw10},	      {"--cdw11", c->cdw11},
		{"--cdw12", c->cdw12},	 {"--cdw13", c->cdw13},	      {"--cdw14", c->cdw14},
		{"--cdw15", c->cdw15},	 {"--namespace-id", c->nsid},
	};
	int n = 3, w = 0, fd, status, to_host = c->opcode & 2;

	if (!weft || !uri) {
		errno = ENODEV;
		return -1;
	}
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		snprintf(words[w], sizeof(words[w]), "%s=%#x", all[i].option, all[i].value);
		argv[n++] = words[w++];
	}
	fd = mkstemp(path);
	if (fd < 0)
		return -1;
	if (c->data_len) {
		snprintf(words[w], sizeof(words[w]), "--data-len=%u", c->data_len);
		argv[n++] = words[w++];
		argv[n++] = (char *)(to_host ? "--read" : "--write");
		argv[n++] = (char *)"-i";
		argv[n++] = path;
		if (!to_host && write(fd, (void *)(uintptr_t)c->addr, c->data_len) < 0)
			abort();
	}
	status = run(argv, said, sizeof(said));
	status = understand(said, status, ret_result);
	if (status == 0 && c->data_len && to_host &&
	    pread(fd, (void *)(uintptr_t)c->addr, c->data_len, 0) != (ssize_t)c->data_len)
		abort();
	close(fd);
	unlink(path);
	return status;
}

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
	struct nvme_passthru_cmd64 *wide;
	struct nvme_passthru_cmd *c;
	uint64_t result = 0;
	va_list ap;
	int status;

	(void)fd;
	va_start(ap, request);
	c = va_arg(ap, struct nvme_passthru_cmd *);
	va_end(ap);
	switch (request) {
	case NVME_IOCTL_ADMIN_CMD:
	case NVME_IOCTL_IO_CMD:
		status = carry_out(c, request == NVME_IOCTL_ADMIN_CMD, &result);
		c->result = (uint32_t)result;
		return status;
	case NVME_IOCTL_ADMIN64_CMD:
	case NVME_IOCTL_IO64_CMD:
		/* The two structs begin alike, up to the result. */
		wide = (struct nvme_passthru_cmd64 *)(void *)c;
		status = carry_out(c, request == NVME_IOCTL_ADMIN64_CMD, &result);
		wide->result = result;
		return status;
	}
	errno = ENOTTY;
	return -1;
}
