/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Each attribute's reader and writer stand side by side, field by field in wire order. Narrow
 * fields share a byte or word with their neighbours, the first of them in the high bits.
 */
#include "wire/smp.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/compiler.h"
#include "base/cursor.h"

#define D_BIT 0x8000u

/* ---- the packet ---------------------------------------------------------------------------- */

int smp_decode(struct smp *s, const uint8_t mad[MAD_LEN])
{
	struct cursor c = cursor_init(mad, MAD_LEN);
	struct mad_hdr h;
	bool directed;

	mad_hdr_decode(&h, &c);
	directed = h.mgmt_class == SMP_CLASS_DR;
	if (h.base_version != MAD_BASE_VERSION || (!directed && h.mgmt_class != SMP_CLASS_LID))
		return -EBADMSG;
	*s = (struct smp){
		.mgmt_class = h.mgmt_class,
		.class_version = h.class_version,
		.method = h.method,
		.status = (uint16_t)(h.status & ~D_BIT),
		.returning = directed && (h.status & D_BIT),
		.hop_ptr = directed ? (uint8_t)(h.class_specific >> 8) : 0,
		.hop_count = directed ? (uint8_t)h.class_specific : 0,
		.tid = h.tid,
		.attr_id = h.attr_id,
		.attr_mod = h.attr_mod,
	};
	s->mkey = cursor_be64(&c);
	if (directed) {
		s->dr_slid = cursor_be16(&c);
		s->dr_dlid = cursor_be16(&c);
		cursor_skip(&c, 28);
	} else {
		cursor_skip(&c, 32);
	}
	cursor_bytes(&c, s->data, sizeof(s->data));
	if (directed) {
		cursor_bytes(&c, s->initial_path, sizeof(s->initial_path));
		cursor_bytes(&c, s->return_path, sizeof(s->return_path));
	}
	assert(!c.overrun);
	return 0;
}

void smp_encode(const struct smp *s, uint8_t mad[MAD_LEN])
{
	struct wcursor c = wcursor_init(mad, MAD_LEN);
	bool directed = s->mgmt_class == SMP_CLASS_DR;
	struct mad_hdr h = {
		.base_version = MAD_BASE_VERSION,
		.mgmt_class = s->mgmt_class,
		.class_version = s->class_version,
		.method = s->method,
		.status = (uint16_t)(s->status & ~D_BIT),
		.tid = s->tid,
		.attr_id = s->attr_id,
		.attr_mod = s->attr_mod,
	};

	if (directed) {
		h.status = (uint16_t)(h.status | (s->returning ? D_BIT : 0));
		h.class_specific = (uint16_t)(s->hop_ptr << 8 | s->hop_count);
	}
	mad_hdr_encode(&h, &c);
	wcursor_be64(&c, s->mkey);
	wcursor_be16(&c, directed ? s->dr_slid : 0);
	wcursor_be16(&c, directed ? s->dr_dlid : 0);
	wcursor_zero(&c, 28);
	wcursor_bytes(&c, s->data, sizeof(s->data));
	if (directed) {
		wcursor_bytes(&c, s->initial_path, sizeof(s->initial_path));
		wcursor_bytes(&c, s->return_path, sizeof(s->return_path));
	} else {
		wcursor_zero(&c, sizeof(s->initial_path) + sizeof(s->return_path));
	}
	assert(!c.overrun && c.p == c.end);
}

/* An attribute may be shorter than its room: the rest is zero. */
static void put(const struct wcursor *c, const uint8_t bytes[SMP_DATA_LEN],
		uint8_t data[SMP_DATA_LEN])
{
	assert(!c->overrun);
	memcpy(data, bytes, SMP_DATA_LEN);
}

/* ---- NodeInfo (14.2.5.3) ------------------------------------------------------------------- */

