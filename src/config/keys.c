/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "config/keys.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/spelling.h"

/* --- the table -------------------------------------------------------------------------------
 */

enum kind { KIND_VALUE, KIND_OBJECT, KIND_LIST };

struct key {
	const char *name;
	enum kind kind;
	/* Why it has no effect here; NULL: it has. */
	const char *note;
	/* With which values that makes no difference: words between bars. */
	const char *neutral;
};

#define NO_ANA	 "ANA is not supported yet: the namespace is in group 1, optimized"
#define KEYS_MAX 12

static const struct key sections[][KEYS_MAX] = {
	[SECTION_TOP] = {{"discovery", KIND_OBJECT},
			 {"hosts", KIND_LIST},
			 {"subsystems", KIND_LIST},
			 {"ports", KIND_LIST}},
	[SECTION_DISCOVERY] = {{"nqn"}},
	[SECTION_HOST] = {{"nqn"}, {"dhchap", KIND_OBJECT}},
	[SECTION_DHCHAP] = {{"key"}, {"ctrl_key"}, {"hash"}, {"dhgroup"}},
	[SECTION_SUBSYS] = {{"nqn"},
			    {"allowed_hosts", KIND_LIST},
			    {"attr", KIND_OBJECT},
			    {"namespaces", KIND_LIST},
			    {"passthru", KIND_LIST}},
	[SECTION_ATTR] = {{"allow_any_host"},
			  {"serial"},
			  {"model"},
			  {"firmware"},
			  {"cntlid_min"},
			  {"cntlid_max"},
			  {"version"},
			  {"ieee_oui"},
			  {"vendor_id"},
			  {"subsys_vendor_id"},
			  {"qid_max"},
			  {"pi_enable", KIND_VALUE, "protection information is not supported yet",
			   "||0|"}},
	[SECTION_NS] = {{"nsid"},
			{"enable"},
			{"device", KIND_OBJECT},
			{"ana_grpid", KIND_VALUE, NO_ANA, "|0|1|"},
			{"ana", KIND_OBJECT},
			{"resv", KIND_OBJECT}},
	[SECTION_DEVICE] = {{"path"}, {"uuid"}, {"nguid"}},
	[SECTION_ANA] = {{"grpid", KIND_VALUE, NO_ANA, "|0|1|"}},
	[SECTION_RESV] = {{"enable", KIND_VALUE, "reservations are not supported yet", "||0|"}},
	[SECTION_PASSTHRU] = {{"enable", KIND_VALUE,
			       "controllers are not passed through: the subsystem is without it",
			       "||0|"},
			      {"device", KIND_OBJECT},
			      {"clear_ids"},
			      {"admin_timeout"},
			      {"io_timeout"}},
	[SECTION_PASSTHRU_DEVICE] = {{"path"}},
	[SECTION_PORT] = {{"portid"},
			  {"addr", KIND_OBJECT},
			  {"param", KIND_OBJECT},
			  {"subsystems", KIND_LIST},
			  {"ana_groups", KIND_LIST},
			  {"referrals", KIND_LIST}},
	[SECTION_ADDR] = {{"trtype"}, {"adrfam"}, {"traddr"}, {"trsvcid"}, {"treq"}, {"tsas"}},
	[SECTION_PARAM] = {{"inline_data_size"},
			   {"max_queue_size"},
			   {"mdts"},
			   {"pi_enable", KIND_VALUE, "protection information is not supported yet",
			    "||-1|0|"}},
	[SECTION_ANA_GROUP] = {{"grpid", KIND_VALUE, NO_ANA, "|1|"}, {"ana", KIND_OBJECT}},
	[SECTION_ANA_STATE] = {{"state", KIND_VALUE, NO_ANA, "||optimized|"}},
	[SECTION_REFERRAL] = {{"name"}, {"enable"}, {"addr", KIND_OBJECT}},
	[SECTION_REFERRAL_ADDR] = {{"trtype"},
				   {"adrfam"},
				   {"traddr"},
				   {"trsvcid"},
				   {"portid"},
				   {"treq", KIND_VALUE, "the entry says \"not specified\"",
				    "||not specified|"},
				   {"tsas", KIND_VALUE, "the entry says none", "||none|"}},
};

