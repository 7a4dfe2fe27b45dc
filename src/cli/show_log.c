/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The log pages that have a verb of their own, under nvme-cli's names and in its look. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/page.h"
#include "wire/nvme_log.h"

/* What there is of the JSON form alone. */
static void number(struct output *o, const char *key, uint64_t value)
{
	if (o->format == OUTPUT_JSON)
		output_number(o, key, NULL, value, NULL);
}

/* --- SMART ------------------------------------------------------------------------------------ */

#define WARNINGS_MAX 6
static const struct {
	const char *key, *label;
} warnings[WARNINGS_MAX] = {
	{"available_spare", "Available Spare"},
	{"temp_threshold", "Temp. Threshold"},
	{"reliability_degraded", "NVM subsystem Reliability"},
	{"ro", "Read-only"},
	{"vmbu_failed", "Volatile mem. backup failed"},
	{"pmr_ro", "Persistent Mem. RO"},
};

static void show_warning(struct output *o, const struct page *p, uint8_t warning)
{
	if (o->format == OUTPUT_TEXT || !p->human) {
		output_hex(o, "critical_warning", NULL, warning);
	} else {
		output_object(o, "critical_warning", NULL);
		output_number(o, "value", NULL, warning, NULL);
		for (unsigned int i = 0; i < WARNINGS_MAX; i++)
			output_number(o, warnings[i].key, NULL, warning >> i & 1u, NULL);
		output_close(o);
	}
	for (unsigned int i = 0; p->human && i < WARNINGS_MAX; i++)
		output_note(o, "      %s[%u]%*s: %u", warnings[i].label, i,
			    28 - (int)strlen(warnings[i].label), "", warning >> i & 1u);
}

static void kelvin(struct output *o, const char *key, const char *label, uint16_t k)
{
	char text[48];

	snprintf(text, sizeof(text), "%d °C (%u K)", (int)k - 273, k);
	output_number(o, key, label, k, text);
}

static void percent(struct output *o, const char *key, const char *label, uint8_t v)
{
	char text[8];

	snprintf(text, sizeof(text), "%u%%", v);
	output_number(o, key, label, v, text);
}

/* Of thousands of 512 bytes; the text form says how much that is. */
static void units(struct output *o, const char *key, const char *label, struct nvme_u128 v)
{
	char text[96], bytes[32];

	if (v.hi || v.lo > UINT64_MAX / 512000) {
		output_wide(o, key, label, v.hi, v.lo);
		return;
	}
	text_bytes(bytes, sizeof(bytes), v.lo * 512000);
	snprintf(text, sizeof(text), "%llu (%s)", (unsigned long long)v.lo, bytes);
	output_number(o, key, label, v.lo, text);
}

#define WIDE(key, member) output_wide(o, key, NULL, s.member.hi, s.member.lo);
#define DEC(key, label)	  output_number(o, #key, label, s.key, NULL);

void show_smart_log(struct output *o, const struct page *p)
{
	struct cursor c = cursor_init(p->data, p->len);
	struct nvme_smart s;

	nvme_smart_get(&c, &s);
	o->width = 40;
	output_note(o, "Smart Log for NVME device:%s namespace-id:%x", p->nqn, page_nsid(p));
	show_warning(o, p, s.critical_warning);
	kelvin(o, "temperature", NULL, s.temperature);
	percent(o, "avail_spare", "available_spare", s.avail_spare);
	percent(o, "spare_thresh", "available_spare_threshold", s.spare_thresh);
	percent(o, "percent_used", "percentage_used", s.percent_used);
	output_hex(o, "endurance_grp_critical_warning_summary",
		   "endurance group critical warning summary", s.endu_grp_warning);
	units(o, "data_units_read", "Data Units Read", s.data_units_read);
	units(o, "data_units_written", "Data Units Written", s.data_units_written);
	/* clang-format off */
	WIDE("host_read_commands", host_reads) WIDE("host_write_commands", host_writes)
	WIDE("controller_busy_time", ctrl_busy_time) WIDE("power_cycles", power_cycles)
	WIDE("power_on_hours", power_on_hours) WIDE("unsafe_shutdowns", unsafe_shutdowns)
	WIDE("media_errors", media_errors) WIDE("num_err_log_entries", num_err_log_entries)
	DEC(warning_temp_time, "Warning Temperature Time")
	DEC(critical_comp_time, "Critical Composite Temperature Time")
		/* clang-format on */
		for (unsigned int i = 0; i < ARRAY_SIZE(s.temp_sensor); i++)
	{
		char key[24], label[24];

		snprintf(key, sizeof(key), "temperature_sensor_%u", i + 1);
		snprintf(label, sizeof(label), "Temperature Sensor %u", i + 1);
		if (s.temp_sensor[i])
			kelvin(o, key, label, s.temp_sensor[i]);
	}
	/* clang-format off */
	DEC(thm_temp1_trans_count, "Thermal Management T1 Trans Count")
	DEC(thm_temp2_trans_count, "Thermal Management T2 Trans Count")
	DEC(thm_temp1_total_time, "Thermal Management T1 Total Time")
	DEC(thm_temp2_total_time, "Thermal Management T2 Total Time")
	/* clang-format on */
}