void smp_node_info_unpack(struct smp_node_info *n, const uint8_t data[SMP_DATA_LEN])
{
	struct cursor c = cursor_init(data, SMP_DATA_LEN);

	n->base_version = cursor_u8(&c);
	n->class_version = cursor_u8(&c);
	n->node_type = cursor_u8(&c);
	n->ports = cursor_u8(&c);
	n->system_guid = cursor_be64(&c);
	n->node_guid = cursor_be64(&c);
	n->port_guid = cursor_be64(&c);
	n->partition_cap = cursor_be16(&c);
	n->device_id = cursor_be16(&c);
	n->revision = cursor_be32(&c);
	n->local_port = cursor_u8(&c);
	n->vendor_id = cursor_be24(&c);
}

void smp_node_info_pack(const struct smp_node_info *n, uint8_t data[SMP_DATA_LEN])
{
	uint8_t bytes[SMP_DATA_LEN] = {0};
	struct wcursor c = wcursor_init(bytes, sizeof(bytes));

	wcursor_u8(&c, n->base_version);
	wcursor_u8(&c, n->class_version);
	wcursor_u8(&c, n->node_type);
	wcursor_u8(&c, n->ports);
	wcursor_be64(&c, n->system_guid);
	wcursor_be64(&c, n->node_guid);
	wcursor_be64(&c, n->port_guid);
	wcursor_be16(&c, n->partition_cap);
	wcursor_be16(&c, n->device_id);
	wcursor_be32(&c, n->revision);
	wcursor_u8(&c, n->local_port);
	wcursor_be24(&c, n->vendor_id);
	put(&c, bytes, data);
}

/* ---- SwitchInfo (14.2.5.4) ----------------------------------------------------------------- */

static struct smp_filters filters_unpack(unsigned bits)
{
	return (struct smp_filters){
		.pkeys_in = bits & 8,
		.pkeys_out = bits & 4,
		.raw_in = bits & 2,
		.raw_out = bits & 1,
	};
}

static unsigned filters_pack(const struct smp_filters *f)
{
	return (f->pkeys_in ? 8u : 0) | (f->pkeys_out ? 4u : 0) | (f->raw_in ? 2u : 0) |
	       (f->raw_out ? 1u : 0);
}

void smp_switch_info_unpack(struct smp_switch_info *s, const uint8_t data[SMP_DATA_LEN])
{
	struct cursor c = cursor_init(data, SMP_DATA_LEN);
	uint8_t b;

	s->linear_cap = cursor_be16(&c);
	s->random_cap = cursor_be16(&c);
	s->multicast_cap = cursor_be16(&c);
	s->linear_top = cursor_be16(&c);
	s->default_port = cursor_u8(&c);
	s->default_multicast_port = cursor_u8(&c);
	s->default_multicast_not_primary = cursor_u8(&c);
	b = cursor_u8(&c); /* life time 5, port state change 1, optimized SL to VL 2 */
	s->life_time = b >> 3;
	s->port_state_change = b & 0x04;
	s->optimized_sl_to_vl = b & 3;
	s->lids_per_port = cursor_be16(&c);
	s->partition_enforcement_cap = cursor_be16(&c);
	b = cursor_u8(&c); /* filters 4, enhanced port 0 1, reserved 3 */
	s->filters = filters_unpack(b >> 4);
	s->enhanced_port0 = b & 0x08;
	cursor_skip(&c, 1);
	s->multicast_top = cursor_be16(&c);
}

void smp_switch_info_pack(const struct smp_switch_info *s, uint8_t data[SMP_DATA_LEN])
{
	uint8_t bytes[SMP_DATA_LEN] = {0};
	struct wcursor c = wcursor_init(bytes, sizeof(bytes));

	wcursor_be16(&c, s->linear_cap);
	wcursor_be16(&c, s->random_cap);
	wcursor_be16(&c, s->multicast_cap);
	wcursor_be16(&c, s->linear_top);
	wcursor_u8(&c, s->default_port);
	wcursor_u8(&c, s->default_multicast_port);
	wcursor_u8(&c, s->default_multicast_not_primary);
	wcursor_u8(&c, (uint8_t)(s->life_time << 3 | s->port_state_change << 2 |
				 (s->optimized_sl_to_vl & 3)));
	wcursor_be16(&c, s->lids_per_port);
	wcursor_be16(&c, s->partition_enforcement_cap);
	wcursor_u8(&c, (uint8_t)(filters_pack(&s->filters) << 4 | s->enhanced_port0 << 3));
	wcursor_zero(&c, 1);
	wcursor_be16(&c, s->multicast_top);
	put(&c, bytes, data);
}

