/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Commands that edit configurations: each verb, each error. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <json-c/json.h>

#include "config/config.h"
#include "config/edit.h"

#define S "nqn.2026-11.org.example:s"
#define T "nqn.2026-11.org.example:t"
#define H "nqn.2026-11.org.example:h"

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

/* Words apart by single spaces; the array is the command's. */
struct line {
	char text[1024];
	const char *words[EDIT_WORDS_MAX + 2];
	size_t count;
	struct edit edit;
	char why[EDIT_WHY_MAX], made[OBJECT_PATH_MAX];
};

static int parse(struct line *l, const char *text)
{
	char *rest = l->text, *word;

	snprintf(l->text, sizeof(l->text), "%s", text);
	l->count = 0;
	l->why[0] = '\0';
	while ((word = strsep(&rest, " ")) && l->count < EDIT_WORDS_MAX + 2)
		if (*word)
			l->words[l->count++] = word;
	return edit_parse(l->words, l->count, &l->edit, l->why, sizeof(l->why));
}

static int apply(struct json_object *doc, struct line *l, const char *text)
{
	if (parse(l, text) != 0)
		fail_msg("%s: %s", text, l->why);
	return edit_apply(doc, &l->edit, l->made, l->why, sizeof(l->why));
}

/* Lines, one after the other, make the one document of the other. */
static void edits(const char *before, const char *lines, const char *after)
{
	struct json_object *doc = doc_of(before), *want = doc_of(after);
	char *copy = strdup(lines), *rest = copy, *one;
	struct line l;

	while ((one = strsep(&rest, "\n")))
		if (apply(doc, &l, one) != 0)
			fail_msg("%s: %s", one, l.why);
	if (!json_object_equal(doc, want))
		fail_msg("%s: %s", lines, json_object_to_json_string(doc));
	free(copy);
	json_object_put(want);
	config_drop(doc);
}

static void fails(const char *before, const char *line, const char *where)
{
	struct json_object *doc = doc_of(before);
	struct line l;

	assert_int_equal(apply(doc, &l, line), -EINVAL);
	if (strncmp(l.why, where, strlen(where)) != 0)
		fail_msg("%s: '%s' does not begin with '%s'", line, l.why, where);
	json_object_put(doc);
}

static void usage(const char *line, const char *words)
{
	struct line l;

	assert_int_equal(parse(&l, line), -EINVAL);
	if (!strstr(l.why, words))
		fail_msg("%s: '%s' does not say '%s'", line, l.why, words);
}

#define SUBSYS(more)  "{'subsystems':[{'nqn':'" S "'" more "}]}"
#define NS(n, more)   SUBSYS(",'namespaces':[{'nsid':" #n more "}]")
#define PORT(n, more) "{'ports':[{'portid':" #n more "}]}"

/* --- parsing -------------------------------------------------------------------------------- */

static void same_command(const char *a, const char *b)
{
	struct line l, m;

	assert_int_equal(parse(&l, a), 0);
	assert_int_equal(parse(&m, b), 0);
	assert_int_equal(l.edit.verb, m.edit.verb);
	assert_int_equal(l.edit.path.kind, m.edit.path.kind);
	assert_string_equal(l.edit.path.name, m.edit.path.name);
	assert_string_equal(l.edit.path.owner, m.edit.path.owner);
	assert_int_equal(l.edit.path.list, m.edit.path.list);
	assert_int_equal(l.edit.count, m.edit.count);
	for (size_t i = 0; i < l.edit.count; i++)
		assert_string_equal(l.edit.words[i], m.edit.words[i]);
}

static void a_command_is_said_as_nvmetcli_says_it(void **state)
{
	(void)state;
	same_command("create /subsystems/" S, "/subsystems create " S);
	same_command("create /subsystems/" S, "create /subsystems " S);
	same_command("remove /subsystems/" S "/namespaces/3",
		     "/subsystems/" S "/namespaces delete 3");
	same_command("set /subsystems/" S " attr serial=x", "/subsystems/" S " set attr serial=x");
	same_command("create /ports/1/subsystems/" S, "/ports/1/subsystems/ create " S);
	same_command("enable /subsystems/" S "/namespaces/3",
		     "/subsystems/" S "/namespaces/3 enable");
	same_command("ls", "ls /");
	same_command("ls /", "/ ls");
}

