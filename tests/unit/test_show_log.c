/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Log pages as they are shown, of bytes that our own target does not send, or nobody should. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/page.h"
#include "wire/nvme_log.h"

static uint8_t bytes[4096];
static struct wcursor w;

static int start(void **state)
{
	(void)state;
	memset(bytes, 0, sizeof(bytes));
	w = wcursor_init(bytes, sizeof(bytes));
	return 0;
}

/* What is shown of the first len bytes; to be freed. */
static char *shown(void (*show)(struct output *, const struct page *), enum output_format format,
		   uint32_t len, bool human)
{
	struct page p = {.nqn = "nqn", .data = bytes, .len = len, .csi = -1, .human = human};
	struct output o;
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	output_init(&o, f, format);
	o.flat = true;
	show(&o, &p);
	assert_true(output_finish(&o));
	fclose(f);
	return text;
}

static void has(char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("no %s in %s", part, text);
}

/* The text without its spaces, as json-c may set them as it likes. */
static char *tight(char *text)
{
	char *to = text;

	for (const char *from = text; *from; from++)
		if (*from != ' ' && *from != '\n')
			*to++ = *from;
	*to = 0;
	return text;
}

static void put_group(uint32_t id, uint32_t nsids, uint8_t state)
{
	const struct nvme_ana_group g = {.grpid = id, .nnsids = nsids, .chgcnt = 7, .state = state};

	nvme_ana_group_put(&w, &g);
	for (uint32_t i = 0; i < nsids; i++)
		wcursor_le32(&w, 100 * id + i);
}

static void ana_groups_have_their_namespaces(void **state)
{
	const struct nvme_ana_hdr hdr = {.chgcnt = 5, .ngrps = 2};
	char *text;

	(void)state;
	nvme_ana_hdr_put(&w, &hdr);
	put_group(1, 2, 1);
	put_group(2, 0, 3);
	text = tight(shown(show_ana_log, OUTPUT_JSON, sizeof(bytes), false));
	has(text,
	    "{\"AsymmetricNamespaceAccessLogforNVMedevice\":\"nqn\",\"chgcnt\":5,\"ngrps\":2,");
	has(text, "{\"grpid\":1,\"nnsids\":2,\"chgcnt\":7,\"state\":\"optimized\",\"NSIDS\":[{"
		  "\"nsid\":100},{\"nsid\":101}]},{\"grpid\":2,");
	has(text, "\"state\":\"inaccessible\",\"NSIDS\":[]}]}");
	free(text);
	text = shown(show_ana_log, OUTPUT_TEXT, sizeof(bytes), false);
	has(text, "grpid\t:\t1\n");
	has(text, "\tnsid\t:\t101\n");
	free(text);
}

static void ana_groups_beyond_the_page_are_not_shown(void **state)
{
	const struct nvme_ana_hdr hdr = {.ngrps = 65535};
	const struct nvme_ana_group g = {.grpid = 9, .nnsids = UINT32_MAX, .state = 2};
	char *text;

	(void)state;
	nvme_ana_hdr_put(&w, &hdr);
	nvme_ana_group_put(&w, &g);
	wcursor_le32(&w, 77);
	text = tight(
		shown(show_ana_log, OUTPUT_JSON, NVME_ANA_HDR_LEN + NVME_ANA_GROUP_LEN + 4, false));
	has(text, "\"nnsids\":4294967295");
	has(text, "\"NSIDS\":[{\"nsid\":77}]}]}");
	free(text);
}

static void smart_has_the_sensors_that_there_are(void **state)
{
	struct nvme_smart s = {.critical_warning = 0x09, .temperature = 300};
	char *text;

	(void)state;
	s.temp_sensor[2] = 310;
	s.data_units_written = (struct nvme_u128){.lo = 3};
	s.host_writes = (struct nvme_u128){.hi = 1};
	nvme_smart_put(&w, &s);
	text = tight(shown(show_smart_log, OUTPUT_JSON, NVME_SMART_LEN, true));
	has(text, "\"critical_warning\":{\"value\":9,\"available_spare\":1,\"temp_threshold\":0,"
		  "\"reliability_degraded\":0,\"ro\":1,\"vmbu_failed\":0,\"pmr_ro\":0}");
	has(text, "\"temperature_sensor_3\":310");
	has(text, "\"host_write_commands\":18446744073709551616,");
	assert_null(strstr(text, "temperature_sensor_1"));
	free(text);
	text = shown(show_smart_log, OUTPUT_TEXT, NVME_SMART_LEN, false);
	has(text, "namespace-id:ffffffff");
	has(text, ": 27 °C (300 K)\n");
	has(text, ": 3 (1.46 MiB)\n");
	free(text);
}