/* --- errors ----------------------------------------------------------------------------------- */

static const char *transport_name(uint8_t trtype)
{
	switch (trtype) {
	case 0:
		return "not of a transport";
	case NVMF_TRTYPE_RDMA:
		return "RDMA";
	case NVMF_TRTYPE_FC:
		return "Fibre Channel";
	case NVMF_TRTYPE_TCP:
		return "TCP";
	case NVMF_TRTYPE_LOOP:
		return "within the host";
	}
	return "reserved";
}

static void show_error(struct output *o, unsigned int i, const struct nvme_error_entry *e)
{
	uint16_t status = e->status >> 1;
	char text[128];

	snprintf(text, sizeof(text), "%#x(%s)", status,
		 e->sqid ? nvme_io_status_name(status) : nvme_status_name(status));
	output_object(o, NULL, " Entry[%2u]", i);
	output_note(o, ".................");
	output_number(o, "error_count", NULL, e->error_count, NULL);
	output_number(o, "sqid", NULL, e->sqid, NULL);
	output_hex(o, "cmdid", NULL, e->cid);
	output_number(o, "status_field", NULL, status, text);
	output_hex(o, "phase_tag", NULL, e->status & 1);
	output_hex(o, "parm_error_location", "parm_err_loc", e->parm_error_location);
	output_hex(o, "lba", NULL, e->lba);
	output_hex(o, "nsid", NULL, e->nsid);
	output_number(o, "vs", NULL, e->vs, NULL);
	output_number(o, "trtype", NULL, e->trtype, transport_name(e->trtype));
	output_hex(o, "cs", NULL, e->cs);
	output_hex(o, "trtype_spec_info", NULL, e->trtype_info);
	output_note(o, ".................");
	output_close(o);
}

void show_error_log(struct output *o, const struct page *p)
{
	struct cursor c = cursor_init(p->data, p->len);
	unsigned int n = p->len / NVME_ERROR_ENTRY_LEN;

	o->width = 16;
	output_note(o, "Error Log Entries for device:%s entries:%u", p->nqn, n);
	output_note(o, ".................");
	output_list(o, "errors", NULL);
	for (unsigned int i = 0; i < n; i++) {
		struct nvme_error_entry e;

		nvme_error_entry_get(&c, &e);
		show_error(o, i, &e);
	}
	output_close(o);
}

/* --- firmware, changed namespaces ------------------------------------------------------------- */

void show_fw_log(struct output *o, const struct page *p)
{
	struct cursor c = cursor_init(p->data, p->len);
	struct nvme_firmware_log log;

	nvme_firmware_log_get(&c, &log);
	o->width = 5;
	output_object(o, p->nqn, "Firmware Log for device:%s", p->nqn);
	output_hex(o, "Active Firmware Slot (afi)", "afi", log.afi);
	for (unsigned int i = 0; i < ARRAY_SIZE(log.frs); i++) {
		unsigned long long n = ld_le64((const uint8_t *)log.frs[i]);
		char key[32], label[8], text[64], name[9];

		if (!log.frs[i][0])
			continue;
		for (unsigned int k = 0; k < 8; k++)
			name[k] =
				log.frs[i][k] >= '!' && log.frs[i][k] <= '~' ? log.frs[i][k] : '.';
		name[8] = 0;
		snprintf(key, sizeof(key), "Firmware Rev Slot %u", i + 1);
		snprintf(label, sizeof(label), "frs%u", i + 1);
		if (o->format == OUTPUT_JSON)
			snprintf(text, sizeof(text), "%llu (%s)", n, name);
		else
			snprintf(text, sizeof(text), "%#016llx (%s)", n, name);
		output_string(o, key, label, text);
	}
	output_close(o);
}

