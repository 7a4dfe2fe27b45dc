/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A document, read and checked. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "config/keys.h"
#include "nvmf/common/command.h"
#include "wire/nvme_fabrics.h"
#include "wire/nvme_uuid.h"

#define CNTLID_MAX NVMF_CNTLID_MAX

/* --- lists -----------------------------------------------------------------------------------
 */

/* Room for one of size bytes for each element; NULL: none, or what is wrong is told. */
static void *list_room(struct reader *r, struct json_object *list, const char *key, size_t max,
		       size_t size)
{
	size_t n = config_length(list);
	void *room;

	if (n > max) {
		reader_fail(r, key, "more than %zu", max);
		return NULL;
	}
	room = n ? calloc(n, size) : NULL;
	if (n && !room && !r->error) {
		snprintf(r->why, r->room, "out of memory");
		r->error = -ENOMEM;
	}
	return room;
}

static bool read_bool(struct reader *r, struct json_object *obj, const char *key)
{
	const char *text = member_text(obj, key);

	if (strcmp(text, "true") == 0)
		return true;
	if (strcmp(text, "false") == 0)
		return false;
	return member_number(r, obj, key, 0, 1, 0);
}

/* NULL: there is none, or it is empty. */
static const char *read_text(struct json_object *obj, const char *key)
{
	const char *text = member_text(obj, key);

	return *text ? text : NULL;
}

static const char *read_nqn(struct reader *r, struct json_object *obj)
{
	const char *nqn = member_text(obj, "nqn");

	if (strlen(nqn) > NVME_NQN_MAX)
		reader_fail(r, "nqn", "a name of %zu characters; it may have at most %d",
			    strlen(nqn), NVME_NQN_MAX);
	if (!nvmf_nqn_valid(nqn, NVME_NQN_LEN) || strcmp(nqn, NVMF_DISCOVERY_NQN) == 0)
		reader_fail(r, "nqn",
			    "'%.40s' is no name that it could have; nqn.2026-11.org.example:disk "
			    "is one",
			    nqn);
	return nqn;
}

/* --- hosts -----------------------------------------------------------------------------------
 */

static void read_host(struct reader *r, struct json_object *obj, struct config_host *h)
{
	const size_t len = r->len;
	struct json_object *dhchap;

	if (!reader_check(r, SECTION_HOST, obj))
		return;
	h->nqn = read_nqn(r, obj);
	dhchap = member(obj, "dhchap");
	reader_enter(r, "dhchap");
	if (dhchap && reader_check(r, SECTION_DHCHAP, dhchap)) {
		h->key = read_text(dhchap, "key");
		h->ctrl_key = read_text(dhchap, "ctrl_key");
		h->hash = read_text(dhchap, "hash");
		h->dhgroup = read_text(dhchap, "dhgroup");
	}
	reader_back(r, len);
}

static void read_hosts(struct reader *r, struct json_object *list)
{
	struct config *c = r->config;

	c->hosts = list_room(r, list, "hosts", CONFIG_HOSTS_MAX, sizeof(*c->hosts));
	for (size_t i = 0; i < config_length(list) && !r->error; i++) {
		const size_t len = r->len;
		struct config_host *h = &c->hosts[i];

		reader_enter(r, "hosts");
		reader_enter_element(r, i);
		read_host(r, json_object_array_get_idx(list, i), h);
		if (!r->error && config_find_host(c, h->nqn))
			reader_fail(r, "nqn", "the host %s is there already", h->nqn);
		c->host_count++;
		reader_back(r, len);
	}
}

/* --- subsystems ------------------------------------------------------------------------------
 */

/* Of 16 bytes, as UUIDs are written; true: one that is not all zeroes. */
static bool read_id(struct reader *r, struct json_object *obj, const char *key, uint8_t id[16])
{
	const char *text = member_text(obj, key);
	uint8_t any = 0;

	if (!*text)
		return false;
	if (nvme_uuid_parse(text, id) != 0) {
		reader_fail(r, key, "32 hexadecimal digits, not '%.40s'", text);
		return false;
	}
	for (int i = 0; i < 16; i++)
		any |= id[i];
	return any;
}

static void check_part(struct reader *r, struct json_object *obj, const char *key,
		       enum section section)
{
	const size_t len = r->len;
	struct json_object *v = member(obj, key);

	reader_enter(r, key);
	if (v)
		(void)reader_check(r, section, v);
	reader_back(r, len);
}

