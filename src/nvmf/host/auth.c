/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * DH-HMAC-CHAP as the host does it, one queue at a time: what is said next, and what is made of the
 * answers. steps.c sends and fetches. Base 2.0 section 8.13.5.
 *
 *	Negotiate, (fetch) Challenge, Reply, (fetch) Success1 [, Success2]
 *
 * All that a challenge leaves to be remembered is the response that the controller has to give to
 * ours, and the key of TLS that is to come of both challenges, where one is (secure channel
 * concatenation, section 8.13.5.9): keys, DH exponents and secrets are wiped before the reply is
 * sent.
 */
#include <assert.h>
#include <string.h>

#include "nvmf/auth/proof.h"
#include "nvmf/host/internal.h"

/* Behind the data of Connect, which other queues may be sending. */
#define MESSAGE_AT 2048
_Static_assert(MESSAGE_AT >= NVMF_CONNECT_DATA_LEN &&
		       MESSAGE_AT + NVMF_AUTH_MESSAGE_MAX <= HOST_SCRATCH_LEN,
	       "room for a message");

uint8_t *host_auth_message(struct host *h)
{
	return h->scratch + MESSAGE_AT;
}

static struct wcursor writer(struct host *h)
{
	return wcursor_init(host_auth_message(h), NVMF_AUTH_MESSAGE_MAX);
}

static enum host_auth_next say(struct host *h, const struct wcursor *w, enum host_auth_step step)
{
	h->auth.step = step;
	h->auth.len = (uint32_t)(w->p - host_auth_message(h));
	return HOST_AUTH_SEND;
}

static enum host_auth_next listen_for(struct host *h, enum host_auth_step step)
{
	memset(host_auth_message(h), 0, NVMF_AUTH_MESSAGE_MAX);
	h->auth.step = step;
	h->auth.len = NVMF_AUTH_MESSAGE_MAX;
	return HOST_AUTH_FETCH;
}

/* The controller hears why before the connection ends. */
static enum host_auth_next fail(struct host *h, enum nvmf_auth_failure failure, const char *why)
{
	const struct nvmf_auth_failure_msg f = {
		.t_id = h->auth.t_id, .reason = NVMF_AUTH_REASON_FAILED, .explanation = failure};
	struct wcursor w = writer(h);

	auth_wipe(&h->auth.psk, sizeof(h->auth.psk));
	h->auth.why = why;
	nvmf_auth_failure_put(&w, NVMF_AUTH_FAILURE2, &f);
	return say(h, &w, HOST_AUTH_SENT_FAILURE2);
}

/* What is to come of a transaction; a live association that has a key may have it replaced. */
static uint8_t concatenation(const struct host *h, uint16_t qid)
{
	if (!h->config.concat || h->discovery || qid)
		return NVMF_AUTH_NOSC;
	if (!h->secured)
		return NVMF_AUTH_NEWTLSPSK;
	return h->auth.again ? NVMF_AUTH_REPLACETLSPSK : NVMF_AUTH_NOSC;
}

enum host_auth_next host_auth_begin(struct host *h, uint16_t qid)
{
	static const uint8_t dhgroups[] = {NVMF_AUTH_DH_NULL, NVMF_AUTH_DH_2048, NVMF_AUTH_DH_3072,
					   NVMF_AUTH_DH_4096, NVMF_AUTH_DH_6144, NVMF_AUTH_DH_8192};
	const uint8_t sc_c = concatenation(h, qid);
	struct nvmf_auth_negotiate n = {
		.t_id = ++h->auth.last_t_id,
		.sc_c = sc_c,
		/* No cipher suite has SHA-512, and of the NULL group comes no secret. */
		.halen = sc_c ? 2 : 3,
		.dhlen = sc_c ? 5 : 6,
		.hashes = {NVMF_AUTH_SHA256, NVMF_AUTH_SHA384, NVMF_AUTH_SHA512},
	};
	struct wcursor w = writer(h);

