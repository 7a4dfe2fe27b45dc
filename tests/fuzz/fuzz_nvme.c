/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Input: one byte that chooses a codec, then the structure's bytes. */
#include "fuzz.h"

#include <errno.h>
#include <string.h>

#include "wire/nvme.h"
#include "wire/nvme_fabrics.h"
#include "wire/nvme_identify.h"
#include "wire/nvme_log.h"
#include "wire/nvme_rdma.h"

#define LEN_MAX 4096

/*
 * What is written of what was read must read and write the same again, and a structure that is
 * cut off must say so and nothing else.
 */
#define ROUND_TRIP(name, len)                                                      \
	static void round_trip_##name(const uint8_t *data, size_t size)            \
	{                                                                          \
		static struct name s, again;                                       \
		static uint8_t once[LEN_MAX], twice[LEN_MAX];                      \
		struct cursor c = cursor_init(data, size);                         \
		struct wcursor w = wcursor_init(once, (len));                      \
                                                                                   \
		name##_get(&c, &s);                                                \
		must(c.overrun == (size < (len)));                                 \
		if (c.overrun)                                                     \
			return;                                                    \
		must(cursor_left(&c) == size - (len));                             \
		name##_put(&w, &s);                                                \
		must(!w.overrun && w.p == w.end);                                  \
		c = cursor_init(once, (len));                                      \
		name##_get(&c, &again);                                            \
		w = wcursor_init(twice, (len));                                    \
		name##_put(&w, &again);                                            \
		must(!memcmp(once, twice, (len)));                                 \
		for (size_t i = 0; i < (len); i++) /* only reserved bits differ */ \
			must(!(once[i] & ~data[i]));                               \
		/* too little room to write into */                                \
		w = wcursor_init(twice, (len)-1);                                  \
		name##_put(&w, &s);                                                \
		must(w.overrun);                                                   \
	}

#define CODECS(V)                                    \
	V(nvme_sqe, NVME_SQE_LEN)                    \
	V(nvme_cqe, NVME_CQE_LEN)                    \
	V(nvme_sgl, NVME_SGL_LEN)                    \
	V(nvme_dsm_range, NVME_DSM_RANGE_LEN)        \
	V(nvme_copy_range, NVME_COPY_RANGE_LEN)      \
	V(nvmf_connect_data, NVMF_CONNECT_DATA_LEN)  \
	V(nvmf_disc_hdr, NVMF_DISC_HDR_LEN)          \
	V(nvmf_disc_entry, NVMF_DISC_ENTRY_LEN)      \
	V(nvme_id_ctrl, NVME_IDENTIFY_LEN)           \
	V(nvme_id_ns, NVME_IDENTIFY_LEN)             \
	V(nvme_id_independent_ns, NVME_IDENTIFY_LEN) \
	V(nvme_ana_hdr, NVME_ANA_HDR_LEN)            \
	V(nvme_ana_group, NVME_ANA_GROUP_LEN)        \
	V(nvme_error_entry, NVME_ERROR_ENTRY_LEN)    \
	V(nvme_smart, NVME_SMART_LEN)                \
	V(nvme_firmware_log, NVME_FIRMWARE_LEN)      \
	V(nvme_effects, NVME_EFFECTS_LEN)            \
	V(nvme_id_ctrl_nvm, NVME_IDENTIFY_LEN)       \
	V(nvme_rdma_req, NVME_RDMA_REQ_LEN)          \
	V(nvme_rdma_rep, NVME_RDMA_REP_LEN)          \
	V(nvme_rdma_rej, NVME_RDMA_REJ_LEN)
CODECS(ROUND_TRIP)

