/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "ublk/ublk.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "ublk/control.h"

#define SECTOR 512u

struct ublk {
	struct ublk_config config;
	struct control control;
	struct ublksrv_ctrl_dev_info info;
	enum ublk_state state;
	int fd, epoll_fd; /* of /dev/ublkc<id>; what the caller waits on */
	struct io_uring ring;
	const struct ublksrv_io_desc *descs; /* [depth], which the driver fills */
	size_t descs_len;
	uint8_t *data;
	unsigned int tags; /* with the driver, or answered here: not given up */
	bool removed;	   /* by another */
	char error[256];
};

/* --- the device's own commands ---------------------------------------------------------------- */

static void *data_of(const struct ublk *u, uint16_t tag)
{
	return u->data + (size_t)tag * u->config.transfer_max;
}

/* An entry of the ring is there: no more are used than there are tags. */
static void send_tag(struct ublk *u, uint32_t cmd, uint16_t tag, int32_t result)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
	const struct ublksrv_io_cmd what = {
		.tag = tag, .result = result, .addr = (uintptr_t)data_of(u, tag)};

	assert(sqe);
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = u->fd;
	sqe->cmd_op = control_op(&u->control, cmd);
	sqe->user_data = tag;
	memcpy(sqe->cmd, &what, sizeof(what));
}

void ublk_answer(struct ublk *u, uint16_t tag, int error)
{
	const struct ublksrv_io_desc *d = &u->descs[tag];

	send_tag(u, UBLK_IO_COMMIT_AND_FETCH_REQ, tag,
		 error ? error
		       : (int32_t)min_of((uint64_t)d->nr_sectors * SECTOR, (uint64_t)INT32_MAX));
}

static void begin(struct ublk *u, uint16_t tag)
{
	static const int8_t ops[] = {
		[UBLK_IO_OP_READ] = UBLK_READ,	 [UBLK_IO_OP_WRITE] = UBLK_WRITE,
		[UBLK_IO_OP_FLUSH] = UBLK_FLUSH, [UBLK_IO_OP_DISCARD] = UBLK_DISCARD,
		[UBLK_IO_OP_WRITE_SAME] = -1,	 [UBLK_IO_OP_WRITE_ZEROES] = UBLK_ZEROES,
	};
	const struct ublksrv_io_desc *d = &u->descs[tag];
	const uint8_t op = ublksrv_get_op(d);
	struct ublk_request r = {.tag = tag,
				 .fua = d->op_flags & UBLK_IO_F_FUA,
				 .no_unmap = d->op_flags & UBLK_IO_F_NOUNMAP,
				 .offset = d->start_sector * SECTOR,
				 .bytes = (uint64_t)d->nr_sectors * SECTOR,
				 .data = data_of(u, tag)};

	if (op >= sizeof(ops) || ops[op] < 0) {
		ublk_answer(u, tag, -EOPNOTSUPP);
		return;
	}
	r.op = (enum ublk_op)ops[op];
	if (r.op <= UBLK_WRITE && r.bytes > u->config.transfer_max) {
		ublk_answer(u, tag, -EINVAL); /* not what it was told */
		return;
	}
	u->config.request(u->config.arg, &r);
}

/* --- the control device ----------------------------------------------------------------------- */

static int command(struct ublk *u, uint32_t cmd, void *buffer, size_t len)
{
	const struct ublksrv_ctrl_cmd what = {.dev_id = u->info.dev_id,
					      .queue_id = UINT16_MAX,
					      .len = (uint16_t)len,
					      .addr = (uintptr_t)buffer};

	return control_do(&u->control, cmd, &what);
}

static int begin_command(struct ublk *u, uint32_t cmd, uint64_t data)
{
	const struct ublksrv_ctrl_cmd what = {
		.dev_id = u->info.dev_id, .queue_id = UINT16_MAX, .data = {data}};

	return control_begin(&u->control, cmd, &what);
}

static uint8_t shift_of(uint64_t power_of_two)
{
	return (uint8_t)__builtin_ctzll(power_of_two);
}

static struct ublk_params params_of(const struct ublk_config *c)
{
	const uint32_t optimal = max_of(c->optimal_bytes, c->block_bytes);
	const uint32_t most =
		UINT32_MAX / SECTOR / (c->block_bytes / SECTOR) * (c->block_bytes / SECTOR);
	struct ublk_params p = {
		.len = sizeof(p),
		.types = UBLK_PARAM_TYPE_BASIC,
		.basic = {.attrs = (c->read_only ? UBLK_ATTR_READ_ONLY : 0u) |
				   (c->volatile_cache ? UBLK_ATTR_VOLATILE_CACHE | UBLK_ATTR_FUA
						      : 0u),
			  .logical_bs_shift = shift_of(c->block_bytes),
			  .physical_bs_shift = shift_of(c->block_bytes),
			  .io_min_shift = shift_of(c->block_bytes),
			  .io_opt_shift = shift_of(optimal),
			  .max_sectors = c->transfer_max / SECTOR,
			  .dev_sectors = c->bytes / SECTOR},
	};

