/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "broker/cm_service_priv.h"
#include "wire/bth.h"
#include "wire/cm_ip.h"

/* Another client's id is as good as none. */
static struct svc_id *own_id(struct cm_client *client, uint32_t handle)
{
	struct svc_id *id = handles_find(&client->svc->handles, handle);

	return id && id->client == client ? id : NULL;
}

static bool is_any(const struct gid *g)
{
	static const struct gid none, none_v4 = {{[10] = 0xff, [11] = 0xff}};

	return gid_equal(g, &none) || gid_equal(g, &none_v4);
}

/* ---- ids and addresses -------------------------------------------------------------------- */

static int create_id(struct cm_client *client, const void *req, void *reply)
{
	const struct broker_cm_create_id *r = req;
	struct broker_cm_create_id *ret = reply;
	struct cm_channel *channel = client_channel(client, r->channel);
	struct svc_id *id;
	int err;

	if (!svc_ps_valid(r->ps, r->datagrams, r->xrc))
		return -EINVAL;
	if (!channel)
		return -ENOENT;
	err = svc_id_new(client, channel, NULL, &id);
	if (err < 0)
		return err;
	id->user = r->user;
	id->ps = (uint16_t)r->ps;
	id->datagrams = r->datagrams;
	id->xrc = r->xrc;
	*ret = *r;
	ret->id = id->handle;
	return 0;
}

static int destroy_id(struct cm_client *client, const void *req, void *reply)
{
	struct svc_id *id = own_id(client, ((const struct broker_cm_id *)req)->id);

	(void)reply;
	if (!id)
		return -ENOENT;
	svc_id_destroy(id, true);
	return 0;
}

static int bind_addr(struct svc_id *id, const struct broker_cm_bind *r)
{
	struct cm_service *svc = id->client->svc;
	struct cm_local_addr local = {0};
	int err;

	id->bind.reuse = r->reuse;
	id->bind.port = r->port;
	id->bind.addr = r->addr;
	id->bind.scope = r->scope;
	if (!is_any(&r->addr)) {
		if (!svc->ops.local_addr(svc->ctx, &r->addr, r->scope, &local))
			return -EADDRNOTAVAIL;
		id->bind.families = gid_is_ipv4(&r->addr) ? PORT_IPV4 : PORT_IPV6;
	} else {
		memset(&id->bind.addr, 0, sizeof(id->bind.addr));
		id->bind.families = gid_is_ipv4(&r->addr) || r->af_ipv4 ? PORT_IPV4
				    : r->af_only			? PORT_IPV6
									: PORT_IPV4 | PORT_IPV6;
	}
	id->bind.af_only = r->af_only || id->bind.families == PORT_IPV4;
	err = svc_bind(id);
	if (err < 0)
		return err;
	id->ifindex = local.ifindex;
	id->path.src = r->addr;
	id->path.scope = r->scope;
	id->path.src_port = id->bind.port;
	return 0;
}

static int bind_id(struct cm_client *client, const void *req, void *reply)
{
	const struct broker_cm_bind *r = req;
	struct broker_cm_bind *ret = reply;
	struct svc_id *id = own_id(client, r->id);
	int err;

	if (!id)
		return -ENOENT;
	if (id->bound || id->used)
		return -EINVAL;
	err = svc_may_bind(client, r->port);
	if (err < 0)
		return err;
	err = bind_addr(id, r);
	if (err < 0)
		return err;
	*ret = *r;
	ret->port = id->bind.port;
	return 0;
}

static int listen_id(struct cm_client *client, const void *req, void *reply)
{
	const struct broker_cm_listen *r = req;
	struct svc_id *id = own_id(client, r->id);

	(void)reply;
	if (!id)
		return -ENOENT;
	if (!id->bound || (id->used && !id->bind.listening))
		return -EINVAL;
	return svc_listen(id, r->backlog, r->tcp_port, r->tcp_only);
}

