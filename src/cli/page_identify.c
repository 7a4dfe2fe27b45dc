/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The structures of Identify, under the names and in the look that nvme-cli gives them. */
#include <stdio.h>
#include <string.h>

#include "cli/hexdump.h"
#include "cli/page.h"
#include "wire/nvme_uuid.h"

/* Where the vendor's own bytes begin; they go to the end. */
#define ID_CTRL_VENDOR 3072
#define ID_NS_VENDOR   384

static const char *const no_yes[] = {"no", "yes", NULL};
static const char *const unsupported[] = {"not supported", "supported", NULL};

#define YES(bit, label)                           \
	{                                         \
		label, bit, 1, no_yes, NULL, 0, 0 \
	}
#define HAS(bit, label)                                \
	{                                              \
		label, bit, 1, unsupported, NULL, 0, 0 \
	}
#define NUMBER(low, n, label)                   \
	{                                       \
		label, low, n, NULL, NULL, 0, 0 \
	}
#define END       \
	{         \
		0 \
	}

#define DEC(m) output_number(o, #m, NULL, id->m, NULL);
#define HEX(m) output_hex(o, #m, NULL, id->m);
/* With what its bits mean, where that is asked for: bits_MEMBER. */
#define BITS(m)                                   \
	output_hex(o, #m, NULL, id->m);           \
	if (p->human && o->format == OUTPUT_TEXT) \
		show_bits(o, bits_##m, id->m);

/* --- the controller --------------------------------------------------------------------------- */

static const struct bits bits_cmic[] = {YES(0, "Subsystem may have several ports"),
					YES(1, "Subsystem may have several controllers"),
					YES(2, "Of an SR-IOV virtual function"),
					HAS(3, "Asymmetric namespace access (ANA)"), END};
static const struct bits bits_oaes[] = {
	HAS(8, "Namespace attribute notices"),	 HAS(9, "Firmware activation notices"),
	HAS(11, "ANA change notices"),		 HAS(12, "Predictable latency notices"),
	HAS(13, "LBA status notices"),		 HAS(14, "Endurance group notices"),
	HAS(31, "Discovery log change notices"), END};
static const struct bits bits_ctratt[] = {HAS(0, "128-bit host identifier"),
					  HAS(1, "Non-operational power states with I/O"),
					  HAS(2, "NVM sets"),
					  HAS(3, "Read recovery levels"),
					  HAS(4, "Endurance groups"),
					  HAS(5, "Predictable latency mode"),
					  HAS(6, "Keep-alive by traffic"),
					  HAS(7, "Namespace granularity"),
					  HAS(9, "UUID list"),
					  END};
static const char *const cntrltypes[] = {"not reported",
					 "I/O controller",
					 "discovery controller",
					 "administrative controller",
					 "reserved",
					 NULL};
static const struct bits bits_cntrltype[] = {{"Controller type", 0, 8, cntrltypes, NULL, 0, 0},
					     END};
static const struct bits bits_oacs[] = {HAS(0, "Security Send and Receive"),
					HAS(1, "Format NVM"),
					HAS(2, "Firmware Commit and Download"),
					HAS(3, "Namespace management and attachment"),
					HAS(4, "Device self-test"),
					HAS(5, "Directives"),
					HAS(6, "NVMe-MI Send and Receive"),
					HAS(7, "Virtualization management"),
					HAS(8, "Doorbell buffer configuration"),
					HAS(9, "Get LBA Status"),
					END};
static const struct bits bits_frmw[] = {YES(0, "Slot 1 is read-only"),
					NUMBER(1, 3, "Firmware slots"),
					HAS(4, "Activation without a reset"), END};
static const struct bits bits_lpa[] = {
	HAS(0, "SMART page of a namespace"),	  HAS(1, "Commands supported and effects page"),
	HAS(2, "32 bits of length, and offsets"), HAS(3, "Telemetry pages"),
	HAS(4, "Persistent event page"),	  END};
static const struct bits bits_sqes[] = {NUMBER(0, 4, "Log2 of the required entry size"),
					NUMBER(4, 4, "Log2 of the maximum one"), END};
#define bits_cqes bits_sqes
static const struct bits bits_oncs[] = {HAS(0, "Compare"),
					HAS(1, "Write Uncorrectable"),
					HAS(2, "Dataset Management"),
					HAS(3, "Write Zeroes"),
					HAS(4, "Save and Select of features"),
					HAS(5, "Reservations"),
					HAS(6, "Timestamp"),
					HAS(7, "Verify"),
					HAS(8, "Copy"),
					END};
static const struct bits bits_fuses[] = {HAS(0, "Fused Compare and Write"), END};
static const struct bits bits_fna[] = {YES(0, "Format is of all namespaces"),
				       YES(1, "Secure erase is of all namespaces"),
				       HAS(2, "Cryptographic erase"), END};
static const char *const flush_alls[] = {"not reported", "reserved", "not supported", "supported",
					 NULL};
static const struct bits bits_vwc[] = {YES(0, "There is a volatile write cache"),
				       {"Flush of all namespaces", 1, 2, flush_alls, NULL, 0, 0},
				       END};
static const struct bits bits_ocfs[] = {HAS(0, "Copy descriptor format 0"),
					HAS(1, "Copy descriptor format 1"), END};
static const char *const sgl_words[] = {"not supported", "supported", "supported, dword aligned",
					"reserved", NULL};
static const struct bits bits_sgls[] = {{"Scatter-gather lists", 0, 2, sgl_words, NULL, 0, 0},
					HAS(2, "Keyed data blocks"),
					HAS(16, "Bit buckets"),
					HAS(17, "Metadata by pointer"),
					HAS(18, "Longer lists than data"),
					HAS(19, "Metadata by lists"),
					HAS(20, "Offsets as addresses"),
					HAS(21, "Transport data blocks"),
					END};
static const char *const fcatt_words[] = {"dynamic", "static", NULL};
static const struct bits bits_fcatt[] = {{"Controllers", 0, 1, fcatt_words, NULL, 0, 0}, END};
static const struct bits bits_ofcs[] = {HAS(0, "Disconnect"), END};

bool fetch_id_ctrl(struct page *p)
{
	return page_identify(p, NVME_CNS_CTRL, 0, 0, 0, "Identify Controller");
}

/* The scale of a power, as its two bits say: tenths of milliwatts, hundredths of watts. */
static void power(struct output *o, uint16_t value, uint8_t scale)
{
	if (scale == 1)
		fprintf(o->file, "%u.%04uW", value / 10000u, value % 10000u);
	else if (scale == 2)
		fprintf(o->file, "%u.%02uW", value / 100u, value % 100u);
	else
		fputc('-', o->file);
}

static void power_state_text(struct output *o, unsigned int i, const struct nvme_power_state *s)
{
	static const char *const workloads[] = {"-", "1", "2"};
	unsigned int workload = s->apws & 7;

	fprintf(o->file, "ps   %4u : mp:", i);
	power(o, s->mp, s->flags & NVME_PSD_MXPS ? 1 : 2);
	fprintf(o->file, " %soperational enlat:%u exlat:%u rrt:%u rrl:%u\n",
		s->flags & NVME_PSD_NOPS ? "non-" : "", s->enlat, s->exlat, s->rrt, s->rrl);
	fprintf(o->file, "            rwt:%u rwl:%u idle_power:", s->rwt, s->rwl);
	power(o, s->idlp, s->ips >> 6);
	fputs(" active_power:", o->file);
	power(o, s->actp, s->apws >> 6);
	fprintf(o->file, "\n            active_power_workload:%s\n",
		workload < ARRAY_SIZE(workloads) ? workloads[workload] : "reserved");
}

static void power_state(struct output *o, const struct nvme_power_state *s)
{
	output_object(o, NULL, NULL);
	output_number(o, "max_power", NULL, s->mp, NULL);
	output_number(o, "flags", NULL, s->flags, NULL);
	output_number(o, "entry_lat", NULL, s->enlat, NULL);
	output_number(o, "exit_lat", NULL, s->exlat, NULL);
	output_number(o, "read_tput", NULL, s->rrt, NULL);
	output_number(o, "read_lat", NULL, s->rrl, NULL);
	output_number(o, "write_tput", NULL, s->rwt, NULL);
	output_number(o, "write_lat", NULL, s->rwl, NULL);
	output_number(o, "idle_power", NULL, s->idlp, NULL);
	output_number(o, "idle_scale", NULL, s->ips >> 6, NULL);
	output_number(o, "active_power", NULL, s->actp, NULL);
	output_number(o, "active_power_work", NULL, s->apws & 7, NULL);
	output_number(o, "active_scale", NULL, s->apws >> 6, NULL);
	output_close(o);
}

static void power_states(struct output *o, const struct nvme_id_ctrl *id)
{
	output_list(o, "psds", NULL);
	for (unsigned int i = 0; i <= id->npss && i < ARRAY_SIZE(id->psd); i++) {
		if (o->format == OUTPUT_TEXT)
			power_state_text(o, i, &id->psd[i]);
		else
			power_state(o, &id->psd[i]);
	}
	output_close(o);
}

#define STR(m)	show_padded(o, #m, id->m, sizeof(id->m));
#define WIDE(m) output_wide(o, #m, NULL, id->m.hi, id->m.lo);

void show_id_ctrl(struct output *o, const struct page *p)
{
	struct cursor c = cursor_init(p->data, p->len);
	struct nvme_id_ctrl ctrl;
	const struct nvme_id_ctrl *id = &ctrl;
	char ieee[8], fguid[40];

	nvme_id_ctrl_get(&c, &ctrl);
	snprintf(ieee, sizeof(ieee), "%02x%02x%02x", id->ieee[2], id->ieee[1], id->ieee[0]);
	nvme_uuid_format(id->fguid, fguid);
	o->width = 10;
	output_note(o, "NVME Identify Controller:");
	/* clang-format off */
	HEX(vid) HEX(ssvid) STR(sn) STR(mn) STR(fr) DEC(rab)
	output_number(o, "ieee", NULL, (uint32_t)id->ieee[2] << 16 | id->ieee[1] << 8 | id->ieee[0],
		      ieee);
	BITS(cmic) DEC(mdts) HEX(cntlid) HEX(ver) HEX(rtd3r) HEX(rtd3e) BITS(oaes) BITS(ctratt)
	HEX(rrls) DEC(cntrltype)
	if (p->human)
		show_bits(o, bits_cntrltype, id->cntrltype);
	output_string(o, "fguid", NULL, fguid);
	DEC(crdt1) DEC(crdt2) DEC(crdt3) DEC(nvmsr) DEC(vwci) DEC(mec) BITS(oacs) DEC(acl)
	DEC(aerl) BITS(frmw) BITS(lpa) DEC(elpe) DEC(npss) HEX(avscc) HEX(apsta) DEC(wctemp)
	DEC(cctemp) DEC(mtfa) DEC(hmpre) DEC(hmmin) WIDE(tnvmcap) WIDE(unvmcap) HEX(rpmbs)
	DEC(edstt) DEC(dsto) DEC(fwug) DEC(kas) HEX(hctma) DEC(mntmt) DEC(mxtmt) HEX(sanicap)
	DEC(hmminds) DEC(hmmaxd) DEC(nsetidmax) DEC(endgidmax) DEC(anatt) DEC(anacap)
	DEC(anagrpmax) DEC(nanagrpid) DEC(pels) DEC(domainid) WIDE(megcap) BITS(sqes) BITS(cqes)
	DEC(maxcmd) DEC(nn) BITS(oncs) BITS(fuses) BITS(fna) BITS(vwc) DEC(awun) DEC(awupf)
	DEC(icsvscc) DEC(nwpc) DEC(acwu) BITS(ocfs) BITS(sgls) DEC(mnan) WIDE(maxdna) DEC(maxcna)
	STR(subnqn) DEC(ioccsz) DEC(iorcsz) DEC(icdoff) BITS(fcatt) DEC(msdbd) DEC(ofcs)
		/* clang-format on */
		if (p->human) show_bits(o, bits_ofcs, id->ofcs);
	power_states(o, id);
	if (p->vendor && o->format == OUTPUT_TEXT) {
		output_note(o, "vs[]:");
		hexdump(o->file, p->data + ID_CTRL_VENDOR, p->len - ID_CTRL_VENDOR);
	}
}

/* --- a namespace ------------------------------------------------------------------------------ */

static const struct bits bits_nsfeat[] = {YES(0, "Thin provisioning"),
					  YES(1, "Atomic units of its own"),
					  HAS(2, "Errors for deallocated blocks"),
					  YES(3, "Identifiers are never used again"),
					  YES(4, "Optimal sizes (NPWG, NPWA, NPDG, NPDA, NOWS)"),
					  END};
static const struct bits bits_nmic[] = {YES(0, "May be shared by controllers"), END};
static const struct bits bits_rescap[] = {HAS(0, "Persist through power loss"),
					  HAS(1, "Write exclusive"),
					  HAS(2, "Exclusive access"),
					  HAS(3, "Write exclusive, registrants"),
					  HAS(4, "Exclusive access, registrants"),
					  HAS(5, "Write exclusive, all registrants"),
					  HAS(6, "Exclusive access, all registrants"),
					  YES(7, "Ignore existing key as of 1.3"),
					  END};
static const struct bits bits_fpi[] = {NUMBER(0, 7, "Percent left to be formatted"),
				       HAS(7, "Format progress"), END};
static const struct bits bits_nsattr[] = {YES(0, "Write-protected"), END};
static const char *const deallocated[] = {"not reported", "zeroes", "ones", "reserved", NULL};
static const struct bits bits_dlfeat[] = {
	{"Deallocated blocks read as", 0, 3, deallocated, NULL, 0, 0},
	HAS(3, "Deallocation by Write Zeroes"),
	YES(4, "Guards of deallocated blocks are CRCs"),
	END};
static const struct bits bits_flbas[] = {NUMBER(0, 4, "Format in use, lower bits"),
					 YES(4, "Metadata at the end of the data"),
					 NUMBER(5, 2, "Format in use, upper bits"), END};
static const struct bits bits_mc[] = {HAS(0, "Metadata at the end of the data"),
				      HAS(1, "Metadata apart from the data"), END};
static const struct bits bits_dpc[] = {HAS(0, "Protection type 1"),
				       HAS(1, "Protection type 2"),
				       HAS(2, "Protection type 3"),
				       HAS(3, "Protection in the first bytes"),
				       HAS(4, "Protection in the last bytes"),
				       END};
static const struct bits bits_dps[] = {NUMBER(0, 3, "Protection type in use"),
				       YES(3, "In the first bytes of the metadata"), END};

bool fetch_id_ns(struct page *p)
{
	struct nvme_id_ns id;

	if (p->unattached && p->nsid)
		return page_identify(p, NVME_CNS_ALLOCATED_NS, p->nsid, 0, 0,
				     "Identify of an allocated namespace");
	p->data = p->remote->page;
	p->len = NVME_IDENTIFY_LEN;
	return remote_identify_ns(p->remote, &p->nsid, &id);
}

static void format_line(struct output *o, const struct page *p, unsigned int i,
			const struct nvme_lbaf *f, bool in_use)
{
	static const char *const performance[] = {"best", "better", "good", "degraded"};
	const char *used = in_use ? "(in use)" : "";

	if (p->human)
		output_note(
			o,
			"LBA Format %2u : Metadata Size: %-3u bytes - Data Size: %-2llu bytes - "
			"Relative Performance: %#x %s %s",
			i, f->ms, 1ull << (f->ds & 63), f->rp & 3u, performance[f->rp & 3], used);
	else
		output_note(o, "lbaf %2u : ms:%-3u lbads:%-2u rp:%#x %s", i, f->ms, f->ds,
			    f->rp & 3u, used);
}

static void formats(struct output *o, const struct page *p, const struct nvme_id_ns *id)
{
	output_list(o, "lbafs", NULL);
	for (unsigned int i = 0; i <= id->nlbaf && i < ARRAY_SIZE(id->lbaf); i++) {
		const struct nvme_lbaf *f = &id->lbaf[i];

		if (o->format == OUTPUT_TEXT) {
			format_line(o, p, i, f, NVME_FLBAS_FORMAT(id->flbas) == i);
			continue;
		}
		output_object(o, NULL, NULL);
		output_number(o, "ms", NULL, f->ms, NULL);
		output_number(o, "ds", NULL, f->ds, NULL);
		output_number(o, "rp", NULL, f->rp & 3u, NULL);
		output_close(o);
	}
	output_close(o);
}

void show_id_ns(struct output *o, const struct page *p)
{
	struct cursor c = cursor_init(p->data, p->len);
	struct nvme_id_ns ns;
	const struct nvme_id_ns *id = &ns;
	char digits[2 * sizeof(ns.nguid) + 1];

	nvme_id_ns_get(&c, &ns);
	o->width = 8;
	output_note(o, "NVME Identify Namespace %u:", p->nsid);
	/* clang-format off */
	HEX(nsze) HEX(ncap) HEX(nuse) BITS(nsfeat) DEC(nlbaf) BITS(flbas) BITS(mc) BITS(dpc)
	BITS(dps) BITS(nmic) BITS(rescap) BITS(fpi) DEC(dlfeat)
	if (p->human)
		show_bits(o, bits_dlfeat, id->dlfeat);
	DEC(nawun) DEC(nawupf) DEC(nacwu) DEC(nabsn) DEC(nabo) DEC(nabspf) DEC(noiob) WIDE(nvmcap)
	if (id->nsfeat & NVME_NSFEAT_OPTPERF) {
		DEC(npwg) DEC(npwa) DEC(npdg) DEC(npda) DEC(nows)
	}
	DEC(mssrl) DEC(mcl) DEC(msrc) DEC(nulbaf) DEC(anagrpid) DEC(nsattr)
	if (p->human)
		show_bits(o, bits_nsattr, id->nsattr);
	DEC(nvmsetid) DEC(endgid)
		/* clang-format on */
		output_string(o, "nguid", NULL, hex_text(digits, id->nguid, sizeof(id->nguid)));
	output_string(o, "eui64", NULL, hex_text(digits, id->eui64, sizeof(id->eui64)));
	formats(o, p, id);
	if (p->vendor && o->format == OUTPUT_TEXT) {
		output_note(o, "vs[]:");
		hexdump(o->file, p->data + ID_NS_VENDOR, p->len - ID_NS_VENDOR);
	}
}

/* The one that was named, or the only one there is. */
static bool find_nsid(struct page *p)
{
	struct nvme_id_ns id;

	return remote_identify_ns(p->remote, &p->nsid, &id);
}

bool fetch_cmdset_ind_id_ns(struct page *p)
{
	return find_nsid(p) && page_identify(p, NVME_CNS_CS_INDEPENDENT_NS, p->nsid, 0, 0,
					     "I/O Command Set Independent Identify Namespace");
}

void show_cmdset_ind_id_ns(struct output *o, const struct page *p)
{
	static const struct bits bits_nstat[] = {YES(0, "Ready"), END};
	struct cursor c = cursor_init(p->data, p->len);
	struct nvme_id_independent_ns ns;
	const struct nvme_id_independent_ns *id = &ns;

	nvme_id_independent_ns_get(&c, &ns);
	o->width = 8;
	output_note(o, "NVMe Identify Command Set Independent Namespace %u:", p->nsid);
	/* clang-format off */
	BITS(nsfeat) BITS(nmic) BITS(rescap) BITS(fpi) DEC(anagrpid) DEC(nsattr) DEC(nvmsetid)
	DEC(endgid) BITS(nstat)
	/* clang-format on */
}

/* --- the NVM command set ---------------------------------------------------------------------- */

bool fetch_nvm_id_ctrl(struct page *p)
{
	return page_identify(p, NVME_CNS_CS_CTRL, 0, 0, NVME_CSI_NVM,
			     "Identify Controller of the NVM command set");
}

void show_nvm_id_ctrl(struct output *o, const struct page *p)
{
	struct cursor c = cursor_init(p->data, p->len);
	struct nvme_id_ctrl_nvm nvm;
	const struct nvme_id_ctrl_nvm *id = &nvm;

	nvme_id_ctrl_nvm_get(&c, &nvm);
	o->width = 7;
	output_note(o, "NVMe Identify Controller NVM:");
	DEC(vsl) DEC(wzsl) DEC(wusl) DEC(dmrl) DEC(dmrsl) DEC(dmsl)
}

bool fetch_nvm_id_ns(struct page *p)
{
	return remote_identify_ns(p->remote, &p->nsid, &p->ns) &&
	       page_identify(p, NVME_CNS_CS_NS, p->nsid, 0, NVME_CSI_NVM,
			     "Identify Namespace of the NVM command set");
}

void show_nvm_id_ns(struct output *o, const struct page *p)
{
	struct cursor c = cursor_init(p->data, p->len);
	uint64_t lbstm = cursor_le64(&c);
	uint8_t pic = cursor_u8(&c);

	cursor_skip(&c, 3);
	o->width = 6;
	output_note(o, "NVMe NVM Identify Namespace %u:", p->nsid);
	output_hex(o, "lbstm", NULL, lbstm);
	output_hex(o, "pic", NULL, pic);
	output_list(o, "elbafs", NULL);
	for (unsigned int i = 0; i <= p->ns.nlbaf && i < ARRAY_SIZE(p->ns.lbaf); i++) {
		uint32_t format = cursor_le32(&c), sts = format & 0x7f, pif = format >> 7 & 3;

		output_object(o, NULL, NULL);
		output_note(o, "elbaf %2u : pif:%u lbads:%-2u %s", i, pif, sts,
			    NVME_FLBAS_FORMAT(p->ns.flbas) == i ? "(in use)" : "");
		if (o->format == OUTPUT_JSON) {
			output_number(o, "sts", NULL, sts, NULL);
			output_number(o, "pif", NULL, pif, NULL);
		}
		output_close(o);
	}
	output_close(o);
}

/* --- identifiers ------------------------------------------------------------------------------ */

bool fetch_ns_descs(struct page *p)
{
	return find_nsid(p) && page_identify(p, NVME_CNS_NS_DESC_LIST, p->nsid, 0, 0,
					     "Identify of the namespace's descriptors");
}

/* Its name, and its value as text; false: of a type that is not known, or not as long as it is. */
static bool descriptor(const struct nvme_ns_desc *d, const char **ret_name, char text[64])
{
	static const struct {
		const char *name;
		uint8_t bytes;
	} types[] = {
		[NVME_NIDT_EUI64] = {"eui64", 8},
		[NVME_NIDT_NGUID] = {"nguid", 16},
		[NVME_NIDT_UUID] = {"uuid", 16},
		[NVME_NIDT_CSI] = {"csi", 1},
	};

	if (d->nidt >= ARRAY_SIZE(types) || !types[d->nidt].name || types[d->nidt].bytes != d->nidl)
		return false;
	*ret_name = types[d->nidt].name;
	if (d->nidt == NVME_NIDT_CSI)
		snprintf(text, 64, "%#x", d->nid[0]);
	else if (d->nidt == NVME_NIDT_UUID)
		nvme_uuid_format(d->nid, text);
	else
		hex_text(text, d->nid, d->nidl);
	return true;
}

void show_ns_descs(struct output *o, const struct page *p)
{
	struct cursor c = cursor_init(p->data, p->len);
	struct nvme_ns_desc d;
	const char *name;
	char text[64];

	o->width = 8;
	output_note(o, "NVME Namespace Identification Descriptors NS %u:", p->nsid);
	output_list(o, "ns-descs", NULL);
	for (size_t at = 0; nvme_ns_desc_get(&c, &d) == 1; at += 4u + d.nidl) {
		if (!descriptor(&d, &name, text))
			continue;
		output_object(o, NULL, NULL);
		if (o->format == OUTPUT_JSON) {
			output_number(o, "loc", NULL, at, NULL);
			output_number(o, "nidt", NULL, d.nidt, NULL);
			output_number(o, "nidl", NULL, d.nidl, NULL);
			output_string(o, "type", NULL, name);
		}
		output_string(o, name, NULL, text);
		output_close(o);
	}
	output_close(o);
}

/* --- lists ------------------------------------------------------------------------------------ */

/* The ones from nsid on: the controller lists those above what it is told. */
bool fetch_list_ns(struct page *p)
{
	uint32_t above = p->nsid ? p->nsid - 1 : 0;

	if (p->csi >= 0)
		return page_identify(
			p, p->all ? NVME_CNS_CS_ALLOCATED_NS_LIST : NVME_CNS_CS_NS_LIST, above, 0,
			(uint8_t)p->csi, "Identify of the command set's namespace list");
	return page_identify(p, p->all ? NVME_CNS_ALLOCATED_NS_LIST : NVME_CNS_ACTIVE_NS_LIST,
			     above, 0, 0, "Identify of the namespace list");
}

void show_list_ns(struct output *o, const struct page *p)
{
	struct cursor c = cursor_init(p->data, p->len);
	uint32_t ids[NVME_NS_LIST_MAX];
	uint32_t count = nvme_ns_list_get(&c, ids, NVME_NS_LIST_MAX);

	output_list(o, "nsid_list", NULL);
	for (uint32_t i = 0; i < count; i++) {
		output_object(o, NULL, NULL);
		output_note(o, "[%4u]:%#x", i, ids[i]);
		if (o->format == OUTPUT_JSON)
			output_number(o, "nsid", NULL, ids[i], NULL);
		output_close(o);
	}
	output_close(o);
}

bool fetch_list_ctrl(struct page *p)
{
	uint32_t from = p->cntid == UINT32_MAX ? 0 : p->cntid;

	return page_identify(p, p->nsid ? NVME_CNS_NS_CTRL_LIST : NVME_CNS_CTRL_LIST, p->nsid, from,
			     0, "Identify of the controller list");
}

void show_list_ctrl(struct output *o, const struct page *p)
{
	struct cursor c = cursor_init(p->data, p->len);
	uint16_t ids[NVME_CTRL_LIST_MAX];
	uint32_t count = nvme_ctrl_list_get(&c, ids, NVME_CTRL_LIST_MAX);

	output_note(o, "num of ctrls present: %u", count);
	if (o->format == OUTPUT_JSON)
		output_number(o, "num_ctrl", NULL, count, NULL);
	output_list(o, "ctrl_list", NULL);
	for (uint32_t i = 0; i < count; i++) {
		output_object(o, NULL, NULL);
		output_note(o, "[%4u]:%#x", i, ids[i]);
		if (o->format == OUTPUT_JSON)
			output_number(o, "ctrl_id", NULL, ids[i], NULL);
		output_close(o);
	}
	output_close(o);
}

/* ffff: of the controller that is asked. */
bool fetch_id_iocs(struct page *p)
{
	uint32_t id = p->cntid == UINT32_MAX ? UINT16_MAX : p->cntid;

	return page_identify(p, NVME_CNS_IO_COMMAND_SETS, 0, id, 0,
			     "Identify of the I/O command sets");
}

void show_id_iocs(struct output *o, const struct page *p)
{
	struct cursor c = cursor_init(p->data, p->len);
	char key[64];

	output_note(o, "NVMe Identify I/O Command Set:");
	for (unsigned int i = 0; i < NVME_IOCS_MAX; i++) {
		uint64_t sets = cursor_le64(&c);

		if (!sets)
			continue;
		snprintf(key, sizeof(key), "I/O Command Set Combination[%u]", i);
		output_note(o, "%s:%llx", key, (unsigned long long)sets);
		if (o->format == OUTPUT_JSON)
			output_number(o, key, NULL, sets, NULL);
	}
}
