/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/pcapng.h"

#include <assert.h>
#include <string.h>

#define BYTE_ORDER_MAGIC 0x1a2b3c4du
#define TSRESOL_NS	 9

enum { BLOCK_SECTION = 0x0a0d0d0a, BLOCK_INTERFACE = 1, BLOCK_PACKET = 6 };
enum { OPTION_END, SECTION_APPLICATION = 4, INTERFACE_NAME = 2, INTERFACE_TSRESOL = 9 };
enum { PACKET_FLAGS = 2 };

static uint8_t *put(uint8_t *p, const void *data, size_t len)
{
	memcpy(p, data, len);
	return p + len;
}

static uint8_t *put16(uint8_t *p, uint16_t v)
{
	return put(p, &v, sizeof(v));
}

static uint8_t *put32(uint8_t *p, uint32_t v)
{
	return put(p, &v, sizeof(v));
}

static uint8_t *put_pad(uint8_t *p, size_t len)
{
	return put(p, (uint8_t[4]){0}, -len & 3);
}

static uint8_t *put_option(uint8_t *p, uint16_t code, const void *value, size_t len)
{
	p = put16(put16(p, code), (uint16_t)len);
	return put_pad(put(p, value, len), len);
}

static uint8_t *block_begin(uint8_t *p, uint32_t type)
{
	return put32(put32(p, type), 0);
}

/* Its options end, too; its length stands at both ends. */
static uint8_t *block_end(uint8_t *p, uint8_t *begin)
{
	uint32_t len;

	p = put32(p, OPTION_END);
	len = (uint32_t)(p - begin) + 4;
	memcpy(begin + 4, &len, sizeof(len));
	return put32(p, len);
}

size_t pcapng_head(uint8_t at[PCAPNG_HEAD_MAX], uint16_t link_type, const char *name)
{
	static const char application[] = "weft " WEFT_VERSION;
	uint8_t *p = block_begin(at, BLOCK_SECTION), *interface;

	assert(strlen(name) <= 64);
	p = put32(p, BYTE_ORDER_MAGIC);
	p = put16(put16(p, 1), 0);		     /* version 1.0 */
	p = put32(put32(p, UINT32_MAX), UINT32_MAX); /* of unknown length */
	p = put_option(p, SECTION_APPLICATION, application, sizeof(application) - 1);
	interface = p = block_end(p, at);
	p = block_begin(p, BLOCK_INTERFACE);
	p = put16(put16(p, link_type), 0);
	p = put32(p, 0); /* packets are whole */
	p = put_option(p, INTERFACE_NAME, name, strlen(name));
	p = put_option(p, INTERFACE_TSRESOL, (uint8_t[]){TSRESOL_NS}, 1);
	return (size_t)(block_end(p, interface) - at);
}

size_t pcapng_packet(uint8_t *at, uint64_t ns, size_t len, uint32_t flags)
{
	uint8_t *p = block_begin(at, BLOCK_PACKET);

	p = put32(p, 0); /* the interface */
	p = put32(put32(p, (uint32_t)(ns >> 32)), (uint32_t)ns);
	p = put32(put32(p, (uint32_t)len), (uint32_t)len);
	p = put_pad(p + len, len);
	if (flags)
		p = put_option(p, PACKET_FLAGS, &flags, sizeof(flags));
	return (size_t)(block_end(p, at) - at);
}
