/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Why an association is not, or not any more, in one line that names what failed and what to do. */
#include <stdio.h>

#include "nvmf/lib/internal.h"

enum weft_failure failure_kind(const struct host_failure *f)
{
	static const enum weft_failure kinds[] = {
		[HOST_FAIL_NONE] = WEFT_FAILURE_NONE,
		[HOST_FAIL_OPEN] = WEFT_FAILURE_CONNECT,
		[HOST_FAIL_LOST] = WEFT_FAILURE_LOST,
		[HOST_FAIL_STATUS] = WEFT_FAILURE_REFUSED,
		[HOST_FAIL_TIMEOUT] = WEFT_FAILURE_TIMEOUT,
		[HOST_FAIL_KEEP_ALIVE] = WEFT_FAILURE_KEEP_ALIVE,
		[HOST_FAIL_NOT_READY] = WEFT_FAILURE_NOT_READY,
		[HOST_FAIL_FATAL] = WEFT_FAILURE_FATAL,
		[HOST_FAIL_PROTOCOL] = WEFT_FAILURE_PROTOCOL,
		[HOST_FAIL_UNFIT] = WEFT_FAILURE_UNFIT,
		[HOST_FAIL_AUTH] = WEFT_FAILURE_AUTH,
	};

	return kinds[f->kind];
}

const char *advice_of(const struct weft_ctrl *c, enum weft_advice which)
{
	static const char *const general[] = {
		[WEFT_ADVICE_HOSTNQN] = "connect as another host",
		[WEFT_ADVICE_TIMEOUT] = "give it longer",
		[WEFT_ADVICE_KEEP_ALIVE] = "a longer keep-alive timeout",
		[WEFT_ADVICE_KEYS] = "look at both sides' keys",
	};

	return c->advice[which][0] ? c->advice[which] : general[which];
}

static void connect_status(const struct weft_ctrl *c, char *text, size_t room)
{
	const struct host_failure *f = &c->host.failure;
	bool in_data = NVMF_CONNECT_IATTR(f->result);
	uint16_t offset = NVMF_CONNECT_IPO(f->result);
	char status[128];

	weft_status_text(f->status, false, status, sizeof(status));
	switch (f->status & NVME_STATUS_CODE) {
	case NVME_SC_CONNECT_INVALID_PARAM:
		if (in_data && offset == NVMF_CONNECT_DATA_SUBNQN)
			snprintf(text, room,
				 "no subsystem '%s' at %s; `weft discover nvme+%s://%s` lists them",
				 c->nqn, c->place, c->kind->name, c->place);
		else
			snprintf(text, room, "%s refuses to connect: %s, byte %u of the %s",
				 c->place, status, offset, in_data ? "data" : "command");
		return;
	case NVME_SC_CONNECT_INVALID_HOST:
		snprintf(text, room,
			 "subsystem '%s' at %s does not let host '%s' in; have it allowed there, "
			 "or %s",
			 c->nqn, c->place, c->hostnqn, advice_of(c, WEFT_ADVICE_HOSTNQN));
		return;
	case NVME_SC_CONNECT_CTRL_BUSY:
		snprintf(text, room, "subsystem '%s' at %s has no controller free; try again later",
			 c->nqn, c->place);
		return;
	default:
		snprintf(text, room, "subsystem '%s' at %s refuses to connect queue %u: %s", c->nqn,
			 c->place, f->qid, status);
	}
}

static const char *command_name(const struct host_failure *f)
{
	if (f->opcode != NVME_FABRICS)
		return nvme_opcode_name(f->opcode, f->qid == 0);
	return f->fctype == NVMF_CONNECT	? "Connect"
	       : f->fctype == NVMF_AUTH_SEND	? "Authentication Send"
	       : f->fctype == NVMF_AUTH_RECV	? "Authentication Receive"
	       : f->fctype == NVMF_PROPERTY_GET ? "Property Get"
	       : f->fctype == NVMF_PROPERTY_SET ? "Property Set"
						: "Fabrics";
}

static void not_answered(const struct weft_ctrl *c, char *text, size_t room)
{
	const struct host_failure *f = &c->host.failure;
	uint64_t ms = c->host.config.command_timeout_ns / NSEC_PER_MSEC;
	bool seconds = ms % 1000 == 0;

	if (f->detail)
		snprintf(text, room, "controller at %s: %s", c->place, f->detail);
	else
		snprintf(text, room,
			 "controller at %s does not answer %s within %llu %s, though %s may hang; "
			 "look there, or %s",
			 c->place, command_name(f), (unsigned long long)(seconds ? ms / 1000 : ms),
			 seconds ? "s" : "ms",
			 f->answers ? "it answers others: its disk"
				    : "the connection stands: the target or its disk",
			 advice_of(c, WEFT_ADVICE_TIMEOUT));
}

void failure_text(const struct weft_ctrl *c, char *text, size_t room)
{
	const struct host_failure *f = &c->host.failure;
	const char *said = c->transport->ops->error(c->transport);
	char status[128];

	switch (f->kind) {
	case HOST_FAIL_OPEN:
	case HOST_FAIL_LOST:
		if (f->kind == HOST_FAIL_OPEN && f->detail)
			snprintf(text, room, "cannot connect to %s: %s: %s", c->place, f->detail,
				 c->kind->no_answer);
		else if (f->detail || !said[0])
			snprintf(text, room, "connection to %s lost: %s", c->place,
				 f->detail ? f->detail : "the cause is not known");
		else if (f->state == HOST_AUTHENTICATE) /* a target that is in a hurry not to */
			snprintf(text, room, "%s, before it had authenticated this host; %s", said,
				 advice_of(c, WEFT_ADVICE_KEYS));
		else
			snprintf(text, room, "%s", said);
		break;
	case HOST_FAIL_STATUS:
		if (f->opcode == NVME_FABRICS && f->fctype == NVMF_CONNECT)
			connect_status(c, text, room);
		else
			snprintf(text, room, "controller at %s refuses %s: %s", c->place,
				 command_name(f),
				 weft_status_text(f->status, false, status, sizeof(status)));
		break;
	case HOST_FAIL_TIMEOUT:
		not_answered(c, text, room);
		break;
	case HOST_FAIL_KEEP_ALIVE:
		snprintf(text, room,
			 "controller at %s does not answer keep-alives; %s gives it longer",
			 c->place, advice_of(c, WEFT_ADVICE_KEEP_ALIVE));
		break;
	case HOST_FAIL_NOT_READY:
		snprintf(text, room,
			 "controller at %s does not become ready (CSTS.RDY) in the time it claims",
			 c->place);
		break;
	case HOST_FAIL_FATAL:
		snprintf(text, room, "controller at %s reports a fatal status (CSTS.CFS)",
			 c->place);
		break;
	case HOST_FAIL_PROTOCOL:
		snprintf(text, room, "%s breaks the protocol: %s", c->place, f->detail);
		break;
	case HOST_FAIL_UNFIT:
		snprintf(text, room, "cannot use subsystem '%s' at %s: %s", c->nqn, c->place,
			 f->detail);
		break;
	case HOST_FAIL_AUTH:
		snprintf(text, room,
			 "authentication between host '%s' and subsystem '%s' at %s fails: %s; %s",
			 c->hostnqn, c->nqn, c->place, f->detail, advice_of(c, WEFT_ADVICE_KEYS));
		break;
	case HOST_FAIL_NONE:
		snprintf(text, room, "connection to %s ended", c->place);
		break;
	}
}