/* In the order of the enumeration. */
static const char *const section_names[] = {
	[SECTION_TOP] = "",
	[SECTION_DISCOVERY] = "discovery",
	[SECTION_HOST] = "hosts[]",
	[SECTION_DHCHAP] = "hosts[].dhchap",
	[SECTION_SUBSYS] = "subsystems[]",
	[SECTION_ATTR] = "subsystems[].attr",
	[SECTION_NS] = "subsystems[].namespaces[]",
	[SECTION_DEVICE] = "subsystems[].namespaces[].device",
	[SECTION_ANA] = "subsystems[].namespaces[].ana",
	[SECTION_RESV] = "subsystems[].namespaces[].resv",
	[SECTION_PASSTHRU] = "subsystems[].passthru[]",
	[SECTION_PASSTHRU_DEVICE] = "subsystems[].passthru[].device",
	[SECTION_PORT] = "ports[]",
	[SECTION_ADDR] = "ports[].addr",
	[SECTION_PARAM] = "ports[].param",
	[SECTION_ANA_GROUP] = "ports[].ana_groups[]",
	[SECTION_ANA_STATE] = "ports[].ana_groups[].ana",
	[SECTION_REFERRAL] = "ports[].referrals[]",
	[SECTION_REFERRAL_ADDR] = "ports[].referrals[].addr",
};

/* --- where one is ----------------------------------------------------------------------------
 */

static void append(struct reader *r, const char *text)
{
	int n = snprintf(r->path + r->len, sizeof(r->path) - r->len, "%s", text);

	r->len = min_of(r->len + (size_t)n, sizeof(r->path) - 1);
}

void reader_enter(struct reader *r, const char *key)
{
	append(r, r->len ? "." : "");
	append(r, key);
}

void reader_enter_element(struct reader *r, size_t i)
{
	char text[24];

	snprintf(text, sizeof(text), "[%zu]", i);
	append(r, text);
}

void reader_back(struct reader *r, size_t len)
{
	r->len = len;
	r->path[len] = '\0';
}

