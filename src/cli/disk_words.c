/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/disk_words.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "cli/output.h"
#include "cli/serve_events.h"

#define QUIET_NS (60 * NSEC_PER_SEC)

static const char *const names[] = {
	[STORE_READ] = "a read",	 [STORE_WRITE] = "a write",	[STORE_FLUSH] = "a flush",
	[STORE_ZERO] = "writing zeroes", [STORE_DISCARD] = "a discard",
};

static void failed(struct disk_words *w, const char *path, const struct target_event *e,
		   uint64_t now_ns)
{
	/* Of a connection that is lost the store tells itself; what it cannot do is no fault. */
	if (e->error == -ENOTCONN || e->error == -EOPNOTSUPP)
		return;
	if (now_ns < w->quiet_ns) {
		w->errors++;
		w->error = e->error;
		w->opcode = e->opcode;
		return;
	}
	(void)disk_words_settle(w, path, now_ns);
	w->quiet_ns = now_ns + QUIET_NS;
	log_err("store", "%s: %s fails: %s (namespace %u, for %s from %s)", path, names[e->opcode],
		strerrordesc_np(-e->error), e->nsid,
		serve_host_name(e->ctrl ? e->ctrl->hostnqn : NULL), e->peer);
}

static void stalled(struct disk_words *w, const char *path, const struct target_event *e)
{
	char waited[32];

	w->kept_in_all++;
	if (w->kept++)
		return;
	w->kept_in_all = 1;
	w->longest_ns = 0;
	log_warn("store", "%s: %s is not done after %s (namespace %u, for %s from %s)", path,
		 names[e->opcode], text_duration(waited, sizeof(waited), e->waited_ns), e->nsid,
		 serve_host_name(e->ctrl ? e->ctrl->hostnqn : NULL), e->peer);
}

static void over(struct disk_words *w, const char *path, const struct target_event *e)
{
	char longest[32];

	w->longest_ns = max_of(w->longest_ns, e->waited_ns);
	if (--w->kept)
		return;
	log_warn("store", "%s: goes on: %u %s that long, at most %s", path, w->kept_in_all,
		 w->kept_in_all == 1 ? "command took" : "commands took",
		 text_duration(longest, sizeof(longest), w->longest_ns));
}

void disk_words_event(struct disk_words *w, const char *path, const struct target_event *e,
		      uint64_t now_ns)
{
	if (e->type == TARGET_EVENT_STORE_FAILED)
		failed(w, path, e, now_ns);
	else if (e->type == TARGET_EVENT_STALLED)
		stalled(w, path, e);
	else if (e->type == TARGET_EVENT_STALL_OVER)
		over(w, path, e);
}

bool disk_words_settle(struct disk_words *w, const char *path, uint64_t now_ns)
{
	if (!w->errors || now_ns < w->quiet_ns)
		return w->errors != 0;
	log_err("store", "%s: %" PRIu64 " more %s, the last: %s: %s", path, w->errors,
		w->errors == 1 ? "error" : "errors", names[w->opcode], strerrordesc_np(-w->error));
	w->errors = 0;
	w->quiet_ns = now_ns + QUIET_NS;
	return false;
}
