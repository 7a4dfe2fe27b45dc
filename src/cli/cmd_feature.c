/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft get-feature, weft set-feature: what a controller is set to, and setting it. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/hexdump.h"
#include "cli/nvme_verb.h"
#include "cli/page.h"

int cmd_get_feature(int argc, char **argv);
int cmd_set_feature(int argc, char **argv);

enum { SEL_CHANGED = 8, DATA_MAX = 4096 };

struct feature {
	struct page page; /* its options and remote */
	bool has_fid, has_value, save;
	uint8_t fid, sel, uuid;
	uint32_t value, cdw11, cdw12, len; /* len: of its data, 0 as it is known to be */
	const char *path;
};

/* --- what its bits mean ----------------------------------------------------------------------- */

static const char *const disabled[] = {"disabled", "enabled", NULL};
static const char *const sent[] = {"not sent", "sent", NULL};
static const char *const sides[] = {"over", "under", "reserved", NULL};
static const char *const protections[] = {"none",     "write-protected", "until power cycle",
					  "for good", "reserved",	 NULL};

#define NUMBER(low, n, label)                   \
	{                                       \
		label, low, n, NULL, NULL, 0, 0 \
	}
#define SCALED(low, n, label, times, what)          \
	{                                           \
		label, low, n, NULL, what, times, 0 \
	}
#define COUNT(low, n, label)                    \
	{                                       \
		label, low, n, NULL, NULL, 1, 1 \
	}
#define WORD(low, n, label, words)               \
	{                                        \
		label, low, n, words, NULL, 0, 0 \
	}
#define END       \
	{         \
		0 \
	}

static const struct bits arbitration[] = {COUNT(24, 8, "High priority weight (HPW)"),
					  COUNT(16, 8, "Medium priority weight (MPW)"),
					  COUNT(8, 8, "Low priority weight (LPW)"),
					  NUMBER(0, 3, "Log2 of the arbitration burst (AB)"), END};
static const struct bits power_mgmt[] = {NUMBER(5, 3, "Workload hint (WH)"),
					 NUMBER(0, 5, "Power state (PS)"), END};
static const struct bits temperature[] = {
	WORD(20, 2, "Threshold type (THSEL)", sides), NUMBER(16, 4, "Sensor, 0 composite (TMPSEL)"),
	SCALED(0, 16, "Temperature threshold (TMPTH)", 1, "K"), END};
static const struct bits error_recovery[] = {
	WORD(16, 1, "Errors for deallocated blocks (DULBE)", disabled),
	SCALED(0, 16, "Time limited error recovery (TLER)", 100, "ms"), END};
static const struct bits write_cache[] = {WORD(0, 1, "Volatile write cache (WCE)", disabled), END};
static const struct bits num_queues[] = {COUNT(16, 16, "I/O completion queues (NCQA)"),
					 COUNT(0, 16, "I/O submission queues (NSQA)"), END};
static const struct bits irq_coalesce[] = {SCALED(8, 8, "Aggregation time (TIME)", 100, "us"),
					   COUNT(0, 8, "Aggregation threshold (THR)"), END};
static const struct bits write_atomic[] = {WORD(0, 1, "Disable normal (DN)", disabled), END};
static const struct bits events[] = {WORD(31, 1, "Discovery log change notices", sent),
				     WORD(14, 1, "Endurance group notices", sent),
				     WORD(13, 1, "LBA status notices", sent),
				     WORD(12, 1, "Predictable latency notices", sent),
				     WORD(11, 1, "Asymmetric access change notices", sent),
				     WORD(10, 1, "Telemetry notices", sent),
				     WORD(9, 1, "Firmware activation notices", sent),
				     WORD(8, 1, "Namespace attribute notices", sent),
				     WORD(0, 8, "Critical warnings of SMART", sent),
				     END};
static const struct bits keep_alive[] = {SCALED(0, 32, "Keep-alive timeout (KATO)", 1, "ms"), END};
static const struct bits write_protect[] = {WORD(0, 3, "Write protection", protections), END};
static const struct bits reservations[] = {WORD(3, 1, "Preempted reservations masked", disabled),
					   WORD(2, 1, "Released reservations masked", disabled),
					   WORD(1, 1, "Preempted registrations masked", disabled),
					   END};
static const struct bits persist[] = {WORD(0, 1, "Persist through power loss (PTPL)", disabled),
				      END};

