/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Configurations of targets: read, refused, written back, and what differs between two. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include <json-c/json.h>

#include "config/config.h"
#include "config/diff.h"
#include "config/objects.h"
#include "../skip.h"

/* Written by hand with ' for ". */
static struct json_object *doc_of(const char *text)
{
	char *copy = strdup(text), why[256] = "";
	struct json_object *doc = NULL;

	for (char *p = copy; *p; p++)
		if (*p == '\'')
			*p = '"';
	if (config_parse_text(copy, strlen(copy), &doc, why, sizeof(why)) != 0)
		fail_msg("%s: %s", text, why);
	free(copy);
	return doc;
}

static struct config *config_of(const char *text)
{
	struct config *c = NULL;
	char why[512] = "";

	if (config_read(doc_of(text), &c, why, sizeof(why)) != 0)
		fail_msg("%s: %s", text, why);
	return c;
}

static void refuse(const char *text, char why[512])
{
	struct json_object *doc = doc_of(text);
	struct config *c = NULL;

	assert_int_equal(config_read(doc, &c, why, 512), -EINVAL);
	config_drop(doc);
}

static void refused(const char *text, const char *where)
{
	char why[512] = "";

	refuse(text, why);
	if (strncmp(why, where, strlen(where)) != 0)
		fail_msg("%s: '%s' does not begin with '%s'", text, why, where);
	assert_true(strlen(why) > strlen(where) + 5);
}

#define HOST  "{'nqn':'nqn.2026-11.org.example:h'}"
#define NS(n) "{'nsid':" #n ",'enable':1,'device':{'path':'/a" #n "'}}"
#define ADDR  "{'trtype':'tcp','adrfam':'ipv4','traddr':'192.0.2.1','trsvcid':'4420'}"
#define S1    "nqn.2026-11.org.example:s1"
#define S2    "nqn.2026-11.org.example:s2"

/* --- reading -------------------------------------------------------------------------------- */

static void what_is_said_is_read(void **state)
{
	struct config *c = config_of(
		"{'hosts':[{'nqn':'nqn.2026-11.org.example:h','dhchap':{'key':'DHHC-1:00:x:',"
		"'ctrl_key':'','hash':'hmac(sha256)','dhgroup':'null'}}],"
		"'subsystems':[{'nqn':'" S1 "','allowed_hosts':['nqn.2026-11.org.example:h'],"
		"'attr':{'allow_any_host':'0','serial':'s','model':'m','firmware':'f',"
		"'cntlid_min':'5','cntlid_max':65535,"
		"'vendor_id':'0x1b36','subsys_vendor_id':'0x1af4','ieee_oui':'0x525400'},"
		"'namespaces':[{'nsid':2,'enable':1,'device':{'path':'/x','uuid':"
		"'00112233-4455-6677-8899-aabbccddeeff',"
		"'nguid':'00000000-0000-0000-0000-000000000000'}},{'nsid':3}]}],"
		"'ports':[{'portid':1,'addr':{'trtype':'rdma','adrfam':'ipv6','traddr':'fe80::1%"
		"eth0',"
		"'trsvcid':'4420','treq':'not required','tsas':'none'},'subsystems':['" S1 "'],"
		"'referrals':[{'name':'r','enable':1,'addr':{'trtype':'tcp','adrfam':'ipv4',"
		"'traddr':'192.0.2.2','trsvcid':'8009','portid':7}}]}]}");
	const struct config_subsys *s = &c->subsystems[0];
	const struct config_port *p = &c->ports[0];

	(void)state;
	assert_string_equal(c->hosts[0].key, "DHHC-1:00:x:");
	assert_null(c->hosts[0].ctrl_key);
	assert_false(s->allow_any_host);
	assert_int_equal(s->host_count, 1);
	assert_string_equal(s->serial, "s");
	assert_string_equal(s->model, "m");
	assert_string_equal(s->firmware, "f");
	assert_int_equal(s->cntlid_min, 5);
	assert_int_equal(s->cntlid_max, 0xffef);
	assert_int_equal(s->vid, 0x1b36);
	assert_int_equal(s->ssvid, 0x1af4);
	assert_int_equal(s->oui, 0x525400);
	assert_int_equal(s->ns_count, 2);
	assert_true(s->ns[0].enable && s->ns[0].has_uuid && !s->ns[0].has_nguid);
	assert_int_equal(s->ns[0].uuid[15], 0xff);
	assert_false(s->ns[1].enable);
	assert_string_equal(p->addr.traddr, "fe80::1%eth0");
	assert_string_equal(p->subsystems[0], S1);
	assert_true(p->referrals[0].enable);
	assert_int_equal(p->referrals[0].portid, 7);
	assert_int_equal(c->warning_count, 0);
	config_free(c);
}

static void nothing_is_a_configuration(void **state)
{
	struct config *c = config_of("{}");

	(void)state;
	assert_int_equal(c->subsys_count + c->port_count + c->host_count + c->warning_count, 0);
	config_free(c);
}

/* As with Linux's target: nobody may connect who is not named, and a namespace is off. */
static void what_is_not_said_protects(void **state)
{
	struct config *c = config_of("{'subsystems':[{'nqn':'" S1 "','namespaces':[{'nsid':1,"
				     "'device':{'path':'/x'}}]}]}");

	(void)state;
	assert_false(c->subsystems[0].allow_any_host);
	assert_int_equal(c->subsystems[0].host_count, 0);
	assert_false(c->subsystems[0].ns[0].enable);
	config_free(c);
}

