/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* UUIDs and NGUIDs as people write them. */
#ifndef WEFT_WIRE_NVME_UUID_H
#define WEFT_WIRE_NVME_UUID_H

#include <stdint.h>

#include "base/compiler.h"

/* 32 hex digits, hyphens where one likes. */
int nvme_uuid_parse(const char *text, uint8_t ret_uuid[16]) must_use;
void nvme_uuid_format(const uint8_t uuid[16], char ret_text[37]);

#endif
