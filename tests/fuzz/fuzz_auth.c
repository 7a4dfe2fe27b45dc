/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Authentication: the messages, keys as text, and both sides of DH-HMAC-CHAP before a peer that has
 * no key and follows no rule. A host without the key is never let in, a controller without it never
 * believed, every command is answered, one transaction is all that a queue costs, and nothing is
 * left.
 * Input: a byte that chooses one of these, then its bytes.
 */
#include "fuzz.h"

#include <string.h>

#include "base/time.h"
#include "nvmf/auth/proof.h"
#include "nvmf/auth/psk.h"
#include "nvmf/host/host.h"
#include "nvmf/target/target.h"

#define SUBNQN	"nqn.2024-01.test:one"
#define HOSTNQN "nqn.2024-01.test:host"
#define STEPS	40

static const uint8_t *in, *in_end;
static uint64_t now;
static unsigned int blocks;

static uint8_t take(void)
{
	return in < in_end ? *in++ : 0;
}

/* Differs from one call to the next, and from run to run does not. */
static uint32_t drawn;

static void draw(void *ctx, void *p, size_t len)
{
	(void)ctx;
	for (size_t i = 0; i < len; i++) {
		drawn = drawn * 1664525u + 1013904223u;
		((uint8_t *)p)[i] = (uint8_t)(drawn >> 24);
	}
}

/* --- messages and keys --------------------------------------------------------------------------
 */

#define READS_WHAT_IT_WRITES(name, message)                                               \
	static void name(const uint8_t *data, size_t size)                                \
	{                                                                                 \
		uint8_t once[2 * NVMF_AUTH_MESSAGE_MAX + 256], twice[sizeof(once)];       \
		struct cursor c = cursor_init(data, size);                                \
		struct wcursor w = wcursor_init(once, sizeof(once));                      \
		struct nvmf_auth_##message s;                                             \
		size_t len;                                                               \
                                                                                          \
		nvmf_auth_##message##_get(&c, &s);                                        \
		if (c.overrun)                                                            \
			return;                                                           \
		nvmf_auth_##message##_put(&w, &s);                                        \
		if (w.overrun)                                                            \
			return; /* longer than any that has a hash and a group of ours */ \
		len = (size_t)(w.p - once);                                               \
		c = cursor_init(once, len);                                               \
		nvmf_auth_##message##_get(&c, &s);                                        \
		must(!c.overrun && !cursor_left(&c));                                     \
		w = wcursor_init(twice, sizeof(twice));                                   \
		nvmf_auth_##message##_put(&w, &s);                                        \
		must((size_t)(w.p - twice) == len && !memcmp(once, twice, len));          \
		c = cursor_init(once, len - 1);                                           \
		nvmf_auth_##message##_get(&c, &s);                                        \
		must(c.overrun);                                                          \
	}

READS_WHAT_IT_WRITES(negotiate, negotiate)
READS_WHAT_IT_WRITES(challenge, challenge)
READS_WHAT_IT_WRITES(reply, reply)
READS_WHAT_IT_WRITES(success1, success1)

static void text_of_kind(const char *text,
			 int (*parse)(const char *, struct auth_key *, const char **),
			 void (*format)(const struct auth_key *, char *))
{
	char again[AUTH_KEY_TEXT_MAX];
	const char *why = NULL;
	struct auth_key k, same;

	if (parse(text, &k, &why)) {
		must(why && !k.len);
		return;
	}
	must(k.len && auth_key_len_fits(k.hash, k.len));
	format(&k, again);
	must(strlen(again) == strlen(text));
	must(!parse(again, &same, &why) && !memcmp(&same, &k, sizeof(k)));
}

static void key_text(const uint8_t *data, size_t size)
{
	char text[200];

	size = min_of(size, sizeof(text) - 1);
	memcpy(text, data, size);
	text[size] = 0;
	text_of_kind(text, auth_key_parse, auth_key_format);
	text_of_kind(text, auth_tls_key_parse, auth_tls_key_format);
}

/* An identity that is one says what was derived; of the names in it comes one that is. */
static void identity_text(const uint8_t *data, size_t size)
{
	char text[AUTH_IDENTITY_MAX + 100];
	struct auth_key k = {.hash = 1, .len = 32};
	struct auth_identity id;
	struct auth_psk psk;

	size = min_of(size, sizeof(text) - 1);
	memcpy(text, data, size);
	text[size] = 0;
	if (auth_identity_parse(text, &id))
		return;
	must(strlen(id.hostnqn) < NVME_NQN_LEN && strlen(id.subnqn) < NVME_NQN_LEN);
	must(strstr(text, id.hostnqn) && strstr(text, id.subnqn));
	must(auth_psk_derive(&k, (struct auth_psk_way){.version = 1}, id.hostnqn, id.subnqn, &psk));
	must(!auth_identity_parse(psk.identity, &id) && strlen(id.digest) == 44);
}

