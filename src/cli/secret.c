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
#include "cli/keyring.h"
#include "cli/output.h"
#include "nvmf/auth/hash.h"

static const struct {
	int (*parse)(const char *text, struct auth_key *ret, const char **ret_why);
	const char *maker;
} kinds[] = {
	[SECRET_DHCHAP] = {auth_key_parse, "weft gen-dhchap-key"},
	[SECRET_TLS] = {auth_tls_key_parse, "weft gen-tls-key"},
};

static ssize_t read_file(const char *path, char *buf, size_t room, mode_t *ret_mode)
{
	bool standard = strcmp(path, "-") == 0;
	int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = fstat(fd, &st) < 0 ? -1 : read(fd, buf, room);
	if (n < 0)
		n = -errno;
	else
		*ret_mode = S_ISREG(st.st_mode) && !standard ? st.st_mode : 0;
	if (!standard)
		close(fd);
	return n;
}

#define OF_KEYRING "keyring:" /* a file of such a name is ./keyring:... */

static ssize_t read_some(const char *path, char *buf, size_t room, mode_t *ret_mode)
{
	const size_t n = strlen(OF_KEYRING);

	return strncmp(path, OF_KEYRING, n) == 0 ? keyring_read(path + n, buf, room)
						 : read_file(path, buf, room, ret_mode);
}

void secret_check_mode(const char *path, unsigned int mode)
{
	if (mode & (S_IRGRP | S_IROTH | S_IWGRP | S_IWOTH))
		cli_warn("%s: a key that others can get at (mode %03o); chmod 600 helps", path,
			 mode & 0777);
}

int secret_read_file(enum secret_kind kind, const char *path, struct auth_key *ret, char *why,
		     size_t room)
{
	char line[AUTH_KEY_TEXT_MAX + 2]; /* one too long is seen to be */
	const char *name = strcmp(path, "-") == 0 ? "standard input" : path, *reason;
	mode_t mode = 0;
	ssize_t n = read_some(path, line, sizeof(line) - 1, &mode);
	int err = -EINVAL;

	if (n < 0) {
		snprintf(why, room, "%s: %s", name, errno_text((int)-n));
		return (int)n;
	}
	line[n] = 0;
	line[strcspn(line, "\r\n")] = 0;
	if (!line[0])
		snprintf(why, room, "%s: there is no key in its first line", name);
	else if ((err = kinds[kind].parse(line, ret, &reason)) != 0)
		snprintf(why, room, "%s: %s; `%s` makes one", name, reason, kinds[kind].maker);
	else
		secret_check_mode(name, (unsigned int)mode);
	auth_wipe(line, sizeof(line));
	return err;
}

int secret_read(enum secret_kind kind, const char *text, struct auth_key *ret, char *why,
		size_t room)
{
	const char *reason;
	int err;

	if (text[0] == '@')
		return secret_read_file(kind, text + 1, ret, why, room);
	err = kinds[kind].parse(text, ret, &reason);
	if (err)
		snprintf(why, room, "%s; `%s` makes one, @FILE reads one", reason,
			 kinds[kind].maker);
	return err;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool from_hex(const char *text, unsigned int len, const char *chooser, uint8_t *ret)
{
	size_t digits = strcspn(text, "\r\n");

	for (size_t i = 0; i < digits && i < 2 * (size_t)len; i++) {
		int digit = hex_digit(text[i]);

		if (digit < 0) {
			cli_fail("--secret: character %zu is no hexadecimal digit", i + 1);
			return false;
		}
		ret[i / 2] = (uint8_t)(ret[i / 2] << 4 | digit);
	}
	if (digits == 2 * (size_t)len)
		return true;
	cli_fail("--secret has %zu digits, and a key of %u bytes %u; %s asks for another", digits,
		 len, 2 * len, chooser);
	return false;
}

bool secret_from_hex(const char *text, unsigned int len, const char *chooser, uint8_t *ret)
{
	char line[2 * AUTH_KEY_MAX + 4];
	FILE *f;
	bool ok;

	if (text[0] != '@')
		return from_hex(text, len, chooser, ret);
	f = fopen(text + 1, "re");
	if (f)
		setvbuf(f, NULL, _IONBF, 0); /* it would keep a copy */
	ok = f && fgets(line, sizeof(line), f);
	if (!ok)
		cli_fail("--secret: %s: cannot be read, or is empty", text + 1);
	if (f)
		fclose(f);
	ok = ok && from_hex(line, len, chooser, ret);
	auth_wipe(line, sizeof(line));
	return ok;
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
