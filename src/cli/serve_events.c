/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/serve_events.h"

#include <string.h>

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
	if (e->ctrl->leaves)
		return "it is to come again by TLS";
	return e->ctrl->csts & NVME_CSTS_SHST_MASK ? "it shut down" : "it disconnected";
}

void serve_say_event(struct serve_say *say, const struct target_event *e, uint64_t now)
{
	switch (e->type) {
	case TARGET_EVENT_CTRL_NEW:
		serve_say(say, LOG_LEVEL_INFO, now, "connected: %s from %s (controller %u)%s",
			  serve_host_name(e->ctrl->hostnqn), e->peer, e->ctrl->cntlid,
			  e->ctrl->secure ? ", by TLS" : "");
		break;
	case TARGET_EVENT_CTRL_GONE:
		serve_say(say, LOG_LEVEL_INFO, now, "gone: %s from %s (controller %u): %s",
			  serve_host_name(e->ctrl->hostnqn), e->peer, e->ctrl->cntlid, why_gone(e));
		break;
	case TARGET_EVENT_KEEP_ALIVE_EXPIRED:
		serve_say(say, LOG_LEVEL_WARN, now, "silent for %u ms: %s from %s (controller %u)",
			  e->ctrl->kato_ms, serve_host_name(e->ctrl->hostnqn), e->peer,
			  e->ctrl->cntlid);
		break;
	case TARGET_EVENT_CONNECT_REFUSED:
		serve_say(say, LOG_LEVEL_WARN, now, "refused: %s from %s: %s%s%s",
			  serve_host_name(e->hostnqn), e->peer, nvme_status_name(e->status),
			  e->subnqn && *e->subnqn ? ", asked for " : "",
			  e->subnqn ? e->subnqn : "");
		break;
	case TARGET_EVENT_QUEUE_FAILED:
		serve_say(say, LOG_LEVEL_WARN, now, "connection lost: %s from %s (queue %u): %s",
			  serve_host_name(e->ctrl ? e->ctrl->hostnqn : NULL), e->peer,
			  e->queue->qid, e->why);
		break;
	case TARGET_EVENT_REJECTED:
		serve_say(say, LOG_LEVEL_WARN, now, "refused: a host from %s: %s", e->peer, e->why);
		break;
	case TARGET_EVENT_AUTH_FAILED:
		if (e->ctrl)
			serve_say(say, LOG_LEVEL_WARN, now,
				  "not authenticated: %s from %s (controller %u, queue %u): %s",
				  serve_host_name(e->ctrl->hostnqn), e->peer, e->ctrl->cntlid,
				  e->queue->qid, e->why);
		else
			serve_say(say, LOG_LEVEL_WARN, now,
				  "not authenticated: %s from %s (queue %u): %s",
				  serve_host_name(NULL), e->peer, e->queue->qid, e->why);
		break;
	case TARGET_EVENT_AUTHENTICATED:
	case TARGET_EVENT_QUEUE_NEW:
	case TARGET_EVENT_FLUSH_FAILED:
	case TARGET_EVENT_STORE_FAILED: /* disk_words.c has these */
	case TARGET_EVENT_STALLED:
	case TARGET_EVENT_STALL_OVER:
		break;
	}
}

static void say_port(const struct serve_say *say, const char *what, const struct config_port *p)
{
	bool v6 = strcmp(p->addr.adrfam, "ipv6") == 0;

	serve_answer(say, "port %u: %s: %s://%s%s%s:%s, %u %s", p->portid, what, p->addr.trtype,
		     v6 ? "[" : "", p->addr.traddr, v6 ? "]" : "", p->addr.trsvcid, p->subsys_count,
		     p->subsys_count == 1 ? "subsystem" : "subsystems");
}

void serve_say_step(const struct serve_say *say, const struct config_step *step)
{
	static const char *const words[STEP_TYPES] = {
		[STEP_SUBSYS_ADD] = "added", [STEP_SUBSYS_REMOVE] = "removed",
		[STEP_NS_ADD] = "added",     [STEP_NS_REMOVE] = "removed",
		[STEP_PORT_ADD] = "added",   [STEP_PORT_REMOVE] = "removed",
	};
	const char *what = step && words[step->type] ? words[step->type] : "changed";

	if (!step)
		serve_answer(say, "hosts: their keys have changed");
	else if (step->port)
		say_port(say, what, step->port);
	else if (step->ns)
		serve_answer(say, "namespace %u of %s: %s: %s", step->ns->nsid, step->subsys->nqn,
			     what, step->ns->path);
	else if (step->subsys)
		serve_answer(say, "subsystem %s: %s", step->subsys->nqn, what);
	else
		serve_answer(say, "discovery: %s", what);
}