	if (c->discards || c->zeroes_max) {
		p.types |= UBLK_PARAM_TYPE_DISCARD;
		p.discard = (struct ublk_param_discard){
			.discard_granularity = optimal,
			.max_discard_sectors = c->discards ? most : 0,
			.max_write_zeroes_sectors = c->zeroes_max / SECTOR,
			.max_discard_segments = 1,
		};
	}
	return p;
}

/* With the encoding that the driver takes. */
static int add(struct ublk *u)
{
	int rc;

	for (;;) {
		u->info = (struct ublksrv_ctrl_dev_info){
			.nr_hw_queues = 1,
			.queue_depth = u->config.depth,
			.max_io_buf_bytes = u->config.transfer_max,
			.dev_id = (uint32_t)u->config.id,
			.ublksrv_pid = getpid(),
			.flags = UBLK_F_URING_CMD_COMP_IN_TASK |
				 (u->control.encoded ? UBLK_F_CMD_IOCTL_ENCODE : 0),
		};
		rc = command(u, UBLK_CMD_ADD_DEV, &u->info, sizeof(u->info));
		if (!u->control.encoded || (rc != -EINVAL && rc != -EOPNOTSUPP && rc != -ENOTTY))
			return rc;
		u->control.encoded = false;
	}
}

/* Something makes the node, a moment later than the driver makes the device. */
static int open_device(const struct ublk *u)
{
	const struct timespec moment = {.tv_nsec = 10 * 1000 * 1000};
	char path[32];
	int fd = -1;

	snprintf(path, sizeof(path), "/dev/ublkc%u", u->info.dev_id);
	for (int i = 0; i < 300; i++) {
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd >= 0 || (errno != ENOENT && errno != EACCES && errno != EBUSY))
			break;
		nanosleep(&moment, NULL);
	}
	return fd < 0 ? -errno : fd;
}

static int map_descs(struct ublk *u)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *p;

	u->descs_len = (u->config.depth * sizeof(*u->descs) + page - 1) / page * page;
	p = mmap(NULL, u->descs_len, PROT_READ, MAP_SHARED | MAP_POPULATE, u->fd,
		 UBLKSRV_CMD_BUF_OFFSET);
	if (p == MAP_FAILED)
		return -errno;
	u->descs = p;
	return 0;
}

static int watch(struct ublk *u)
{
	struct epoll_event ev = {.events = EPOLLIN};

	u->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (u->epoll_fd < 0 || epoll_ctl(u->epoll_fd, EPOLL_CTL_ADD, u->ring.ring_fd, &ev) < 0 ||
	    epoll_ctl(u->epoll_fd, EPOLL_CTL_ADD, u->control.ring.ring_fd, &ev) < 0)
		return -errno;
	return 0;
}

/* --- life ------------------------------------------------------------------------------------- */

int ublk_check(char *why, size_t room)
{
	struct control c;
	int rc = control_open(&c, why, room);

	if (!rc)
		control_close(&c);
	return rc;
}

int ublk_create(const struct ublk_config *config, void *data, struct ublk **ret, char *why,
		size_t room)
{
	struct ublk *u = calloc(1, sizeof(*u));
	struct ublk_params params = params_of(config);
	const char *what;
	int rc;

	if (!u) {
		snprintf(why, room, "no memory");
		return -ENOMEM;
	}
	u->config = *config;
	u->data = data;
	u->epoll_fd = -1;
	rc = control_open(&u->control, why, room);
	if (rc)
		goto fail;
	what = "a device is not added";
	rc = add(u);
	if (rc)
		goto fail_control;
	what = "its parameters are not taken";
	rc = command(u, UBLK_CMD_SET_PARAMS, &params, sizeof(params));
	if (rc)
		goto fail_device;
	what = "/dev/ublkc does not open";
	u->fd = open_device(u);
	rc = u->fd < 0 ? u->fd : 0;
	if (rc)
		goto fail_device;
	what = "requests cannot be seen";
	rc = map_descs(u);
	if (rc)
		goto fail_fd;
	what = "io_uring";
	rc = io_uring_queue_init(config->depth, &u->ring, 0);
	if (rc)
		goto fail_map;
	for (uint16_t tag = 0; tag < config->depth; tag++)
		send_tag(u, UBLK_IO_FETCH_REQ, tag, -1);
	u->tags = config->depth;
	what = "requests cannot be fetched";
	rc = io_uring_submit(&u->ring);
	rc = rc < 0 ? rc : watch(u);
	if (rc)
		goto fail_ring;
	what = "it does not start";
	rc = begin_command(u, UBLK_CMD_START_DEV, (uint64_t)getpid());
	if (rc)
		goto fail_ring;
	*ret = u;
	return 0;

fail_ring:
	if (u->epoll_fd >= 0)
		close(u->epoll_fd);
	io_uring_queue_exit(&u->ring);
fail_map:
	munmap((void *)(uintptr_t)u->descs, u->descs_len);
fail_fd:
	close(u->fd);
fail_device:
	(void)!command(u, UBLK_CMD_DEL_DEV, NULL, 0);
fail_control:
	snprintf(why, room, "ublk_drv: %s: %s", what, strerror(-rc));
	control_close(&u->control);
fail:
	free(u);
	return rc;
}

