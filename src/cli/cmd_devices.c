/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * weft devices: what ibv_devinfo would show, by the same verbs API. It sees the devices of the
 * verbs library that it runs on: weft's own, or by LD_LIBRARY_PATH any other.
 */
#include <argp.h>
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "base/errno_text.h"
#include "cli/cli.h"
#include "cli/device_classes.h"
#include "cli/nvme_opts.h"
#include "cli/output.h"

int cmd_devices(int argc, char **argv);

struct devices_opts {
	enum output_format format;
	bool verbose;
	const char *only;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct devices_opts *o = state->input;

	switch (key) {
	case 'o':
		if (output_format_parse(arg, &o->format))
			argp_error(state, "--output-format is normal or json, not '%s'", arg);
		return 0;
	case 'v':
		o->verbose = true;
		return 0;
	case ARGP_KEY_ARG:
		if (o->only)
			argp_error(state, "one device, not also '%s'", arg);
		o->only = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{"output-format", 'o', "normal|json", 0, "How it is shown", 0},
	{"verbose", 'v', NULL, 0, "Show the limits of each device and what packets carry too", 0},
	{0},
};

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "[DEVICE]",
	.doc = "Shows the RDMA devices: one for each network interface of this network namespace.",
};

/* A list of the JSON form; the text form has its elements in line. */
static void list_open(struct output *out, const char *key)
{
	if (out->format == OUTPUT_JSON)
		output_list(out, key, NULL);
}

static void list_close(struct output *out)
{
	if (out->format == OUTPUT_JSON)
		output_close(out);
}

static const char *guid_text(char buf[20], __be64 guid)
{
	uint64_t v = be64toh(guid);

	snprintf(buf, 20, "%04x:%04x:%04x:%04x", (unsigned int)(v >> 48),
		 (unsigned int)(v >> 32) & 0xffff, (unsigned int)(v >> 16) & 0xffff,
		 (unsigned int)v & 0xffff);
	return buf;
}

static const char *hex_text(char buf[20], uint64_t v)
{
	snprintf(buf, 20, "0x%" PRIx64, v);
	return buf;
}

static const char *atomic_text(enum ibv_atomic_cap cap)
{
	switch (cap) {
	case IBV_ATOMIC_HCA:
		return "within the device";
	case IBV_ATOMIC_GLOB:
		return "with the processors";
	default:
		return "none";
	}
}

static void show_limits(struct output *out, const struct ibv_device_attr *a)
{
	char buf[32];

	output_object(out, "limits", "limits");
	output_number(out, "max_mr_size", NULL, a->max_mr_size, hex_text(buf, a->max_mr_size));
	output_number(out, "page_size_cap", NULL, a->page_size_cap,
		      hex_text(buf, a->page_size_cap));
	output_number(out, "device_cap_flags", NULL, a->device_cap_flags,
		      hex_text(buf, a->device_cap_flags));
	output_string(out, "atomics", NULL, atomic_text(a->atomic_cap));
	const struct {
		const char *name;
		int value;
	} limits[] = {
		{"max_qp", a->max_qp},
		{"max_qp_wr", a->max_qp_wr},
		{"max_sge", a->max_sge},
		{"max_sge_rd", a->max_sge_rd},
		{"max_cq", a->max_cq},
		{"max_cqe", a->max_cqe},
		{"max_mr", a->max_mr},
		{"max_mw", a->max_mw},
		{"max_pd", a->max_pd},
		{"max_qp_rd_atom", a->max_qp_rd_atom},
		{"max_qp_init_rd_atom", a->max_qp_init_rd_atom},
		{"max_res_rd_atom", a->max_res_rd_atom},
		{"max_srq", a->max_srq},
		{"max_srq_wr", a->max_srq_wr},
		{"max_srq_sge", a->max_srq_sge},
		{"max_ah", a->max_ah},
		{"max_mcast_grp", a->max_mcast_grp},
		{"local_ca_ack_delay", a->local_ca_ack_delay},
	};
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		output_number(out, limits[i].name, NULL, (uint64_t)limits[i].value, NULL);
	output_close(out);
}

static int show_gids(struct output *out, struct ibv_context *context, int table_len)
{
	static const char *const types[] = {
		[IBV_GID_TYPE_IB] = "IB",
		[IBV_GID_TYPE_ROCE_V1] = "RoCE v1",
		[IBV_GID_TYPE_ROCE_V2] = "RoCE v2",
	};
	struct ibv_gid_entry entries[256];
	ssize_t n = ibv_query_gid_table(context, entries,
					min_of((size_t)table_len, ARRAY_SIZE(entries)), 0);

	if (n < 0)
		return (int)n;
	list_open(out, "gids");
	for (ssize_t i = 0; i < n; i++) {
		const struct ibv_gid_entry *e = &entries[i];
		char gid[INET6_ADDRSTRLEN], label[16], ifname[IF_NAMESIZE] = "";

		inet_ntop(AF_INET6, e->gid.raw, gid, sizeof(gid));
		snprintf(label, sizeof(label), "gid %u", e->gid_index);
		if_indextoname(e->ndev_ifindex, ifname);
		if (out->format == OUTPUT_TEXT) {
			char text[80];

			snprintf(text, sizeof(text), "%s, %s", gid,
				 e->gid_type < ARRAY_SIZE(types) ? types[e->gid_type] : "?");
			output_string(out, label, NULL, text);
			continue;
		}
		output_object(out, NULL, NULL);
		output_number(out, "index", NULL, e->gid_index, NULL);
		output_string(out, "gid", NULL, gid);
		output_string(out, "type", NULL,
			      e->gid_type < ARRAY_SIZE(types) ? types[e->gid_type] : "?");
		output_string(out, "interface", NULL, ifname);
		output_close(out);
	}
	list_close(out);
	return 0;
}

