/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Brief attempts: of a consumer that has another way to go where the peer has no CM, and wants to
 * know soon. The standard's answer to silence is to ask again after seconds, for a minute. A brief
 * REQ is repeated every 50 ms instead, and after 300 ms without a sign of life it is over. It says
 * that it wants its answer at once, so that a CM does not wait for a listener to come.
 *
 * Any message that only who has seen the REQ can send is a sign of life. A CM gives one without its
 * consumer's doing: to a repeated REQ whose consumer is still thinking it says MRA (so do Linux,
 * with the first REQ already, and cm_rx.c), and whom it does not know it may ask back
 * (cm_strangers.c). From then on there is time: the REQ is repeated after twice as long each time,
 * up to the usual, whatever an MRA promises, because an answer that is lost comes again only so.
 *
 * Who has given no sign is held to have no CM for a minute, in which further brief attempts need
 * not be made (cm_absent()); until a message comes from there, whatever it is. Anybody can send
 * that in another's name, at the price of one more attempt. The other way round it takes more: that
 * a port is unreachable is believed only with our REQ in the message, its transaction id included,
 * and then for brief attempts alone (cm_unreachable()). That is remembered for a second only: to
 * ask again costs next to nothing, and who tries until a server is up shall not miss that it has
 * come.
 */
#include <string.h>

#include "base/bytes.h"
#include "cm/cm_priv.h"

#define ASK_NS	   (50 * NSEC_PER_MSEC)
#define REPEATS	   5
#define SILENT_NS  (60 * NSEC_PER_SEC)
#define REFUSED_NS NSEC_PER_SEC

void cm_id_brief(struct cm_id *id)
{
	id->brief = true;
}

/* The usual time between two REQs for who has been heard of, or is not brief. */
static bool has_time(const struct cm_id *id)
{
	return !id->brief || id->heard;
}

void cm_brief_begin(struct cm_id *id, uint64_t now)
{
	if (has_time(id))
		cm_arm_retries(id, cm_timeout_ns(CM_RESPONSE_TIMEOUT), CM_MAX_RETRIES, now);
	else
		cm_arm_retries(id, ASK_NS, REPEATS, now);
}

void cm_brief_heard(struct cm_id *id)
{
	if (id->brief && id->state == CM_REQ_SENT)
		id->tries_left = CM_MAX_RETRIES;
}

uint64_t cm_brief_wait(const struct cm_id *id)
{
	if (!id->brief || id->state != CM_REQ_SENT || !id->heard)
		return id->wait_ns;
	return min_of(2 * id->wait_ns, cm_timeout_ns(CM_RESPONSE_TIMEOUT));
}

/* ---- who is not there ------------------------------------------------------------------------ */

static struct cm_known *place_of(const struct cm *cm, const struct gid *gid)
{
	return (struct cm_known *)&cm->absent[cm_hash_gid(cm, gid) % CM_ABSENT];
}

bool cm_absent(const struct cm *cm, const struct gid *gid, uint64_t now)
{
	const struct cm_known *k = place_of(cm, gid);

	return now < k->until && gid_equal(&k->gid, gid);
}

void cm_present(struct cm *cm, const struct gid *gid)
{
	struct cm_known *k = place_of(cm, gid);

	if (k->until && gid_equal(&k->gid, gid))
		k->until = 0;
}

static void hold_for_absent(const struct cm_id *id, uint64_t until)
{
	*place_of(id->cm, &id->flow.dgid) = (struct cm_known){id->flow.dgid, until};
}

void cm_brief_over(struct cm_id *id, uint64_t now)
{
	if (!has_time(id))
		hold_for_absent(id, now + SILENT_NS);
}

void cm_unreachable(struct cm *cm, const struct gid *peer, const uint8_t *mad, size_t len,
		    uint64_t now)
{
	struct cm_event ev = {.type = CM_EV_TIMEOUT};
	struct cm_id *id;

	if (len < MAD_HDR_LEN + 4)
		return;
	id = cm_find_local(cm, ld_be32(mad + MAD_HDR_LEN));
	if (!id || id->state != CM_REQ_SENT || has_time(id) || !gid_equal(&id->flow.dgid, peer) ||
	    memcmp(id->last, mad, min_of(len, (size_t)MAD_LEN)))
		return;
	cm->now = now;
	cm->counters->gave_up++;
	hold_for_absent(id, now + REFUSED_NS);
	cm_set_state(id, CM_IDLE, now);
	cm_emit(id, &ev);
}
