/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "wire/nvme_auth.h"

#include "wire/nvme_fabrics.h"

#define DESCRIPTOR_LEN 64 /* of a protocol, in AUTH_Negotiate */
#define SUCCESS2_REST  10

/* Bytes 41 and 42 what is specific to the protocol, 43 the protocol, 44 the length. */
void nvmf_auth_cmd_from_sqe(struct nvmf_auth_cmd *ret, const struct nvme_sqe *s)
{
	ret->spsp0 = (uint8_t)(s->cdw10 >> 8);
	ret->spsp1 = (uint8_t)(s->cdw10 >> 16);
	ret->secp = (uint8_t)(s->cdw10 >> 24);
	ret->len = s->cdw11;
}

void nvmf_auth_cmd_to_sqe(const struct nvmf_auth_cmd *a, uint8_t fctype, struct nvme_sqe *s)
{
	s->opcode = NVME_FABRICS;
	s->nsid = fctype;
	s->cdw10 = (uint32_t)a->spsp0 << 8 | (uint32_t)a->spsp1 << 16 | (uint32_t)a->secp << 24;
	s->cdw11 = a->len;
}

const char *nvmf_auth_failure_name(uint8_t explanation)
{
	switch ((enum nvmf_auth_failure)explanation) {
	case NVMF_AUTH_FAILED:
		return "authentication failed";
	case NVMF_AUTH_NOT_USABLE:
		return "authentication protocol not usable";
	case NVMF_AUTH_CONCAT_MISMATCH:
		return "secure channel concatenation mismatch";
	case NVMF_AUTH_HASH_UNUSABLE:
		return "hash function not usable";
	case NVMF_AUTH_DHGROUP_UNUSABLE:
		return "DH group not usable";
	case NVMF_AUTH_INCORRECT_PAYLOAD:
		return "incorrect payload";
	case NVMF_AUTH_INCORRECT_MESSAGE:
		return "incorrect protocol message";
	}
	return "unknown reason";
}

/* --- heads ------------------------------------------------------------------------------------ */

/* Type, ID, two reserved bytes, transaction. */
static struct nvmf_auth_head head_get(struct cursor *c)
{
	struct nvmf_auth_head h;

	h.type = cursor_u8(c);
	h.id = cursor_u8(c);
	cursor_skip(c, 2);
	h.t_id = cursor_le16(c);
	return h;
}

static void head_put(struct wcursor *c, uint8_t type, uint8_t id, uint16_t t_id)
{
	wcursor_u8(c, type);
	wcursor_u8(c, id);
	wcursor_zero(c, 2);
	wcursor_le16(c, t_id);
}

void nvmf_auth_head_peek(struct cursor *c, struct nvmf_auth_head *ret)
{
	struct cursor at = *c;

	*ret = head_get(&at);
	c->overrun = at.overrun;
}

static void values_put(struct wcursor *c, const uint8_t *p, size_t n)
{
	if (p)
		wcursor_bytes(c, p, n);
	else
		wcursor_zero(c, n);
}

/* --- AUTH_Negotiate --------------------------------------------------------------------------- */

/* A list of 30 has an unused rest, which is nothing's. */
static void ids_get(struct cursor *c, uint8_t ids[NVMF_AUTH_IDS_MAX], uint8_t count)
{
	cursor_bytes(c, ids, NVMF_AUTH_IDS_MAX);
	for (unsigned int i = count; i < NVMF_AUTH_IDS_MAX; i++)
		ids[i] = 0;
}

static void descriptor_get(struct cursor *c, struct nvmf_auth_negotiate *s)
{
	uint8_t protocol = cursor_u8(c);

	if (s->dhchap || protocol != NVMF_AUTH_PROTOCOL_DHCHAP) {
		cursor_skip(c, DESCRIPTOR_LEN - 1);
		return;
	}
	s->dhchap = true;
	cursor_skip(c, 1);
	s->halen = cursor_u8(c);
	s->dhlen = cursor_u8(c);
	ids_get(c, s->hashes, s->halen);
	ids_get(c, s->dhgroups, s->dhlen);
}

void nvmf_auth_negotiate_get(struct cursor *c, struct nvmf_auth_negotiate *s)
{
	*s = (struct nvmf_auth_negotiate){.t_id = head_get(c).t_id};
	s->sc_c = cursor_u8(c);
	s->napd = cursor_u8(c);
	for (unsigned int i = 0; i < s->napd && !c->overrun; i++)
		descriptor_get(c, s);
}