void show_changed_ns_list_log(struct output *o, const struct page *p)
{
	struct cursor c = cursor_init(p->data, p->len);
	uint32_t ids[NVME_NS_LIST_MAX];
	uint32_t count = nvme_ns_list_get(&c, ids, NVME_NS_LIST_MAX);

	if (o->format == OUTPUT_JSON)
		output_string(o, "Changed Namespace List Log", NULL, p->nqn);
	output_object(o, p->nqn, NULL);
	if (count && ids[0] == NVME_NSID_ALL) {
		output_note(o, "more than %d ns changed", NVME_NS_LIST_MAX);
		count = 0;
	}
	for (uint32_t i = 0; i < count; i++) {
		char key[16], text[16];

		snprintf(key, sizeof(key), "[%4u]", i + 1);
		snprintf(text, sizeof(text), "%#x", ids[i]);
		output_note(o, "[%4u]:%s", i, text);
		if (o->format == OUTPUT_JSON)
			output_string(o, key, NULL, text);
	}
	output_close(o);
}

/* --- what there is ---------------------------------------------------------------------------- */

static void effect_text(struct output *o, const struct page *p, bool admin, unsigned int opcode,
			uint32_t effect)
{
	static const char *const beside[] = {"No command restriction",
					     "No other command for same namespace",
					     "No other command for any namespace", "Reserved CSE"};

	fprintf(o->file, admin ? "ACS%-6u[%-32s] %08x" : "IOCS%-5u[%-32s] %08x", opcode,
		nvme_opcode_name((uint8_t)opcode, admin), effect);
	if (p->human)
		fprintf(o->file, "  CSUPP+  LBCC%c  NCC%c  NIC%c  CCC%c  USS%c  %s",
			effect & NVME_EFFECT_LBCC ? '+' : '-', effect & NVME_EFFECT_NCC ? '+' : '-',
			effect & NVME_EFFECT_NIC ? '+' : '-', effect & NVME_EFFECT_CCC ? '+' : '-',
			effect & NVME_EFFECT_USS ? '+' : '-',
			beside[min_of(NVME_EFFECT_CSE(effect), 3u)]);
	fputc('\n', o->file);
}

static void show_commands(struct output *o, const struct page *p, bool admin,
			  const uint32_t effects[256])
{
	output_object(o, admin ? "admin_cmd_set" : "io_cmd_set",
		      admin ? "Admin Commands" : "I/O Commands");
	for (unsigned int i = 0; i < 256; i++) {
		char key[64];

		if (!(effects[i] & NVME_EFFECT_CSUPP))
			continue;
		snprintf(key, sizeof(key), "%s_%u (%s)", admin ? "ACS" : "IOCS", i,
			 nvme_opcode_name((uint8_t)i, admin));
		if (o->format == OUTPUT_TEXT)
			effect_text(o, p, admin, i, effects[i]);
		else
			output_number(o, key, NULL, effects[i], NULL);
	}
	output_note(o, "%s", "");
	output_close(o);
}

void show_effects_log(struct output *o, const struct page *p)
{
	struct cursor c = cursor_init(p->data, p->len);
	struct nvme_effects fx;
	char title[64];

	nvme_effects_get(&c, &fx);
	snprintf(title, sizeof(title), "%s Command Set Log Page",
		 page_csi(p) == NVME_CSI_NVM ? "NVM"
		 : page_csi(p) == 2	     ? "ZNS"
					     : "Unknown");
	output_be_list(o);
	output_object(o, NULL, "%s", title);
	output_note(
		o, "%.80s",
		"--------------------------------------------------------------------------------");
	number(o, "command_set_identifier", page_csi(p));
	show_commands(o, p, true, fx.admin);
	show_commands(o, p, false, fx.io);
	output_close(o);
}

void show_supported_log_pages(struct output *o, const struct page *p)
{
	struct cursor c = cursor_init(p->data, p->len);
	struct nvme_supported_logs logs;

	nvme_supported_logs_get(&c, &logs);
	output_note(o, "Support Log Pages Details for %s:", p->nqn);
	output_list(o, "supported_logs", NULL);
	for (unsigned int i = 0; i < 256; i++) {
		uint32_t v = logs.lid[i];
		char key[16];

		if (!(v & NVME_LID_SUPPORTED_LSUPP))
			continue;
		snprintf(key, sizeof(key), "lid_0x%x ", i);
		output_object(o, NULL, NULL);
		number(o, key, v);
		output_close(o);
		output_note(o, "LID 0x%x (%s), supports 0x%x%s", i, nvme_log_name((uint8_t)i), v,
			    p->human ? "" : "\n");
		if (p->human) {
			output_note(o, "  LSUPP is supported");
			output_note(o, "  IOS is %ssupported", v & 2 ? "" : "not ");
		}
	}
	output_close(o);
}