static void read_ns(struct reader *r, struct json_object *obj, struct config_ns *ns)
{
	const size_t len = r->len;
	struct json_object *device;

	if (!reader_check(r, SECTION_NS, obj))
		return;
	ns->nsid = (uint32_t)member_number(r, obj, "nsid", 1, CONFIG_NSID_MAX, 0);
	if (!ns->nsid)
		reader_fail(r, "nsid", "a number from 1 to %d is missing", CONFIG_NSID_MAX);
	ns->enable = read_bool(r, obj, "enable");
	check_part(r, obj, "ana", SECTION_ANA);
	check_part(r, obj, "resv", SECTION_RESV);
	device = member(obj, "device");
	reader_enter(r, "device");
	if (device && reader_check(r, SECTION_DEVICE, device)) {
		ns->path = read_text(device, "path");
		ns->has_uuid = read_id(r, device, "uuid", ns->uuid);
		ns->has_nguid = read_id(r, device, "nguid", ns->nguid);
	}
	if (ns->enable && !ns->path)
		reader_fail(r, "path", "the namespace is enabled, and has no file or device");
	reader_back(r, len);
}

static void read_namespaces(struct reader *r, struct json_object *list, struct config_subsys *s)
{
	s->ns = list_room(r, list, "namespaces", CONFIG_NSID_MAX, sizeof(*s->ns));
	for (size_t i = 0; i < config_length(list) && !r->error; i++) {
		const size_t len = r->len;
		struct config_ns *ns = &s->ns[i];

		reader_enter(r, "namespaces");
		reader_enter_element(r, i);
		read_ns(r, json_object_array_get_idx(list, i), ns);
		for (uint32_t j = 0; j < s->ns_count; j++)
			if (s->ns[j].nsid == ns->nsid)
				reader_fail(r, "nsid", "namespace %u is there already", ns->nsid);
		s->ns_count++;
		reader_back(r, len);
	}
}

/* Names that are told of elsewhere in the document. */
static const char **read_names(struct reader *r, struct json_object *list, const char *key,
			       bool (*known)(const struct config *c, const char *nqn),
			       const char *what, uint32_t *ret_count)
{
	const char **names = list_room(r, list, key, CONFIG_HOSTS_MAX, sizeof(*names));

	*ret_count = 0;
	for (size_t i = 0; i < config_length(list) && !r->error; i++) {
		const size_t len = r->len;
		struct json_object *v = json_object_array_get_idx(list, i);
		const char *name =
			json_object_is_type(v, json_type_string) ? json_object_get_string(v) : "";

		reader_enter(r, key);
		reader_enter_element(r, i);
		if (!known(r->config, name))
			reader_fail(
				r, NULL,
				"no %s is called '%.230s'; tell of it in %ss, or take it out here",
				what, name, what);
		for (uint32_t j = 0; j < *ret_count; j++)
			if (strcmp(names[j], name) == 0)
				reader_fail(r, NULL, "%s is there already", name);
		names[(*ret_count)++] = name;
		reader_back(r, len);
	}
	return names;
}

static bool host_known(const struct config *c, const char *nqn)
{
	return config_find_host(c, nqn) != NULL;
}

static bool subsys_known(const struct config *c, const char *nqn)
{
	return config_find_subsys(c, nqn) != NULL;
}

/* As Identify has it: printable ASCII, at most so many. */
static const char *read_ascii(struct reader *r, struct json_object *obj, const char *key,
			      size_t max)
{
	const char *text = read_text(obj, key);

	if (!text)
		return NULL;
	if (strlen(text) > max)
		reader_fail(r, key, "at most %zu characters", max);
	for (const char *p = text; *p; p++)
		if (*p < ' ' || *p > '~')
			reader_fail(r, key, "ASCII alone: letters, digits and marks");
	return text;
}

/* "1.3": hosts are told of it and do without what came later. Fabrics came with 1.2.1. */
static uint32_t read_version(struct reader *r, struct json_object *attr)
{
	const char *text = member_text(attr, "version");
	unsigned int major, minor, tertiary = 0;
	int len = 0;

	if (!*text)
		return 0;
	if (!isdigit((unsigned char)*text) ||
	    sscanf(text, "%3u.%3u%n.%3u%n", &major, &minor, &len, &tertiary, &len) < 2 ||
	    text[len]) {
		reader_fail(r, "version", "a version, as 1.3 or 1.2.1, not '%.20s'", text);
		return 0;
	}
	if (NVME_VS(major, minor, tertiary) >= NVME_VS(1, 2, 1) &&
	    NVME_VS(major, minor, tertiary) <= NVME_VS(2, 0, 0))
		return NVME_VS(major, minor, tertiary);
	reader_warn(r, "version", "hosts are told 2.0: it may be 1.2.1 to 2.0");
	return 0;
}

