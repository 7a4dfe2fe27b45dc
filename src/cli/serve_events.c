/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/serve_events.h"

#include "wire/nvme_status.h"

const char *serve_host_name(const char *nqn)
{
	return nqn && *nqn ? nqn : "a host";
}

static const char *why_gone(const struct target_event *e)
{
	if (e->why)
		return e->why;
	if (e->ctrl->silent)
		return "no command came within its keep-alive time";
	return e->ctrl->csts & NVME_CSTS_SHST_MASK ? "it shut down" : "it disconnected";
}

void serve_say_event(struct serve_say *say, const struct target_event *e, uint64_t now)
{
	switch (e->type) {
	case TARGET_EVENT_CTRL_NEW:
		serve_say(say, now, "connected: %s from %s (controller %u)",
			  serve_host_name(e->ctrl->hostnqn), e->peer, e->ctrl->cntlid);
		break;
	case TARGET_EVENT_CTRL_GONE:
		serve_say(say, now, "gone: %s from %s (controller %u): %s",
			  serve_host_name(e->ctrl->hostnqn), e->peer, e->ctrl->cntlid, why_gone(e));
		break;
	case TARGET_EVENT_KEEP_ALIVE_EXPIRED:
		serve_say(say, now, "silent for %u ms: %s from %s (controller %u)",
			  e->ctrl->kato_ms, serve_host_name(e->ctrl->hostnqn), e->peer,
			  e->ctrl->cntlid);
		break;
	case TARGET_EVENT_CONNECT_REFUSED:
		serve_say(say, now, "refused: %s from %s: %s%s%s", serve_host_name(e->hostnqn),
			  e->peer, nvme_status_name(e->status),
			  e->subnqn && *e->subnqn ? ", asked for " : "",
			  e->subnqn ? e->subnqn : "");
		break;
	case TARGET_EVENT_QUEUE_FAILED:
		serve_say(say, now, "connection lost: %s from %s (queue %u): %s",
			  serve_host_name(e->ctrl ? e->ctrl->hostnqn : NULL), e->peer,
			  e->queue->qid, e->why);
		break;
	case TARGET_EVENT_REJECTED:
		serve_say(say, now, "refused: a host from %s: %s", e->peer, e->why);
		break;
	case TARGET_EVENT_AUTH_FAILED:
		serve_say(say, now, "not authenticated: %s from %s (controller %u, queue %u): %s",
			  serve_host_name(e->ctrl->hostnqn), e->peer, e->ctrl->cntlid,
			  e->queue->qid, e->why);
		break;
	case TARGET_EVENT_AUTHENTICATED:
	case TARGET_EVENT_QUEUE_NEW:
	case TARGET_EVENT_FLUSH_FAILED:
		break;
	}
}
