// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* The device list, and what can be asked of a device: attributes, port, GIDs, P_Keys. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "broker/device_gids.h"
#include "broker/device_port.h"
#include "verbs/face.h"
#include "verbs/port_choice.h"
#include "verbs/private.h"
#include "verbs/process.h"
#include "wire/bth.h"

#define VENDOR_ID   0x776566 /* "wef": neither 0 nor 0xffffff, which software takes for rxe */
#define MAX_OBJECTS 65536    /* MRs, MWs, CQs, PDs: bounded by memory; a number programs can use */
#define MAX_QP	    16384
#define IWARP_INDEX (1u << 30) /* beyond any interface's */
#define MAX_GROUPS  20	       /* of IPv4, by the default of net.ipv4.igmp_max_memberships */
/* As Linux numbers it; rdma-core 44 has the operation and no name for this. */
#define DEVICE_ATOMIC_WRITE (1ull << 40)
#define UD_ODP		    (IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV)

_Static_assert(DEVICE_PORT_CAPS == (IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS), "as verbs.h has it");
_Static_assert((int)DEVICE_PORT_ACTIVE == (int)IBV_PORT_ACTIVE &&
		       (int)DEVICE_PORT_DOWN == (int)IBV_PORT_DOWN,
	       "as verbs.h has it");

static struct {
	pthread_mutex_t lock;
	struct face_device *first;
} devices = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Another thread of the parent may have had it. */
static void forked(void)
{
	pthread_mutex_init(&devices.lock, NULL);
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, forked);
}

static void devices_lock(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_forks);
	pthread_mutex_lock(&devices.lock);
}

static void devices_unlock(void)
{
	pthread_mutex_unlock(&devices.lock);
}

static struct face_device *find_or_add(const struct broker_device *b, enum face_transport t)
{
	struct face_device **p = &devices.first, *d;
	char name[TRANSPORT_NAME_MAX];

	transport_device_name(t, b, name);
	for (; *p; p = &(*p)->next)
		if ((*p)->ifindex == b->ifindex && !strcmp((*p)->ibv.name, name))
			break;
	d = *p;
	if (!d) {
		d = calloc(1, sizeof(*d));
		if (!d)
			return NULL;
		d->ifindex = b->ifindex;
		d->transport = t;
		d->ibv.node_type = t == TRANSPORT_IWARP ? IBV_NODE_RNIC : IBV_NODE_CA;
		d->ibv.transport_type =
			t == TRANSPORT_IWARP ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
		snprintf(d->ibv.name, sizeof(d->ibv.name), "%.63s", name);
		snprintf(d->ibv.dev_name, sizeof(d->ibv.dev_name), "%.63s", name);
		/* Where a kernel's device would be found; programs cope with nothing there. */
		snprintf(d->ibv.dev_path, sizeof(d->ibv.dev_path),
			 "/sys/class/infiniband_verbs/%.63s", name);
		snprintf(d->ibv.ibdev_path, sizeof(d->ibv.ibdev_path),
			 "/sys/class/infiniband/%.63s", name);
		/* Whole: a child that another thread forks meanwhile finds it so, or not at all. */
		__atomic_store_n(p, d, __ATOMIC_RELEASE);
	}
	d->guid_be = transport_guid(t, b);
	return d;
}

/* What a program without a choice of its own should take comes first: it takes the first. */
static int preference(const struct broker_device *b)
{
	return (b->up ? 2 : 0) + (b->loopback ? 0 : 1);
}

/* Those of one kind, behind the n that are in the list. */
static size_t list_kind(const struct broker_devices *table, enum face_transport t,
			struct ibv_device **list, size_t n)
{
	for (int want = 3; want >= 0; want--) {
		for (uint32_t i = 0; i < table->count && i < BROKER_MAX_DEVICES; i++) {
			struct face_device *d;

			if (preference(&table->dev[i]) != want)
				continue;
			d = find_or_add(&table->dev[i], t);
			if (d)
				list[n++] = &d->ibv;
		}
	}
	return n;
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
	enum face_transport kinds[TRANSPORTS];
	const size_t nkinds = transports_wanted(kinds);
	struct broker_devices *table;
	struct ibv_device **list;
	size_t n = 0;
	int rc;