/* --- the target ---------------------------------------------------------------------------------
 */

static struct target target;
static struct target_subsys subsys;
static struct target_port port;
static struct target_host known;
static struct target_queue queue;
static struct target_req req;
static uint8_t memory[8192];
static bool answered, ended;

static void fetch(struct target_req *r)
{
	must(r->data_len + r->scratch_len <= sizeof(memory));
	r->data = memory;
	target_req_ready(r, NVME_SC_SUCCESS);
}

static bool cancel(struct target_req *r)
{
	(void)r;
	return false;
}

static void respond(struct target_req *r)
{
	(void)r;
	must(!answered);
	answered = true;
}

static void disconnect(struct target_queue *q)
{
	(void)q;
	ended = true;
}

static const struct target_transport_ops ops = {
	.trtype = NVMF_TRTYPE_LOOP,
	.sgl = NVME_SGL_KEYED_DATA_BLOCK,
	.sgl_max = 1,
	.mdts = 1,
	.entries_max = 32,
	.fetch = fetch,
	.cancel = cancel,
	.respond = respond,
	.disconnect = disconnect,
};

static void *allocate(void *ctx, size_t bytes)
{
	(void)ctx;
	blocks++;
	return calloc(1, bytes);
}

static void release(void *ctx, void *p)
{
	(void)ctx;
	blocks--;
	free(p);
}

static uint16_t command(struct nvme_sqe *s, uint32_t len)
{
	uint8_t bytes[NVME_SQE_LEN];
	struct wcursor w = wcursor_init(bytes, sizeof(bytes));

	s->flags = NVME_SQE_PSDT_SGL;
	s->sgl = (struct nvme_sgl){.type = NVME_SGL_KEYED_DATA_BLOCK, .len = len, .key = 1};
	nvme_sqe_put(&w, s);
	answered = false;
	target_req_recv(&queue, &req, bytes, sizeof(bytes), NULL, 0, now);
	must(answered);
	return req.cqe.status & NVME_STATUS_CODE;
}

static uint16_t auth(uint8_t fctype, uint32_t len)
{
	struct nvmf_auth_cmd cmd = {.spsp0 = 1, .spsp1 = 1, .secp = NVMF_AUTH_SECP, .len = len};
	struct nvme_sqe s = {0};

	nvmf_auth_cmd_to_sqe(&cmd, fctype, &s);
	return command(&s, len);
}

static void connect(void)
{
	struct nvmf_connect co = {.sqsize = 15};
	struct nvmf_connect_data d = {.cntlid = NVMF_CNTLID_DYNAMIC};
	struct wcursor w = wcursor_init(memory, sizeof(memory));
	struct nvme_sqe s = {0};

	memcpy(d.subnqn, SUBNQN, sizeof(SUBNQN));
	memcpy(d.hostnqn, HOSTNQN, sizeof(HOSTNQN));
	nvmf_connect_data_put(&w, &d);
	nvmf_connect_to_sqe(&co, &s);
	must(command(&s, NVMF_CONNECT_DATA_LEN) == NVME_SC_SUCCESS);
	must(NVMF_CONNECT_ATR(req.cqe.result));
}

/* Messages as they should be, some bytes of them changed. */
static uint32_t make_message(uint8_t what, uint16_t t_id)
{
	struct wcursor w = wcursor_init(memory, sizeof(memory));
	const struct nvmf_auth_negotiate n = {.t_id = t_id,
					      .sc_c = what & 64 ? NVMF_AUTH_NEWTLSPSK : 0,
					      .halen = 3,
					      .dhlen = 2,
					      .hashes = {1, 2, 3},
					      .dhgroups = {NVMF_AUTH_DH_NULL, NVMF_AUTH_DH_2048}};
	const struct nvmf_auth_reply r = {.t_id = t_id,
					  .hl = (uint8_t)(what & 8 ? 64 : 32),
					  .cvalid = what & 16,
					  .seqnum = what,
					  .dhvlen = what & 32 ? 256 : 0};
	const struct nvmf_auth_failure_msg f = {.t_id = t_id, .reason = 1, .explanation = what};
	uint32_t len;

	switch (what % 5) {
	case 0:
	case 1:
		nvmf_auth_negotiate_put(&w, &n);
		break;
	case 2:
		nvmf_auth_reply_put(&w, &r);
		break;
	case 3:
		nvmf_auth_success2_put(&w, t_id);
		break;
	case 4:
		nvmf_auth_failure_put(&w, NVMF_AUTH_FAILURE2, &f);
		break;
	}
	len = (uint32_t)(w.p - memory);
	for (unsigned int i = take() % 4; i; i--) {
		uint32_t at = take() | (uint32_t)take() << 8;

		memory[at % len] = take();
	}
	if (take() >= 200)
		len = 1 + take() % len;
	return len;
}