static int migrate_id(struct cm_client *client, const void *req, void *reply)
{
	const struct broker_cm_migrate *r = req;
	struct svc_id *id = own_id(client, r->id);
	struct cm_channel *to = client_channel(client, r->channel);

	(void)reply;
	if (!id || !to)
		return -ENOENT;
	id->user = r->user;
	if (id->channel && id->channel != to) {
		svc_requests_settle(id);
		list_for_each(request, &id->requests, struct svc_id, request) {
			request->channel = request->request_channel = to;
			request->request_placed = false; /* until it is in the other pipe */
		}
		cm_channel_move(id->channel, id->handle, to);
		svc_flush_later(client->svc, id->channel);
		svc_flush_later(client->svc, to);
	}
	id->channel = to;
	return 0;
}

static int watch(struct cm_client *client, const void *req, void *reply)
{
	struct cm_channel *c = client_channel(client, ((const struct broker_cm_id *)req)->id);

	(void)reply;
	if (!c)
		return -ENOENT;
	client->watch = c;
	return 0;
}

static int close_channel(struct cm_client *client, const void *req, void *reply)
{
	struct cm_channel *c = client_channel(client, ((const struct broker_cm_id *)req)->id);

	(void)reply;
	if (!c)
		return -ENOENT;
	client_channel_close(client, c);
	return 0;
}

static int post_event(struct cm_client *client, const void *req, void *reply)
{
	const struct broker_cm_post *r = req;
	struct svc_id *id = own_id(client, r->id);
	struct broker_cm_event ev = {.type = r->type, .status = r->status, .token = r->token};
	struct flow way = {.sgid = r->src, .dgid = r->dst, .scope = r->scope};
	int rc;

	(void)reply;
	if (!id)
		return -ENOENT;
	if (r->type != BROKER_CM_EV_ADDR_RESOLVED && r->type != BROKER_CM_EV_ROUTE_RESOLVED &&
	    r->type != BROKER_CM_EV_MULTICAST_JOIN && r->type != BROKER_CM_EV_OWN)
		return -EINVAL;
	if (r->type == BROKER_CM_EV_ADDR_RESOLVED) {
		id->brief = r->brief;
		if (id->brief && cm_absent(client->svc->cm, &r->dst, client->svc->now))
			return -EHOSTUNREACH;
	}
	if (id->channel && (id->channel->queued >= CLIENT_MAX_POSTED / client->channel_count ||
			    !cm_quota_left(client->user, CM_QUOTA_EVENTS, 0)))
		return -ENOBUFS;
	ev.id = id->handle;
	ev.user = id->user;
	ev.param = id->path;
	if (r->type != BROKER_CM_EV_ADDR_RESOLVED || is_any(&r->dst)) {
		rc = svc_post(id, &ev);
		/* Nobody reads what this one is told: that is not the end of the broker. */
		return rc == -EPIPE && r->type == BROKER_CM_EV_OWN ? -EIO : rc;
	}
	if (r->at_once && !r->status && svc_reachable(client->svc, &way))
		return -EALREADY;
	svc_resolve(id, &ev, &way, min_of(r->timeout_ms, RESOLVE_MAX_MS));
	return 0;
}

/* ---- connections -------------------------------------------------------------------------- */

static bool param_valid(const struct broker_cm_param *p, size_t private_max)
{
	return p->private_len <= private_max && p->ece_vendor <= 0xffffff && p->qpn <= QPN_MASK &&
	       p->starting_psn <= PSN_MASK;
}

static struct cm_req req_of(const struct svc_id *id, const struct broker_cm_param *p,
			    uint64_t ca_guid)
{
	struct cm_req req = {
		.service_id = CM_SERVICE_ID(id->ps, p->dst_port),
		.local_ca_guid = ca_guid,
		.local_qpn = p->qpn,
		.starting_psn = p->starting_psn,
		.initiator_depth = p->initiator_depth,
		.end_to_end_flow_control = p->flow_control,
		.pkey = PKEY_DEFAULT,
		.path_mtu = p->path_mtu,
		.ece = {p->ece_vendor, p->ece_options},
		.primary = {.local_lid = 0xffff,
			    .remote_lid = 0xffff,
			    .local_gid = p->src,
			    .remote_gid = p->dst,
			    .flow_label = p->flow_label,
			    /* Not ECN: Linux's rxe would take it for its own. */
			    .traffic_class = p->tos & (uint8_t)~FLOW_ECN_MASK,
			    .hop_limit = CM_HOP_LIMIT,
			    .local_ack_timeout = p->local_ack_timeout},
	};

	if (id->xrc) { /* and nothing that would be about a responder of ours, which there is none
			*/
		req.transport_service = CM_TRANSPORT_EXTENDED;
		req.extended_transport_type = CM_EXTENDED_XRC;
		return req;
	}
	req.responder_resources = p->responder_resources;
	req.retry_count = min_of(p->retry_count, 7);
	req.rnr_retry_count = min_of(p->rnr_retry_count, 7);
	req.srq = p->srq;
	return req;
}