/* The views of an SQE's dwords: what goes in by *_to_sqe() comes out by *_from_sqe(). */
static void views_of_sqe(const uint8_t *data, size_t size)
{
	struct cursor c = cursor_init(data, size);
	struct nvme_sqe s, made = {0};
	struct nvmf_connect con, con_again;
	struct nvmf_prop prop, prop_again;
	struct nvme_get_log log, log_again;

	nvme_sqe_get(&c, &s);
	if (c.overrun)
		return;
	memset(&con, 0, sizeof(con));
	memset(&con_again, 0, sizeof(con_again));
	nvmf_connect_from_sqe(&con, &s);
	nvmf_connect_to_sqe(&con, &made);
	nvmf_connect_from_sqe(&con_again, &made);
	must(made.opcode == NVME_FABRICS && nvmf_fctype(&made) == NVMF_CONNECT);
	must(con.recfmt == con_again.recfmt && con.qid == con_again.qid);
	must(con.sqsize == con_again.sqsize && con.cattr == con_again.cattr);
	must(con.kato_ms == con_again.kato_ms);

	memset(&made, 0, sizeof(made));
	nvmf_prop_from_sqe(&prop, &s);
	nvmf_prop_to_sqe(&prop, NVMF_PROPERTY_SET, &made);
	nvmf_prop_from_sqe(&prop_again, &made);
	must(nvmf_fctype(&made) == NVMF_PROPERTY_SET);
	must(prop.wide == prop_again.wide && prop.offset == prop_again.offset);
	must(prop.value == prop_again.value);

	memset(&made, 0, sizeof(made));
	nvme_get_log_from_sqe(&log, &s);
	must(log.len >= 4 && log.len % 4 == 0 && log.len <= (uint64_t)4 << 32);
	nvme_get_log_to_sqe(&log, &made);
	nvme_get_log_from_sqe(&log_again, &made);
	must(log.lid == log_again.lid && log.lsp == log_again.lsp && log.rae == log_again.rae);
	must(log.len == log_again.len && log.offset == log_again.offset);
	must(log.ot == log_again.ot && log.csi == log_again.csi);

	must(nvme_rw_nlb(&s) >= 1 && nvme_rw_nlb(&s) <= 65536);
	must(nvme_opcode_name(s.opcode, true) && nvme_opcode_name(s.opcode, false));
	must(nvme_status_name((uint16_t)s.cdw10) && nvme_io_status_name((uint16_t)s.cdw10));
	must(nvme_rdma_reject_name((uint16_t)s.cdw10));
}

static void ns_descriptors(const uint8_t *data, size_t size)
{
	struct cursor c = cursor_init(data, size);
	struct nvme_ns_desc d;
	size_t count = 0;
	int err;

	while ((err = nvme_ns_desc_get(&c, &d)) == 1) {
		uint8_t room[4 + 255];
		struct wcursor w = wcursor_init(room, sizeof(room));

		nvme_ns_desc_put(&w, d.nidt, d.nid, d.nidl);
		must(!w.overrun && w.p == room + 4 + d.nidl);
		must(++count <= size / 4);
	}
	must(err == 0 || err == -EBADMSG);
}

static void lists(const uint8_t *data, size_t size)
{
	static uint32_t ns[NVME_NS_LIST_MAX];
	static uint16_t ctrl[NVME_CTRL_LIST_MAX];
	struct cursor c = cursor_init(data, size);

	must(nvme_ns_list_get(&c, ns, NVME_NS_LIST_MAX) <= size / 4);
	c = cursor_init(data, size);
	must(nvme_ns_list_get(&c, ns, 3) <= 3);
	c = cursor_init(data, size);
	must(nvme_ctrl_list_get(&c, ctrl, NVME_CTRL_LIST_MAX) <= NVME_CTRL_LIST_MAX);
	c = cursor_init(data, size);
	must(nvme_ctrl_list_get(&c, ctrl, 3) <= 3);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const codec[])(const uint8_t *, size_t) = {
#define V(name, len) round_trip_##name,
		CODECS(V)
#undef V
			views_of_sqe,
		ns_descriptors,
		lists,
	};

	if (size)
		codec[data[0] % ARRAY_SIZE(codec)](data + 1, size - 1);
	return 0;
}