/* ---- PortInfo (14.2.5.6) ------------------------------------------------------------------- */

static void port_info_links_unpack(struct smp_port_info *p, struct cursor *c)
{
	uint8_t b;

	p->local_port = cursor_u8(c);
	p->width_enabled = cursor_u8(c);
	p->width_supported = cursor_u8(c);
	p->width_active = cursor_u8(c);
	b = cursor_u8(c); /* speed supported 4, state 4 */
	p->speed_supported = b >> 4;
	p->state = b & 0xf;
	b = cursor_u8(c); /* physical state 4, state when down 4 */
	p->phys_state = b >> 4;
	p->link_down_default = b & 0xf;
	b = cursor_u8(c); /* M_Key protection 2, reserved 3, LMC 3 */
	p->mkey_protect = b >> 6;
	p->lmc = b & 7;
	b = cursor_u8(c); /* speed active 4, enabled 4 */
	p->speed_active = b >> 4;
	p->speed_enabled = b & 0xf;
	b = cursor_u8(c); /* neighbour's MTU 4, the manager's SL 4 */
	p->neighbour_mtu = b >> 4;
	p->sm_sl = b & 0xf;
	b = cursor_u8(c); /* VL cap 4, init type 4 */
	p->vl_cap = b >> 4;
	p->init_type = b & 0xf;
	p->vl_high_limit = cursor_u8(c);
	p->vl_arbitration_high_cap = cursor_u8(c);
	p->vl_arbitration_low_cap = cursor_u8(c);
	b = cursor_u8(c); /* init type's reply 4, MTU cap 4 */
	p->init_type_reply = b >> 4;
	p->mtu_cap = b & 0xf;
	b = cursor_u8(c); /* stall count 3, life at the head of a queue 5 */
	p->vl_stall_count = b >> 5;
	p->hoq_life = b & 0x1f;
	b = cursor_u8(c); /* operational VLs 4, filters 4 */
	p->operational_vls = b >> 4;
	p->filters = filters_unpack(b);
}

static void port_info_links_pack(const struct smp_port_info *p, struct wcursor *c)
{
	wcursor_u8(c, p->local_port);
	wcursor_u8(c, p->width_enabled);
	wcursor_u8(c, p->width_supported);
	wcursor_u8(c, p->width_active);
	wcursor_u8(c, (uint8_t)(p->speed_supported << 4 | (p->state & 0xf)));
	wcursor_u8(c, (uint8_t)(p->phys_state << 4 | (p->link_down_default & 0xf)));
	wcursor_u8(c, (uint8_t)(p->mkey_protect << 6 | (p->lmc & 7)));
	wcursor_u8(c, (uint8_t)(p->speed_active << 4 | (p->speed_enabled & 0xf)));
	wcursor_u8(c, (uint8_t)(p->neighbour_mtu << 4 | (p->sm_sl & 0xf)));
	wcursor_u8(c, (uint8_t)(p->vl_cap << 4 | (p->init_type & 0xf)));
	wcursor_u8(c, p->vl_high_limit);
	wcursor_u8(c, p->vl_arbitration_high_cap);
	wcursor_u8(c, p->vl_arbitration_low_cap);
	wcursor_u8(c, (uint8_t)(p->init_type_reply << 4 | (p->mtu_cap & 0xf)));
	wcursor_u8(c, (uint8_t)(p->vl_stall_count << 5 | (p->hoq_life & 0x1f)));
	wcursor_u8(c, (uint8_t)(p->operational_vls << 4 | filters_pack(&p->filters)));
}

