/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the files of the target say to each other. */
#ifndef WEFT_NVMF_TARGET_INTERNAL_H
#define WEFT_NVMF_TARGET_INTERNAL_H

#include "nvmf/target/target.h"

#define FAIL(sc) ((uint16_t)((sc) | NVME_STATUS_DNR))

/* Discovery controllers without a keep-alive of their own still do not stay for ever. */
#define TARGET_DISCOVERY_KATO_MS 120000
#define TARGET_CONNECT_NS	 (15ull * 1000000000ull)
#define TARGET_KAS		 10 /* keep-alive granularity, 100 ms */

#define TARGET_OAES(s) ((s)->discovery ? NVME_OAES_DISCOVERY : NVME_OAES_NS_ATTR)

/*
 * A parser sets r->execute and, by req_expects(), the data; it returns NVME_SC_SUCCESS or the
 * status to respond with. An executor ends in req_complete(), at once or later.
 */
typedef uint16_t target_parse_fn(struct target_req *r);

void req_complete(struct target_req *r, uint16_t status);
/*
 * Reads the SGL into r->sgl_*. Only a command that has data needs one that makes sense: for its
 * parser, which may do it twice.
 */
uint16_t req_sgl(struct target_req *r);
/* The command's data is len bytes and goes the way its opcode says: checks the SGL. */
uint16_t req_expects(struct target_req *r, uint32_t len);
/* The same of data for the host of which only the first bytes, at most present, are not zero. */
uint16_t req_expects_part(struct target_req *r, uint32_t len, uint64_t present);
/* The status with the byte of the SQE that is wrong, for the error log. */
uint16_t req_fail_at(struct target_req *r, uint16_t offset, uint16_t status);
uint16_t errno_to_status(int error, enum store_opcode opcode);

/* The namespace of a command that needs one. */
uint16_t req_find_ns(struct target_req *r);

target_parse_fn parse_fabrics, parse_admin, parse_io;
target_parse_fn parse_connect, parse_property_get, parse_property_set;
target_parse_fn parse_identify, parse_get_log, parse_get_features, parse_set_features;

/* I/O that is held will not be executed. */
void held_abort(struct target_req *r, uint16_t status);

uint32_t admin_effects(uint8_t opcode, bool discovery);
uint32_t io_effects(uint8_t opcode, bool discovery);

/* --- controllers --------------------------------------------------------------------------- */

/* Whether a host may have one more. */
bool ctrl_has_room(const struct target_subsys *s, const uint8_t peer[16]);
/* NULL: no memory. */
struct target_ctrl *ctrl_create(struct target_subsys *s, const struct nvmf_connect_data *d,
				const uint8_t peer[16], uint32_t kato_ms);
/* why: of its admin queue, or NULL. */
void ctrl_destroy(struct target_ctrl *c, const char *why);
void ctrl_set_cc(struct target_ctrl *c, uint32_t cc);
void ctrl_arm_kato(struct target_ctrl *c);
void ctrl_features_reset(struct target_ctrl *c);
/* Ends the connections of all queues from first_qid on. */
void ctrl_disconnect_queues(struct target_ctrl *c, uint32_t first_qid);
void ctrl_abort_aers(struct target_ctrl *c, uint16_t status);
void ctrl_log_error(struct target_ctrl *c, const struct target_req *r, uint16_t status);
/* Events: raise sets a bit of OAES pending; the log page that goes with it unmasks it. */
void ctrl_raise(struct target_ctrl *c, uint32_t oaes_bit);
void ctrl_unmask(struct target_ctrl *c, uint32_t oaes_bit);
void ctrl_send_events(struct target_ctrl *c);

void target_emit(struct target *t, const struct target_event *e);

#endif
