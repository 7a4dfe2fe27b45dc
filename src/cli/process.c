/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/process.h"

#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

/* What the file of the process holds, of arguments each behind a space. */
static size_t content(char *buf, size_t room, pid_t pid, const char *file)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, buf, room - 1);
	if (fd >= 0)
		close(fd);
	while (n > 0 && (buf[n - 1] == 0 || buf[n - 1] == '\n'))
		n--;
	n = n < 0 ? 0 : n;
	for (ssize_t i = 0; i < n; i++)
		if (!buf[i])
			buf[i] = ' ';
	buf[n] = 0;
	text_tame(buf);
	return (size_t)n;
}

const char *process_name(char *buf, size_t room, pid_t pid)
{
	if (!content(buf, room, pid, "comm"))
		snprintf(buf, room, "?");
	return buf;
}

const char *process_command(char *buf, size_t room, pid_t pid)
{
	return content(buf, room, pid, "cmdline") ? buf : process_name(buf, room, pid);
}

const char *user_name(char *buf, size_t room, uid_t uid)
{
	const struct passwd *pw = getpwuid(uid);

	if (pw)
		snprintf(buf, room, "%s", pw->pw_name);
	else
		snprintf(buf, room, "%u", uid);
	return buf;
}