void smp_port_info_unpack(struct smp_port_info *p, const uint8_t data[SMP_DATA_LEN])
{
	struct cursor c = cursor_init(data, SMP_DATA_LEN);
	uint8_t b;

	p->mkey = cursor_be64(&c);
	p->gid_prefix = cursor_be64(&c);
	p->lid = cursor_be16(&c);
	p->sm_lid = cursor_be16(&c);
	p->capability_mask = cursor_be32(&c);
	p->diag_code = cursor_be16(&c);
	p->mkey_lease_period = cursor_be16(&c);
	port_info_links_unpack(p, &c);
	p->mkey_violations = cursor_be16(&c);
	p->pkey_violations = cursor_be16(&c);
	p->qkey_violations = cursor_be16(&c);
	p->guid_cap = cursor_u8(&c);
	b = cursor_u8(&c); /* reregister 1, trap suppression 2, subnet timeout 5 */
	p->client_reregister = b & 0x80;
	p->multicast_pkey_trap_suppression = b >> 5 & 3;
	p->subnet_timeout = b & 0x1f;
	p->response_time = cursor_u8(&c) & 0x1f;
	b = cursor_u8(&c); /* thresholds of errors: 4, 4 */
	p->local_phy_errors = b >> 4;
	p->overrun_errors = b & 0xf;
	p->max_credit_hint = cursor_be16(&c);
	cursor_skip(&c, 1);
	p->round_trip_latency = cursor_be24(&c);
	p->capability_mask2 = cursor_be16(&c);
	b = cursor_u8(&c); /* extended speed active 4, supported 4 */
	p->speed_ext_active = b >> 4;
	p->speed_ext_supported = b & 0xf;
	p->speed_ext_enabled = cursor_u8(&c) & 0x1f;
	assert(!c.overrun && cursor_left(&c) == 0);
}

void smp_port_info_pack(const struct smp_port_info *p, uint8_t data[SMP_DATA_LEN])
{
	uint8_t bytes[SMP_DATA_LEN] = {0};
	struct wcursor c = wcursor_init(bytes, sizeof(bytes));

	wcursor_be64(&c, p->mkey);
	wcursor_be64(&c, p->gid_prefix);
	wcursor_be16(&c, p->lid);
	wcursor_be16(&c, p->sm_lid);
	wcursor_be32(&c, p->capability_mask);
	wcursor_be16(&c, p->diag_code);
	wcursor_be16(&c, p->mkey_lease_period);
	port_info_links_pack(p, &c);
	wcursor_be16(&c, p->mkey_violations);
	wcursor_be16(&c, p->pkey_violations);
	wcursor_be16(&c, p->qkey_violations);
	wcursor_u8(&c, p->guid_cap);
	wcursor_u8(&c, (uint8_t)(p->client_reregister << 7 |
				 (p->multicast_pkey_trap_suppression & 3) << 5 |
				 (p->subnet_timeout & 0x1f)));
	wcursor_u8(&c, p->response_time & 0x1f);
	wcursor_u8(&c, (uint8_t)(p->local_phy_errors << 4 | (p->overrun_errors & 0xf)));
	wcursor_be16(&c, p->max_credit_hint);
	wcursor_zero(&c, 1);
	wcursor_be24(&c, p->round_trip_latency);
	wcursor_be16(&c, p->capability_mask2);
	wcursor_u8(&c, (uint8_t)(p->speed_ext_active << 4 | (p->speed_ext_supported & 0xf)));
	wcursor_u8(&c, p->speed_ext_enabled & 0x1f);
	put(&c, bytes, data);
}

unsigned smp_lanes_of_vls(uint8_t vls)
{
	return vls == 0 || vls > 5 ? 0 : vls == 5 ? 15 : 1u << (vls - 1);
}

uint8_t smp_vls_of_lanes(unsigned lanes)
{
	for (uint8_t vls = 1; vls <= 5; vls++)
		if (smp_lanes_of_vls(vls) == lanes)
			return vls;
	return 0;
}

/* ---- tables -------------------------------------------------------------------------------- */

void smp_sl_to_vl_unpack(struct smp_sl_to_vl *t, const uint8_t data[SMP_DATA_LEN])
{
	for (size_t sl = 0; sl < ARRAY_SIZE(t->vl); sl++)
		t->vl[sl] = sl % 2 ? data[sl / 2] & 0xf : data[sl / 2] >> 4;
}