static void paths_are_written_as_they_are_read(void **state)
{
	static const char *const paths[] = {
		"/",
		"/hosts",
		"/hosts/" H,
		"/subsystems/" S "/namespaces",
		"/subsystems/" S "/namespaces/3",
		"/subsystems/" S "/allowed_hosts/" H,
		"/ports/1/subsystems/a%2Fb%25c",
		"/ports/1/referrals/r",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		char text[OBJECT_PATH_MAX], why[300];
		struct object_path p;

		assert_int_equal(object_path_parse(paths[i], &p, why, sizeof(why)), 0);
		object_path_text(&p, text);
		assert_string_equal(text, paths[i]);
	}
}

static void wrong_usage_is_told_with_what_is_right(void **state)
{
	(void)state;
	usage("", "ls");
	usage("crate /hosts/" H, "create");
	usage("/hosts", "ls");
	usage("create", "create PATH");
	usage("create hosts", "/subsystems");
	usage("create /host/" H, "hosts, subsystems, ports");
	usage("create /subsystems/" S "/ports/1", "namespaces, allowed_hosts");
	usage("create /subsystems/" S "/namespaces/x", "'x' is no number of a namespace");
	usage("create /subsystems", "/subsystems/NQN");
	usage("create /", "/subsystems/NQN");
	usage("remove /subsystems/" S " now", "remove PATH");
	usage("set /subsystems/" S, "set PATH");
	usage("set /subsystems/" S " attr", "set PATH");
	usage("set /subsystems/" S " colour=red", "attr.serial");
	usage("set /subsystems/" S " device path=/x", "'device' is no KEY=VALUE");
	usage("set /hosts/" H " DHHC-1:00:a2V5:", "'DHHC-1:' is no KEY=VALUE");
	usage("set /hosts/" H " DHHC-1:00:a2U=:", "'DHHC-1:' is no attribute");
	usage("set /subsystems/" S " attr path=/x", "'attr.path' is no attribute of a subsystem");
	usage("set /subsystems/" S "/allowed_hosts/" H " a=b", "no attributes");
	usage("set / a=b", "discovery.nqn");
	usage("create /hosts/nqn.\xff", "no text");
	usage("create /hosts/nqn.%ff", "is no name of a host");
	usage("create /hosts/nqn.%0a", "is no name of a host");
	usage("set /subsystems/" S " model=a\033[2J", "word 3 is no text");
	usage("create /subsystems/" S "/namespaces/1 /dev/x", "device.path");
	usage("enable /subsystems/" S, "/namespaces/NSID");
	usage("resize /ports/1", "/namespaces/NSID");
	usage("resize /subsystems/" S "/namespaces/1 1g 2g", "resize PATH [SIZE]");
	usage("clear /hosts", "clear");
	usage("save a b", "save [FILE]");
	usage("restore", "restore FILE");
}

#define SECRET "c2VjcmV0"
#define KEY    "DHHC-1:00:" SECRET SECRET ":"

static void tells_no_key(const char *line)
{
	struct json_object *doc = doc_of(NS(1, ",'device':{'path':'mem:1m'}"));
	struct line l;

	if (parse(&l, line) == 0)
		assert_int_equal(edit_apply(doc, &l.edit, l.made, l.why, sizeof(l.why)), -EINVAL);
	if (!*l.why || strstr(l.why, SECRET))
		fail_msg("%s: %s", line, l.why);
	json_object_put(doc);
}

