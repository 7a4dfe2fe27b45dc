/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft get-property, weft set-property, weft show-regs: a controller's properties. */
#include "cli/cli.h"
#include "cli/nvme_verb.h"
#include "cli/page.h"

int cmd_get_property(int argc, char **argv);
int cmd_set_property(int argc, char **argv);
int cmd_show_regs(int argc, char **argv);

enum verb { GET, SET, SHOW };

struct property {
	struct page page; /* its options and remote */
	enum verb verb;
	bool has_offset, has_value;
	uint32_t offset;
	uint64_t value;
};

/* --- what the bits mean ----------------------------------------------------------------------- */

static const char *const no_yes[] = {"no", "yes", NULL};
static const char *const shutdowns[] = {"none asked for", "normal", "abrupt", "reserved", NULL};
static const char *const progress[] = {"none asked for", "under way", "complete", "reserved", NULL};
static const char *const sets[] = {"NVM",      "reserved", "reserved",	    "reserved",
				   "reserved", "reserved", "all there are", "admin commands alone",
				   NULL};
static const char *const arbitrations[] = {"round robin", "weighted round robin", "reserved", NULL};

#define YES(bit, label)                           \
	{                                         \
		label, bit, 1, no_yes, NULL, 0, 0 \
	}
#define WORD(low, n, label, words)               \
	{                                        \
		label, low, n, words, NULL, 0, 0 \
	}
#define SCALED(low, n, label, times, what)          \
	{                                           \
		label, low, n, NULL, what, times, 0 \
	}
#define COUNT(low, n, label)                    \
	{                                       \
		label, low, n, NULL, NULL, 1, 1 \
	}
#define NUMBER(low, n, label)                   \
	{                                       \
		label, low, n, NULL, NULL, 0, 0 \
	}
#define END       \
	{         \
		0 \
	}

static const struct bits cap[] = {YES(60, "Ready independent of media (CRIMS)"),
				  YES(59, "Ready with media (CRWMS)"),
				  YES(57, "Controller memory buffer (CMBS)"),
				  YES(56, "Persistent memory region (PMRS)"),
				  NUMBER(52, 4, "Log2 of the largest page in 4 KiB (MPSMAX)"),
				  NUMBER(48, 4, "Log2 of the smallest page in 4 KiB (MPSMIN)"),
				  YES(45, "Boot partitions (BPS)"),
				  YES(37, "NVM command set (CSS)"),
				  YES(43, "Other I/O command sets"),
				  YES(44, "Admin commands alone"),
				  YES(36, "NVM subsystem reset (NSSRS)"),
				  NUMBER(32, 4, "Log2 of the doorbell stride (DSTRD)"),
				  SCALED(24, 8, "Timeout (TO)", 500, "ms"),
				  YES(17, "Weighted round robin (AMS)"),
				  YES(16, "Contiguous queues required (CQR)"),
				  COUNT(0, 16, "Queue entries at most (MQES)"),
				  END};
static const struct bits vs[] = {NUMBER(16, 16, "Major"), NUMBER(8, 8, "Minor"),
				 NUMBER(0, 8, "Tertiary"), END};
static const struct bits cc[] = {YES(24, "Ready independent of media (CRIME)"),
				 NUMBER(20, 4, "Log2 of a completion queue entry (IOCQES)"),
				 NUMBER(16, 4, "Log2 of a submission queue entry (IOSQES)"),
				 WORD(14, 2, "Shutdown notification (SHN)", shutdowns),
				 WORD(11, 3, "Arbitration (AMS)", arbitrations),
				 NUMBER(7, 4, "Log2 of the page in 4 KiB (MPS)"),
				 WORD(4, 3, "I/O command set (CSS)", sets),
				 YES(0, "Enabled (EN)"),
				 END};
static const struct bits csts[] = {YES(5, "Processing paused (PP)"),
				   YES(4, "NVM subsystem reset occurred (NSSRO)"),
				   WORD(2, 2, "Shutdown status (SHST)", progress),
				   YES(1, "Fatal status (CFS)"),
				   YES(0, "Ready (RDY)"),
				   END};