static void read_attr(struct reader *r, struct json_object *attr, struct config_subsys *s)
{
	const size_t len = r->len;

	s->cntlid_min = 1;
	s->cntlid_max = CNTLID_MAX;
	reader_enter(r, "attr");
	if (attr && reader_check(r, SECTION_ATTR, attr)) {
		s->allow_any_host = read_bool(r, attr, "allow_any_host");
		s->serial = read_ascii(r, attr, "serial", 20);
		s->model = read_ascii(r, attr, "model", 40);
		s->firmware = read_ascii(r, attr, "firmware", 8);
		s->cntlid_min = (uint16_t)member_number(r, attr, "cntlid_min", 1, CNTLID_MAX, 1);
		/* Linux's own default is above what the specification has. */
		s->cntlid_max = (uint16_t)min_of(
			member_number(r, attr, "cntlid_max", 1, 0xffff, CNTLID_MAX),
			(uint64_t)CNTLID_MAX);
		s->qid_max = (uint16_t)member_number(r, attr, "qid_max", 1, 0xffff, 0);
		s->vid = (uint16_t)member_number(r, attr, "vendor_id", 0, 0xffff, 0);
		s->ssvid = (uint16_t)member_number(r, attr, "subsys_vendor_id", 0, 0xffff, 0);
		s->oui = (uint32_t)member_number(r, attr, "ieee_oui", 0, 0xffffff, 0);
		s->version = read_version(r, attr);
		if (s->cntlid_min > s->cntlid_max)
			reader_fail(r, "cntlid_min", "it is above cntlid_max");
	}
	reader_back(r, len);
}

static void check_passthru(struct reader *r, struct json_object *list)
{
	for (size_t i = 0; i < config_length(list) && !r->error; i++) {
		const size_t len = r->len;
		struct json_object *obj = json_object_array_get_idx(list, i);

		reader_enter(r, "passthru");
		reader_enter_element(r, i);
		if (reader_check(r, SECTION_PASSTHRU, obj))
			check_part(r, obj, "device", SECTION_PASSTHRU_DEVICE);
		reader_back(r, len);
	}
}

static void read_subsys(struct reader *r, struct json_object *obj, struct config_subsys *s)
{
	if (!reader_check(r, SECTION_SUBSYS, obj))
		return;
	s->nqn = read_nqn(r, obj);
	read_attr(r, member(obj, "attr"), s);
	s->hosts = read_names(r, member(obj, "allowed_hosts"), "allowed_hosts", host_known, "host",
			      &s->host_count);
	read_namespaces(r, member(obj, "namespaces"), s);
	check_passthru(r, member(obj, "passthru"));
}

static void read_subsystems(struct reader *r, struct json_object *list)
{
	struct config *c = r->config;

	c->subsystems =
		list_room(r, list, "subsystems", CONFIG_SUBSYSTEMS_MAX, sizeof(*c->subsystems));
	for (size_t i = 0; i < config_length(list) && !r->error; i++) {
		const size_t len = r->len;
		struct config_subsys *s = &c->subsystems[i];

		reader_enter(r, "subsystems");
		reader_enter_element(r, i);
		read_subsys(r, json_object_array_get_idx(list, i), s);
		if (!r->error && config_find_subsys(c, s->nqn))
			reader_fail(r, "nqn", "the subsystem %s is there already", s->nqn);
		if (!r->error && c->discovery_nqn && strcmp(c->discovery_nqn, s->nqn) == 0)
			reader_fail(r, "nqn", "%s is what discovery is called", s->nqn);
		c->subsys_count++;
		reader_back(r, len);
	}
}

/* --- ports -----------------------------------------------------------------------------------
 */

static bool address_valid(const char *adrfam, const char *traddr)
{
	const char *zone = strchr(traddr, '%');
	struct in6_addr v6;
	struct in_addr v4;
	char plain[INET6_ADDRSTRLEN];

	if (strcmp(adrfam, "ipv4") == 0)
		return inet_pton(AF_INET, traddr, &v4) == 1;
	if (zone && (zone == traddr || !zone[1] || strlen(zone) > 16))
		return false;
	if ((size_t)snprintf(plain, sizeof(plain), "%.*s",
			     zone ? (int)(zone - traddr) : (int)strlen(traddr),
			     traddr) >= sizeof(plain))
		return false;
	return inet_pton(AF_INET6, plain, &v6) == 1;
}