static void warned(const char *text, const char *where)
{
	struct config *c = config_of(text);

	assert_int_equal(c->warning_count, where ? 1 : 0);
	if (where && strncmp(c->warnings[0], where, strlen(where)) != 0)
		fail_msg("'%s' does not begin with '%s'", c->warnings[0], where);
	config_free(c);
}

static void what_has_no_effect_is_named(void **state)
{
	(void)state;
	warned("{'zork':1}", "zork: ");
	warned("{'discovery':{'nqn':'nqn.2026-11.org.example:d'}}", NULL);
	warned("{'subsystems':[{'nqn':'" S1 "','attr':{'pi_enable':'1'}}]}",
	       "subsystems[0].attr.pi_enable: ");
	warned("{'subsystems':[{'nqn':'" S1 "','passthru':[{'enable':1,'device':{'path':'/x'}}]}]}",
	       "subsystems[0].passthru[0].enable: ");
	warned("{'subsystems':[{'nqn':'" S1 "','namespaces':[{'nsid':1,'ana_grpid':2}]}]}",
	       "subsystems[0].namespaces[0].ana_grpid: ");
	warned("{'subsystems':[{'nqn':'" S1 "','namespaces':[{'nsid':1,'resv':{'enable':1}}]}]}",
	       "subsystems[0].namespaces[0].resv.enable: ");
	warned("{'ports':[{'portid':1,'addr':" ADDR ",'param':{'inline_data_size':'16385'}}]}",
	       "ports[0].param.inline_data_size: 16384 is the most");
	warned("{'ports':[{'portid':1,'addr':{'trtype':'rdma','adrfam':'ib','traddr':'fe80::1'}}]}",
	       "ports[0].addr.adrfam: ");
	warned("{'ports':[{'portid':1,'addr':" ADDR ",'referrals':[{'name':'r','enable':1,'addr':{"
	       "'trtype':'rdma','adrfam':'ib'}}]}]}",
	       "ports[0].referrals[0].addr.adrfam: ");
	warned("{'ports':[{'portid':1,'addr':" ADDR ",'param':{'mdts':'9'}}]}",
	       "ports[0].param.mdts: 8 is the most");
	warned("{'subsystems':[{'nqn':'" S1 "','attr':{'version':'2.1'}}]}",
	       "subsystems[0].attr.version: ");
	warned("{'subsystems':[{'nqn':'" S1 "','attr':{'version':'1.2'}}]}",
	       "subsystems[0].attr.version: ");
	warned("{'ports':[{'portid':1,'addr':" ADDR ",'ana_groups':[{'grpid':1,'ana':"
	       "{'state':'inaccessible'}}]}]}",
	       "ports[0].ana_groups[0].ana.state: ");
	warned("{'ports':[{'portid':1,'addr':{'trtype':'fc'}}]}", "ports[0].addr.trtype: ");
	warned("{'ports':[{'portid':1,'addr':" ADDR ",'referrals':[{'name':'x','enable':1,'addr':"
	       "{'trtype':'loop'}}]}]}",
	       "ports[0].referrals[0].addr.trtype: ");
	/* What nvmetcli saves of a target where nothing of it was set. */
	warned("{'subsystems':[{'nqn':'" S1 "','attr':{'allow_any_host':'1','cntlid_max':'65519',"
	       "'cntlid_min':'1','ieee_oui':'0x000000','pi_enable':'0','qid_max':'128',"
	       "'vendor_id':'0x0','subsys_vendor_id':'0x0'},"
	       "'namespaces':[{'ana_grpid':1,'ana':{'grpid':'1'},'nsid':1,'resv':{'enable':'0'}}]}]"
	       ","
	       "'ports':[{'portid':1,'addr':" ADDR ",'ana_groups':[{'grpid':1,'ana':"
	       "{'state':'optimized'}}],'param':{'inline_data_size':'-1','max_queue_size':'-1','pi_"
	       "enable':'0'}}]}",
	       NULL);
}

