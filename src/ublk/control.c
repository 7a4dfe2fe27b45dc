/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "ublk/control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define CONTROL_PATH "/dev/ublk-control"

uint32_t control_op(const struct control *c, uint32_t cmd)
{
	if (!c->encoded)
		return cmd;
	switch (cmd) {
	case UBLK_CMD_GET_QUEUE_AFFINITY:
	case UBLK_CMD_GET_DEV_INFO:
	case UBLK_CMD_GET_PARAMS:
		return _IOR('u', cmd, struct ublksrv_ctrl_cmd);
	case UBLK_IO_FETCH_REQ:
	case UBLK_IO_COMMIT_AND_FETCH_REQ:
	case UBLK_IO_NEED_GET_DATA:
		return _IOWR('u', cmd, struct ublksrv_io_cmd);
	default:
		return _IOWR('u', cmd, struct ublksrv_ctrl_cmd);
	}
}

static void say_missing(int error, char *why, size_t room)
{
	if (error == ENOENT || error == ENXIO || error == ENODEV)
		snprintf(why, room,
			 "there is no " CONTROL_PATH ": `modprobe ublk_drv`, which Linux has from "
			 "6.0 on if it is built with CONFIG_BLK_DEV_UBLK; without it `nbdkit weft "
			 "URI` serves the namespace to qemu, nbdcopy and nbdfuse");
	else if (error == EACCES || error == EPERM)
		snprintf(why, room, CONTROL_PATH ": %s; it takes root", strerror(error));
	else
		snprintf(why, room, CONTROL_PATH ": %s", strerror(error));
}

int control_open(struct control *c, char *why, size_t room)
{
	int rc;

	*c = (struct control){.encoded = true};
	c->fd = open(CONTROL_PATH, O_RDWR | O_CLOEXEC);
	if (c->fd < 0) {
		rc = -errno;
		say_missing(-rc, why, room);
		return rc;
	}
	rc = io_uring_queue_init(4, &c->ring, IORING_SETUP_SQE128);
	if (rc) {
		snprintf(why, room, "io_uring with entries of 128 bytes: %s", strerror(-rc));
		close(c->fd);
	}
	return rc;
}

void control_close(struct control *c)
{
	io_uring_queue_exit(&c->ring);
	close(c->fd);
}

int control_begin(struct control *c, uint32_t cmd, const struct ublksrv_ctrl_cmd *what)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&c->ring);
	int n;

	if (!sqe)
		return -EBUSY;
	memset(sqe, 0, 2 * sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = c->fd;
	sqe->cmd_op = control_op(c, cmd);
	sqe->user_data = cmd;
	memcpy(sqe->cmd, what, sizeof(*what));
	n = io_uring_submit(&c->ring);
	return n < 0 ? n : 0;
}

int control_do(struct control *c, uint32_t cmd, const struct ublksrv_ctrl_cmd *what)
{
	struct io_uring_cqe *cqe;
	int rc = control_begin(c, cmd, what);

	if (rc)
		return rc;
	do
		rc = io_uring_wait_cqe(&c->ring, &cqe);
	while (rc == -EINTR);
	if (rc)
		return rc;
	rc = cqe->res;
	io_uring_cqe_seen(&c->ring, cqe);
	return rc < 0 ? rc : 0;
}