static const struct bits nssr[] = {NUMBER(0, 32, "NVM subsystem reset control (NSSRC)"), END};
static const struct bits crto[] = {SCALED(16, 16, "Ready independent of media (CRIMT)", 500, "ms"),
				   SCALED(0, 16, "Ready with media (CRWMT)", 500, "ms"), END};

static const struct bits *meaning(uint32_t offset)
{
	switch (offset) {
	case NVME_PROP_CAP:
		return cap;
	case NVME_PROP_VS:
		return vs;
	case NVME_PROP_CC:
		return cc;
	case NVME_PROP_CSTS:
		return csts;
	case NVME_PROP_NSSR:
		return nssr;
	case NVME_PROP_CRTO:
		return crto;
	}
	return NULL;
}

/* --- options ---------------------------------------------------------------------------------- */

#define OFFSET                                                                        \
	{NULL, 0, NULL, 0, "Which property:", 0},                                     \
		{"offset",                                                            \
		 'o',                                                                 \
		 "N",                                                                 \
		 0,                                                                   \
		 "Its offset: CAP 0, VS 8, CC 0x14, CSTS 0x1c, NSSR 0x20, CRTO 0x68", \
		 0},                                                                  \
	{                                                                             \
		NULL, 'O', NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0                \
	}
#define HUMAN                                                           \
	{"human-readable", 'H', NULL, 0, "Tell what the bits mean", 4}, \
	{                                                               \
		"verbose", 'v', NULL, 0, "The same", 4                  \
	}