static void what_ports_and_versions_say_is_heeded(void **state)
{
	static const struct {
		const char *version, *param;
		uint32_t vs;
		int32_t data;
		uint8_t mdts;
	} of[] = {
		{"1.3", "'inline_data_size':'16384','mdts':'5'", 0x10300, 16384, 5},
		{"1.2.1", "'inline_data_size':0,'mdts':0", 0x10201, 0, 0},
		{"2.0", "'inline_data_size':'-1','mdts':'-1'", 0x20000, -1, 0},
		{"", "'inline_data_size':'4096'", 0, 4096, 0},
		{"2.1", "'inline_data_size':'1048576','mdts':'200'", 0, 16384, 8},
		{"1.4.0", "", 0x10400, -1, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(of); i++) {
		char text[512];
		struct config *c;

		snprintf(text, sizeof(text),
			 "{'subsystems':[{'nqn':'" S1 "','attr':{'version':'%s'}}],"
			 "'ports':[{'portid':1,'addr':" ADDR ",'param':{%s}}]}",
			 of[i].version, of[i].param);
		c = config_of(text);
		assert_int_equal(c->subsystems[0].version, of[i].vs);
		assert_int_equal(c->ports[0].inline_data_size, of[i].data);
		assert_int_equal(c->ports[0].mdts, of[i].mdts);
		config_free(c);
	}
}

static void warnings_are_bounded(void **state)
{
	char text[8192] = "{";
	struct config *c;

	(void)state;
	for (int i = 0; i < 100; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s'k%d':1",
			 i ? "," : "", i);
	strcat(text, "}");
	c = config_of(text);
	assert_int_equal(c->warning_count, CONFIG_WARNINGS_MAX);
	assert_int_equal(c->warnings_left_out, 100 - CONFIG_WARNINGS_MAX);
	config_free(c);
}

/* --- refusing ------------------------------------------------------------------------------- */

static void mistyped(const char *text, const char *where, const char *meant)
{
	char expected[256], why[512] = "";

	refuse(text, why);
	snprintf(expected, sizeof(expected), "%s: no such key is known here; %s is", where, meant);
	assert_string_equal(why, expected);
}

/* 223 characters, however it is written. */
static void a_name_that_is_too_long_is_told_the_limit(void **state)
{
	char name[224 + 1], text[400], path[400], why[512] = "";
	struct object_path p;

	(void)state;
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	memcpy(name, "nqn.", 4);
	snprintf(text, sizeof(text), "{'hosts':[{'nqn':'%s'}]}", name);
	refuse(text, why);
	assert_non_null(
		strstr(why, "hosts[0].nqn: a name of 224 characters; it may have at most 223"));
	snprintf(path, sizeof(path), "/hosts/%s", name);
	assert_int_equal(object_path_parse(path, &p, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "a name of 224 characters; it may have at most 223"));
	path[7 + 223] = '\0';
	assert_int_equal(object_path_parse(path, &p, why, sizeof(why)), 0);
}

/* A key that was meant to be another is not passed over, and the right one is told. */
static void a_key_that_is_mistyped_is_wrong(void **state)
{
#define NQN "'nqn':'nqn.2026-11.org.example:h'"
	(void)state;
	mistyped("{'hosts':[{" NQN ",'dhchap_key':'DHHC-1'}]}", "hosts[0].dhchap_key",
		 "hosts[].dhchap.key");
	mistyped("{'hosts':[{" NQN ",'dhchap':{'kye':'DHHC-1'}}]}", "hosts[0].dhchap.kye",
		 "hosts[].dhchap.key");
	mistyped("{'hosts':[{" NQN ",'key':'DHHC-1'}]}", "hosts[0].key", "hosts[].dhchap.key");
	mistyped("{'hosts':[{" NQN ",'DHCHAP':{}}]}", "hosts[0].DHCHAP", "hosts[].dhchap");
	mistyped("{'subsystems':[{'nqn':'" S1 "','attr':{'allow_any_hosts':'0'}}]}",
		 "subsystems[0].attr.allow_any_hosts", "subsystems[].attr.allow_any_host");
	mistyped("{'subsystems':[{'nqn':'" S1 "','attr_allow_any_host':'0'}]}",
		 "subsystems[0].attr_allow_any_host", "subsystems[].attr.allow_any_host");
	mistyped("{'subsystems':[{'nqn':'" S1 "','allow-any-host':'0'}]}",
		 "subsystems[0].allow-any-host", "subsystems[].attr.allow_any_host");
	mistyped("{'subsystems':[{'nqn':'" S1
		 "','namespaces':[{'nsid':1,'device':{'paht':'/x'}}]}]}",
		 "subsystems[0].namespaces[0].device.paht",
		 "subsystems[].namespaces[].device.path");
	mistyped("{'subsystems':[{'nqn':'" S1 "','namespaces':[{'nsid':1,'path':'/x'}]}]}",
		 "subsystems[0].namespaces[0].path", "subsystems[].namespaces[].device.path");
	mistyped("{'ports':[{'portid':1,'addr':" ADDR ",'tsas':'tls1.3'}]}", "ports[0].tsas",
		 "ports[].addr.tsas");
	mistyped("{'ports':[{'portid':1,'addr':" ADDR ",'subsystem':['" S1 "']}]}",
		 "ports[0].subsystem", "ports[].subsystems");
	mistyped("{'subsystem':[]}", "subsystem", "subsystems");
#undef NQN
}

/* Nor is one that may say who connects, like what newer ones have of that. */
static void an_unknown_key_that_guards_is_wrong(void **state)
{
	(void)state;
	refused("{'hosts':[{'nqn':'nqn.2026-11.org.example:h','proof':'x'}]}", "hosts[0].proof: ");
	refused("{'hosts':[{'nqn':'nqn.2026-11.org.example:h','dhchap':{'rekey':60}}]}",
		"hosts[0].dhchap.rekey: ");
	refused("{'ports':[{'portid':1,'addr':{'trtype':'tcp','traddr':'192.0.2.1',"
		"'trsvcid':'4420','sectype':'x'}}]}",
		"ports[0].addr.sectype: ");
	refused("{'subsystems':[{'nqn':'" S1 "','attr':{'tls_identities':'x'}}]}",
		"subsystems[0].attr.tls_identities: ");
	refused("{'authorities':[]}", "authorities: ");
}

/* What else a newer nvmetcli or kernel has does not keep its file from being served. */
static void what_newer_ones_have_besides_is_passed_over(void **state)
{
	(void)state;
	warned("{'domains':[]}", "domains: ");
	warned("{'subsystems':[{'nqn':'" S1 "','attr':{'rotational':'1'}}]}",
	       "subsystems[0].attr.rotational: ");
	warned("{'subsystems':[{'nqn':'" S1 "','namespaces':[{'nsid':1,'buffered_io':1}]}]}",
	       "subsystems[0].namespaces[0].buffered_io: ");
	warned("{'subsystems':[{'nqn':'" S1 "','namespaces':[{'nsid':1,'p2pmem':'1'}]}]}",
	       "subsystems[0].namespaces[0].p2pmem: ");
	warned("{'subsystems':[{'nqn':'" S1 "','namespaces':[{'nsid':1,'revalidate_size':'1'}]}]}",
	       "subsystems[0].namespaces[0].revalidate_size: ");
	warned("{'ports':[{'portid':1,'addr':" ADDR ",'param':{'max_queue_size':'15'}}]}",
	       "ports[0].param.max_queue_size: 16 is the least");
	warned("{'ports':[{'portid':1,'addr':" ADDR ",'param':{'max_queue_size':'2048'}}]}",
	       "ports[0].param.max_queue_size: 1024 is the most");
	warned("{'ports':[{'portid':1,'addr':" ADDR ",'param':{'poll_threads':'2'}}]}",
	       "ports[0].param.poll_threads: ");
}

static void what_is_wrong_is_named_by_its_place(void **state)
{
	(void)state;
	refused("{'hosts':{}}", "hosts: ");
	refused("{'hosts':[3]}", "hosts[0]: ");
	refused("{'hosts':[{'nqn':'x'}]}", "hosts[0].nqn: ");
	refused("{'hosts':[{'nqn':['x']}]}", "hosts[0].nqn: ");
	refused("{'hosts':[" HOST "," HOST "]}", "hosts[1].nqn: ");
	refused("{'hosts':[{'nqn':'nqn.2026-11.org.example:h','dhchap':3}]}", "hosts[0].dhchap: ");
	refused("{'discovery':{'nqn':'d'}}", "discovery.nqn: ");
	refused("{'subsystems':[{'nqn':'" S1 "','attr':{'qid_max':'0'}}]}",
		"subsystems[0].attr.qid_max: ");
	refused("{'ports':[{'portid':1,'addr':" ADDR ",'param':{'max_queue_size':'many'}}]}",
		"ports[0].param.max_queue_size: ");
	refused("{'discovery':{'nqn':'" S1 "'},'subsystems':[{'nqn':'" S1 "'}]}",
		"subsystems[0].nqn: ");
	refused("{'subsystems':[{}]}", "subsystems[0].nqn: ");
	refused("{'subsystems':[{'nqn':'nqn.2014-08.org.nvmexpress.discovery'}]}",
		"subsystems[0].nqn: ");
	refused("{'subsystems':[{'nqn':'" S1 "'},{'nqn':'" S1 "'}]}", "subsystems[1].nqn: ");
	refused("{'subsystems':[{'nqn':'" S1 "','allowed_hosts':['nqn.2026-11.org.example:x']}]}",
		"subsystems[0].allowed_hosts[0]: ");
	refused("{'subsystems':[{'nqn':'" S1 "','attr':{'allow_any_host':'yes'}}]}",
		"subsystems[0].attr.allow_any_host: ");
	refused("{'subsystems':[{'nqn':'" S1 "','attr':{'serial':'123456789012345678901'}}]}",
		"subsystems[0].attr.serial: ");
	refused("{'subsystems':[{'nqn':'" S1 "','attr':{'vendor_id':'0x10000'}}]}",
		"subsystems[0].attr.vendor_id: ");
	for (size_t i = 0; i < 6; i++) {
		static const char *const of[] = {"2", "1.x", "1.3.", "1.3.0.1", "-1.3", "1 .3"};
		char text[128];

		snprintf(text, sizeof(text),
			 "{'subsystems':[{'nqn':'" S1 "','attr':{'version':'%s'}}]}", of[i]);
		refused(text, "subsystems[0].attr.version: ");
	}
	refused("{'ports':[{'portid':1,'addr':" ADDR ",'param':{'inline_data_size':'4k'}}]}",
		"ports[0].param.inline_data_size: ");
	refused("{'ports':[{'portid':1,'addr':" ADDR ",'param':{'mdts':'-2'}}]}",
		"ports[0].param.mdts: ");
	refused("{'subsystems':[{'nqn':'" S1 "','attr':{'cntlid_min':9,'cntlid_max':8}}]}",
		"subsystems[0].attr.cntlid_min: ");
	refused("{'subsystems':[{'nqn':'" S1 "','namespaces':[{}]}]}",
		"subsystems[0].namespaces[0].nsid: ");
	refused("{'subsystems':[{'nqn':'" S1 "','namespaces':[{'nsid':1025}]}]}",
		"subsystems[0].namespaces[0].nsid: ");
	refused("{'subsystems':[{'nqn':'" S1 "','namespaces':[" NS(1) "," NS(1) "]}]}",
		"subsystems[0].namespaces[1].nsid: ");
	refused("{'subsystems':[{'nqn':'" S1 "','namespaces':[{'nsid':1,'enable':1}]}]}",
		"subsystems[0].namespaces[0].device.path: ");
	refused("{'subsystems':[{'nqn':'" S1 "','namespaces':[{'nsid':1,'device':{'uuid':'1'}}]}]}",
		"subsystems[0].namespaces[0].device.uuid: ");
	refused("{'ports':[{'addr':" ADDR "}]}", "ports[0].portid: ");
	refused("{'ports':[{'portid':1,'addr':" ADDR "},{'portid':1,'addr':" ADDR "}]}",
		"ports[1].portid: ");
	refused("{'ports':[{'portid':1,'addr':" ADDR "},{'portid':2,'addr':" ADDR "}]}",
		"ports[1].addr: ");
	refused("{'ports':[{'portid':1,'addr':" ADDR ",'subsystems':['" S1 "']}]}",
		"ports[0].subsystems[0]: ");
	refused("{'ports':[{'portid':1,'addr':{'trtype':'tcp','adrfam':'ip'}}]}",
		"ports[0].addr.adrfam: ");
	refused("{'ports':[{'portid':1,'addr':{'trtype':'tcp','adrfam':'ipv4','traddr':'::1',"
		"'trsvcid':'1'}}]}",
		"ports[0].addr.traddr: ");
	refused("{'ports':[{'portid':1,'addr':{'trtype':'tcp','traddr':'::1','trsvcid':'70000'}}]}",
		"ports[0].addr.trsvcid: ");
}

/* What is asked for is not left out, and what is not said opens nothing. */
static void a_secure_channel_is_not_left_out(void **state)
{
#define SECURE(trtype, words)                                                                     \
	("{'ports':[{'portid':1,'addr':{'trtype':'" trtype "','traddr':'::1','trsvcid':'1'" words \
	 "}}]}")
	static const struct {
		const char *text;
		enum config_tls tls;
	} cases[] = {
		{SECURE("tcp", ""), CONFIG_TLS_NONE},
		{SECURE("tcp", ",'tsas':'none','treq':'not required'"), CONFIG_TLS_NONE},
		{SECURE("rdma", ",'tsas':'connected'"), CONFIG_TLS_NONE},
		{SECURE("tcp", ",'tsas':'tls1.3'"), CONFIG_TLS_REQUIRED},
		{SECURE("tcp", ",'tsas':'tls1.3','treq':'not specified'"), CONFIG_TLS_REQUIRED},
		{SECURE("tcp", ",'tsas':'tls1.3','treq':'required'"), CONFIG_TLS_REQUIRED},
		{SECURE("tcp", ",'tsas':'tls1.3','treq':'not required'"), CONFIG_TLS_OFFERED},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct config *c = config_of(cases[i].text);

		assert_int_equal(c->ports[0].tls, cases[i].tls);
		config_free(c);
	}
	refused(SECURE("tcp", ",'treq':'required'"), "ports[0].addr.treq: ");
	refused(SECURE("tcp", ",'treq':'required','tsas':'none'"), "ports[0].addr.treq: ");
	refused(SECURE("tcp", ",'treq':'perhaps','tsas':'tls1.3'"), "ports[0].addr.treq: ");
	refused(SECURE("tcp", ",'tsas':'tls1.2'"), "ports[0].addr.tsas: ");
	refused(SECURE("tcp", ",'tsas':'connected'"), "ports[0].addr.tsas: ");
	refused(SECURE("rdma", ",'tsas':'tls1.3'"), "ports[0].addr.tsas: ");
#undef SECURE
}

static void no_document(const char *text, const char *place)
{
	struct json_object *doc = NULL;
	char why[256] = "";

	assert_int_equal(config_parse_text(text, strlen(text), &doc, why, sizeof(why)), -EINVAL);
	assert_null(doc);
	if (strncmp(why, place, strlen(place)) != 0)
		fail_msg("'%s' does not begin with '%s'", why, place);
}

static void what_is_no_document_is_told_with_its_line(void **state)
{
	char deep[200];

	(void)state;
	no_document("", "line 1, column 1: ");
	no_document("{\n  \"a\": x\n}", "line 2, column ");
	no_document("{\"a\":1", "line 1, column 7: ");
	no_document("{} {}", "line 1, column ");
	no_document("{\"a\":\"\xff\"}", "line 1, column ");
	no_document("[]", "it is no object");
	memset(deep, '[', sizeof(deep));
	deep[sizeof(deep) - 1] = '\0';
	no_document(deep, "line 1, column ");
}

/* --- writing -------------------------------------------------------------------------------- */

/* As nvmetcli's save leaves it. */
static const char saved[] = "{\n"
			    "  \"hosts\": [],\n"
			    "  \"ports\": [\n"
			    "    {\n"
			    "      \"addr\": {\n"
			    "        \"adrfam\": \"ipv4\",\n"
			    "        \"traddr\": \"192.0.2.1\",\n"
			    "        \"treq\": \"not specified\",\n"
			    "        \"trsvcid\": \"4420\",\n"
			    "        \"trtype\": \"rdma\"\n"
			    "      },\n"
			    "      \"portid\": 2,\n"
			    "      \"referrals\": [],\n"
			    "      \"subsystems\": []\n"
			    "    }\n"
			    "  ],\n"
			    "  \"subsystems\": [],\n"
			    "  \"x\": {\n"
			    "    \"a\": [\n"
			    "      null,\n"
			    "      true,\n"
			    "      -1.50,\n"
			    "      \"\\u00e4\\ud83d\\ude00\\u0001\\\"\\\\/\\n\"\n"
			    "    ],\n"
			    "    \"b\": {}\n"
			    "  }\n"
			    "}\n";

static void what_nvmetcli_saved_is_written_as_it_was(void **state)
{
	struct json_object *doc = NULL;
	struct config *c = NULL;
	char why[256], *text;

	(void)state;
	assert_int_equal(config_parse_text(saved, sizeof(saved) - 1, &doc, why, sizeof(why)), 0);
	assert_int_equal(config_read(doc, &c, why, sizeof(why)), 0);
	text = config_text(c->doc);
	assert_string_equal(text, saved);
	free(text);
	config_free(c);
}

static void files_are_replaced_whole(void **state)
{
	char dir[] = "/tmp/weft-config-XXXXXX", path[64], link[64], why[256];
	struct json_object *doc = doc_of("{'a':1}"), *again = NULL;
	struct stat st;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/c.json", dir);
	snprintf(link, sizeof(link), "%s/link", dir);
	assert_int_equal(config_save(path, doc, why, sizeof(why)), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(symlink(path, link), 0);
	json_object_object_add(doc, "b", json_object_new_int(2));
	assert_int_equal(config_save(link, doc, why, sizeof(why)), 0);
	assert_int_equal(lstat(link, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(config_load(path, &again, why, sizeof(why)), 0);
	assert_true(json_object_equal(doc, again));
	json_object_put(again);
	assert_int_equal(unlink(link), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(config_load(path, &again, why, sizeof(why)), -ENOENT);
	assert_non_null(strstr(why, path));
	assert_int_equal(rmdir(dir), 0); /* nothing is left beside it */
	assert_true(config_save(path, doc, why, sizeof(why)) < 0);
	json_object_put(doc);
}

/* By hand, in an order and with spaces of its own. */
static void a_file_that_says_the_same_stays_as_it_is(void **state)
{
	static const char written[] = "{ \"b\": [1,2],\n\n  \"a\": {\"y\":\"\\u0041\", \"x\": 1} }";
	char path[] = "/tmp/weft-config-XXXXXX", there[sizeof(written) + 1] = "", why[256];
	struct json_object *doc = doc_of("{'a':{'x':1,'y':'A'},'b':[1,2]}");
	struct stat before, after;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, written, sizeof(written) - 1), sizeof(written) - 1);
	assert_int_equal(fstat(fd, &before), 0);
	assert_int_equal(config_save(path, doc, why, sizeof(why)), 0);
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	assert_int_equal(pread(fd, there, sizeof(there), 0), sizeof(written) - 1);
	assert_string_equal(there, written);
	json_object_object_add(doc, "c", NULL);
	assert_int_equal(config_save(path, doc, why, sizeof(why)), 0);
	assert_int_equal(stat(path, &after), 0);
	assert_int_not_equal(before.st_ino, after.st_ino);
	json_object_put(doc);
	close(fd);
	assert_int_equal(unlink(path), 0);
}

static void a_file_that_is_replaced_keeps_its_mode(void **state)
{
	char dir[] = "/tmp/weft-config-XXXXXX", path[64], why[256];
	struct json_object *doc = doc_of("{'a':1}");
	struct stat st;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/c.json", dir);
	assert_int_equal(config_save(path, doc, why, sizeof(why)), 0);
	assert_int_equal(chmod(path, 0640), 0);
	assert_int_equal(config_save(path, doc, why, sizeof(why)), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0);
	/* And what is no file is not replaced by one. */
	assert_int_equal(config_save("/dev/null", doc, why, sizeof(why)), -EINVAL);
	assert_int_equal(stat("/dev/null", &st), 0);
	assert_true(S_ISCHR(st.st_mode));
	json_object_put(doc);
}

/* --- secrets -------------------------------------------------------------------------------- */

/* Where a name or an address is to be; how one reads may be told. */
static void no_error_repeats_a_key(void **state)
{
	char why[512] = "", told[] = "it reads DHHC-1:HH:BASE64:, not 'NVMeTLSkey-1:01:c2Vj:'";

	(void)state;
	refuse("{'hosts':[{'nqn':'DHHC-1:00:c2Vj:'}]}", why);
	assert_non_null(strstr(why, "'DHHC-1:'"));
	assert_null(strstr(why, "c2Vj"));
	refuse("{'ports':[{'portid':1,'addr':{'traddr':'DHHC-1:00:c2Vj:','trtype':'tcp','adrfam':'"
	       "ipv4'}}]}",
	       why);
	assert_null(strstr(why, "c2Vj"));
	config_mask_text(told);
	assert_string_equal(told, "it reads DHHC-1:HH:BASE64:, not 'NVMeTLSkey-1:'");
}

/* Made when it is needed: it is in no constant. */
static void make_key(char key[96])
{
	strcpy(key, "DHHC-1:00:");
	for (int i = 10; i < 80; i++)
		key[i] = (char)('a' + (i * 7 & 15));
	strcpy(key + 80, ":");
}

/* How often it is in this process's heap, not counting one that is looked for. */
static int in_heap(const char *key)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		unsigned long from, to;

		if (!strstr(line, "[heap]") || sscanf(line, "%lx-%lx", &from, &to) != 2)
			continue;
		for (const char *p = (const char *)from; p && p < (const char *)to; n += p != NULL)
			p = memmem(p + 1, to - (uintptr_t)p - 1, key + 20, 50);
	}
	fclose(maps);
	return n;
}

static void keys_of_a_document_are_not_left_in_memory(void **state)
{
	char text[512], key[96], why[256], *written;
	struct json_object *doc = NULL;
	struct config *c = NULL;
	int before;

	(void)state;
	if (SANITIZED_HEAP)
		SKIP_CASE("a sanitizer has a heap of its own");
	make_key(key);
	before = in_heap(key);
	snprintf(text, sizeof(text),
		 "{\"hosts\":[{\"nqn\":\"nqn.a:h\",\"dhchap\":{\"key\":\"%s\"}}]}", key);
	assert_int_equal(config_parse_text(text, strlen(text), &doc, why, sizeof(why)), 0);
	assert_int_equal(config_read(doc, &c, why, sizeof(why)), 0);
	assert_true(in_heap(key) > before);
	written = config_text(c->doc);
	assert_non_null(strstr(written, key));
	explicit_bzero(written, strlen(written));
	free(written);
	config_free(c);
	assert_int_equal(in_heap(key), before);
}

static void keys_are_masked(void **state)
{
	struct json_object *doc = doc_of(
		"{'hosts':[{'nqn':'nqn.a:h','dhchap':{'key':'DHHC-1:00:x:','ctrl_key':'','new':'s',"
		"'hash':'hmac(sha256)','dhgroup':'null'}},{'nqn':'nqn.a:i'},3]}");
	struct json_object *expected = doc_of(
		"{'hosts':[{'nqn':'nqn.a:h','dhchap':{'key':'********','ctrl_key':'',"
		"'new':'********','hash':'hmac(sha256)','dhgroup':'null'}},{'nqn':'nqn.a:i'},3]}");

	(void)state;
	config_mask(doc);
	assert_true(json_object_equal(doc, expected));
	config_drop(doc);
	config_drop(expected);
	config_drop(NULL);
}

/* --- what differs --------------------------------------------------------------------------- */

/* The steps as words: "subsys+ ns+1 port+1". */
static void differs(const char *from_text, const char *to_text, const char *expected)
{
	static const char *const words[STEP_TYPES] = {
		[STEP_DISCOVERY] = "discovery", [STEP_SUBSYS_ADD] = "subsys+",
		[STEP_SUBSYS_SET] = "subsys=",	[STEP_SUBSYS_REMOVE] = "subsys-",
		[STEP_NS_ADD] = "ns+",		[STEP_NS_REMOVE] = "ns-",
		[STEP_PORT_ADD] = "port+",	[STEP_PORT_SET] = "port=",
		[STEP_PORT_REMOVE] = "port-",	[STEP_NS_SIZE] = "ns~",
	};
	struct config *from = from_text ? config_of(from_text) : NULL, *to = config_of(to_text);
	struct config_step *steps = NULL;
	char got[512] = "";
	size_t count;

	assert_int_equal(config_diff(from, to, &steps, &count), 0);
	for (size_t i = 0; i < count; i++) {
		size_t n = strlen(got);

		snprintf(got + n, sizeof(got) - n, "%s%s%.0u", i ? " " : "", words[steps[i].type],
			 steps[i].ns	 ? steps[i].ns->nsid
			 : steps[i].port ? steps[i].port->portid
					 : 0);
	}
	assert_string_equal(got, expected);
	free(steps);
	config_free(from);
	config_free(to);
}

#define SUBSYS(nqn, ns)	    "{'nqn':'" nqn "','namespaces':[" ns "]}"
#define PORT(id, addr, nqn) "{'portid':" #id ",'addr':" addr ",'subsystems':[" nqn "]}"
#define DOC(subsys, ports)  "{'hosts':[" HOST "],'subsystems':[" subsys "],'ports':[" ports "]}"

static void a_start_is_the_difference_from_nothing(void **state)
{
	(void)state;
	differs(NULL, "{}", "");
	differs(NULL,
		DOC(SUBSYS(S1, NS(1) "," NS(2)) "," SUBSYS(S2, ""), PORT(1, ADDR, "'" S1 "'")),
		"subsys+ subsys+ ns+1 ns+2 port+1");
}

static void what_stays_is_no_step(void **state)
{
	const char *doc = DOC(SUBSYS(S1, NS(1)), PORT(1, ADDR, "'" S1 "'"));

	(void)state;
	differs(doc, doc, "");
	/* Neither is another order, nor a key without effect. */
	differs(DOC(SUBSYS(S1, NS(1)) "," SUBSYS(S2, NS(2)), PORT(1, ADDR, "'" S1 "','" S2 "'")),
		DOC(SUBSYS(S2, NS(2)) "," SUBSYS(S1, NS(1)), PORT(1, ADDR, "'" S2 "','" S1 "'")),
		"");
	differs(doc,
		DOC("{'nqn':'" S1 "','attr':{'pi_enable':'1'},'namespaces':[" NS(1) "]}",
		    PORT(1, ADDR, "'" S1 "'")),
		"");
}

#define NAMED(nqn) "{'discovery':{'nqn':'" nqn "'}}"

static void discovery_is_called_as_it_says_and_as_everywhere(void **state)
{
	(void)state;
	differs(NULL, NAMED(S1), "discovery");
	differs(NULL, NAMED("nqn.2014-08.org.nvmexpress.discovery"), "");
	differs(NAMED(S1), NAMED(S1), "");
	differs(NAMED(S1), NAMED(S2), "discovery");
	differs(NAMED(S1), "{}", "discovery");
}

static void changes_are_the_least_that_do(void **state)
{
	const char *base = DOC(SUBSYS(S1, NS(1) "," NS(2)), PORT(1, ADDR, "'" S1 "'"));

	(void)state;
	differs(base, DOC(SUBSYS(S1, NS(1) "," NS(3)), PORT(1, ADDR, "'" S1 "'")), "ns-2 ns+3");
	differs(base, DOC(SUBSYS(S1, NS(1)), PORT(1, ADDR, "'" S1 "'")), "ns-2");
	differs(base, DOC(SUBSYS(S1, NS(1) "," NS(2)), PORT(9, ADDR, "'" S1 "'")), "port=9");
	differs(base, DOC(SUBSYS(S1, NS(1) "," NS(2)), PORT(1, ADDR, "")), "port=1");
	differs(base, DOC(SUBSYS(S1, NS(1) "," NS(2)), ""), "port-1");
	differs(base,
		DOC(SUBSYS(S1, NS(1) "," NS(2)),
		    PORT(1,
			 "{'trtype':'tcp','adrfam':'ipv4','traddr':'192.0.2.1','trsvcid':'4420',"
			 "'tsas':'tls1.3'}",
			 "'" S1 "'")),
		"port=1");
	differs(base,
		DOC(SUBSYS(S1, NS(1) ",{'nsid':2,'enable':1,'device':{'path':'/other'}}"),
		    PORT(1, ADDR, "'" S1 "'")),
		"ns-2 ns+2");
	differs(base,
		DOC(SUBSYS(S1, NS(1) ",{'nsid':2,'enable':0,'device':{'path':'/a2'}}"),
		    PORT(1, ADDR, "'" S1 "'")),
		"ns-2");
	differs(base,
		DOC("{'nqn':'" S1 "','attr':{'serial':'x'},'namespaces':[" NS(1) "," NS(2) "]}",
		    PORT(1, ADDR, "'" S1 "'")),
		"subsys=");
	differs(base,
		DOC("{'nqn':'" S1
		    "','attr':{'ieee_oui':'0x525400'},'namespaces':[" NS(1) "," NS(2) "]}",
		    PORT(1, ADDR, "'" S1 "'")),
		"subsys=");
	differs(base,
		DOC("{'nqn':'" S1 "','allowed_hosts':['nqn.2026-11.org.example:h'],"
		    "'namespaces':[" NS(1) "," NS(2) "]}",
		    PORT(1, ADDR, "'" S1 "'")),
		"subsys=");
}

#define MADE(n, path) "{'nsid':" #n ",'enable':1,'device':{'path':'" path "'}}"

static void a_made_disk_changes_its_size_in_place(void **state)
{
	(void)state;
	differs(DOC(SUBSYS(S1, MADE(1, "mem:8m") "," MADE(2, "null:1g,ro")), ""),
		DOC(SUBSYS(S1, MADE(1, "mem:16m") "," MADE(2, "null:2g,ro")), ""), "ns~1 ns~2");
	/* Another kind of disk, or one that hosts may write to, is another one; and a file has a
	 * name. */
	differs(DOC(SUBSYS(S1, MADE(1, "mem:8m")), ""), DOC(SUBSYS(S1, MADE(1, "null:8m")), ""),
		"ns-1 ns+1");
	differs(DOC(SUBSYS(S1, MADE(1, "mem:8m")), ""), DOC(SUBSYS(S1, MADE(1, "mem:9m,ro")), ""),
		"ns-1 ns+1");
	differs(DOC(SUBSYS(S1, MADE(1, "./mem:8m")), ""), DOC(SUBSYS(S1, MADE(1, "./mem:9m")), ""),
		"ns-1 ns+1");
}

/* What a port names is there before it, and what it names no more goes after it. */
static void steps_are_in_an_order_that_works(void **state)
{
	(void)state;
	differs(DOC(SUBSYS(S1, NS(1)), PORT(1, ADDR, "'" S1 "'")),
		DOC(SUBSYS(S2, NS(1)), PORT(1, ADDR, "'" S2 "'")), "subsys+ ns+1 port=1 subsys-");
	differs(DOC(SUBSYS(S1, NS(1)), PORT(1, ADDR, "'" S1 "'")), "{}", "port-1 subsys-");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_said_is_read),
		cmocka_unit_test(nothing_is_a_configuration),
		cmocka_unit_test(what_is_not_said_protects),
		cmocka_unit_test(what_has_no_effect_is_named),
		cmocka_unit_test(what_ports_and_versions_say_is_heeded),
		cmocka_unit_test(warnings_are_bounded),
		cmocka_unit_test(a_name_that_is_too_long_is_told_the_limit),
		cmocka_unit_test(a_key_that_is_mistyped_is_wrong),
		cmocka_unit_test(an_unknown_key_that_guards_is_wrong),
		cmocka_unit_test(what_newer_ones_have_besides_is_passed_over),
		cmocka_unit_test(what_is_wrong_is_named_by_its_place),
		cmocka_unit_test(a_secure_channel_is_not_left_out),
		cmocka_unit_test(what_is_no_document_is_told_with_its_line),
		cmocka_unit_test(what_nvmetcli_saved_is_written_as_it_was),
		cmocka_unit_test(files_are_replaced_whole),
		cmocka_unit_test(a_file_that_says_the_same_stays_as_it_is),
		cmocka_unit_test(a_file_that_is_replaced_keeps_its_mode),
		cmocka_unit_test(no_error_repeats_a_key),
		cmocka_unit_test(keys_of_a_document_are_not_left_in_memory),
		cmocka_unit_test(keys_are_masked),
		cmocka_unit_test(a_start_is_the_difference_from_nothing),
		cmocka_unit_test(what_stays_is_no_step),
		cmocka_unit_test(discovery_is_called_as_it_says_and_as_everywhere),
		cmocka_unit_test(changes_are_the_least_that_do),
		cmocka_unit_test(a_made_disk_changes_its_size_in_place),
		cmocka_unit_test(steps_are_in_an_order_that_works),
	};

	return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