/* Only weft's own libibverbs has anything to say of that. */
static void show_ways(struct output *out)
{
	const char *(*ports)(void) =
		(const char *(*)(void))(uintptr_t)dlsym(RTLD_DEFAULT, "weft_private_ports");

	if (ports)
		output_string(out, "packets_by", "packets by", ports());
}

static int show_port(struct output *out, struct ibv_context *context, uint8_t port)
{
	static const uint8_t width_codes[] = {1, 4, 8, 12, 2};
	static const struct {
		uint8_t code;
		double gbps; /* of one lane */
	} speeds[] = {{1, 2.5}, {2, 5},	  {4, 10},  {8, 10.3125},
		      {16, 14}, {32, 25}, {64, 50}, {128, 100}};
	struct ibv_port_attr p;
	char buf[32];
	int rc = ibv_query_port(context, port, &p);

	if (rc)
		return -rc;
	output_object(out, NULL, "port %u", port);
	if (out->format == OUTPUT_JSON)
		output_number(out, "port", NULL, port, NULL);
	output_string(out, "state", NULL, ibv_port_state_str(p.state));
	output_string(out, "link_layer", NULL,
		      p.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand");
	output_number(out, "max_mtu", NULL, 128u << p.max_mtu, NULL);
	output_number(out, "active_mtu", NULL, 128u << p.active_mtu, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(speeds); i++) {
		unsigned int lane = (unsigned int)__builtin_ctz(p.active_width | 1u << 31);

		if (speeds[i].code != p.active_speed || lane >= ARRAY_SIZE(width_codes))
			continue;
		snprintf(buf, sizeof(buf), "%g Gb/s", speeds[i].gbps * width_codes[lane]);
		output_real(out, "rate_gbps", "rate", speeds[i].gbps * width_codes[lane], buf);
	}
	show_ways(out);
	rc = show_gids(out, context, p.gid_tbl_len);
	output_close(out);
	return rc;
}

static int show_device(struct output *out, struct ibv_device *device, bool verbose)
{
	struct ibv_context *context = ibv_open_device(device);
	struct ibv_device_attr a;
	char buf[20];
	int rc;

	if (!context)
		return -errno;
	rc = -ibv_query_device(context, &a);
	if (rc)
		goto close;
	output_object(out, NULL, "%s", ibv_get_device_name(device));
	if (out->format == OUTPUT_JSON)
		output_string(out, "name", NULL, ibv_get_device_name(device));
	output_string(out, "transport", NULL,
		      device->transport_type == IBV_TRANSPORT_IB      ? "InfiniBand"
		      : device->transport_type == IBV_TRANSPORT_IWARP ? "iWARP"
								      : "other");
	output_string(out, "fw_ver", NULL, a.fw_ver);
	output_string(out, "node_guid", NULL, guid_text(buf, a.node_guid));
	output_string(out, "sys_image_guid", NULL, guid_text(buf, a.sys_image_guid));
	output_number(out, "vendor_id", NULL, a.vendor_id, hex_text(buf, a.vendor_id));
	output_number(out, "vendor_part_id", NULL, a.vendor_part_id, NULL);
	if (verbose) {
		show_limits(out, &a);
		device_classes_show(out, context);
	}
	list_open(out, "ports");
	for (uint8_t port = 1; port <= a.phys_port_cnt && !rc; port++)
		rc = show_port(out, context, port);
	list_close(out);
	output_close(out);
close:
	ibv_close_device(context);
	return rc;
}

int cmd_devices(int argc, char **argv)
{
	struct devices_opts opts = {0};
	struct ibv_device **list;
	struct output out;
	int shown = 0, rc;

	cli_parse(&argp, "devices", argc, argv, &opts);
	list = ibv_get_device_list(NULL);
	if (!list)
		return cli_fail("the verbs library lists no devices: %s", errno_text(errno));
	output_init(&out, stdout, opts.format);
	out.width = 16;
	list_open(&out, "devices");
	for (size_t i = 0; list[i]; i++) {
		if (opts.only && strcmp(opts.only, ibv_get_device_name(list[i])))
			continue;
		rc = show_device(&out, list[i], opts.verbose);
		shown++;
		if (rc) /* it may have gone since it was listed */
			cli_warn("%s: %s", ibv_get_device_name(list[i]), errno_text(-rc));
	}
	ibv_free_device_list(list);
	list_close(&out);
	if (!shown)
		return opts.only ? cli_fail("no device '%s'; `weft devices` shows those there are",
					    opts.only)
				 : cli_fail("no devices: this network namespace has no interface; "
					    "bring one up with `ip link set lo up`");
	return output_finish(&out) ? EXIT_OK : EXIT_FAILED;
}
