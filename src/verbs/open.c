// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Opening and closing devices. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/uncancelled.h"
#include "verbs/cq.h"
#include "verbs/face.h"
#include "verbs/shard.h"
#include "verbs/shared.h"

/* cmd_fd, which becomes the context's, stands for file. */
static struct ibv_context *open_device(struct ibv_device *device, int cmd_fd, uint64_t file)
{
	struct face_context *c;
	struct broker_device b;
	int rc = device_lookup(device, &b);

	if (rc)
		return FAIL(rc == -EIO ? ENODEV : -rc, NULL);
	c = calloc(1, sizeof(*c));
	if (!c)
		return FAIL(ENOMEM, NULL);
	rc = process_shard(face_device(device)->transport, &c->shard);
	if (!rc)
		rc = event_pipe_init(&c->async);
	if (rc) {
		free(c);
		return FAIL(-rc, NULL);
	}
	c->rnic = shard_rnic(c->shard);
	c->file = file;
	atomic_init(&c->refs, 1);
	/* What is not set is not supported: the wrappers in verbs.h answer EOPNOTSUPP for it. */
	c->vctx = (struct verbs_context){
		.query_port = face_query_port,
		.query_device_ex = face_query_device_ex,
		.alloc_null_mr = face_alloc_null_mr,
		.alloc_dm = face_alloc_dm,
		.free_dm = face_free_dm,
		.reg_dm_mr = face_reg_dm_mr,
		.alloc_td = face_alloc_td,
		.dealloc_td = face_dealloc_td,
		.alloc_parent_domain = face_alloc_parent_domain,
		.advise_mr = face_advise_mr,
		.create_cq_ex = face_create_cq_ex,
		.modify_cq = face_modify_cq,
		.query_rt_values = face_query_rt_values,
		.create_qp_ex = face_create_qp_ex,
		.open_qp = face_open_qp,
		.open_xrcd =
			face_device(device)->transport == TRANSPORT_IWARP ? NULL : face_open_xrcd,
		.close_xrcd = face_close_xrcd,
		.create_srq_ex = face_create_srq_ex,
		.get_srq_num = face_get_srq_num,
		.sz = sizeof(c->vctx),
		.context =
			{
				.device = device,
				.ops =
					{
						.alloc_mw = face_alloc_mw,
						.bind_mw = face_bind_mw,
						.dealloc_mw = face_dealloc_mw,
						.poll_cq = face_poll_cq,
						.req_notify_cq = face_req_notify_cq,
						.post_srq_recv = face_post_srq_recv,
						.post_send = face_post_send,
						.post_recv = face_post_recv,
					},
				.cmd_fd = cmd_fd,
				.async_fd = c->async.rd,
				.num_comp_vectors = (int)max_of(sysconf(_SC_NPROCESSORS_ONLN), 1),
				.abi_compat = __VERBS_ABI_IS_EXTENDED,
			},
	};
	pthread_mutex_init(&c->vctx.context.mutex, NULL);
	device_events_begin(c);
	return &c->vctx.context;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *context = NULL;
	int fd, before = uncancelled_begin(); /* locks are held meanwhile */
	uint64_t file;

	fd = command_file(device, &file);
	if (fd >= 0)
		context = open_device(device, fd, file);
	if (fd >= 0 && !context)
		close(fd);
	uncancelled_end(before);
	return fd < 0 ? FAIL(-fd, NULL) : context;
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
	char name[sizeof(((struct ibv_device *)0)->name)];
	struct ibv_context *context = NULL;
	struct ibv_device *device;
	uint64_t file;
	int before;

	if (command_file_read(cmd_fd, name, &file))
		return FAIL(EINVAL, NULL);
	before = uncancelled_begin();
	device = device_named(name);
	if (device)
		context = open_device(device, cmd_fd, file);
	uncancelled_end(before);
	return device ? context : FAIL(ENODEV, NULL);
}

int ibv_close_device(struct ibv_context *context)
{
	struct face_context *c = face_context(context);
	int before = uncancelled_begin();

	close(context->cmd_fd);
	device_events_end(c);
	event_pipe_close(&c->async);
	context_put(c);
	uncancelled_end(before);
	return 0;
}