/* Whom it concerns to set a feature: from bit 20 on. */
static void feature_text(struct output *o, const struct page *p, unsigned int fid, uint32_t effect)
{
	static const char *const scopes[] = {"NAMESPACE",	"CONTROLLER", "NVM SET",
					     "ENDURANCE GROUP", "DOMAIN",     "NVM Subsystem"};

	fprintf(o->file, "FID %02x -> Support Effects Log: %08x", fid, effect);
	if (p->human) {
		fprintf(o->file, "  FSUPP+  UDCC%c  NCC%c  NIC%c  CCC%c  USS%c",
			effect & NVME_EFFECT_LBCC ? '+' : '-', effect & NVME_EFFECT_NCC ? '+' : '-',
			effect & NVME_EFFECT_NIC ? '+' : '-', effect & NVME_EFFECT_CCC ? '+' : '-',
			effect & NVME_EFFECT_USS ? '+' : '-');
		for (unsigned int i = 0; i < ARRAY_SIZE(scopes); i++)
			fprintf(o->file, "  %s SCOPE%c", scopes[i],
				effect & NVME_FEATURE_SCOPE_NS << i ? '+' : '-');
	}
	fputc('\n', o->file);
}

void show_fid_support_effects_log(struct output *o, const struct page *p)
{
	struct cursor c = cursor_init(p->data, p->len);

	output_note(o, "FID Supports Effects Log for device: %s", p->nqn);
	output_note(o, "Admin Command Set");
	output_list(o, "fid_support", NULL);
	for (unsigned int fid = 0; fid <= UINT8_MAX; fid++) {
		uint32_t effect = cursor_le32(&c);
		char key[16];

		if (!(effect & NVME_FEATURE_FSUPP))
			continue;
		output_object(o, NULL, NULL);
		snprintf(key, sizeof(key), "fid_%u", fid);
		number(o, key, effect);
		output_close(o);
		if (o->format == OUTPUT_TEXT)
			feature_text(o, p, fid, effect);
	}
	output_close(o);
}

/* --- asymmetric access ------------------------------------------------------------------------ */

static void show_group(struct output *o, const struct nvme_ana_group *g, struct cursor *c)
{
	output_object(o, NULL, NULL);
	output_number(o, "grpid", NULL, g->grpid, NULL);
	output_number(o, "nnsids", NULL, g->nnsids, NULL);
	output_number(o, "chgcnt", NULL, g->chgcnt, NULL);
	output_string(o, "state", NULL, nvme_ana_state_name(g->state));
	output_list(o, "NSIDS", NULL);
	for (uint32_t i = 0; i < g->nnsids && !c->overrun; i++) {
		uint32_t nsid = cursor_le32(c);

		if (c->overrun)
			break;
		output_object(o, NULL, NULL);
		output_number(o, "nsid", "\tnsid", nsid, NULL);
		output_close(o);
	}
	output_close(o);
	output_note(o, "%s", "");
	output_close(o);
}

void show_ana_log(struct output *o, const struct page *p)
{
	struct cursor c = cursor_init(p->data, p->len);
	struct nvme_ana_hdr hdr;

	nvme_ana_hdr_get(&c, &hdr);
	o->separator = "\t:\t";
	output_string(o, "Asymmetric Namespace Access Log for NVMe device", NULL, p->nqn);
	output_note(o, "ANA LOG HEADER :-");
	output_number(o, "chgcnt", NULL, hdr.chgcnt, NULL);
	output_number(o, "ngrps", NULL, hdr.ngrps, NULL);
	output_note(o, "ANA Log Desc :-");
	output_list(o, "ANA DESC LIST ", NULL);
	for (unsigned int i = 0; i < hdr.ngrps; i++) {
		struct nvme_ana_group g;

		nvme_ana_group_get(&c, &g);
		if (c.overrun) {
			cli_warn("the page names %u groups and has %u", hdr.ngrps, i);
			break;
		}
		show_group(o, &g, &c);
	}
	output_close(o);
}
