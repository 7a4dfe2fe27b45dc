/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/serve_file.h"

#include <errno.h>
#include <string.h>

int serve_file_parse(const char *text, struct serve_file *ret)
{
	const char *comma = strrchr(text, ',');
	size_t len = strlen(text);

	ret->access = SERVE_AS_ALL;
	if (comma && strcmp(comma, ",ro") == 0)
		ret->access = SERVE_READ_ONLY;
	else if (comma && strcmp(comma, ",rw") == 0)
		ret->access = SERVE_READ_WRITE;
	if (ret->access != SERVE_AS_ALL)
		len = (size_t)(comma - text);
	if (len == 0)
		return -EINVAL;
	/* A copy: the arguments are read again where weft starts itself anew. */
	ret->path = strndup(text, len);
	if (!ret->path)
		return -ENOMEM;
	ret->null_size = strncmp(ret->path, "null:", 5) == 0 ? ret->path + 5 : NULL;
	return 0;
}

bool serve_file_read_only(const struct serve_file *f, bool all)
{
	return f->access == SERVE_READ_ONLY || (all && f->access == SERVE_AS_ALL);
}