void smp_sl_to_vl_pack(const struct smp_sl_to_vl *t, uint8_t data[SMP_DATA_LEN])
{
	memset(data, 0, SMP_DATA_LEN);
	for (size_t sl = 0; sl < ARRAY_SIZE(t->vl); sl += 2)
		data[sl / 2] = (uint8_t)(t->vl[sl] << 4 | (t->vl[sl + 1] & 0xf));
}

void smp_vl_arbitration_unpack(struct smp_vl_arbitration *t, bool second,
			       const uint8_t data[SMP_DATA_LEN])
{
	unsigned first = second ? SMP_VL_ARBITRATION_BLOCK : 0;

	for (unsigned i = 0; i < SMP_VL_ARBITRATION_BLOCK; i++) {
		t->lane[first + i] = data[2 * i] & 0xf;
		t->weight[first + i] = data[2 * i + 1];
	}
	if (second || t->n <= SMP_VL_ARBITRATION_BLOCK)
		t->n = first + SMP_VL_ARBITRATION_BLOCK;
	while (t->n && !t->weight[t->n - 1])
		t->n--;
}

void smp_vl_arbitration_pack(const struct smp_vl_arbitration *t, bool second,
			     uint8_t data[SMP_DATA_LEN])
{
	unsigned first = second ? SMP_VL_ARBITRATION_BLOCK : 0;

	memset(data, 0, SMP_DATA_LEN);
	for (unsigned i = 0; i < SMP_VL_ARBITRATION_BLOCK && first + i < t->n; i++) {
		data[2 * i] = t->lane[first + i] & 0xf;
		data[2 * i + 1] = t->weight[first + i];
	}
}

void smp_pkey_block_unpack(struct smp_pkey_block *t, const uint8_t data[SMP_DATA_LEN])
{
	for (size_t i = 0; i < ARRAY_SIZE(t->pkey); i++)
		t->pkey[i] = ld_be16(data + 2 * i);
}

void smp_pkey_block_pack(const struct smp_pkey_block *t, uint8_t data[SMP_DATA_LEN])
{
	for (size_t i = 0; i < ARRAY_SIZE(t->pkey); i++)
		st_be16(data + 2 * i, t->pkey[i]);
}

void smp_guid_block_unpack(struct smp_guid_block *t, const uint8_t data[SMP_DATA_LEN])
{
	for (size_t i = 0; i < ARRAY_SIZE(t->guid); i++)
		t->guid[i] = ld_be64(data + 8 * i);
}

void smp_guid_block_pack(const struct smp_guid_block *t, uint8_t data[SMP_DATA_LEN])
{
	for (size_t i = 0; i < ARRAY_SIZE(t->guid); i++)
		st_be64(data + 8 * i, t->guid[i]);
}

/* ---- Notice (13.4.8.2) --------------------------------------------------------------------- */

void smp_notice_unpack(struct smp_notice *n, const uint8_t data[SMP_DATA_LEN])
{
	struct cursor c = cursor_init(data, SMP_DATA_LEN);
	uint16_t w;
	uint8_t b;

	b = cursor_u8(&c); /* generic 1, type 7 */
	n->generic = b & 0x80;
	n->type = b & 0x7f;
	n->producer = cursor_be24(&c);
	n->trap = cursor_be16(&c);
	n->issuer_lid = cursor_be16(&c);
	w = cursor_be16(&c); /* toggle 1, count 15 */
	n->toggle = w & 0x8000;
	n->count = w & 0x7fff;
	cursor_bytes(&c, n->details, sizeof(n->details));
	assert(!c.overrun && cursor_left(&c) == 0);
}

void smp_notice_pack(const struct smp_notice *n, uint8_t data[SMP_DATA_LEN])
{
	uint8_t bytes[SMP_DATA_LEN] = {0};
	struct wcursor c = wcursor_init(bytes, sizeof(bytes));

	wcursor_u8(&c, (uint8_t)(n->generic << 7 | (n->type & 0x7f)));
	wcursor_be24(&c, n->producer);
	wcursor_be16(&c, n->trap);
	wcursor_be16(&c, n->issuer_lid);
	wcursor_be16(&c, (uint16_t)(n->toggle << 15 | (n->count & 0x7fff)));
	wcursor_bytes(&c, n->details, sizeof(n->details));
	put(&c, bytes, data);
}