	memcpy(n.dhgroups, dhgroups + sizeof(dhgroups) - n.dhlen, n.dhlen);
	h->auth.t_id = n.t_id;
	h->auth.sc_c = sc_c;
	h->auth.psk.len = 0;
	h->auth.why = NULL;
	nvmf_auth_negotiate_put(&w, &n);
	return say(h, &w, HOST_AUTH_SENT_NEGOTIATE);
}

/* --- the challenge ---------------------------------------------------------------------------- */

struct secrets {
	uint8_t random[AUTH_DH_PRIVATE_LEN], secret[NVMF_AUTH_DH_MAX];
	uint8_t response[NVMF_AUTH_HASH_MAX];
};

static void draw(struct host *h, void *p, size_t len)
{
	h->config.random(h->config.arg, p, len);
}

static enum host_auth_next reply(struct host *h, const struct nvmf_auth_challenge *ch,
				 struct secrets *s)
{
	struct auth_round round = {.hash = ch->hash,
				   .t_id = ch->t_id,
				   .sc_c = h->auth.sc_c,
				   .hostnqn = h->config.hostnqn,
				   .subnqn = h->config.subnqn,
				   .secret = s->secret,
				   .secret_len = ch->dhvlen};
	uint8_t ours[NVMF_AUTH_HASH_MAX], public[NVMF_AUTH_DH_MAX];
	struct nvmf_auth_reply re = {.t_id = ch->t_id,
				     .hl = ch->hl,
				     .dhvlen = ch->dhvlen,
				     .rval = s->response,
				     .dhval = public};
	struct wcursor w = writer(h);

	if (ch->dhvlen) {
		draw(h, s->random, sizeof(s->random));
		if (!auth_dh_secret(ch->dhgroup, s->random, ch->dhval, s->secret))
			return fail(h, NVMF_AUTH_INCORRECT_PAYLOAD,
				    "the controller's DH value gives the secret away");
		if (!auth_dh_public(ch->dhgroup, s->random, public))
			goto broken;
	}
	if (!auth_host_response(&round, &h->config.key, ch->cval, ch->seqnum, s->response))
		goto broken;
	if (h->config.ctrl_key.len || h->auth.sc_c) {
		draw(h, ours, ch->hl);
		re.cvalid = true;
		re.cval = ours;
	}
	if (h->config.ctrl_key.len) {
		do
			draw(h, &re.seqnum, sizeof(re.seqnum));
		while (!re.seqnum); /* 0 would say that we do not ask */
		if (!auth_ctrl_response(&round, &h->config.ctrl_key, ours, re.seqnum,
					h->auth.expected))
			goto broken;
	}
	if (h->auth.sc_c && !auth_psk_generate(ch->hash, s->secret, ch->dhvlen, ch->cval, ours,
					       h->config.hostnqn, h->config.subnqn, &h->auth.psk))
		goto broken;
	/* The challenge lies where the reply is written; it is not needed any more. */
	h->auth.hl = ch->hl;
	nvmf_auth_reply_put(&w, &re);
	return say(h, &w, HOST_AUTH_SENT_REPLY);
broken:
	return fail(h, NVMF_AUTH_FAILED, "libcrypto fails, perhaps for want of memory");
}

static enum host_auth_next take_challenge(struct host *h, struct cursor *c)
{
	struct nvmf_auth_challenge ch;
	struct secrets s;
	enum host_auth_next next;

	nvmf_auth_challenge_get(c, &ch);
	if (c->overrun)
		return fail(h, NVMF_AUTH_INCORRECT_PAYLOAD, "its challenge is cut short");
	if (!auth_hash_len(ch.hash) || ch.hl != auth_hash_len(ch.hash) ||
	    (h->auth.sc_c && ch.hash == NVMF_AUTH_SHA512))
		return fail(h, NVMF_AUTH_HASH_UNUSABLE, "it wants a hash that was not offered");
	if (!auth_dhgroup_known(ch.dhgroup) || (h->auth.sc_c && ch.dhgroup == NVMF_AUTH_DH_NULL))
		return fail(h, NVMF_AUTH_DHGROUP_UNUSABLE,
			    "it wants a DH group that was not offered");
	if (ch.dhvlen != auth_dh_len(ch.dhgroup))
		return fail(h, NVMF_AUTH_INCORRECT_PAYLOAD, "its DH value is of the wrong length");
	next = reply(h, &ch, &s);
	auth_wipe(&s, sizeof(s));
	return next;
}

