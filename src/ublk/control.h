/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The control device of ublk_drv. */
#ifndef WEFT_UBLK_CONTROL_H
#define WEFT_UBLK_CONTROL_H

#include <liburing.h>
#include <linux/ublk_cmd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* Later than the headers of some systems: commands carry an ioctl's encoding, and kernels may be
 * built to take no others. */
#ifndef UBLK_F_CMD_IOCTL_ENCODE
#define UBLK_F_CMD_IOCTL_ENCODE (1ULL << 6)
#endif

struct control {
	int fd;
	struct io_uring ring;
	bool encoded; /* what the driver takes */
};

/* -errno, and why: there is no such driver, no right to use it. */
int control_open(struct control *c, char *why, size_t room) must_use;
void control_close(struct control *c);
/* cmd: UBLK_CMD_*. Sends it: the answer comes as a completion of the ring. */
int control_begin(struct control *c, uint32_t cmd, const struct ublksrv_ctrl_cmd *what) must_use;
/* The same, and waits; 0 or -errno. */
int control_do(struct control *c, uint32_t cmd, const struct ublksrv_ctrl_cmd *what) must_use;

/* cmd_op of a command, of the control device or of a queue. */
uint32_t control_op(const struct control *c, uint32_t cmd);

#endif