static void host_without_a_key(const uint8_t *data, size_t size)
{
	const struct target_env env = {.alloc = allocate, .free = release, .random = draw};
	struct nvme_sqe get = {.opcode = NVME_FABRICS, .nsid = NVMF_PROPERTY_GET};
	uint16_t t_id = 7;

	in = data;
	in_end = data + size;
	now = NSEC_PER_SEC;
	target_init(&target, &env, now);
	subsys = (struct target_subsys){.nqn = SUBNQN};
	must(!target_subsys_add(&target, &subsys));
	port = (struct target_port){
		.ops = &ops, .adrfam = NVMF_ADRFAM_LOOP, .tls = TARGET_TLS_OFFERED};
	target_port_add(&target, &port);
	known = (struct target_host){.nqn = HOSTNQN, .key.len = 32, .dhgroup = take() & 1};
	draw(NULL, known.key.key, 32);
	known.ctrl_key = known.key;
	must(!target_host_add(&target, &known));
	queue = (struct target_queue){.ops = &ops, .port = &port, .entries_max = 32};
	target_queue_init(&queue, &target, now);
	ended = false;
	connect();
	for (int i = 0; i < STEPS && in < in_end && !ended; i++) {
		uint8_t what = take();

		if (what < 100)
			(void)auth(NVMF_AUTH_SEND, make_message(what, t_id));
		else if (what < 200)
			(void)auth(NVMF_AUTH_RECV, what == 199 ? 1u + take() : 2048);
		else if (what < 220)
			t_id = take();
		else if (what < 240)
			now += take() * NSEC_PER_SEC / 16;
		else
			must(command(&get, 0) == NVME_SC_AUTH_REQUIRED);
		target_tick(&target, now);
		must(!queue.authenticated && !queue.proved && !target.psks_unused);
		must(blocks <= 2); /* the controller, and one transaction */
	}
	target_queue_disconnected(&queue);
	must(!queue.live && !blocks && target_idle(&target));
	target_fini(&target);
}

/* --- the host -----------------------------------------------------------------------------------
 */

static struct host host;
static struct host_queue queues[1];
static struct handle_place places[HOST_ADMIN_ENTRIES];
static uint8_t scratch[HOST_SCRATCH_LEN];
static struct host_request *outstanding;

static int h_open(void *t, uint16_t qid, uint16_t entries, uint16_t cntlid)
{
	(void)t, (void)qid, (void)entries, (void)cntlid;
	return 0;
}

static void h_close(void *t, uint16_t qid)
{
	(void)t, (void)qid;
	outstanding = NULL;
}

static int h_submit(void *t, uint16_t qid, struct host_request *r, bool in_capsule)
{
	(void)t, (void)qid, (void)in_capsule;
	must(!outstanding);
	must(!r->data_len || ((uint8_t *)r->data >= scratch &&
			      (uint8_t *)r->data + r->data_len <= scratch + sizeof(scratch)));
	outstanding = r;
	return 0;
}

static void h_release(void *t, uint16_t qid, struct host_request *r)
{
	(void)t, (void)qid, (void)r;
}

/* Whom it has not believed it makes no channel with, unless it asks for no proof. */
static int h_secure(void *t, const struct auth_psk *psk)
{
	(void)t;
	must(!host.config.ctrl_key.len);
	must(!psk || (psk->len == auth_hash_len(psk->hash) && host.state == HOST_SECURE));
	return 0;
}

static const struct host_transport transport = {.open = h_open,
						.close = h_close,
						.submit = h_submit,
						.release = h_release,
						.secure = h_secure};