/* A word is forgotten, or stands where another belongs. */
static void no_error_repeats_a_key(void **state)
{
	static const char *const lines[] = {
		"set dhchap.key=" KEY,
		"set dhchap key=" KEY " /hosts/" H,
		"set dhchap.key=" SECRET,
		"set " KEY,
		"set NVMeTLSkey-1:01:" SECRET ":",
		KEY,
		"dhchap.key=" KEY,
		"dhchap.ctrl_key=" SECRET,
		"set /" KEY,
		"set /dhchap.key=" KEY,
		"set /hosts" KEY " dhchap.key=x",
		"set /hosts/" H "/dhchap.key=" KEY,
		"set /hosts/" H "/key=" SECRET,
		"set /hosts/" KEY " dhchap.hash=x",
		"set /hosts/dhchap.key=" SECRET " dhchap.hash=x",
		"set /hosts/DHHC-1%3A00%3A" SECRET " dhchap.hash=x",
		"create /hosts " KEY,
		"create /hosts x" KEY,
		"create /subsystems/" S "/namespaces " KEY,
		"create /subsystems/" KEY "/namespaces/1",
		"create /subsystems/" S
		"/namespaces " KEY KEY KEY KEY KEY KEY KEY KEY KEY KEY KEY KEY,
		"set /hosts/" H " " KEY,
		"set /hosts/" H " x" KEY "=y",
		"set /hosts/" H " dhchap " KEY "=y",
		"set /subsystems/" S "/namespaces/1 enable=" KEY,
		"set /hosts/" H " dhchap.key=" KEY, /* there is no such host */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		tells_no_key(lines[i]);
	usage("set dhchap.key=" KEY, "'dhchap.key=' is no path");
	usage("create /hosts " KEY, "'DHHC-1:' is a key, and no name of a host");
	usage("/host/" KEY " set", "/host/DHHC-1: there is no 'host'");
}

/* --- each verb ------------------------------------------------------------------------------ */

static void what_is_created_has_what_nvmetcli_gives_it(void **state)
{
	(void)state;
	edits("{'x':1}", "create /hosts/" H, "{'x':1,'hosts':[{'nqn':'" H "'}]}");
	edits("{}", "create /subsystems/" S,
	      SUBSYS(",'attr':{'allow_any_host':'0'},'namespaces':[],'allowed_hosts':[]"));
	edits("{}", "create /subsystems/" S " allow_any_host=1 attr.serial=x",
	      SUBSYS(",'attr':{'allow_any_host':'1','serial':'x'},'namespaces':[],"
		     "'allowed_hosts':[]"));
	edits(SUBSYS(), "create /subsystems/" S "/namespaces/3", NS(3, ",'enable':0"));
	/* What is told its disk, or where it leads, is wanted. */
	edits(SUBSYS(), "create /subsystems/" S "/namespaces/3 path=/a",
	      NS(3, ",'enable':1,'device':{'path':'/a'}"));
	edits(SUBSYS(), "create /subsystems/" S "/namespaces/3 path=/a enable=0",
	      NS(3, ",'enable':0,'device':{'path':'/a'}"));
	edits("{}", "create /ports/7", PORT(7, ",'subsystems':[],'referrals':[]"));
	edits("{}", "create /ports/7 trtype=tcp traddr=::1",
	      PORT(7, ",'subsystems':[],'referrals':[],'addr':{'trtype':'tcp','traddr':'::1',"
		      "'adrfam':'ipv6','trsvcid':'4420'}"));
	edits(PORT(7, ""),
	      "create /ports/7/referrals/r addr trtype=tcp traddr=192.0.2.1 "
	      "trsvcid=8009 portid=2",
	      PORT(7, ",'referrals':[{'name':'r','enable':1,'addr':{'trtype':'tcp','traddr':"
		      "'192.0.2.1','trsvcid':'8009','portid':'2','adrfam':'ipv4'}}]"));
	edits("{'hosts':[{'nqn':'" H "'}],'subsystems':[{'nqn':'" S "'}],'ports':[{'portid':1}]}",
	      "create /subsystems/" S "/allowed_hosts/" H "\n/ports/1/subsystems create " S,
	      "{'hosts':[{'nqn':'" H "'}],'subsystems':[{'nqn':'" S "','allowed_hosts':['" H
	      "']}],'ports':[{'portid':1,'subsystems':['" S "']}]}");
}

static void a_number_is_found_for_what_is_not_told_one(void **state)
{
	struct json_object *doc = doc_of(SUBSYS(",'namespaces':[{'nsid':1},{'nsid':'0x2'},"
						"{'nsid':4}]"));
	struct line l;

	(void)state;
	assert_int_equal(apply(doc, &l, "create /subsystems/" S "/namespaces path=/a"), 0);
	assert_string_equal(l.made, "/subsystems/" S "/namespaces/3");
	assert_int_equal(apply(doc, &l, "create /ports"), 0);
	assert_string_equal(l.made, "/ports/1");
	assert_int_equal(apply(doc, &l, "create /ports/2"), 0);
	assert_string_equal(l.made, "");
	json_object_put(doc);
}

static void what_is_removed_is_named_no_more(void **state)
{
	(void)state;
	edits("{'x':1,'subsystems':[{'nqn':'" S "'},{'nqn':'" T "'}],'ports':[{'portid':1,"
	      "'subsystems':['" S "','" T "']},{'portid':2}]}",
	      "remove /subsystems/" S,
	      "{'x':1,'subsystems':[{'nqn':'" T "'}],'ports':[{'portid':1,'subsystems':['" T
	      "']},{'portid':2}]}");
	edits("{'hosts':[{'nqn':'" H "'}],'subsystems':[{'nqn':'" S "','allowed_hosts':['" H
	      "']}]}",
	      "remove /hosts/" H, "{'hosts':[],'subsystems':[{'nqn':'" S "','allowed_hosts':[]}]}");
	edits("{'ports':[{'portid':'1','referrals':[{'name':'r'}],'subsystems':['" S "']}]}",
	      "remove /ports/1/referrals/r\n/ports/1/subsystems delete " S "\nremove /ports/1",
	      "{'ports':[]}");
	edits(NS(3, ""), "remove /subsystems/" S "/namespaces/3", SUBSYS(",'namespaces':[]"));
}

static void attributes_are_set_by_their_names(void **state)
{
	(void)state;
	edits(SUBSYS(",'attr':{'own':3}"),
	      "set /subsystems/" S " serial=a attr model=b attr.firmware=c",
	      SUBSYS(",'attr':{'own':3,'serial':'a','model':'b','firmware':'c'}"));
	edits(SUBSYS(",'attr':{'serial':'a','model':'b'}"),
	      "set /subsystems/" S " serial=", SUBSYS(",'attr':{'model':'b'}"));
	edits(NS(3, ",'device':{'path':'/a'}"),
	      "set /subsystems/" S "/namespaces/3 path=/b=c device nguid=1 uuid=2",
	      NS(3, ",'device':{'path':'/b=c','nguid':'1','uuid':'2'}"));
	edits("{'hosts':[{'nqn':'" H "'}]}",
	      "set /hosts/" H " dhchap key=DHHC-1:00:x: ctrl_key=y hash=hmac(sha256) dhgroup=null",
	      "{'hosts':[{'nqn':'" H "','dhchap':{'key':'DHHC-1:00:x:','ctrl_key':'y',"
	      "'hash':'hmac(sha256)','dhgroup':'null'}}]}");
	edits(PORT(1, ""),
	      "set /ports/1 portid=9 addr traddr=192.0.2.1 param inline_data_size=16384",
	      PORT(9, ",'addr':{'traddr':'192.0.2.1'},'param':{'inline_data_size':'16384'}"));
	edits("{}", "set / discovery nqn=nqn.2026-11.org.example:d",
	      "{'discovery':{'nqn':'nqn.2026-11.org.example:d'}}");
	edits(PORT(1, ",'referrals':[{'name':'r'}]"), "set /ports/1/referrals/r portid=5",
	      PORT(1, ",'referrals':[{'name':'r','addr':{'portid':'5'}}]"));
}

static void namespaces_and_referrals_are_hidden_and_kept(void **state)
{
	(void)state;
	edits(NS(3, ",'enable':1"), "disable /subsystems/" S "/namespaces/3", NS(3, ",'enable':0"));
	edits(NS(3, ",'enable':0"), "enable /subsystems/" S "/namespaces/3", NS(3, ",'enable':1"));
	edits(PORT(1, ",'referrals':[{'name':'r','enable':1}]"), "/ports/1/referrals/r disable",
	      PORT(1, ",'referrals':[{'name':'r','enable':0}]"));
}

static void made_disks_are_resized_and_others_are_not(void **state)
{
	(void)state;
	edits(NS(3, ",'device':{'path':'mem:8m'}"), "resize /subsystems/" S "/namespaces/3 16m",
	      NS(3, ",'device':{'path':'mem:16m'}"));
	edits(NS(3, ",'device':{'path':'null:1g,ro'}"), "resize /subsystems/" S "/namespaces/3 2g",
	      NS(3, ",'device':{'path':'null:2g,ro'}"));
	fails(NS(3, ",'device':{'path':'/dev/sdb'}"), "resize /subsystems/" S "/namespaces/3 2g",
	      "subsystems[" S "].namespaces[3]: /dev/sdb has the size");
	/* To have it looked at is no edit. */
	fails(NS(3, ""), "resize /subsystems/" S "/namespaces/3", "resize is no edit");
}

static void clear_leaves_what_is_not_ours(void **state)
{
	(void)state;
	edits("{'x':1,'discovery':{},'hosts':[{'nqn':'" H "'}],'ports':[{'portid':1}]}", "clear",
	      "{'x':1,'discovery':{},'hosts':[],'subsystems':[],'ports':[]}");
}

/* --- each error ----------------------------------------------------------------------------- */

static void what_is_not_there_is_named(void **state)
{
	(void)state;
	fails("{}", "remove /hosts/" H, "hosts[" H "]: there is no such host");
	fails("{}", "remove /subsystems/" S "/namespaces/1", "subsystems[" S "].namespaces[1]: ");
	fails("{}", "set /subsystems/" S " serial=x",
	      "subsystems[" S "]: there is no such subsystem; `create /subsystems/" S "`");
	fails(SUBSYS(), "enable /subsystems/" S "/namespaces/7",
	      "subsystems[" S "].namespaces[7]: ");
	fails("{}", "create /subsystems/" S "/namespaces/7", "subsystems[" S "]: ");
	fails(SUBSYS(), "create /subsystems/" S "/allowed_hosts/" H,
	      "subsystems[" S "].allowed_hosts[" H "]: there is no such host; `create /hosts/" H
	      "`");
	fails(PORT(1, ""), "create /ports/1/subsystems/" S,
	      "ports[1].subsystems[" S "]: there is no such subsystem");
	fails("{}", "create /ports/1/subsystems/" S, "ports[1]: there is no such port");
}

static void what_is_there_already_is_named(void **state)
{
	(void)state;
	fails(SUBSYS(), "create /subsystems/" S, "subsystems[" S "]: it is there already");
	fails(NS(3, ""), "create /subsystems/" S "/namespaces/3",
	      "subsystems[" S "].namespaces[3]: ");
	fails(PORT(1, ""), "create /ports/1", "ports[1]: ");
	fails(PORT(1, ""), "set /ports/1 portid=one", "ports[1].portid: a number, not 'one'");
}

/* A document that no configuration could be read of does no harm. */
static void what_is_no_configuration_is_refused(void **state)
{
	(void)state;
	fails("{'hosts':3}", "create /hosts/" H, "hosts: ");
	fails("{'hosts':3}", "remove /hosts/" H, "hosts[" H "]: ");
	fails("{'subsystems':[3,'x',{'nqn':'" S "','namespaces':{}}]}",
	      "create /subsystems/" S "/namespaces/1", "namespaces: ");
	fails("{'subsystems':[{'nqn':'" S "','attr':3}]}", "set /subsystems/" S " serial=x",
	      "subsystems[" S "].attr: ");
	fails("{'subsystems':[{'nqn':'" S "','namespaces':[{'nsid':1,'device':[]}]}]}",
	      "resize /subsystems/" S "/namespaces/1 1g", "subsystems[" S "].namespaces[1]: ");
}

static void places_are_named_by_what_stands_there(void **state)
{
	struct json_object *doc = doc_of(
		"{'hosts':[{'nqn':'" H "'}],'subsystems':[{'nqn':'" S "','allowed_hosts':['" H
		"'],'namespaces':[{'nsid':3}]}],'ports':[{'portid':2,'referrals':[{'name':'r'}]},"
		"{}]}");
	static const char *const places[][2] = {
		{"subsystems[0].namespaces[0].device.path: it is missing",
		 "subsystems[" S "].namespaces[3].device.path: it is missing"},
		{"subsystems[0].allowed_hosts[0]: no",
		 "subsystems[" S "].allowed_hosts[" H "]: no"},
		{"ports[0].referrals[0].addr.traddr: no", "ports[2].referrals[r].addr.traddr: no"},
		{"ports[1].portid: no", "ports[1].portid: no"},
		{"ports[7].portid: no", "ports[7].portid: no"},
		{"hosts[0]: x[0].y", "hosts[" H "]: x[0].y"},
		{"/dev/sdb: no such file", "/dev/sdb: no such file"},
		{"hosts: no", "hosts: no"},
		{"", ""},
	};
	char got[300];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		object_name_places(doc, places[i][0], got, sizeof(got));
		assert_string_equal(got, places[i][1]);
		for (size_t room = 1; room < 60; room++) { /* it is cut where there is none */
			memset(got, 'x', sizeof(got));
			object_name_places(doc, places[i][0], got, room);
			assert_true(strlen(got) < room);
		}
	}
	json_object_put(doc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_command_is_said_as_nvmetcli_says_it),
		cmocka_unit_test(paths_are_written_as_they_are_read),
		cmocka_unit_test(wrong_usage_is_told_with_what_is_right),
		cmocka_unit_test(no_error_repeats_a_key),
		cmocka_unit_test(what_is_created_has_what_nvmetcli_gives_it),
		cmocka_unit_test(a_number_is_found_for_what_is_not_told_one),
		cmocka_unit_test(what_is_removed_is_named_no_more),
		cmocka_unit_test(attributes_are_set_by_their_names),
		cmocka_unit_test(namespaces_and_referrals_are_hidden_and_kept),
		cmocka_unit_test(made_disks_are_resized_and_others_are_not),
		cmocka_unit_test(clear_leaves_what_is_not_ours),
		cmocka_unit_test(what_is_not_there_is_named),
		cmocka_unit_test(what_is_there_already_is_named),
		cmocka_unit_test(what_is_no_configuration_is_refused),
		cmocka_unit_test(places_are_named_by_what_stands_there),
	};

	return cmocka_run_group_tests_name("edit", tests, NULL, NULL);
}
