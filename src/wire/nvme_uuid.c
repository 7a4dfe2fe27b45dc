/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "wire/nvme_uuid.h"

#include <errno.h>
#include <string.h>

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int nvme_uuid_parse(const char *text, uint8_t ret_uuid[16])
{
	unsigned int digits = 0;

	memset(ret_uuid, 0, 16);
	for (const char *p = text; *p; p++) {
		int d = hex_digit(*p);

		if (*p == '-')
			continue;
		if (d < 0 || digits == 32)
			return -EINVAL;
		ret_uuid[digits / 2] |= (uint8_t)(digits % 2 ? d : d << 4);
		digits++;
	}
	return digits == 32 ? 0 : -EINVAL;
}

void nvme_uuid_format(const uint8_t uuid[16], char ret_text[37])
{
	static const char digits[] = "0123456789abcdef";
	char *p = ret_text;

	for (int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*p++ = '-';
		*p++ = digits[uuid[i] >> 4];
		*p++ = digits[uuid[i] & 15];
	}
	*p = '\0';
}
