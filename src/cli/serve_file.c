/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/serve_file.h"

#include <errno.h>
#include <string.h>

#include "store/store.h"

static int create_mem(uint64_t size, uint32_t block_size, struct store **ret)
{
	return store_mem_create(size, block_size, 0, ret);
}

static const struct made_disk made_disks[] = {
	{"mem:SIZE", create_mem, true},
	{"null:SIZE", store_null_create, false},
};

static void find_made(struct serve_file *f)
{
	f->made = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(made_disks); i++) {
		const size_t prefix = strcspn(made_disks[i].usage, ":") + 1;

		if (strncmp(f->path, made_disks[i].usage, prefix) == 0) {
			f->made = &made_disks[i];
			f->size = f->path + prefix;
		}
	}
}

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
	find_made(ret);
	return 0;
}

bool serve_file_read_only(const struct serve_file *f, bool all)
{
	return f->access == SERVE_READ_ONLY || (all && f->access == SERVE_AS_ALL);
}

int serve_file_make(const struct serve_file *f, uint32_t block_size, bool read_only,
		    struct store **ret, const char **ret_why)
{
	int error = f->made->create(f->made_bytes, block_size, ret);

	if (!error)
		(*ret)->read_only = read_only;
	else if (error == -EINVAL)
		*ret_why = "its size is not a multiple of the block size; 4k, 1m and 1g are";
	else if (error == -ENOMEM)
		*ret_why = "there is not the memory to keep account of so large a disk; make it "
			   "smaller";
	else
		*ret_why = strerrordesc_np(-error);
	return error;
}