/* The path's source: as bound, or for a wildcard as the request says. */
static int take_source(struct svc_id *id, const struct broker_cm_param *p,
		       struct cm_local_addr *ret)
{
	struct cm_service *svc = id->client->svc;
	struct broker_cm_bind any_port = {.addr = p->src, .scope = p->scope};

	if (is_any(&p->src) || is_any(&p->dst) || gid_is_ipv4(&p->src) != gid_is_ipv4(&p->dst))
		return -EINVAL;
	if (!svc->ops.local_addr(svc->ctx, &p->src, p->scope, ret))
		return -EADDRNOTAVAIL;
	if (!id->bound)
		return bind_addr(id, &any_port);
	return port_bind_covers(&id->bind, &p->src, p->scope) ? 0 : -EINVAL;
}

static int ask_to_connect(struct svc_id *id, const struct broker_cm_param *p,
			  const struct flow *flow, uint64_t ca_guid, const uint8_t *private_data)
{
	struct cm_req req = req_of(id, p, ca_guid);

	if (id->brief)
		cm_id_brief(id->cm);
	return cm_req_send(id->cm, flow, &req, private_data, CM_REQ_PRIVATE, id->client->svc->now);
}

static int connect_id(struct cm_client *client, const void *req, void *reply)
{
	const struct broker_cm_connect *r = req;
	struct svc_id *id = own_id(client, r->id);
	uint8_t private_data[CM_SIDR_REQ_PRIVATE] = {0};
	struct broker_cm_param p = r->param;
	struct cm_local_addr local;
	struct cm_ip_hdr ip;
	struct flow flow;
	int err;

	(void)reply;
	if (!id)
		return -ENOENT;
	if (id->used || !param_valid(&p, id->datagrams ? CM_SIDR_REQ_PRIVATE - CM_IP_HDR_LEN
						       : CM_REQ_PRIVATE - CM_IP_HDR_LEN))
		return -EINVAL;
	if (!id->datagrams && (p.path_mtu < 1 || p.path_mtu > 5 || p.local_ack_timeout > 31))
		return -EINVAL;
	err = take_source(id, &p, &local);
	if (err < 0)
		return err;
	p.src_port = id->bind.port;
	p.flow_label = (31u * p.src_port + p.dst_port) & 0xfffff;
	if (!p.local_ack_timeout)
		p.local_ack_timeout = CM_DEFAULT_ACK_TIMEOUT;

	ip = (struct cm_ip_hdr){.ip_version = gid_is_ipv4(&p.src) ? 4 : 6,
				.port = p.src_port,
				.src = p.src,
				.dst = p.dst};
	cm_ip_hdr_encode(&ip, private_data);
	memcpy(private_data + CM_IP_HDR_LEN, p.private_data, p.private_len);
	flow = (struct flow){.sgid = p.src, .dgid = p.dst, .tos = p.tos, .scope = p.scope};
	if (!id->datagrams)
		flow.tos &= (uint8_t)~FLOW_ECN_MASK; /* who answers to marks is the queue pair */
	err = id->datagrams ? svc_sidr_ask(id, &p, &flow, private_data)
			    : ask_to_connect(id, &p, &flow, local.ca_guid, private_data);
	if (err < 0)
		return err;
	id->used = true;
	id->ifindex = local.ifindex;
	id->path = p;
	id->path.qpn = id->path.qkey = id->path.starting_psn = id->path.private_len = 0;
	memset(id->path.private_data, 0, sizeof(id->path.private_data));
	return 0;
}

