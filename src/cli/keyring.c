/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/keyring.h"

#include <errno.h>
#include <linux/keyctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What is found in the user's keyring may be read once it is the process's, too. */
static long find(int keyring, const char *description)
{
	return syscall(SYS_keyctl, KEYCTL_SEARCH, keyring, "user", description,
		       KEY_SPEC_PROCESS_KEYRING);
}

ssize_t keyring_read(const char *description, void *buf, size_t room)
{
	long key = find(KEY_SPEC_SESSION_KEYRING, description), n;

	if (key < 0 && errno == ENOKEY)
		key = find(KEY_SPEC_USER_KEYRING, description);
	if (key < 0)
		return -errno;
	n = syscall(SYS_keyctl, KEYCTL_READ, key, buf, room);
	if (n < 0)
		return -errno;
	return (size_t)n > room ? -EFBIG : n; /* of one that is longer nothing is read */
}