/* What a controller would say, some bytes changed. */
static void controller_says(uint8_t *at, size_t room, uint8_t what, uint16_t t_id)
{
	static uint8_t values[256 + 64];
	struct wcursor w = wcursor_init(at, room);
	const struct nvmf_auth_challenge ch = {.t_id = t_id,
					       .hl = (uint8_t)auth_hash_len(1 + what % 3),
					       .hash = 1 + what % 3,
					       .dhgroup = what & 16 ? NVMF_AUTH_DH_2048
								    : NVMF_AUTH_DH_NULL,
					       .dhvlen = what & 16 ? 256 : 0,
					       .seqnum = what,
					       .cval = values,
					       .dhval = values + 64};
	const struct nvmf_auth_success1 su = {
		.t_id = t_id, .hl = ch.hl, .rvalid = what & 32, .rval = values};
	const struct nvmf_auth_failure_msg f = {.t_id = t_id, .reason = 1, .explanation = what};

	values[64 + 255] = 5;
	if (what < 120)
		nvmf_auth_challenge_put(&w, &ch);
	else if (what < 240)
		nvmf_auth_success1_put(&w, &su);
	else
		nvmf_auth_failure_put(&w, NVMF_AUTH_FAILURE1, &f);
	for (unsigned int i = take() % 3; i; i--) {
		uint32_t byte = take() | (uint32_t)take() << 8;

		at[byte % room] = take();
	}
}

static void before_a_controller(const uint8_t *data, size_t size, bool concat, bool proof)
{
	struct host_config config = {.subnqn = SUBNQN,
				     .hostnqn = HOSTNQN,
				     .open_timeout_ns = NSEC_PER_SEC,
				     .command_timeout_ns = NSEC_PER_SEC,
				     .shutdown_timeout_ns = NSEC_PER_SEC,
				     .random = draw,
				     .key.len = 32,
				     .ctrl_key.len = proof ? 32 : 0,
				     .concat = concat};

	in = data;
	in_end = data + size;
	now = NSEC_PER_SEC;
	outstanding = NULL;
	draw(NULL, config.key.key, 32);
	draw(NULL, config.ctrl_key.key, 32);
	must(!host_init(&host, &config, &transport, NULL, queues, places, scratch));
	host_start(&host, now);
	host_queue_opened(&host, 0, 32, now);
	for (int i = 0; i < STEPS && outstanding; i++) {
		struct host_request *r = outstanding;
		struct nvme_cqe cqe = {.cid = r->sqe.cid, .result = i ? 0 : 1};
		uint8_t capsule[NVME_CQE_LEN], what = take();
		struct wcursor w = wcursor_init(capsule, sizeof(capsule));

		if (r->dir == NVMF_DIR_TO_HOST)
			controller_says(r->data, r->data_len, what, host.auth.t_id);
		else if (what >= 250)
			cqe.status = NVME_SC_INVALID_FIELD;
		must(nvmf_fctype(&r->sqe) == NVMF_CONNECT ||
		     nvmf_fctype(&r->sqe) == NVMF_AUTH_SEND ||
		     nvmf_fctype(&r->sqe) == NVMF_AUTH_RECV); /* and nothing else, before proof */
		nvme_cqe_put(&w, &cqe);
		outstanding = NULL;
		host_queue_response(&host, 0, capsule, sizeof(capsule), now);
		must(!proof || !host.authenticated);
	}
	/* Who asks for no proof has a channel with anybody, and has not said more yet. */
	must(host.state == HOST_FAILED || (!proof && host.state == HOST_SECURE));
	host_shutdown(&host, now);
	host_forget(&host);
	for (size_t i = 0; i < sizeof(host.config.key); i++)
		must(!((const uint8_t *)&host.config.key)[i]);
}

static void controller_without_a_key(const uint8_t *data, size_t size)
{
	before_a_controller(data, size, false, true);
}

static void channel_without_a_key(const uint8_t *data, size_t size)
{
	before_a_controller(data, size, true, true);
}

static void channel_with_anybody(const uint8_t *data, size_t size)
{
	before_a_controller(data, size, true, false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const parts[])(const uint8_t *, size_t) = {
		negotiate,
		challenge,
		reply,
		success1,
		key_text,
		host_without_a_key,
		controller_without_a_key,
		identity_text,
		channel_without_a_key,
		channel_with_anybody,
	};

	drawn = 1;
	if (size)
		parts[data[0] % ARRAY_SIZE(parts)](data + 1, size - 1);
	return 0;
}