int ublk_fd(const struct ublk *u)
{
	return u->epoll_fd;
}

static void gone(struct ublk *u)
{
	if (u->state != UBLK_STOPPING)
		u->removed = true;
	u->state = UBLK_GONE;
}

static void look_at_control(struct ublk *u)
{
	struct io_uring_cqe *cqe;

	while (io_uring_peek_cqe(&u->control.ring, &cqe) == 0) {
		const uint64_t cmd = cqe->user_data;
		const int res = cqe->res;

		io_uring_cqe_seen(&u->control.ring, cqe);
		if (cmd == UBLK_CMD_START_DEV && u->state == UBLK_STARTING) {
			u->state = UBLK_LIVE;
			if (res < 0) {
				snprintf(u->error, sizeof(u->error),
					 "ublk_drv: it does not start: %s", strerror(-res));
				ublk_stop(u);
			}
		}
	}
}

void ublk_process(struct ublk *u)
{
	struct io_uring_cqe *cqe;

	while (io_uring_peek_cqe(&u->ring, &cqe) == 0) {
		const uint16_t tag = (uint16_t)cqe->user_data;
		const int res = cqe->res;

		io_uring_cqe_seen(&u->ring, cqe);
		if (res == UBLK_IO_RES_OK)
			begin(u, tag);
		else if (--u->tags == 0)
			gone(u);
	}
	look_at_control(u);
	if (io_uring_sq_ready(&u->ring))
		(void)io_uring_submit(&u->ring);
}

void ublk_stop(struct ublk *u)
{
	if (u->state >= UBLK_STOPPING)
		return;
	u->state = UBLK_STOPPING;
	if (begin_command(u, UBLK_CMD_STOP_DEV, 0) != 0)
		u->state = UBLK_GONE;
}

enum ublk_state ublk_state(const struct ublk *u)
{
	return u->state;
}

const char *ublk_error(const struct ublk *u)
{
	return u->error;
}

uint32_t ublk_id(const struct ublk *u)
{
	return u->info.dev_id;
}

void ublk_destroy(struct ublk *u)
{
	close(u->epoll_fd);
	io_uring_queue_exit(&u->ring);
	munmap((void *)(uintptr_t)u->descs, u->descs_len);
	close(u->fd);
	/* It waits for the last that has the device's node open, as we had. */
	if (!u->removed)
		(void)!command(u, UBLK_CMD_DEL_DEV, NULL, 0);
	control_close(&u->control);
	free(u);
}

int ublk_remove(uint32_t id, char *why, size_t room)
{
	struct ublksrv_ctrl_dev_info info;
	const struct ublksrv_ctrl_cmd what = {.dev_id = id, .queue_id = UINT16_MAX},
				      ask = {.dev_id = id,
					     .queue_id = UINT16_MAX,
					     .len = sizeof(info),
					     .addr = (uintptr_t)&info};
	struct control c;
	int rc = control_open(&c, why, room);

	if (rc)
		return rc;
	rc = control_do(&c, UBLK_CMD_GET_DEV_INFO, &ask);
	if (rc == -EOPNOTSUPP || rc == -EINVAL || rc == -ENOTTY) {
		c.encoded = false;
		rc = control_do(&c, UBLK_CMD_GET_DEV_INFO, &ask);
	}
	if (!rc)
		rc = control_do(&c, UBLK_CMD_STOP_DEV, &what);
	if (!rc)
		rc = control_do(&c, UBLK_CMD_DEL_DEV, &what);
	if (rc == -ENODEV || rc == -EINVAL)
		snprintf(why, room, "there is no /dev/ublkb%u", id);
	else if (rc)
		snprintf(why, room, "/dev/ublkb%u: %s", id, strerror(-rc));
	control_close(&c);
	return rc;
}
