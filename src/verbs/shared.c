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

struct shared *shared_find(struct ibv_context *context, enum shared_kind kind, uint32_t handle)
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

/* ---- command descriptors
 * --------------------------------------------------------------------------------- */

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

int command_file_read(int fd, char name[sizeof(((struct ibv_device *)0)->name)], uint64_t *ret_file)
{
	struct command cmd;

	if (pread(fd, &cmd, sizeof(cmd), 0) != sizeof(cmd) || cmd.magic != MAGIC ||
	    cmd.device[sizeof(cmd.device) - 1])
		return -EINVAL;
	memcpy(name, cmd.device, sizeof(cmd.device));
	pthread_mutex_lock(&shared.lock);
	*ret_file = cmd.process == this_process_locked() ? cmd.file : 0;
	pthread_mutex_unlock(&shared.lock);
	return 0;
}
