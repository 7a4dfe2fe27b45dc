/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A host that plays its side of DH-HMAC-CHAP message by message, before a target bed. What it
 * offers, knows and does wrong is in p.
 */
#ifndef WEFT_TESTS_AUTH_PLAYER_H
#define WEFT_TESTS_AUTH_PLAYER_H

#include "nvmf/auth/proof.h"
#include "nvmf/auth/psk.h"
#include "target_bed.h"

#define HOST_KEY  "DHHC-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:"
#define CTRL_KEY  "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:"
#define T_ID	  0x1234
#define AL	  2048
#define EN	  (NVME_CC_EN | NVME_CC_IOSQES_64 | NVME_CC_IOCQES_16)
#define AUTH_TIME (16 * NSEC_PER_SEC)

/* A host, and what it has in hand. */
struct player {
	struct bed *bed;
	struct bed_queue *q;
	struct target_host host;
	uint16_t t_id;
	bool mutual, dh_bad;
	bool keeps_c2;	     /* where a key of TLS is to be made of it */
	struct auth_psk psk; /* that key */
	struct nvmf_auth_negotiate offer;
	struct nvmf_auth_challenge ch;
	uint8_t cval[NVMF_AUTH_HASH_MAX], dhval[NVMF_AUTH_DH_MAX];
	uint8_t expected[NVMF_AUTH_HASH_MAX];
	uint8_t reply[NVMF_AUTH_MESSAGE_MAX];
	size_t reply_len;
};
extern struct player p;

struct auth_key key_of(const char *text);
/* Of cmocka's tests. */
int player_set_up(void **state);
int player_tear_down(void **state);
/* Connects p.q as an admin queue; what the controller demands. */
uint64_t connect_admin(void);
struct nvme_sqe auth_sqe(uint8_t fctype, uint32_t len);
uint16_t send_bytes(const void *bytes, size_t len);
uint16_t fetch(void);
uint16_t send_negotiate(void);
void fetch_challenge(void);
void make_reply(const char *key, const char *ctrl_key);
/* What is fetched is a failure, with this explanation. */
void assert_failure(uint8_t explanation);
/* ... and the queue is of no use, and ends soon. */
void assert_fails_with(uint8_t explanation);
void fetch_success1(void);
uint16_t send_success2(void);
/* Negotiates, and makes the reply of a host with that key; which is sent by send_reply(). */
void to_the_reply_by(const char *key);
void to_the_reply(void); /* by its own */
void send_reply(void);
void authenticate(void);
void connected_and_authenticated(void);

#endif