static const struct bits *const meanings[256] = {
	[NVME_FID_ARBITRATION] = arbitration,	  [NVME_FID_POWER_MGMT] = power_mgmt,
	[NVME_FID_TEMP_THRESHOLD] = temperature,  [NVME_FID_ERROR_RECOVERY] = error_recovery,
	[NVME_FID_VOLATILE_WC] = write_cache,	  [NVME_FID_NUM_QUEUES] = num_queues,
	[NVME_FID_IRQ_COALESCE] = irq_coalesce,	  [NVME_FID_WRITE_ATOMIC] = write_atomic,
	[NVME_FID_ASYNC_EVENT] = events,	  [NVME_FID_KEEP_ALIVE] = keep_alive,
	[NVME_FID_WRITE_PROTECT] = write_protect, [NVME_FID_RESV_MASK] = reservations,
	[NVME_FID_RESV_PERSIST] = persist,
};

static uint32_t len_of(const struct feature *f, uint8_t fid)
{
	return f->len ? f->len : nvme_feature_bytes(fid);
}

/* --- options ---------------------------------------------------------------------------------- */

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct feature *f = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &f->page.opts;
		return 0;
	case 'f':
		f->fid = (uint8_t)cli_parse_number(state, "--feature-id", arg, 0, UINT8_MAX);
		f->has_fid = f->fid > 0;
		return 0;
	case 'l':
		f->len = (uint32_t)cli_parse_size(state, "--data-len", arg, 0, DATA_MAX);
		return 0;
	case 'U':
		f->uuid = (uint8_t)cli_parse_number(state, "--uuid-index", arg, 0, 127);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse_get(int key, char *arg, struct argp_state *state)
{
	struct feature *f = state->input;

	switch (key) {
	case 's':
		f->sel = (uint8_t)cli_parse_number(state, "--sel", arg, 0, SEL_CHANGED);
		if (f->sel > NVME_SEL_SUPPORTED && f->sel != SEL_CHANGED)
			argp_error(state, "--sel is 0 to 3, or 8, not '%s'", arg);
		return 0;
	case 'c':
		f->cdw11 = (uint32_t)cli_parse_number(state, "--cdw11", arg, 0, UINT32_MAX);
		return 0;
	case 'b':
		f->page.raw = true;
		return 0;
	case 'H':
	case 'v':
		f->page.human = true;
		return 0;
	default:
		return parse(key, arg, state);
	}
}

static error_t parse_set(int key, char *arg, struct argp_state *state)
{
	struct feature *f = state->input;

	switch (key) {
	case 'v':
	case 'V':
		f->value = (uint32_t)cli_parse_size(state, "--value", arg, 0, UINT32_MAX);
		f->has_value = true;
		return 0;
	case 'c':
		f->cdw12 = (uint32_t)cli_parse_number(state, "--cdw12", arg, 0, UINT32_MAX);
		return 0;
	case 'd':
		f->path = strcmp(arg, "-") == 0 ? NULL : arg;
		return 0;
	case 's':
		f->save = true;
		return 0;
	case ARGP_KEY_END:
		if (!f->has_fid)
			argp_error(state,
				   "which feature? --feature-id=ID; `weft get-feature` shows "
				   "those there are");
		else if (!f->has_value && !len_of(f, f->fid))
			argp_error(state, "what is it to be? --value=N");
		return 0;
	default:
		return parse(key, arg, state);
	}
}

static const struct argp_option get_options[] = {
	{NULL, 0, NULL, 0, "Which feature:", 0},
	NVME_VERB_NSID,
	{"feature-id", 'f', "ID", 0, "Its identifier (default: all that the controller has)", 0},
	{"sel", 's', "0|1|2|3|8", 0,
	 "Its current value (default), the default, the saved one, what can be done with it, or "
	 "the "
	 "current one where it is not the default",
	 0},
	{"data-len", 'l', "BYTES", 0, "How much data go with it", 0},
	{"cdw11", 'c', "N", 0, "Dword 11 of the command", 0},
	{"uuid-index", 'U', "N", 0, "Index of the UUID list", 0},
	{"raw-binary", 'b', NULL, 0, "Write its data as they came: -o binary", 4},
	{"human-readable", 'H', NULL, 0, "Tell what the bits mean", 4},
	{"verbose", 'v', NULL, 0, "The same", 4},
	{0},
};
static const struct argp_option set_options[] = {
	{NULL, 0, NULL, 0, "Which feature:", 0},
	NVME_VERB_NSID,
	{"feature-id", 'f', "ID", 0, "Its identifier", 0},
	{"value", 'v', "N", 0, "What it is to be: dword 11 of the command", 0},
	{NULL, 'V', NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0},
	{"cdw12", 'c', "N", 0, "Dword 12 of the command", 0},
	{"data-len", 'l', "BYTES", 0, "How much data go with it", 0},
	{"data", 'd', "FILE", 0, "Where they are (default: standard input)", 0},
	{"save", 's', NULL, 0, "Save it beyond a reset", 0},
	{"uuid-index", 'U', "N", 0, "Index of the UUID list", 0},
	{0},
};

