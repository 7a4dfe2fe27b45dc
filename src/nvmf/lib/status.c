/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <errno.h>
#include <stdio.h>

#include "nvmf/lib/internal.h"

/* NVM command set 1.0 figure 20, media and data integrity errors, and I/O meanings of 180h on. */
enum {
	SC_READ_ERROR = 0x281,
	SC_COMPARE_FAILED = 0x285,
	SC_ACCESS_DENIED = 0x286,
	SC_IO_RO = 0x182
};

int status_errno(uint16_t status, bool io)
{
	status &= NVME_STATUS_CODE;
	if (io && status == SC_IO_RO)
		return -EROFS;
	if (io && status == NVME_SC_IO_CMD_SIZE)
		return -EMSGSIZE;
	switch (status) {
	case NVME_SC_SUCCESS:
		return 0;
	case NVME_SC_INVALID_OPCODE:
		return -EOPNOTSUPP;
	case NVME_SC_INVALID_FIELD:
		return -EINVAL;
	case NVME_SC_INVALID_NS:
		return -ENODEV;
	case NVME_SC_LBA_RANGE:
		return -ERANGE;
	case NVME_SC_CAP_EXCEEDED:
		return -ENOSPC;
	case NVME_SC_NS_WRITE_PROTECTED:
		return -EROFS;
	case NVME_SC_NS_NOT_READY:
	case NVME_SC_CMD_INTERRUPTED:
		return -EBUSY;
	case NVME_SC_ABORT_REQ:
		return -ECANCELED;
	case SC_READ_ERROR:
		return -ENODATA;
	case SC_COMPARE_FAILED:
		return -EILSEQ;
	case SC_ACCESS_DENIED:
		return -EACCES;
	default:
		return -EIO;
	}
}

char *weft_status_text(uint16_t status, bool io, char *text, size_t room)
{
	snprintf(text, room, "%s (SCT %xh, SC %02xh%s)",
		 io ? nvme_io_status_name(status) : nvme_status_name(status), status >> 8 & 7,
		 status & 0xff, status & NVME_STATUS_DNR ? ", do not retry" : "");
	return text;
}
