/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "wire/nvme_status.h"

const char *nvme_status_name(uint16_t status)
{
	switch (status & NVME_STATUS_CODE) {
#define X(name, value, text) \
	case value:          \
		return text;
#include "wire/nvme_status.def"
#undef X
	}
	return "unknown status";
}

/* NVM command set 1.0 figure 20: command specific values of I/O commands. */
const char *nvme_io_status_name(uint16_t status)
{
	switch (status & NVME_STATUS_CODE) {
	case 0x180:
		return "Conflicting Attributes";
	case 0x181:
		return "Invalid Protection Information";
	case 0x182:
		return "Attempted Write to Read Only Range";
	case 0x183:
		return "Command Size Limit Exceeded";
	}
	return nvme_status_name(status);
}