static int accept_id(struct cm_client *client, const void *req, void *reply)
{
	const struct broker_cm_connect *r = req;
	const struct broker_cm_param *p = &r->param;
	struct cm_service *svc = client->svc;
	struct svc_id *id = own_id(client, r->id);
	struct cm_local_addr local = {0};
	struct cm_rep rep;
	int err;

	(void)reply;
	if (!id)
		return -ENOENT;
	if (!param_valid(p, id->datagrams ? CM_SIDR_REP_PRIVATE : CM_REP_PRIVATE))
		return -EINVAL;
	if (id->datagrams) {
		err = svc_sidr_accept(id, p);
		if (err == 0)
			id->user = r->user;
		return err;
	}
	/* The address may have gone since: its GUID is not worth a refusal. */
	(void)svc->ops.local_addr(svc->ctx, &id->path.src, id->path.scope, &local);
	rep = (struct cm_rep){
		.local_qpn = p->qpn,
		.starting_psn = p->starting_psn,
		.responder_resources = p->responder_resources,
		.initiator_depth = p->initiator_depth,
		.target_ack_delay = CM_TARGET_ACK_DELAY,
		.end_to_end_flow_control = p->flow_control,
		.rnr_retry_count = min_of(p->rnr_retry_count, 7),
		.srq = p->srq,
		.local_ca_guid = local.ca_guid,
		.ece = {p->ece_vendor, p->ece_options},
	};
	if (id->xrc) { /* the mirror image of its REQ */
		rep.initiator_depth = 0;
		rep.end_to_end_flow_control = false;
		rep.srq = true;
	}
	err = cm_rep_send(id->cm, &rep, p->private_data, p->private_len, svc->now);
	if (err < 0)
		return err;
	id->user = r->user;
	return 0;
}

static int establish_id(struct cm_client *client, const void *req, void *reply)
{
	struct svc_id *id = own_id(client, ((const struct broker_cm_id *)req)->id);
	uint64_t now = client->svc->now;

	(void)reply;
	if (!id)
		return -ENOENT;
	if (cm_rtu(id->cm, now) == 0) {
		id->up = true;
		return 0;
	}
	return cm_established(id->cm, now);
}

static int reject_id(struct cm_client *client, const void *req, void *reply)
{
	const struct broker_cm_reject *r = req;
	struct svc_id *id = own_id(client, r->id);

	(void)reply;
	if (!id)
		return -ENOENT;
	if (id->datagrams)
		return svc_sidr_reject(id, r);
	if (r->reason > UINT16_MAX || r->private_len > CM_REJ_PRIVATE)
		return -EINVAL;
	return cm_reject(id->cm, (uint16_t)r->reason, NULL, 0, r->private_data, r->private_len,
			 client->svc->now);
}

static int disconnect_id(struct cm_client *client, const void *req, void *reply)
{
	struct svc_id *id = own_id(client, ((const struct broker_cm_id *)req)->id);
	uint64_t now = client->svc->now;

	(void)reply;
	if (!id)
		return -ENOENT;
	if (!id->used || id->bind.listening)
		return -EINVAL;
	/* Where there is nothing to say (any more), that is no error of the caller's: both sides
	 * may have disconnected at once. */
	if (cm_dreq(id->cm, now) < 0 && cm_drep(id->cm, now) < 0)
		log_debug("cm", "connection %#x: nothing to disconnect", id->handle);
	return 0;
}

/* ---- dispatch ----------------------------------------------------------------------------- */

struct request {
	size_t len;
	size_t reply_len; /* when it succeeds; an error is a struct broker_msg */
	int (*serve)(struct cm_client *, const void *req, void *reply);
};