static const struct argp get_argp = {
	.options = get_options,
	.parser = parse_get,
	.args_doc = NVME_CONTROLLER_ARGS,
	.doc = "Show what a controller is set to (Get Features).",
	.children = nvme_opts_children,
};
static const struct argp set_argp = {
	.options = set_options,
	.parser = parse_set,
	.args_doc = NVME_CONTROLLER_ARGS,
	.doc = "Set a feature of a controller (Set Features). It is the controller of this one "
	       "connection, unless the subsystem keeps it.",
	.children = nvme_opts_children,
};

/* --- getting ---------------------------------------------------------------------------------- */

struct gotten {
	struct remote_answer answer;
	uint8_t *data;
	uint32_t len;
};

/* Over fabrics a host's ID has 128 bits, and the command says so. */
static bool get(const struct feature *f, uint8_t fid, uint8_t sel, uint8_t *data,
		struct gotten *ret)
{
	const struct nvme_sqe sqe = {
		.opcode = NVME_ADMIN_GET_FEATURES,
		.nsid = page_nsid(&f->page),
		.cdw10 = fid | (uint32_t)sel << 8,
		.cdw11 = fid == NVME_FID_HOST_ID ? f->cdw11 | 1 : f->cdw11,
		.cdw14 = f->uuid,
	};
	int rc;

	ret->data = data;
	ret->len = sel == NVME_SEL_SUPPORTED ? 0 : len_of(f, fid);
	memset(data, 0, DATA_MAX);
	rc = remote_submit(f->page.remote, false, &sqe, data, ret->len, 0, &ret->answer);
	return remote_await(f->page.remote, rc, &ret->answer);
}

static const char *sel_name(uint8_t sel)
{
	static const char *const names[] = {"Current", "Default", "Saved",
					    "Supported capabilities"};

	return sel == SEL_CHANGED ? "Changed" : names[sel];
}

static void show_capabilities(struct output *o, uint8_t fid, uint32_t result)
{
	static const char *const names[] = {"saveable", "per-namespace", "changeable"};
	char key[32];

	snprintf(key, sizeof(key), "Feature: %#04x: select", fid);
	output_list(o, key, NULL);
	for (unsigned int i = 0; i < ARRAY_SIZE(names); i++) {
		if (!(result >> i & 1))
			continue;
		output_note(o, "  Feature is %s", names[i]);
		if (o->format == OUTPUT_JSON)
			output_string(o, NULL, NULL, names[i]);
	}
	output_close(o);
}

static bool show(struct output *o, const struct feature *f, uint8_t fid, const struct gotten *g)
{
	uint32_t result = (uint32_t)g->answer.result.result;
	char value[16], key[32];
	bool ok = true;

	snprintf(value, sizeof(value), "%#0*x", result ? 10 : 8, result);
	snprintf(key, sizeof(key), "feature: %#0*x", fid ? 4 : 2, fid);
	output_note(o, "get-feature:%#0*x (%s), %s value:%s", fid ? 4 : 2, fid,
		    nvme_feature_name(fid), sel_name(f->sel), value);
	output_object(o, key, NULL);
	if (o->format == OUTPUT_JSON) {
		output_string(o, "name", NULL, nvme_feature_name(fid));
		output_string(o, sel_name(f->sel), NULL, value);
		if (g->len)
			ok = output_bytes(o, "data", NULL, g->data, g->len);
	}
	output_close(o);
	if (f->sel == NVME_SEL_SUPPORTED)
		show_capabilities(o, fid, result);
	else if (f->page.human && meanings[fid])
		show_bits(o, meanings[fid], result);
	else if (g->len && o->format == OUTPUT_TEXT)
		hexdump(o->file, g->data, g->len);
	return ok;
}

/* Shows one, if it is to be shown; false: it failed, and that is told. all: what the controller
 * does not have is passed over. */