static const struct argp_option options[][8] = {
	[GET] = {OFFSET, HUMAN, {0}},
	[SET] = {OFFSET,
		 {"value", 'v', "N", 0, "What it is to be", 0},
		 {NULL, 'V', NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0},
		 {0}},
	[SHOW] = {HUMAN, {0}},
};
static const struct {
	const char *name, *doc;
} verbs[] = {
	[GET] = {"get-property", "Show a property of a controller (Property Get)."},
	[SET] = {"set-property",
		 "Set a property of a controller (Property Set). It is the controller "
		 "of this one connection."},
	[SHOW] = {"show-regs", "Show the properties of a controller, all that fabrics have."},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct property *p = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &p->page.opts;
		return 0;
	case 'o':
		if (nvme_verb_took_format(&p->page.opts, state, arg))
			return 0;
		return parse('O', arg, state);
	case 'O':
		p->offset = (uint32_t)cli_parse_number(state, "--offset", arg, 0, UINT32_MAX);
		p->has_offset = true;
		return 0;
	case 'V':
		p->value = cli_parse_number(state, "--value", arg, 0, UINT64_MAX);
		p->has_value = true;
		return 0;
	case 'v':
		if (p->verb == SET)
			return parse('V', arg, state);
		return parse('H', arg, state);
	case 'H':
		p->page.human = true;
		return 0;
	case ARGP_KEY_END:
		if (p->verb != SHOW && !p->has_offset)
			argp_error(state, "which property? --offset=N");
		else if (p->verb == SET && !p->has_value)
			argp_error(state, "what is it to be? --value=N");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* --- the verbs -------------------------------------------------------------------------------- */

static const char *name_of(uint32_t offset)
{
	const struct nvme_prop_row *row = nvme_prop_find(offset);

	return row ? row->name : "Unknown";
}

static bool is_wide(uint32_t offset)
{
	const struct nvme_prop_row *row = nvme_prop_find(offset);

	return row && row->bytes == 8;
}

static int submit(struct remote *r, uint32_t offset, uint64_t value, uint8_t fctype,
		  struct remote_answer *a)
{
	struct nvmf_prop prop = {.wide = is_wide(offset), .offset = offset, .value = value};
	struct nvme_sqe sqe = {0};

	nvmf_prop_to_sqe(&prop, fctype, &sqe);
	return remote_submit(r, false, &sqe, NULL, 0, 0, a);
}

static bool get(const struct property *p)
{
	struct remote_answer a;
	int rc = submit(p->page.remote, p->offset, 0, NVMF_PROPERTY_GET, &a);
	const struct bits *bits = meaning(p->offset);
	char what[64], offset[16], value[24];
	struct output o;

	snprintf(what, sizeof(what), "Property Get of %02xh", p->offset);
	if (!remote_expect(p->page.remote, rc, &a, false, what))
		return false;
	snprintf(offset, sizeof(offset), "0x%02x", p->offset);
	snprintf(value, sizeof(value), "%llx", (unsigned long long)a.result.result);
	output_init(&o, stdout, p->page.opts.format);
	output_note(&o, "property: %s (%s), value: %s", offset, name_of(p->offset), value);
	if (o.format == OUTPUT_JSON) {
		output_string(&o, "property", NULL, offset);
		output_string(&o, "name", NULL, name_of(p->offset));
		output_string(&o, "value", NULL, value);
	}
	if (p->page.human && bits)
		show_bits(&o, bits, a.result.result);
	return output_finish(&o);
}

static bool set(const struct property *p)
{
	struct remote_answer a;
	int rc = submit(p->page.remote, p->offset, p->value, NVMF_PROPERTY_SET, &a);
	char what[64], offset[16], value[24];
	struct output o;

	snprintf(what, sizeof(what), "Property Set of %02xh", p->offset);
	if (!remote_expect(p->page.remote, rc, &a, false, what))
		return false;
	snprintf(offset, sizeof(offset), "%02x", p->offset);
	snprintf(value, sizeof(value), "%#08llx", (unsigned long long)p->value);
	output_init(&o, stdout, p->page.opts.format);
	output_note(&o, "set-property: %s (%s), value: %s", offset, name_of(p->offset), value);
	if (o.format == OUTPUT_JSON) {
		output_string(&o, "property", NULL, offset);
		output_string(&o, "name", NULL, name_of(p->offset));
		output_string(&o, "value", NULL, value);
	}
	return output_finish(&o);
}

/* What is not there reads as ones, as with registers. */
static bool read_property(const struct property *p, const struct nvme_prop_row *row,
			  bool *ret_there, uint64_t *ret)
{
	struct remote_answer a;
	int rc;

	*ret_there = false;
	*ret = row->bytes == 8 ? UINT64_MAX : UINT32_MAX;
	if (!row->fabrics)
		return true;
	rc = submit(p->page.remote, row->offset, 0, NVMF_PROPERTY_GET, &a);
	if (!remote_await(p->page.remote, rc, &a))
		return false;
	*ret_there = a.result.error == 0;
	if (*ret_there)
		*ret = a.result.result;
	return true;
}

static bool show(const struct property *p)
{
	struct output o;

	output_init(&o, stdout, p->page.opts.format);
	for (unsigned int i = 0; i < nvme_prop_count; i++) {
		const struct nvme_prop_row *row = &nvme_props[i];
		uint64_t value;
		bool there;

		if (!read_property(p, row, &there, &value))
			return false;
		if (o.format == OUTPUT_JSON) {
			output_number(&o, row->key, NULL, value, NULL);
			continue;
		}
		if (!there)
			continue;
		output_note(&o, "%-8s: %llx", row->offset == NVME_PROP_VS ? "version" : row->key,
			    (unsigned long long)value);
		if (p->page.human)
			show_bits(&o, meaning(row->offset), value);
	}
	return output_finish(&o);
}

static int run(enum verb verb, int argc, char **argv)
{
	static bool (*const work[])(const struct property *) = {
		[GET] = get, [SET] = set, [SHOW] = show};
	const struct argp argp = {
		.options = options[verb],
		.parser = parse,
		.args_doc = NVME_CONTROLLER_ARGS,
		.doc = verbs[verb].doc,
		.children = nvme_opts_children,
	};
	struct property p = {.verb = verb};
	int status = EXIT_FAILED;

	nvme_opts_init(&p.page.opts, NVME_OPTS_CONTROLLER);
	nvme_verb_parse(&argp, verbs[verb].name, argc, argv, &p);
	if (page_open(&p.page) && work[verb](&p))
		status = EXIT_OK;
	remote_close(p.page.remote);
	return status;
}

int cmd_get_property(int argc, char **argv)
{
	return run(GET, argc, argv);
}

int cmd_set_property(int argc, char **argv)
{
	return run(SET, argc, argv);
}

int cmd_show_regs(int argc, char **argv)
{
	return run(SHOW, argc, argv);
}
