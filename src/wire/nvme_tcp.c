/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "wire/nvme_tcp.h"

#include "base/compiler.h"
#include "wire/nvme_schema.h"

#define CH(V)	  V(u8, type) V(u8, flags) V(u8, hlen) V(u8, pdo) V(le32, plen)
#define ICREQ(V)  V(le16, pfv) V(u8, hpda) V(u8, dgst) V(le32, maxr2t) V(zero, 112)
#define ICRESP(V) V(le16, pfv) V(u8, cpda) V(u8, dgst) V(le32, maxh2cdata) V(zero, 112)
#define TERM(V)	  V(le16, fes) V(le32, fei) V(zero, 10)
#define DATA(V)	  V(le16, cccid) V(le16, ttag) V(le32, datao) V(le32, datal) V(zero, 4)
#define R2T(V)	  V(le16, cccid) V(le16, ttag) V(le32, r2to) V(le32, r2tl) V(zero, 4)

NVME_CODEC(nvme_tcp_ch, CH)
NVME_CODEC(nvme_tcp_icreq, ICREQ)
NVME_CODEC(nvme_tcp_icresp, ICRESP)
NVME_CODEC(nvme_tcp_term, TERM)
NVME_CODEC(nvme_tcp_data, DATA)
NVME_CODEC(nvme_tcp_r2t, R2T)

static const struct {
	uint8_t hlen;
	bool data;
} types[] = {
	[NVME_TCP_ICREQ] = {128, false},  [NVME_TCP_ICRESP] = {128, false},
	[NVME_TCP_H2C_TERM] = {24, true}, [NVME_TCP_C2H_TERM] = {24, true},
	[NVME_TCP_CMD] = {72, true},	  [NVME_TCP_RESP] = {24, false},
	[NVME_TCP_H2C_DATA] = {24, true}, [NVME_TCP_C2H_DATA] = {24, true},
	[NVME_TCP_R2T] = {24, false},
};

uint8_t nvme_tcp_hlen(uint8_t type)
{
	return type < ARRAY_SIZE(types) ? types[type].hlen : 0;
}

bool nvme_tcp_has_data(uint8_t type)
{
	return type < ARRAY_SIZE(types) && types[type].data;
}

uint8_t nvme_tcp_pdo(uint8_t hlen, bool hdgst, uint8_t pda)
{
	unsigned int unit = (pda + 1u) * 4, at = hlen + (hdgst ? NVME_TCP_DIGEST_LEN : 0u);

	return (uint8_t)((at + unit - 1) / unit * unit);
}

const char *nvme_tcp_fes_name(uint16_t fes)
{
	switch (fes) {
	case NVME_TCP_FES_HEADER_FIELD:
		return "invalid PDU header field";
	case NVME_TCP_FES_SEQUENCE:
		return "PDU sequence error";
	case NVME_TCP_FES_HEADER_DIGEST:
		return "header digest error";
	case NVME_TCP_FES_OUT_OF_RANGE:
		return "data transfer out of range";
	case NVME_TCP_FES_LIMIT_EXCEEDED:
		return "limit exceeded";
	case NVME_TCP_FES_UNSUPPORTED:
		return "unsupported parameter";
	}
	return "unknown reason";
}
