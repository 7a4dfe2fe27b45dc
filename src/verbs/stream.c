/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "verbs/stream.h"

#include <errno.h>
#include <poll.h>

#include "base/errno_text.h"
#include "base/time.h"
#include "engine/streams.h"

/* Numbers of queue pairs are not on the wire: any part of them will do. */
#define SLOT	  1
#define LINGER_NS NSEC_PER_SEC

static struct streams *streams; /* of the one shard; set before anybody has that */

void stream_linger_at_exit(struct shard *s)
{
	const uint64_t until = time_now_ns() + LINGER_NS;

	while (!shard_is_dead(s) && streams_linger(streams) && time_now_ns() < until) {
		struct pollfd p = {.fd = streams_port(streams)->fd, .events = POLLIN};

		shard_progress(s);
		(void)poll(&p, 1, 10);
	}
}

static void tell(struct face_qp *qp, int error)
{
	weft_stream_ended *ended = qp->stream_ended;

	qp->stream_ended = NULL;
	if (ended)
		ended(qp->stream_arg, error, rnic_stream_terminated(qp->core) >= 0);
}

static void ended(void *ctx, struct rnic_qp *core, int error)
{
	(void)ctx;
	tell(rnic_qp_user(core), error);
}

int stream_shard_open(struct shard **ret, const struct shard_upcalls *upcalls)
{
	struct port *port;
	int rc = streams_create(&streams, ended, NULL);

	if (rc)
		goto fail;
	port = streams_port(streams);
	rc = shard_create(ret, &port, 1, SLOT, upcalls);
	if (rc) {
		streams_destroy(streams);
		goto fail;
	}
	shard_lock(*ret);
	streams_serve(streams, shard_rnic(*ret));
	shard_unlock(*ret);
	return 0;
fail:
	streams = NULL;
	log_err("verbs", "no shard for iWARP: %s", errno_text(-rc));
	return rc;
}

void stream_drop(struct face_qp *qp)
{
	if (!face_is_iwarp(qp->ibv.context))
		return;
	streams_drop(qp->core, shard_now(qp->shard));
	if (!shard_is_dead(qp->shard))
		tell(qp, 0);
}

/* NULL: there is none. It stays, and its shard is the caller's, until qp_unlock(). */
static struct face_qp *qp_lock(uint32_t qpn)
{
	struct face_qp *qp;

	qp_live_lock();
	qp = qp_find_iwarp(qpn);
	if (qp)
		shard_lock(qp->shard);
	else
		qp_live_unlock();
	return qp;
}

static void qp_unlock(struct face_qp *qp)
{
	shard_unlock(qp->shard);
	qp_live_unlock();
}

int weft_private_stream_may_begin(uint32_t qpn)
{
	struct face_qp *qp = qp_lock(qpn);
	struct rnic_qp_attr attr;
	struct rnic_qp_cap cap;

	if (!qp)
		return -ENOENT;
	rnic_qp_query(qp->core, &attr, &cap);
	qp_unlock(qp);
	return attr.state == RNIC_QPS_INIT ? 0 : -EINVAL;
}

int weft_private_stream_end(uint32_t qpn, const void *arg, bool at_once)
{
	const struct rnic_qp_attr attr = {.state = at_once ? RNIC_QPS_ERR : RNIC_QPS_SQD};
	struct face_qp *qp = qp_lock(qpn);
	int rc;

	if (!qp)
		return -ENOENT;
	shard_flush(qp->shard); /* what it has to send before */
	rc = qp->stream_ended && qp->stream_arg == arg
		     ? rnic_qp_modify(qp->core, &attr, RNIC_QP_STATE, shard_now(qp->shard))
		     : -EINVAL;
	shard_flush(qp->shard);
	qp_unlock(qp);
	return rc;
}

int weft_private_stream_begin(uint32_t qpn, int fd, const struct rnic_stream_init *init,
			      const void *early, size_t early_len, weft_stream_ended *told,
			      void *arg)
{
	struct face_qp *qp = qp_lock(qpn);
	int rc;

	if (!qp)
		return -ENOENT;
	rc = streams_add(streams, qp->core, fd, init, early, early_len, shard_now(qp->shard));
	if (!rc) {
		qp->stream_ended = told;
		qp->stream_arg = arg;
		qp->ibv.state = IBV_QPS_RTS;
		shard_flush(qp->shard);
	}
	qp_unlock(qp);
	return rc;
}