static void revisions_are_kept_by_slot(void **state)
{
	const struct nvme_firmware_log log = {.afi = 0x21, .frs = {[1] = "1.2\x01 xyz"}};
	char *text;

	(void)state;
	nvme_firmware_log_put(&w, &log);
	text = tight(shown(show_fw_log, OUTPUT_JSON, NVME_FIRMWARE_LEN, false));
	has(text, "{\"nqn\":{\"ActiveFirmwareSlot(afi)\":33,\"FirmwareRevSlot2\":\"");
	has(text, "(1.2..xyz)\"}}");
	free(text);
}

static void changes_beyond_the_list_are_told_as_such(void **state)
{
	char *text;

	(void)state;
	wcursor_le32(&w, NVME_NSID_ALL);
	text = shown(show_changed_ns_list_log, OUTPUT_TEXT, 4096, false);
	assert_string_equal(text, "more than 1024 ns changed\n");
	free(text);
	start(NULL);
	wcursor_le32(&w, 0x10);
	text = tight(shown(show_changed_ns_list_log, OUTPUT_JSON, 4096, false));
	has(text, "\"nqn\":{\"[1]\":\"0x10\"}");
	free(text);
}

static void what_a_command_changes_is_told(void **state)
{
	struct nvme_effects fx = {0};
	char *text;

	(void)state;
	fx.io[NVME_IO_WRITE] = NVME_EFFECT_CSUPP | NVME_EFFECT_LBCC | 1u << 16;
	nvme_effects_put(&w, &fx);
	text = shown(show_effects_log, OUTPUT_TEXT, NVME_EFFECTS_LEN, true);
	has(text,
	    "IOCS1    [Write                           ] 00010003  CSUPP+  LBCC+  NCC-  NIC-  "
	    "CCC-  USS-  No other command for same namespace\n");
	free(text);
}

static void what_setting_a_feature_changes_is_told(void **state)
{
	char *text;

	(void)state;
	for (unsigned int fid = 0; fid < 256; fid++)
		wcursor_le32(&w, fid == 0x0f ? NVME_FEATURE_FSUPP | NVME_EFFECT_CCC |
						       NVME_FEATURE_SCOPE_CTRL
					     : 0);
	text = tight(shown(show_fid_support_effects_log, OUTPUT_JSON, NVME_FEATURES_LEN, false));
	assert_string_equal(text, "{\"fid_support\":[{\"fid_15\":2097169}]}");
	free(text);
	text = shown(show_fid_support_effects_log, OUTPUT_TEXT, NVME_FEATURES_LEN, false);
	assert_string_equal(text, "FID Supports Effects Log for device: nqn\n"
				  "Admin Command Set\n"
				  "FID 0f -> Support Effects Log: 00200011\n");
	free(text);
	text = shown(show_fid_support_effects_log, OUTPUT_TEXT, NVME_FEATURES_LEN, true);
	has(text, ": 00200011  FSUPP+  UDCC-  NCC-  NIC-  CCC+  USS-  NAMESPACE SCOPE-  CONTROLLER "
		  "SCOPE+  NVM SET SCOPE-  ENDURANCE GROUP SCOPE-  DOMAIN SCOPE-  NVM Subsystem "
		  "SCOPE-\n");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(ana_groups_have_their_namespaces, start),
		cmocka_unit_test_setup(ana_groups_beyond_the_page_are_not_shown, start),
		cmocka_unit_test_setup(smart_has_the_sensors_that_there_are, start),
		cmocka_unit_test_setup(revisions_are_kept_by_slot, start),
		cmocka_unit_test_setup(changes_beyond_the_list_are_told_as_such, start),
		cmocka_unit_test_setup(what_a_command_changes_is_told, start),
		cmocka_unit_test_setup(what_setting_a_feature_changes_is_told, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