#define R(type, req, reply, fn) \
	[BROKER_CM_##type - BROKER_CM_FIRST] = {sizeof(struct req), sizeof(struct reply), fn}
static const struct request requests[] = {
	R(CREATE_ID, broker_cm_create_id, broker_cm_create_id, create_id),
	R(DESTROY_ID, broker_cm_id, broker_msg, destroy_id),
	R(BIND, broker_cm_bind, broker_cm_bind, bind_id),
	R(LISTEN, broker_cm_listen, broker_msg, listen_id),
	R(CONNECT, broker_cm_connect, broker_msg, connect_id),
	R(ACCEPT, broker_cm_connect, broker_msg, accept_id),
	R(ESTABLISH, broker_cm_id, broker_msg, establish_id),
	R(REJECT, broker_cm_reject, broker_msg, reject_id),
	R(DISCONNECT, broker_cm_id, broker_msg, disconnect_id),
	R(CLOSE_CHANNEL, broker_cm_id, broker_msg, close_channel),
	R(MIGRATE, broker_cm_migrate, broker_msg, migrate_id),
	R(POST, broker_cm_post, broker_msg, post_event),
	R(WATCH, broker_cm_id, broker_msg, watch),
	R(RESUME, broker_cm_resume, broker_msg, svc_resume),
};
#undef R

/* Is it for an id whose device is gone? Such ids can only be destroyed, as the kernel's. */
static bool of_removed(struct cm_client *client, const void *req)
{
	const struct broker_cm_id *r = req; /* all that name an id begin so */
	const struct svc_id *id;

	switch (r->msg.type) {
	case BROKER_CM_CREATE_ID:
	case BROKER_CM_DESTROY_ID:
	case BROKER_CM_CLOSE_CHANNEL:
	case BROKER_CM_WATCH:
	case BROKER_CM_RESUME:
		return false;
	default:
		id = own_id(client, r->id);
		return id && id->removed;
	}
}

static int serve(struct cm_client *client, const void *req, size_t len, void *reply,
		 size_t *reply_len)
{
	const struct broker_msg *msg = req;
	const struct request *r;
	int err;

	*reply_len = sizeof(struct broker_msg);
	if (len < sizeof(*msg) || msg->type < BROKER_CM_FIRST ||
	    msg->type - BROKER_CM_FIRST >= ARRAY_SIZE(requests))
		return -EOPNOTSUPP;
	r = &requests[msg->type - BROKER_CM_FIRST];
	if (len != r->len)
		return -EINVAL;
	if (of_removed(client, req))
		return -EIO;
	err = r->serve(client, req, reply);
	if (err == 0)
		*reply_len = r->reply_len;
	return err;
}

/* What the request has left of the id that it names, for the end of the reply. */
static struct broker_cm_saved saved_after(struct cm_client *client, const void *req,
					  const void *reply)
{
	const struct broker_cm_id *r = req, *ret = reply;
	struct broker_cm_saved saved = {0};
	struct svc_id *id = NULL;

	switch (r->msg.type) {
	case BROKER_CM_CLOSE_CHANNEL:
	case BROKER_CM_WATCH:
	case BROKER_CM_RESUME:
		break;
	case BROKER_CM_CREATE_ID:
		id = own_id(client, ret->id);
		break;
	default:
		saved.id = r->id;
		id = own_id(client, r->id);
	}
	if (id)
		svc_save(id, &saved);
	return saved;
}

size_t cm_client_request(struct cm_client *client, const void *req, size_t len, void *reply,
			 uint64_t now)
{
	struct cm_service *svc = client->svc;
	struct broker_msg *msg = reply;
	struct broker_cm_saved saved;
	size_t reply_len;
	int err;

	_Static_assert(sizeof(struct broker_cm_create_id) + sizeof(saved) <= BROKER_CM_REPLY_MAX &&
			       sizeof(struct broker_cm_bind) + sizeof(saved) <= BROKER_CM_REPLY_MAX,
		       "a reply has room");
	svc->now = now;
	memset(reply, 0, sizeof(struct broker_msg));
	err = serve(client, req, len, reply, &reply_len);
	msg->type = len >= sizeof(*msg) ? ((const struct broker_msg *)req)->type : 0;
	msg->error = err;
	svc_flush_client(client);
	svc_send_all(svc);
	if (err)
		return reply_len;
	saved = saved_after(client, req, reply);
	memcpy((char *)reply + reply_len, &saved, sizeof(saved));
	return reply_len + sizeof(saved);
}