/* Bytes that could steer a terminal do not get there by a key or a value. */
static void make_plain(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

static void say(struct reader *r, const char *key, const char *fmt, va_list ap, char *ret,
		size_t room)
{
	const size_t len = r->len;
	size_t n;

	if (key)
		reader_enter(r, key);
	n = (size_t)snprintf(ret, room, "%s: ", r->len ? r->path : "the document");
	if (n < room)
		vsnprintf(ret + n, room - n, fmt, ap);
	make_plain(ret);
	config_mask_text(ret);
	reader_back(r, len);
}

void reader_fail(struct reader *r, const char *key, const char *fmt, ...)
{
	va_list ap;

	if (r->error)
		return;
	r->error = -EINVAL;
	va_start(ap, fmt);
	say(r, key, fmt, ap, r->why, r->room);
	va_end(ap);
}

void reader_warn(struct reader *r, const char *key, const char *fmt, ...)
{
	struct config *c = r->config;
	char text[600], *copy;
	va_list ap;

	if (c->warning_count == CONFIG_WARNINGS_MAX) {
		c->warnings_left_out++;
		return;
	}
	va_start(ap, fmt);
	say(r, key, fmt, ap, text, sizeof(text));
	va_end(ap);
	copy = strdup(text);
	if (copy)
		c->warnings[c->warning_count++] = copy;
}

/* --- members ---------------------------------------------------------------------------------
 */

struct json_object *member(struct json_object *obj, const char *key)
{
	struct json_object *v = NULL;

	return json_object_object_get_ex(obj, key, &v) ? v : NULL;
}

size_t config_length(const struct json_object *list)
{
	return json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
}

const char *member_text(struct json_object *obj, const char *key)
{
	struct json_object *v = member(obj, key);

	if (json_object_is_type(v, json_type_string))
		return json_object_get_string(v);
	return v ? json_object_to_json_string(v) : "";
}

uint64_t member_number(struct reader *r, struct json_object *obj, const char *key, uint64_t min,
		       uint64_t max, uint64_t otherwise)
{
	const char *text = member_text(obj, key);
	unsigned long long v;
	char *end;

	if (!*text)
		return otherwise;
	errno = 0;
	v = strtoull(text, &end, 0);
	if (*text < '0' || *text > '9' || errno || *end || v < min || v > max) {
		reader_fail(r, key, "a number from %llu to %llu, not '%.40s'",
			    (unsigned long long)min, (unsigned long long)max, text);
		return otherwise;
	}
	return v;
}

/* --- checking --------------------------------------------------------------------------------
 */

static bool is_value(struct json_object *v)
{
	const char *text;

	if (!v || json_object_is_type(v, json_type_int) ||
	    json_object_is_type(v, json_type_boolean))
		return true;
	if (!json_object_is_type(v, json_type_string))
		return false;
	text = json_object_get_string(v); /* with no zero inside */
	return strlen(text) == (size_t)json_object_get_string_len(v);
}

static void check_kind(struct reader *r, const struct key *k, struct json_object *v)
{
	if (k->kind == KIND_OBJECT && !json_object_is_type(v, json_type_object))
		reader_fail(r, k->name, "an object belongs here: {...}");
	else if (k->kind == KIND_LIST && !json_object_is_type(v, json_type_array))
		reader_fail(r, k->name, "a list belongs here: [...]");
	else if (k->kind == KIND_VALUE && !is_value(v))
		reader_fail(r, k->name, "a text or a whole number belongs here");
}

static bool is_neutral(const struct key *k, const char *text)
{
	size_t n = strlen(text);

	for (const char *p = k->neutral; p && p[1]; p = strchr(p + 1, '|'))
		if (strncmp(p + 1, text, n) == 0 && p[1 + n] == '|')
			return true;
	return false;
}

static const struct key *find(enum section section, const char *name)
{
	for (int i = 0; i < KEYS_MAX && sections[section][i].name; i++)
		if (strcmp(sections[section][i].name, name) == 0)
			return &sections[section][i];
	return NULL;
}

const char *section_value(enum section section, unsigned int i)
{
	for (int k = 0; k < KEYS_MAX && sections[section][k].name; k++)
		if (sections[section][k].kind == KIND_VALUE && i-- == 0)
			return sections[section][k].name;
	return NULL;
}

/* --- keys that are not known -----------------------------------------------------------------
 *
 * Those that a newer nvmetcli or kernel has are passed over, so that its files load. One that was
 * meant to be another is wrong: what it says would be left out in silence, and might have been who
 * may connect.
 */

#define TYPOS_MAX 2

/* Letters and digits alone, small: allow-any-host is allow_any_host. */
static void plain_word(const char *text, char ret[SPELLING_MAX + 1])
{
	size_t n = 0;

	for (; *text && n < SPELLING_MAX; text++)
		if (isalnum((unsigned char)*text))
			ret[n++] = (char)tolower((unsigned char)*text);
	ret[n] = '\0';
}

/* Of a short word one letter may be another, of a long one two. */
static bool is_near(const char *word, const char *known)
{
	size_t shorter = min_of(strlen(word), strlen(known));

	return spelling_distance(word, known) <= min_of(shorter / 3, (size_t)TYPOS_MAX);
}

/* Also with the name of its section before: configfs calls dhchap.key dhchap_key. */
static const char *find_near(enum section section, const char *word)
{
	const char *dot = strrchr(section_names[section], '.');
	const char *group = dot ? dot + 1 : section_names[section];

	for (int i = 0; i < KEYS_MAX && sections[section][i].name; i++) {
		const char *name = sections[section][i].name;
		char known[SPELLING_MAX + 1], both[80];

		plain_word(name, known);
		if (is_near(word, known))
			return name;
		snprintf(both, sizeof(both), "%s%s", group, name);
		plain_word(both, known);
		if (is_near(word, known))
			return name;
	}
	return NULL;
}

/* What was meant, from here on and then from the beginning; ret_section: where that belongs. */
static const char *find_meant(enum section section, const char *word, enum section *ret_section)
{
	const size_t count = ARRAY_SIZE(sections);

	for (size_t i = 0; i < count; i++) {
		*ret_section = (enum section)((section + i) % count);
		const char *name = find_near(*ret_section, word);

		if (name)
			return name;
	}
	return NULL;
}

/* Whether it may say who connects or how they are kept from being read along. */
static bool is_guarding(enum section section, const char *word)
{
	static const char *const words[] = {"allow", "auth", "dhchap", "psk", "secret", "tls"};

	if (section == SECTION_HOST || section == SECTION_DHCHAP || section == SECTION_ADDR)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strstr(word, words[i]))
			return true;
	return false;
}

static void check_unknown(struct reader *r, enum section section, const char *name)
{
	char word[SPELLING_MAX + 1];
	enum section where;
	const char *meant;

	plain_word(name, word);
	meant = find_meant(section, word, &where);
	if (meant)
		reader_fail(r, name, "no such key is known here; %s%s%s is", section_names[where],
			    *section_names[where] ? "." : "", meant);
	else if (is_guarding(section, word))
		reader_fail(r, name,
			    "no such key is known here, and none is passed over that may say who "
			    "connects: correct it, or take it out");
	else
		reader_warn(r, name, "no such key is known here; it is kept, without effect");
}

bool reader_check(struct reader *r, enum section section, struct json_object *obj)
{
	if (!json_object_is_type(obj, json_type_object)) {
		reader_fail(r, NULL, "an object belongs here: {...}");
		return false;
	}
	json_object_object_foreach(obj, name, v)
	{
		const struct key *k = find(section, name);

		if (!k) {
			check_unknown(r, section, name);
			continue;
		}
		check_kind(r, k, v);
		if (!r->error && k->note && !is_neutral(k, member_text(obj, name)))
			reader_warn(r, name, "%s", k->note);
	}
	return !r->error;
}
