/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What contexts share by ibv_import_*(): PDs, MRs and DMs, each found by its handle in the file
 * that it was made by, as a kernel would find it. The structures that applications hold are views
 * of such an object; whoever destroys it does so for all, and the other views can only be
 * unimported.
 *
 * A file is what the command descriptor of an open device stands for. Another process that is
 * handed the descriptor can open the same device by it, but finds no objects: they are memory of
 * the process that made them, reached through sockets of its own.
 */
#ifndef WEFT_VERBS_SHARED_H
#define WEFT_VERBS_SHARED_H

#include "base/list.h"
#include "verbs/face.h"

enum shared_kind { SHARED_PD, SHARED_MR, SHARED_DM };

struct shared {
	struct list node;
	enum shared_kind kind;
	uint64_t file;
	uint32_t handle;
};

struct pd_object {
	struct shared shared;
	struct rnic_pd *core;
};

struct mr_object {
	struct shared shared;
	struct rnic_mr *core;
	size_t length;
	struct dm_object *dm; /* whose memory it is, or NULL */
	void *map;	      /* of a dma-buf, to be unmapped with the region, or NULL */
	size_t map_length;
	bool null; /* has no memory */
};

struct dm_object {
	struct shared shared;
	uint8_t *mem;
	size_t length, map_length;
	atomic_uint mrs;
};

struct face_dm {
	struct ibv_dm ibv;
	struct dm_object *object;
};

static inline struct face_dm *face_dm(struct ibv_dm *dm)
{
	return container_of(dm, struct face_dm, ibv);
}

/* Gives it a handle. */
void shared_add(struct shared *, enum shared_kind, const struct face_context *);
void shared_remove(struct shared *);
/* NULL, with errno set, if there is none. */
struct shared *shared_find(struct ibv_context *, enum shared_kind, uint32_t handle);
void shared_forked(void);

/* A new file for an open of the device: a descriptor, or -errno. */
int command_file(struct ibv_device *, uint64_t *ret_file) must_use;
/* Whose it is, and the file, 0 if it is another process's. -EINVAL: no such descriptor. */
int command_file_read(int fd, char name[sizeof(((struct ibv_device *)0)->name)],
		      uint64_t *ret_file) must_use;

#endif