static void read_addr(struct reader *r, struct json_object *obj, struct config_addr *a)
{
	const char *fam;
	uint64_t port;

	a->trtype = member_text(obj, "trtype");
	a->traddr = member_text(obj, "traddr");
	a->trsvcid = member_text(obj, "trsvcid");
	fam = a->adrfam = member_text(obj, "adrfam");
	if (!*fam) /* a short file need not tell what is plain to see */
		fam = a->adrfam = strchr(a->traddr, ':') ? "ipv6" : "ipv4";
	if (strcmp(fam, "ipv4") != 0 && strcmp(fam, "ipv6") != 0)
		reader_fail(r, "adrfam", "'%.40s' is none that %.8s has: ipv4, ipv6", fam,
			    a->trtype);
	else if (!address_valid(fam, a->traddr))
		reader_fail(r, "traddr", "'%.60s' is no address of %s", a->traddr, fam);
	port = member_number(r, obj, "trsvcid", 1, 65535, 0);
	if (!port)
		reader_fail(r, "trsvcid", "a port is missing: 4420 is the usual one");
}

/*
 * How hosts are kept from being read along. TLS is there for those that have to have it, unless it
 * is said that they need not: what is not said opens nothing.
 */
static enum config_tls read_secure(struct reader *r, struct json_object *obj)
{
	const char *treq = member_text(obj, "treq"), *tsas = member_text(obj, "tsas");
	bool tcp = strcmp(member_text(obj, "trtype"), "tcp") == 0;
	bool required = strcmp(treq, "required") == 0;
	bool tls = tcp && strcmp(tsas, "tls1.3") == 0;

	if (*treq && !required && strcmp(treq, "not specified") != 0 &&
	    strcmp(treq, "not required") != 0)
		reader_fail(r, "treq",
			    "'%.40s' is none of \"not specified\", \"required\", \"not required\"",
			    treq);
	if (*tsas && !tls && strcmp(tsas, "none") != 0 &&
	    (tcp || strcmp(tsas, "connected") != 0)) /* what Linux says of RDMA */
		reader_fail(r, "tsas", "'%.40s' is none that %s has: \"none\"%s", tsas,
			    tcp ? "tcp" : "rdma", tcp ? ", \"tls1.3\"" : "");
	if (required && !tls)
		reader_fail(r, "treq",
			    "a secure channel is required, and none is named: tcp has one with "
			    "\"tsas\": \"tls1.3\"");
	if (!tls)
		return CONFIG_TLS_NONE;
	return strcmp(treq, "not required") == 0 ? CONFIG_TLS_OFFERED : CONFIG_TLS_REQUIRED;
}

static bool transport_known(const char *trtype)
{
	return strcmp(trtype, "rdma") == 0 || strcmp(trtype, "tcp") == 0;
}

/* Those that nvmet can be told, and that its own rdma and tcp have not, either. */
static bool family_is_none_of_ip(const char *adrfam)
{
	return strcmp(adrfam, "ib") == 0 || strcmp(adrfam, "fc") == 0 ||
	       strcmp(adrfam, "loop") == 0;
}

static void read_referral(struct reader *r, struct json_object *obj, struct config_referral *f)
{
	const size_t len = r->len;
	struct json_object *addr;

	if (!reader_check(r, SECTION_REFERRAL, obj))
		return;
	f->name = member_text(obj, "name");
	if (!*f->name)
		reader_fail(r, "name", "a name is missing");
	f->enable = read_bool(r, obj, "enable");
	addr = member(obj, "addr");
	reader_enter(r, "addr");
	if (addr && !reader_check(r, SECTION_REFERRAL_ADDR, addr)) {
		reader_back(r, len);
		return;
	}
	if (f->enable && !transport_known(member_text(addr, "trtype"))) {
		reader_warn(r, "trtype", "neither rdma nor tcp: the referral is not shown");
		f->enable = false;
	}
	if (f->enable && family_is_none_of_ip(member_text(addr, "adrfam"))) {
		reader_warn(r, "adrfam", "neither ipv4 nor ipv6: the referral is not shown");
		f->enable = false;
	}
	if (f->enable) {
		read_addr(r, addr, &f->addr);
		f->portid = (uint16_t)member_number(r, addr, "portid", 0, 0xffff, 0);
	}
	reader_back(r, len);
}

