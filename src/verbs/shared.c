// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "verbs/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#define MAGIC 0x3130646d63746677ull /* "wftcmd01" */

/* The content of a command descriptor. */
struct command {
	uint64_t magic;
	uint64_t process; /* drawn by each process that opens a device */
	uint64_t file;
	char device[sizeof(((struct ibv_device *)0)->name)];
};

static struct {
	pthread_mutex_t lock;
	struct list objects;
	uint32_t handles; /* given so far */
	uint64_t files;
	uint64_t process; /* 0: not drawn */
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER, .objects = {&shared.objects, &shared.objects}};

/* A child has nothing of its parent's to import. */
void shared_forked(void)
{
	pthread_mutex_init(&shared.lock, NULL);
	shared.process = 0;
}

static uint64_t this_process_locked(void)
{
	while (!shared.process)
		if (getrandom(&shared.process, sizeof(shared.process), 0) < 0)
			shared.process = 0;
	return shared.process;
}

void shared_add(struct shared *s, enum shared_kind kind, const struct face_context *c)
{
	s->kind = kind;
	s->file = c->file;
	pthread_mutex_lock(&shared.lock);
	s->handle = ++shared.handles;
	list_push_tail(&shared.objects, &s->node);
	pthread_mutex_unlock(&shared.lock);
}

void shared_remove(struct shared *s)
{
	pthread_mutex_lock(&shared.lock);
	list_remove(&s->node);
	pthread_mutex_unlock(&shared.lock);
}

/* NULL, with errno set, if there is none. */
static struct shared *find(struct ibv_context *context, enum shared_kind kind, uint32_t handle)
{
	const uint64_t file = face_context(context)->file;
	struct shared *found = NULL;

	if (!file)
		return FAIL(EOPNOTSUPP, NULL); /* another process's */
	pthread_mutex_lock(&shared.lock);
	list_for_each(s, &shared.objects, struct shared, node)
		if (s->kind == kind && s->file == file && s->handle == handle)
			found = s;
	pthread_mutex_unlock(&shared.lock);
	return found ? found : FAIL(ENOENT, NULL);
}

/* ---- devices --------------------------------------------------------------------------------- */

int command_file(struct ibv_device *device, uint64_t *ret_file)
{
	const int seals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
	struct command cmd = {.magic = MAGIC};
	int fd, err;

	memcpy(cmd.device, device->name, sizeof(cmd.device));
	pthread_mutex_lock(&shared.lock);
	cmd.process = this_process_locked();
	cmd.file = *ret_file = ++shared.files;
	pthread_mutex_unlock(&shared.lock);
	fd = memfd_create("weft-device", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	if (write(fd, &cmd, sizeof(cmd)) == sizeof(cmd) && !fcntl(fd, F_ADD_SEALS, seals))
		return fd;
	err = errno;
	close(fd);
	return -err;
}

static struct ibv_device *device_named(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL), *found = NULL;

	for (struct ibv_device **d = list; d && *d && !found; d++)
		if (!strcmp((*d)->name, name))
			found = *d;
	ibv_free_device_list(list);
	return found;
}

struct ibv_context *ibv_import_device(int cmd_fd)
{
	struct ibv_device *device;
	struct command cmd;
	bool ours;

	if (pread(cmd_fd, &cmd, sizeof(cmd), 0) != sizeof(cmd) || cmd.magic != MAGIC ||
	    cmd.device[sizeof(cmd.device) - 1])
		return FAIL(EINVAL, NULL);
	device = device_named(cmd.device);
	if (!device)
		return FAIL(ENODEV, NULL);
	pthread_mutex_lock(&shared.lock);
	ours = cmd.process == this_process_locked();
	pthread_mutex_unlock(&shared.lock);
	return context_open(device, cmd_fd, ours ? cmd.file : 0);
}

/* ---- objects --------------------------------------------------------------------------------- */

struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	struct shared *s = find(context, SHARED_PD, handle);
	struct face_pd *pd;

	if (!s)
		return NULL;
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return FAIL(ENOMEM, NULL);
	pd->object = container_of(s, struct pd_object, shared);
	pd->core = pd->object->core;
	pd->ibv.context = context;
	pd->ibv.handle = handle;
	context_get(face_context(context));
	return &pd->ibv;
}

void ibv_unimport_pd(struct ibv_pd *pd)
{
	context_put(face_context(pd->context));
	free(face_pd(pd));
}

struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct shared *s = find(pd->context, SHARED_MR, handle);
	struct face_mr *mr;

	if (!s)
		return NULL;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return FAIL(ENOMEM, NULL);
	mr->object = container_of(s, struct mr_object, shared);
	mr->core = mr->object->core;
	mr->ibv.context = pd->context;
	mr->ibv.pd = pd;
	mr->ibv.length = mr->object->length;
	mr->ibv.handle = handle;
	mr->ibv.lkey = rnic_mr_lkey(mr->core);
	if (!mr->object->null)
		mr->ibv.rkey = rnic_mr_rkey(mr->core);
	context_get(face_context(pd->context));
	return &mr->ibv;
}

void ibv_unimport_mr(struct ibv_mr *mr)
{
	context_put(face_context(mr->context));
	free(face_mr(mr));
}

struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
	struct shared *s = find(context, SHARED_DM, handle);

	return s ? dm_view(context, container_of(s, struct dm_object, shared)) : NULL;
}

void ibv_unimport_dm(struct ibv_dm *dm)
{
	context_put(face_context(dm->context));
	free(face_dm(dm));
}