/* --- the end ---------------------------------------------------------------------------------- */

static enum host_auth_next take_success1(struct host *h, struct cursor *c)
{
	struct nvmf_auth_success1 s;
	struct wcursor w = writer(h);
	bool right;

	nvmf_auth_success1_get(c, &s);
	if (c->overrun || s.hl != h->auth.hl)
		return fail(h, NVMF_AUTH_INCORRECT_PAYLOAD, "its success is cut short");
	if (!h->config.ctrl_key.len)
		return HOST_AUTH_DONE;
	right = s.rvalid && auth_equal(s.rval, h->auth.expected, s.hl);
	auth_wipe(h->auth.expected, sizeof(h->auth.expected));
	if (!right)
		return fail(h, NVMF_AUTH_FAILED,
			    s.rvalid ? "it does not have the controller's key that was given"
				     : "it does not prove who it is, as was asked");
	nvmf_auth_success2_put(&w, h->auth.t_id);
	return say(h, &w, HOST_AUTH_SENT_SUCCESS2);
}

static const char *refusal(uint8_t explanation)
{
	switch (explanation) {
	case NVMF_AUTH_FAILED:
		return "it does not take this host's key, or has none to prove itself by";
	case NVMF_AUTH_NOT_USABLE:
		return "it has no key of this host's";
	case NVMF_AUTH_CONCAT_MISMATCH:
		return "it makes no key of TLS (secure channel concatenation): none is spoken "
		       "where this host has come to";
	default:
		return nvmf_auth_failure_name(explanation);
	}
}

static enum host_auth_next take_message(struct host *h)
{
	struct cursor c = cursor_init(host_auth_message(h), NVMF_AUTH_MESSAGE_MAX);
	bool first = h->auth.step == HOST_AUTH_AWAITS_CHALLENGE;
	struct nvmf_auth_failure_msg f;
	struct nvmf_auth_head head;

	nvmf_auth_head_peek(&c, &head);
	if (head.type == NVMF_AUTH_COMMON && head.id == NVMF_AUTH_FAILURE1) {
		nvmf_auth_failure_get(&c, &f);
		h->auth.why = refusal(f.explanation);
		return HOST_AUTH_FAILED;
	}
	if (head.type != NVMF_AUTH_DHCHAP ||
	    head.id != (first ? NVMF_AUTH_CHALLENGE : NVMF_AUTH_SUCCESS1))
		return fail(h, NVMF_AUTH_INCORRECT_MESSAGE, "it sends another message than is due");
	if (head.t_id != h->auth.t_id)
		return fail(h, NVMF_AUTH_INCORRECT_PAYLOAD, "it answers another transaction");
	return first ? take_challenge(h, &c) : take_success1(h, &c);
}

enum host_auth_next host_auth_go_on(struct host *h)
{
	switch (h->auth.step) {
	case HOST_AUTH_SENT_NEGOTIATE:
		return listen_for(h, HOST_AUTH_AWAITS_CHALLENGE);
	case HOST_AUTH_SENT_REPLY:
		return listen_for(h, HOST_AUTH_AWAITS_SUCCESS1);
	case HOST_AUTH_AWAITS_CHALLENGE:
	case HOST_AUTH_AWAITS_SUCCESS1:
		return take_message(h);
	case HOST_AUTH_SENT_SUCCESS2:
		return HOST_AUTH_DONE;
	case HOST_AUTH_SENT_FAILURE2:
		break;
	}
	return HOST_AUTH_FAILED;
}