static void read_referrals(struct reader *r, struct json_object *list, struct config_port *p)
{
	p->referrals = list_room(r, list, "referrals", CONFIG_REFERRALS_MAX, sizeof(*p->referrals));
	for (size_t i = 0; i < config_length(list) && !r->error; i++) {
		const size_t len = r->len;
		struct config_referral *f = &p->referrals[i];

		reader_enter(r, "referrals");
		reader_enter_element(r, i);
		read_referral(r, json_object_array_get_idx(list, i), f);
		for (uint32_t j = 0; j < p->referral_count && !r->error; j++)
			if (strcmp(p->referrals[j].name, f->name) == 0)
				reader_fail(r, "name", "the referral %.100s is there already",
					    f->name);
		p->referral_count++;
		reader_back(r, len);
	}
}

static void check_ana_groups(struct reader *r, struct json_object *list)
{
	for (size_t i = 0; i < config_length(list) && !r->error; i++) {
		const size_t len = r->len;
		struct json_object *obj = json_object_array_get_idx(list, i);

		reader_enter(r, "ana_groups");
		reader_enter_element(r, i);
		if (reader_check(r, SECTION_ANA_GROUP, obj))
			check_part(r, obj, "ana", SECTION_ANA_STATE);
		reader_back(r, len);
	}
}

static bool addr_served(struct reader *r, struct json_object *addr)
{
	const char *trtype = member_text(addr, "trtype"), *adrfam = member_text(addr, "adrfam");

	if (!transport_known(trtype)) {
		reader_warn(r, "trtype",
			    "'%.20s' is neither rdma nor tcp: nothing is served at this port",
			    trtype);
		return false;
	}
	if (family_is_none_of_ip(adrfam)) {
		reader_warn(r, "adrfam",
			    "'%.20s' is neither ipv4 nor ipv6: nothing is served at this port",
			    adrfam);
		return false;
	}
	return true;
}

/* False: the port is of no transport that there is here. */
static bool read_port_addr(struct reader *r, struct json_object *addr, struct config_port *p)
{
	const size_t len = r->len;
	bool served = false;

	reader_enter(r, "addr");
	if (!addr || reader_check(r, SECTION_ADDR, addr)) {
		served = addr_served(r, addr);
		if (served) {
			p->tls = read_secure(r, addr);
			read_addr(r, addr, &p->addr);
		}
	}
	reader_back(r, len);
	return served;
}

/* What nvmetcli saves where nobody has said anything is -1; where nought has no sense, nought. */
static bool is_told(struct json_object *param, const char *key, bool not_nought)
{
	const char *text = member_text(param, key);

	return *text && strcmp(text, "-1") != 0 && !(not_nought && strcmp(text, "0") == 0);
}

/* Linux has what it can, too, where it is told more or less than that. */
static uint64_t bounded(struct reader *r, struct json_object *param, const char *key, uint64_t min,
			uint64_t max)
{
	uint64_t v = member_number(r, param, key, 0, UINT32_MAX, 0);

	if (v >= min && v <= max)
		return v;
	reader_warn(r, key, "%llu is the %s there is, and is what there is",
		    (unsigned long long)(v < min ? min : max), v < min ? "least" : "most");
	return v < min ? min : max;
}

static void read_param(struct reader *r, struct json_object *param, struct config_port *p)
{
	const size_t len = r->len;

	reader_enter(r, "param");
	p->inline_data_size = -1;
	if (param && reader_check(r, SECTION_PARAM, param)) {
		if (is_told(param, "max_queue_size", true))
			p->max_queue_size =
				(uint16_t)bounded(r, param, "max_queue_size", CONFIG_QUEUE_SIZE_MIN,
						  CONFIG_QUEUE_SIZE_MAX);
		if (is_told(param, "inline_data_size", false))
			p->inline_data_size = (int32_t)bounded(r, param, "inline_data_size", 0,
							       CONFIG_INLINE_DATA_MAX);
		if (is_told(param, "mdts", true))
			p->mdts = (uint8_t)bounded(r, param, "mdts", 0, CONFIG_MDTS_MAX);
	}
	reader_back(r, len);
}

