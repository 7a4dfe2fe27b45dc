/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/capture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "port/pcap/pcap_file.h"

char *capture_path(const char *file)
{
	char *cwd, *path;

	if (*file == '/')
		return strdup(file);
	cwd = getcwd(NULL, 0);
	if (!cwd || asprintf(&path, "%s/%s", cwd, file) < 0)
		path = NULL;
	free(cwd);
	return path;
}

int capture_use(const char *file, char *err, size_t err_len)
{
	char *path = capture_path(file);
	struct pcap_file *f;
	int rc;

	if (!path || setenv("WEFT_PCAP", path, 1)) {
		rc = -errno;
		snprintf(err, err_len, "cannot write the capture %s: %s", file, strerror(-rc));
	} else {
		/* The library opens it with its first device, which may be long after. */
		rc = pcap_file_open(&f, path, err, err_len);
		if (rc == 0)
			pcap_file_close(f);
	}
	free(path);
	return rc;
}
