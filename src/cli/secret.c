/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/errno_text.h"
#include "cli/output.h"
#include "nvmf/auth/hash.h"

static ssize_t read_some(const char *path, char *buf, size_t room, mode_t *ret_mode)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = fstat(fd, &st) < 0 ? -1 : read(fd, buf, room);
	if (n < 0)
		n = -errno;
	else
		*ret_mode = S_ISREG(st.st_mode) ? st.st_mode : 0;
	close(fd);
	return n;
}

int secret_read_file(const char *path, struct auth_key *ret, char *why, size_t room)
{
	char line[AUTH_KEY_TEXT_MAX + 2]; /* one too long is seen to be */
	const char *reason;
	mode_t mode = 0;
	ssize_t n = read_some(path, line, sizeof(line) - 1, &mode);
	int err = -EINVAL;

	if (n < 0) {
		snprintf(why, room, "%s: %s", path, errno_text((int)-n));
		return (int)n;
	}
	line[n] = 0;
	line[strcspn(line, "\r\n")] = 0;
	if (!line[0])
		snprintf(why, room, "%s: there is no key in its first line", path);
	else if ((err = auth_key_parse(line, ret, &reason)) != 0)
		snprintf(why, room, "%s: %s; `weft gen-dhchap-key` makes one", path, reason);
	else if (mode & (S_IRGRP | S_IROTH | S_IWGRP | S_IWOTH))
		cli_warn("%s: a key that others can get at (mode %03o); chmod 600 helps", path,
			 (unsigned int)mode & 0777);
	auth_wipe(line, sizeof(line));
	return err;
}

int secret_read(const char *text, struct auth_key *ret, char *why, size_t room)
{
	const char *reason;
	int err;

	if (text[0] == '@')
		return secret_read_file(text + 1, ret, why, room);
	err = auth_key_parse(text, ret, &reason);
	if (err)
		snprintf(why, room, "%s; `weft gen-dhchap-key` makes one, @FILE reads one", reason);
	return err;
}

void secret_mask(char *word)
{
	if (word && word[0] != '@')
		memset(word, '*', strlen(word));
}

void secret_random(void *ctx, void *p, size_t len)
{
	uint8_t *at = p;

	(void)ctx;
	while (len) {
		ssize_t n = getrandom(at, len, 0);

		if (n < 0 && errno != EINTR) {
			cli_fail("the kernel has no randomness: %s", errno_text(errno));
			abort(); /* nothing that can be guessed goes out in its place */
		}
		if (n > 0) {
			at += n;
			len -= (size_t)n;
		}
	}
}