static bool read_port(struct reader *r, struct json_object *obj, struct config_port *p)
{
	bool served;

	if (!reader_check(r, SECTION_PORT, obj))
		return false;
	p->portid = (uint16_t)member_number(r, obj, "portid", 0, 0xffff, 0);
	if (!member(obj, "portid"))
		reader_fail(r, "portid", "a number is missing");
	served = read_port_addr(r, member(obj, "addr"), p);
	read_param(r, member(obj, "param"), p);
	p->subsystems = read_names(r, member(obj, "subsystems"), "subsystems", subsys_known,
				   "subsystem", &p->subsys_count);
	check_ana_groups(r, member(obj, "ana_groups"));
	read_referrals(r, member(obj, "referrals"), p);
	return served;
}

static bool same_addr(const struct config_addr *a, const struct config_addr *b)
{
	return strcmp(a->trtype, b->trtype) == 0 && strcmp(a->traddr, b->traddr) == 0 &&
	       strcmp(a->trsvcid, b->trsvcid) == 0;
}

static void port_free(struct config_port *p)
{
	free(p->subsystems);
	free(p->referrals);
	*p = (struct config_port){0};
}

static void read_ports(struct reader *r, struct json_object *list)
{
	struct config *c = r->config;

	c->ports = list_room(r, list, "ports", CONFIG_PORTS_MAX, sizeof(*c->ports));
	for (size_t i = 0; i < config_length(list) && !r->error; i++) {
		const size_t len = r->len;
		struct config_port *p = &c->ports[c->port_count];
		bool served;

		reader_enter(r, "ports");
		reader_enter_element(r, i);
		served = read_port(r, json_object_array_get_idx(list, i), p);
		for (uint32_t j = 0; j < c->port_count && !r->error && served; j++) {
			if (c->ports[j].portid == p->portid)
				reader_fail(r, "portid", "port %u is there already", p->portid);
			else if (same_addr(&c->ports[j].addr, &p->addr))
				reader_fail(r, "addr", "port %u has the same one",
					    c->ports[j].portid);
		}
		if (served)
			c->port_count++;
		else
			port_free(p);
		reader_back(r, len);
	}
}

/* --- discovery -------------------------------------------------------------------------------
 */

static void read_discovery(struct reader *r, struct json_object *obj)
{
	const size_t len = r->len;
	const char *nqn;

	reader_enter(r, "discovery");
	if (obj && reader_check(r, SECTION_DISCOVERY, obj)) {
		nqn = member_text(obj, "nqn");
		if (*nqn && strcmp(nqn, NVMF_DISCOVERY_NQN) != 0)
			r->config->discovery_nqn = read_nqn(r, obj);
	}
	reader_back(r, len);
}

/* --- the whole -------------------------------------------------------------------------------
 */

/* Hosts, subsystems, ports: each names what came before. */
static void read_all(struct reader *r, struct json_object *doc)
{
	if (!reader_check(r, SECTION_TOP, doc))
		return;
	read_discovery(r, member(doc, "discovery"));
	read_hosts(r, member(doc, "hosts"));
	read_subsystems(r, member(doc, "subsystems"));
	read_ports(r, member(doc, "ports"));
}

int config_read(struct json_object *doc, struct config **ret, char *why, size_t room)
{
	struct config *c = calloc(1, sizeof(*c));
	struct reader r = {.config = c, .why = why, .room = room};

	if (!c) {
		snprintf(why, room, "out of memory");
		return -ENOMEM;
	}
	c->doc = doc;
	read_all(&r, doc);
	if (r.error) {
		c->doc = NULL;
		config_free(c);
	} else {
		*ret = c;
	}
	return r.error;
}

void config_free(struct config *c)
{
	if (!c)
		return;
	for (uint32_t i = 0; i < c->subsys_count; i++) {
		free(c->subsystems[i].hosts);
		free(c->subsystems[i].ns);
	}
	for (uint32_t i = 0; i < c->port_count; i++)
		port_free(&c->ports[i]);
	for (uint32_t i = 0; i < c->warning_count; i++)
		free(c->warnings[i]);
	free(c->hosts);
	free(c->subsystems);
	free(c->ports);
	config_drop(c->doc);
	free(c);
}

const struct config_subsys *config_find_subsys(const struct config *c, const char *nqn)
{
	for (uint32_t i = 0; c && i < c->subsys_count; i++)
		if (strcmp(c->subsystems[i].nqn, nqn) == 0)
			return &c->subsystems[i];
	return NULL;
}

const struct config_host *config_find_host(const struct config *c, const char *nqn)
{
	for (uint32_t i = 0; c && i < c->host_count; i++)
		if (strcmp(c->hosts[i].nqn, nqn) == 0)
			return &c->hosts[i];
	return NULL;
}
