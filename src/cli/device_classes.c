/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/device_classes.h"

#include <dlfcn.h>
#include <string.h>

#include "verbs/classes.h"

#define SOURCE_PORT "one for each process and class that they go to"
#define FLOW_LABEL  "the address's, over IPv6, or one that the kernel makes"

static const struct {
	const char *name;
	size_t at;
	uint32_t normally;
} params[] = {
#define X(name, normally, least, most, unit, text) \
	{#name, offsetof(struct cc_params, name), normally},
#include "rnic/cc/params.def"
#undef X
};

static uint32_t value_of(const struct shown_class *c, size_t i)
{
	uint32_t v;

	memcpy(&v, (const char *)&c->params + params[i].at, sizeof(v));
	return v;
}

static const char *ecn_of(const struct shown_class *c)
{
	return (c->tos & FLOW_ECN_MASK) == FLOW_ECN_ECT0 ? "ECT(0)" : "not-ECT";
}

static void show_json(struct output *out, const struct shown_class *c)
{
	output_object(out, NULL, NULL);
	output_string(out, "for", NULL, c->whom);
	output_number(out, "traffic_class", NULL, c->tos, NULL);
	output_number(out, "dscp", NULL, c->tos >> FLOW_DSCP_SHIFT, NULL);
	output_string(out, "ecn", NULL, ecn_of(c));
	output_number(out, "priority", NULL, c->priority, NULL);
	output_number(out, "cnp_dscp", NULL, c->cnp_tos >> FLOW_DSCP_SHIFT, NULL);
	output_number(out, "cnp_priority", NULL, c->cnp_priority, NULL);
	output_string(out, "congestion_control", NULL, c->algorithm);
	output_string(out, "said_by", NULL, c->said_by);
	output_object(out, "parameters", NULL);
	for (size_t i = 0; i < ARRAY_SIZE(params); i++)
		output_number(out, params[i].name, NULL, value_of(c, i), NULL);
	output_close(out);
	output_close(out);
}

/* The parameters that are not as nobody says; the manual has those. */
static void show_text(struct output *out, const struct shown_class *c, bool first)
{
	char text[1024];
	size_t n;

	output_object(out, NULL, "%s", c->whom[0] ? c->whom : first ? "all" : "all others");
	snprintf(text, sizeof(text), "0x%02x: DSCP %d, %s", c->tos, c->tos >> FLOW_DSCP_SHIFT,
		 ecn_of(c));
	output_string(out, "traffic class", NULL, text);
	output_number(out, "priority", NULL, c->priority, NULL);
	snprintf(text, sizeof(text), "DSCP %d, priority %d", c->cnp_tos >> FLOW_DSCP_SHIFT,
		 c->cnp_priority);
	output_string(out, "notifications", NULL, text);
	n = (size_t)snprintf(text, sizeof(text), "%s", c->algorithm);
	for (size_t i = 0; i < ARRAY_SIZE(params) && n < sizeof(text); i++)
		if (value_of(c, i) != params[i].normally)
			n += (size_t)snprintf(text + n, sizeof(text) - n, ",%s=%u", params[i].name,
					      value_of(c, i));
	output_string(out, "congestion", NULL, text);
	output_string(out, "said by", NULL, c->said_by);
	output_close(out);
}

void device_classes_show(struct output *out, struct ibv_context *context)
{
	bool (*class_of)(struct ibv_context *, unsigned int, struct shown_class *, size_t) =
		(__typeof__(class_of))(uintptr_t)dlsym(RTLD_DEFAULT, "weft_private_class");
	struct shown_class c;

	if (!class_of || !class_of(context, 0, &c, sizeof(c)))
		return;
	output_object(out, "packets", "packets");
	output_string(out, "source_port", "source port", SOURCE_PORT);
	output_string(out, "flow_label", "flow label", FLOW_LABEL);
	if (out->format == OUTPUT_JSON)
		output_list(out, "classes", NULL);
	for (unsigned int n = 0; class_of(context, n, &c, sizeof(c)); n++) {
		if (out->format == OUTPUT_JSON)
			show_json(out, &c);
		else
			show_text(out, &c, n == 0);
	}
	if (out->format == OUTPUT_JSON)
		output_close(out);
	output_close(out);
}
