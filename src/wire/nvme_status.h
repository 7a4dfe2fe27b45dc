/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Status codes of completions: the enum, the flags beside them, and their names. */
#ifndef WEFT_WIRE_NVME_STATUS_H
#define WEFT_WIRE_NVME_STATUS_H

#include <stdint.h>

enum nvme_status {
#define X(name, value, text) NVME_SC_##name = (value),
#include "wire/nvme_status.def"
#undef X
};

/* 0x183 of I/O commands: more than Identify Namespace allows a Copy. */
#define NVME_SC_IO_CMD_SIZE 0x183

#define NVME_STATUS_CODE 0x07ff /* status code type and status code */
#define NVME_STATUS_SCT	 0x0700 /* status code type */
#define NVME_SCT_PATH	 0x0300
#define NVME_STATUS_CRD	 0x1800 /* command retry delay */
#define NVME_STATUS_MORE 0x2000 /* more in the error log */
#define NVME_STATUS_DNR	 0x4000 /* do not retry */

/*
 * The specification's name of a status, flags ignored; "unknown status" for one that is not in
 * nvme_status.def. Codes 0x180-0x19f are named as fabrics commands mean them.
 */
const char *nvme_status_name(uint16_t status);

/*
 * What an I/O command means with 0x180-0x183 (Conflicting Attributes ...), where that differs
 * from nvme_status_name().
 */
const char *nvme_io_status_name(uint16_t status);

#endif