static bool get_one(struct output *o, const struct feature *f, uint8_t fid, bool all, uint8_t *data)
{
	uint8_t sel = f->sel == SEL_CHANGED ? NVME_SEL_CURRENT : f->sel;
	struct gotten now, before;
	uint16_t status;
	char what[96];

	if (f->sel == SEL_CHANGED && !get(f, fid, NVME_SEL_DEFAULT, data, &before))
		return false;
	if (!get(f, fid, sel, data, &now))
		return false;
	status = now.answer.result.status & NVME_STATUS_CODE;
	if (all && (status == NVME_SC_INVALID_FIELD || status == NVME_SC_INVALID_NS))
		return true;
	if (status) {
		snprintf(what, sizeof(what), "Get Features %02xh (%s)", fid,
			 nvme_feature_name(fid));
		remote_tell_result(f->page.remote, &now.answer.result, false, what);
		return false;
	}
	if (f->sel == SEL_CHANGED && now.answer.result.result == before.answer.result.result)
		return true;
	if (f->page.raw && now.len)
		return write_raw(stdout, "standard output", now.data, now.len);
	return show(o, f, fid, &now);
}

static bool get_all(const struct feature *f)
{
	uint8_t *data = remote_alloc(f->page.remote, DATA_MAX);
	struct output o;
	bool ok = data;

	output_init(&o, stdout, f->page.opts.format == OUTPUT_JSON ? OUTPUT_JSON : OUTPUT_TEXT);
	o.flat = true;
	if (f->has_fid)
		ok = ok && get_one(&o, f, f->fid, false, data);
	for (unsigned int fid = 0; !f->has_fid && ok && fid <= UINT8_MAX; fid++)
		ok = get_one(&o, f, (uint8_t)fid, true, data);
	/* What there is of it is shown, too, where one of them fails. */
	return output_finish(&o) && ok;
}

int cmd_get_feature(int argc, char **argv)
{
	struct feature f = {0};
	struct page *p = &f.page;
	int status = EXIT_FAILED;

	nvme_opts_init(&p->opts, NVME_OPTS_CONTROLLER);
	p->opts.takes_binary = true;
	nvme_verb_parse(&get_argp, "get-feature", argc, argv, &f);
	p->raw |= p->opts.format == OUTPUT_BINARY;
	if (page_open(p) && get_all(&f))
		status = EXIT_OK;
	remote_close(p->remote);
	return status;
}

/* --- setting ---------------------------------------------------------------------------------- */

static bool set(const struct feature *f)
{
	struct remote *r = f->page.remote;
	uint32_t len = len_of(f, f->fid);
	const struct nvme_sqe sqe = {
		.opcode = NVME_ADMIN_SET_FEATURES,
		.nsid = page_nsid(&f->page),
		.cdw10 = f->fid | (uint32_t)f->save << 31,
		.cdw11 = f->value,
		.cdw12 = f->cdw12,
		.cdw14 = f->uuid,
	};
	uint8_t *data = NULL;
	struct remote_answer a;
	struct output o;
	int rc;
	char what[96], text[16];

	if (len) {
		data = remote_alloc(r, len);
		if (!data || !read_raw(f->path, data, len, "--data-len"))
			return false;
	}
	snprintf(what, sizeof(what), "Set Features %02xh (%s)", f->fid, nvme_feature_name(f->fid));
	rc = remote_submit(r, false, &sqe, data, len, 0, &a);
	if (!remote_expect(r, rc, &a, false, what))
		return false;
	snprintf(text, sizeof(text), "%#0*x", f->value ? 10 : 8, f->value);
	output_init(&o, stdout, f->page.opts.format);
	output_note(&o, "set-feature:%#04x (%s), value:%s, cdw12:%#0*x, save:%#x", f->fid,
		    nvme_feature_name(f->fid), text, f->cdw12 ? 10 : 8, f->cdw12, f->save);
	if (o.format == OUTPUT_JSON) {
		output_number(&o, "feature", NULL, f->fid, NULL);
		output_string(&o, "name", NULL, nvme_feature_name(f->fid));
		output_string(&o, "value", NULL, text);
		output_number(&o, "result", NULL, a.result.result, NULL);
	} else if (len) {
		hexdump(stdout, data, len);
	}
	return output_finish(&o);
}

int cmd_set_feature(int argc, char **argv)
{
	struct feature f = {0};
	struct page *p = &f.page;
	int status = EXIT_FAILED;

	nvme_opts_init(&p->opts, NVME_OPTS_CONTROLLER);
	nvme_verb_parse(&set_argp, "set-feature", argc, argv, &f);
	if (page_open(p) && set(&f))
		status = EXIT_OK;
	remote_close(p->remote);
	return status;
}