	if (num_devices)
		*num_devices = 0;
	rc = process_devices(&table);
	if (rc)
		return FAIL(-rc, NULL);
	list = calloc(nkinds * table->count + 1, sizeof(*list));
	if (!list) {
		free(table);
		return FAIL(ENOMEM, NULL);
	}
	devices_lock();
	for (size_t i = 0; i < nkinds; i++)
		n = list_kind(table, kinds[i], list, n);
	devices_unlock();
	free(table);
	if (num_devices)
		*num_devices = (int)n;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	return face_device(device)->guid_be;
}

int ibv_get_device_index(struct ibv_device *device)
{
	const struct face_device *d = face_device(device);

	return (int)(d->ifindex | (d->transport == TRANSPORT_IWARP ? IWARP_INDEX : 0));
}

bool weft_private_device_is(struct ibv_device *device, const struct broker_device *b,
			    enum face_transport t)
{
	const struct face_device *d = face_device(device);

	return d->ifindex == b->ifindex && d->transport == t;
}

static int find_in(struct broker_devices *table, struct ibv_device *device,
		   struct broker_device *ret)
{
	int rc = -EIO;

	for (uint32_t i = 0; i < table->count && i < BROKER_MAX_DEVICES; i++) {
		if (table->dev[i].ifindex == face_device(device)->ifindex) {
			*ret = table->dev[i];
			rc = 0;
			break;
		}
	}
	free(table);
	return rc;
}

int device_lookup(struct ibv_device *device, struct broker_device *ret)
{
	struct broker_devices *table;
	int rc = process_devices(&table);

	return rc ? rc : find_in(table, device, ret);
}

int device_lookup_lately(struct ibv_device *device, struct broker_device *ret)
{
	struct broker_devices *table;
	int rc = process_devices_lately(&table);

	return rc ? rc : find_in(table, device, ret);
}

enum ibv_mtu device_mtu(const struct broker_device *b)
{
	return (enum ibv_mtu)path_mtu_of(b->mtu);
}

/* ---- device attributes ---------------------------------------------------------------------- */

/* What iWARP has not. */
static void without_infiniband(struct ibv_device_attr *a)
{
	a->device_cap_flags &= ~(unsigned int)(IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_XRC);
	a->max_sge_rd = 1;
	a->max_ah = 0;
	a->max_mcast_grp = a->max_mcast_qp_attach = a->max_total_mcast_qp_attach = 0;
	a->local_ca_ack_delay = 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *a)
{
	*a = (struct ibv_device_attr){
		.fw_ver = WEFT_VERSION,
		.node_guid = face_device(context->device)->guid_be,
		.sys_image_guid = face_device(context->device)->guid_be,
		.max_mr_size = UINT64_MAX,
		.page_size_cap = 0xfffffffffffff000,
		.vendor_id = VENDOR_ID,
		.vendor_part_id = 1,
		.max_qp = MAX_QP,
		.max_qp_wr = RNIC_MAX_QP_WR,
		.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
				    IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
				    IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MEM_WINDOW |
				    IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_SRQ_RESIZE |
				    IBV_DEVICE_XRC,
		.max_sge = RNIC_MAX_SGE,
		.max_sge_rd = RNIC_MAX_SGE,
		.max_cq = MAX_OBJECTS,
		.max_cqe = RNIC_MAX_CQE,
		.max_mr = MAX_OBJECTS,
		.max_pd = MAX_OBJECTS,
		.max_mw = MAX_OBJECTS,
		.max_qp_rd_atom = RNIC_MAX_RD_ATOM,
		.max_qp_init_rd_atom = RNIC_MAX_RD_ATOM,
		.max_res_rd_atom = RNIC_MAX_RD_ATOM * MAX_QP,
		.max_ah = MAX_OBJECTS,
		.max_mcast_grp = MAX_GROUPS,
		.max_mcast_qp_attach = MAX_OBJECTS,
		.max_total_mcast_qp_attach = MAX_OBJECTS,
		.max_srq = MAX_OBJECTS,
		.max_srq_wr = RNIC_MAX_QP_WR,
		.max_srq_sge = RNIC_MAX_SGE,
		.atomic_cap = IBV_ATOMIC_HCA,
		.max_pkeys = 1,
		.local_ca_ack_delay = 15,
		.phys_port_cnt = 1,
	};
	if (face_is_iwarp(context))
		without_infiniband(a);
	return 0;
}

int face_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *in,
			 struct ibv_device_attr_ex *a, size_t attr_size)
{
	const uint32_t rc_odp =
		UD_ODP | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;
	struct ibv_device_attr_ex full = {
		.completion_timestamp_mask = UINT64_MAX,
		.hca_core_clock = NSEC_PER_MSEC, /* in kHz: a tick is a nanosecond */
		.cq_mod_caps = {.max_cq_count = UINT16_MAX, .max_cq_period = UINT16_MAX},
		.max_dm_size = FACE_MAX_DM,
		.phys_port_cnt_ex = 1,
	};