/* With the one protocol that we have. */
void nvmf_auth_negotiate_put(struct wcursor *c, const struct nvmf_auth_negotiate *s)
{
	head_put(c, NVMF_AUTH_COMMON, NVMF_AUTH_NEGOTIATE, s->t_id);
	wcursor_u8(c, s->sc_c);
	wcursor_u8(c, 1);
	wcursor_u8(c, NVMF_AUTH_PROTOCOL_DHCHAP);
	wcursor_zero(c, 1);
	wcursor_u8(c, s->halen);
	wcursor_u8(c, s->dhlen);
	wcursor_bytes(c, s->hashes, NVMF_AUTH_IDS_MAX);
	wcursor_bytes(c, s->dhgroups, NVMF_AUTH_IDS_MAX);
}

/* --- DH-HMAC-CHAP ----------------------------------------------------------------------------- */

void nvmf_auth_challenge_get(struct cursor *c, struct nvmf_auth_challenge *s)
{
	s->t_id = head_get(c).t_id;
	s->hl = cursor_u8(c);
	cursor_skip(c, 1);
	s->hash = cursor_u8(c);
	s->dhgroup = cursor_u8(c);
	s->dhvlen = cursor_le16(c);
	s->seqnum = cursor_le32(c);
	s->cval = cursor_take(c, s->hl);
	s->dhval = cursor_take(c, s->dhvlen);
}

void nvmf_auth_challenge_put(struct wcursor *c, const struct nvmf_auth_challenge *s)
{
	head_put(c, NVMF_AUTH_DHCHAP, NVMF_AUTH_CHALLENGE, s->t_id);
	wcursor_u8(c, s->hl);
	wcursor_zero(c, 1);
	wcursor_u8(c, s->hash);
	wcursor_u8(c, s->dhgroup);
	wcursor_le16(c, s->dhvlen);
	wcursor_le32(c, s->seqnum);
	values_put(c, s->cval, s->hl);
	values_put(c, s->dhval, s->dhvlen);
}

void nvmf_auth_reply_get(struct cursor *c, struct nvmf_auth_reply *s)
{
	s->t_id = head_get(c).t_id;
	s->hl = cursor_u8(c);
	cursor_skip(c, 1);
	s->cvalid = cursor_u8(c) & 1;
	cursor_skip(c, 1);
	s->dhvlen = cursor_le16(c);
	s->seqnum = cursor_le32(c);
	s->rval = cursor_take(c, s->hl);
	s->cval = cursor_take(c, s->hl);
	s->dhval = cursor_take(c, s->dhvlen);
}

void nvmf_auth_reply_put(struct wcursor *c, const struct nvmf_auth_reply *s)
{
	head_put(c, NVMF_AUTH_DHCHAP, NVMF_AUTH_REPLY, s->t_id);
	wcursor_u8(c, s->hl);
	wcursor_zero(c, 1);
	wcursor_u8(c, s->cvalid);
	wcursor_zero(c, 1);
	wcursor_le16(c, s->dhvlen);
	wcursor_le32(c, s->seqnum);
	values_put(c, s->rval, s->hl);
	values_put(c, s->cval, s->hl);
	values_put(c, s->dhval, s->dhvlen);
}

void nvmf_auth_success1_get(struct cursor *c, struct nvmf_auth_success1 *s)
{
	s->t_id = head_get(c).t_id;
	s->hl = cursor_u8(c);
	cursor_skip(c, 1);
	s->rvalid = cursor_u8(c) & 1;
	cursor_skip(c, 7);
	s->rval = s->rvalid ? cursor_take(c, s->hl) : NULL;
}

void nvmf_auth_success1_put(struct wcursor *c, const struct nvmf_auth_success1 *s)
{
	head_put(c, NVMF_AUTH_DHCHAP, NVMF_AUTH_SUCCESS1, s->t_id);
	wcursor_u8(c, s->hl);
	wcursor_zero(c, 1);
	wcursor_u8(c, s->rvalid);
	wcursor_zero(c, 7);
	if (s->rvalid)
		values_put(c, s->rval, s->hl);
}

void nvmf_auth_success2_put(struct wcursor *c, uint16_t t_id)
{
	head_put(c, NVMF_AUTH_DHCHAP, NVMF_AUTH_SUCCESS2, t_id);
	wcursor_zero(c, SUCCESS2_REST);
}

void nvmf_auth_failure_get(struct cursor *c, struct nvmf_auth_failure_msg *s)
{
	s->t_id = head_get(c).t_id;
	s->reason = cursor_u8(c);
	s->explanation = cursor_u8(c);
}

void nvmf_auth_failure_put(struct wcursor *c, uint8_t id, const struct nvmf_auth_failure_msg *s)
{
	head_put(c, NVMF_AUTH_COMMON, id, s->t_id);
	wcursor_u8(c, s->reason);
	wcursor_u8(c, s->explanation);
}