	(void)in; /* the wrapper in verbs.h refuses a comp_mask */
	if (attr_size < sizeof(full.orig_attr))
		return REFUSED(EINVAL);
	ibv_query_device(context, &full.orig_attr);
	full.device_cap_flags_ex = full.orig_attr.device_cap_flags;
	if (!face_is_iwarp(context)) {
		full.device_cap_flags_ex |= DEVICE_ATOMIC_WRITE;
		full.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
		full.odp_caps.per_transport_caps.rc_odp_caps = rc_odp;
		full.odp_caps.per_transport_caps.uc_odp_caps = UD_ODP | IBV_ODP_SUPPORT_WRITE;
		full.odp_caps.per_transport_caps.ud_odp_caps = UD_ODP;
		full.xrc_odp_caps = rc_odp;
	}
	memset(a, 0, attr_size);
	memcpy(a, &full, min_of(attr_size, sizeof(full)));
	return 0;
}

/* The clock that completions are stamped with. As adapters do it, all of it is in tv_nsec. */
int face_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	(void)context;
	if (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return REFUSED(EINVAL);
	if (values->comp_mask)
		values->raw_clock = (struct timespec){.tv_nsec = (long)time_now_ns()};
	return 0;
}

static int gid_entries(struct ibv_context *context)
{
	return face_is_iwarp(context) ? 1 : (int)DEVICE_GIDS(port_choice_has_rocev1());
}

int face_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *a, size_t len)
{
	const bool iwarp = face_is_iwarp(context);
	struct ibv_port_attr full = {0};
	struct broker_device b;
	int rc;

	if (port != FACE_PORT)
		return REFUSED(EINVAL);
	rc = device_lookup(context->device, &b);
	if (rc)
		return -rc;
	full.state = (enum ibv_port_state)device_port_state(&b);
	full.phys_state = device_port_phys_state(&b);
	full.max_mtu = IBV_MTU_4096;
	full.active_mtu = device_mtu(&b);
	full.gid_tbl_len = gid_entries(context);
	full.port_cap_flags = iwarp ? IBV_PORT_CM_SUP : DEVICE_PORT_CAPS;
	full.max_msg_sz = RNIC_MAX_MSG;
	full.pkey_tbl_len = 1;
	full.max_vl_num = 1;
	full.link_layer = IBV_LINK_LAYER_ETHERNET;
	full.flags = iwarp ? 0 : IBV_QPF_GRH_REQUIRED;
	device_port_rate(&b, &full.active_width, &full.active_speed);
	memset(a, 0, len);
	memcpy(a, &full, min_of(len, sizeof(full)));
	return 0;
}

int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *a)
{
	/* The structure of before port_cap_flags2 and the link layer's successors. */
	return face_query_port(context, port, (struct ibv_port_attr *)a,
			       offsetof(struct ibv_port_attr, port_cap_flags2));
}

/* ---- GID and P_Key tables ------------------------------------------------------------------- */

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	struct ibv_gid_entry e;
	int rc;

	if (port != FACE_PORT || index < 0 || index >= gid_entries(context))
		return FAIL(EINVAL, -1);
	rc = _ibv_query_gid_ex(context, port, (uint32_t)index, &e, 0, sizeof(e));
	if (rc && rc != ENODATA)
		return FAIL(rc, -1);
	memset(gid, 0, sizeof(*gid)); /* of an empty entry */
	if (!rc)
		*gid = e.gid;
	return 0;
}

bool device_gid_at(const struct broker_device *b, uint32_t index, struct gid *ret, bool *ret_rocev1)
{
	return index < DEVICE_GIDS(port_choice_has_rocev1()) &&
	       device_gid(b, index, ret, ret_rocev1);
}

int device_gid_index(const struct broker_device *b, const struct gid *g, bool rocev1)
{
	for (uint32_t i = 0; i < DEVICE_GIDS(port_choice_has_rocev1()); i++) {
		struct gid at;
		bool v1;

		if (device_gid_at(b, i, &at, &v1) && v1 == rocev1 && gid_equal(&at, g))
			return (int)i;
	}
	return -1;
}

/* The one of iWARP is no address but names the port: by its MAC address, or, without one, as a
 * number. */
static void iwarp_gid(const struct broker_device *b, union ibv_gid *ret)
{
	const uint64_t guid_be = transport_guid(TRANSPORT_IWARP, b);

	if (b->loopback)
		memcpy(ret->raw, &guid_be, sizeof(guid_be));
	else
		memcpy(ret->raw, b->mac, sizeof(b->mac));
}

/* False: the entry is empty. */
static bool gid_entry(struct ibv_context *context, const struct broker_device *b, uint32_t index,
		      struct ibv_gid_entry *ret)
{
	struct gid gid;
	bool rocev1;

	*ret = (struct ibv_gid_entry){
		.gid_index = index,
		.port_num = FACE_PORT,
		.ndev_ifindex = b->ifindex,
	};
	if (face_is_iwarp(context)) {
		ret->gid_type = IBV_GID_TYPE_IB;
		iwarp_gid(b, &ret->gid);
		return true;
	}
	if (!device_gid_at(b, index, &gid, &rocev1))
		return false;
	ret->gid_type = rocev1 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
	memcpy(ret->gid.raw, gid.raw, sizeof(ret->gid.raw));
	return true;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	struct ibv_gid_entry full;
	struct broker_device b;
	int rc;

	if (flags)
		return REFUSED(EOPNOTSUPP);
	if (port != FACE_PORT || index >= (uint32_t)gid_entries(context))
		return REFUSED(EINVAL);
	rc = device_lookup(context->device, &b);
	if (rc)
		return -rc;
	if (!gid_entry(context, &b, index, &full))
		return ENODATA;
	memset(entry, 0, entry_size);
	memcpy(entry, &full, min_of(entry_size, sizeof(full)));
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t max_entries, uint32_t flags, size_t entry_size)
{
	struct broker_device b;
	size_t n = 0;
	int rc;

	if (flags)
		return -EOPNOTSUPP;
	if (entry_size < sizeof(*entries) || !max_entries)
		return -EINVAL;
	rc = device_lookup(context->device, &b);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < (uint32_t)gid_entries(context); i++) {
		struct ibv_gid_entry e;

		if (!gid_entry(context, &b, i, &e))
			continue;
		if (n == max_entries) /* a part of the table is no answer: so says the kernel */
			return -EINVAL;
		memset((char *)entries + n * entry_size, 0, entry_size);
		memcpy((char *)entries + n * entry_size, &e, sizeof(e));
		n++;
	}
	return (ssize_t)n;
}

/* Private to rdma-core, but ibv_devinfo prints the type by it: 0 IB or RoCE v1, 1 RoCE v2. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type);
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type)
{
	struct ibv_gid_entry e;
	int rc = _ibv_query_gid_ex(context, port, index, &e, 0, sizeof(e));

	if (rc)
		return FAIL(rc, -1);
	*type = e.gid_type == IBV_GID_TYPE_ROCE_V2;
	return 0;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	(void)context;
	if (port != FACE_PORT || index != 0)
		return FAIL(EINVAL, -1);
	*pkey = htobe16(0xffff);
	return 0;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	(void)context;
	if (port != FACE_PORT || pkey != htobe16(0xffff))
		return FAIL(EINVAL, -1);
	return 0;
}

/* ---- sysfs ---------------------------------------------------------------------------------- */

const char *ibv_get_sysfs_path(void);
const char *ibv_get_sysfs_path(void)
{
	return "/sys";
}

/*
 * The few attributes that programs read of a device through the library, answered for ours. Like
 * the real one: the length without the newline, -1 if there is no such file.
 */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[2 * IBV_SYSFS_PATH_MAX];
	FILE *f;
	size_t n;

	devices_lock();
	for (struct face_device *d = devices.first; d; d = d->next) {
		if (strcmp(d->ibv.ibdev_path, dir))
			continue;
		devices_unlock();
		if (!strcmp(file, "board_id") || !strcmp(file, "hca_type"))
			return snprintf(buf, size, "weft");
		if (!strcmp(file, "fw_ver"))
			return snprintf(buf, size, WEFT_VERSION);
		return FAIL(ENOENT, -1);
	}
	devices_unlock();

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	f = fopen(path, "re");
	if (!f)
		return -1;
	n = fread(buf, 1, size, f);
	fclose(f);
	if (n && buf[n - 1] == '\n')
		buf[--n] = '\0';
	else if (n < size)
		buf[n] = '\0';
	else
		return FAIL(ERANGE, -1);
	return (int)n;
}
