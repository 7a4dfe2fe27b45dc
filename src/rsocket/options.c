// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Socket options. What has no meaning here but is harmless is kept and shown again; what would
 * mislead is ENOTSUP, as with rdma-core.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "rsocket/stream.h"
#include "rsocket/svc.h"

enum { KEEPALIVE_DEFAULT_S = 7200 };

static void flag_set(uint64_t *flags, int name, int on)
{
	*flags = on ? *flags | 1ull << name : *flags & ~(1ull << name);
}

static bool flag_get(uint64_t flags, int name)
{
	return flags & 1ull << name;
}

/* ---- set ------------------------------------------------------------------------------------- */

static unsigned int keepalive_default(void)
{
	unsigned int s = KEEPALIVE_DEFAULT_S;
	FILE *f = fopen("/proc/sys/net/ipv4/tcp_keepalive_time", "re");

	if (f) {
		if (fscanf(f, "%u", &s) != 1 || !s)
			s = KEEPALIVE_DEFAULT_S;
		fclose(f);
	}
	return s;
}

/* With SO_KEEPALIVE and TCP_KEEPIDLE as they are now. */
static int keepalive(struct stream *s)
{
	if (!s->keepalive_s)
		s->keepalive_s = keepalive_default();
	svc_lock();
	if (atomic_load(&s->state) == STREAM_CONNECTED)
		svc_keepalive(s, flag_get(s->so_opts, SO_KEEPALIVE) ? s->keepalive_s : 0);
	svc_unlock();
	return 0;
}

static int id_option(struct stream *s, int option, int value)
{
	return rdma_set_option(s->id, RDMA_OPTION_ID, option, &value, sizeof(value)) ? -errno : 0;
}

static int set_timeout(int *ms, const void *val, socklen_t len)
{
	struct timeval tv;

	if (len < sizeof(tv))
		return -EINVAL;
	memcpy(&tv, val, sizeof(tv));
	if (tv.tv_usec < 0 || tv.tv_usec >= 1000000)
		return -EDOM;
	if (!tv.tv_sec && !tv.tv_usec) /* 0 means none */
		*ms = -1;
	else if (tv.tv_sec < 0) /* and this is over at once */
		*ms = 0;
	else if (tv.tv_sec > INT_MAX / 1000 - 1)
		*ms = -1;
	else
		*ms = (int)(tv.tv_sec * 1000 + (tv.tv_usec + 999) / 1000);
	return 0;
}

static int set_linger(struct stream *s, const void *val, socklen_t len)
{
	struct linger l;

	if (len < sizeof(l))
		return -EINVAL;
	memcpy(&l, val, sizeof(l));
	s->linger_s = l.l_onoff ? l.l_linger : -1;
	return 0;
}

/* Doubled, as Linux does with a TCP socket's. Of a connection that has its buffers, no more. */
static void set_buffer(const struct stream *s, uint32_t *size, int v)
{
	if (atomic_load(&s->state) < STREAM_CONNECTING)
		*size = clamp_u32((uint32_t)max_of(v, 0), RS_SNDLOWAT, 1u << 29) * 2;
}

static int set_socket(struct stream *s, int name, int v)
{
	int rc = 0;

	switch (name) {
	case SO_REUSEADDR:
		rc = id_option(s, RDMA_OPTION_ID_REUSEADDR, v);
		if (rc == -ENOSYS || (rc && atomic_load(&s->state) != STREAM_INIT))
			rc = 0; /* too late to matter */
		break;
	case SO_RCVBUF:
		set_buffer(s, &s->set.rbuf_size, v);
		return 0;
	case SO_SNDBUF:
		set_buffer(s, &s->set.sbuf_size, v);
		return 0;
	case SO_RCVLOWAT:
		s->rcv_low = v < 0 ? INT_MAX : v;
		return s->tcp ? 0 : -ENOTSUP;
	case SO_ZEROCOPY:
		s->zerocopy = v;
		return s->tcp ? 0 : -ENOTSUP;
	case SO_KEEPALIVE:
	case SO_OOBINLINE:
	case SO_REUSEPORT: /* a second listener is refused when it binds */
		break;
	default:
		return -ENOTSUP;
	}
	if (!rc)
		flag_set(&s->so_opts, name, v);
	return !rc && name == SO_KEEPALIVE ? keepalive(s) : rc;
}

static int set_tcp(struct stream *s, int name, int v)
{
	switch (name) {
	case TCP_NODELAY:
		flag_set(&s->tcp_opts, name, v);
		return 0;
	case TCP_KEEPIDLE:
		if (v <= 0)
			return -EINVAL;
		s->keepalive_s = (unsigned int)v;
		return keepalive(s);
	case TCP_KEEPCNT:
	case TCP_KEEPINTVL: /* the connection is a reliable one: it finds out itself */
	case TCP_MAXSEG:
	case TCP_CONGESTION:
		return 0;
	default:
		return -ENOTSUP;
	}
}

static int set_rdma(struct stream *s, int name, const void *val, socklen_t len, int v)
{
	const uint32_t size = (uint32_t)min_of((unsigned int)v, (unsigned int)RS_QP_SIZE_MAX);

	if (atomic_load(&s->state) >= STREAM_CONNECTING)
		return -EINVAL;
	switch (name) {
	case RDMA_SQSIZE:
		s->set.sq_size = size;
		return 0;
	case RDMA_RQSIZE:
		s->set.rq_size = size;
		return 0;
	case RDMA_INLINE:
		s->set.sq_inline = size;
		return 0;
	case RDMA_IOMAPSIZE:
		s->set.iomap_size = rs_iomap_size((unsigned int)v);
		return 0;
	case RDMA_ROUTE:
		free(s->route);
		s->route = malloc(len);
		if (!s->route)
			return -ENOMEM;
		memcpy(s->route, val, len);
		s->route_len = len;
		return 0;
	default:
		return -ENOTSUP;
	}
}

int stream_setsockopt(struct stream *s, int level, int name, const void *val, socklen_t len)
{
	int v = 0;

	if (!val)
		return -EFAULT;
	if (level == SOL_SOCKET && name == SO_LINGER)
		return set_linger(s, val, len);
	if (level == SOL_SOCKET && name == SO_RCVTIMEO)
		return set_timeout(&s->sock.rcv_timeout_ms, val, len);
	if (level == SOL_SOCKET && name == SO_SNDTIMEO)
		return set_timeout(&s->sock.snd_timeout_ms, val, len);
	if (level == IPPROTO_TCP && name == TCP_CONGESTION)
		return 0;
	if (len < sizeof(v))
		return -EINVAL;
	memcpy(&v, val, sizeof(v));
	switch (level) {
	case SOL_SOCKET:
		return set_socket(s, name, v);
	case IPPROTO_TCP:
		return set_tcp(s, name, v);
	case SOL_RDMA:
		return set_rdma(s, name, val, len, v);
	case IPPROTO_IP:
		if (name != IP_TOS)
			return -ENOTSUP;
		s->tos = v;
		return rdma_set_option(s->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS,
				       &(uint8_t){(uint8_t)v}, sizeof(uint8_t))
			       ? -errno
			       : 0;
	case IPPROTO_IPV6:
		if (name != IPV6_V6ONLY)
			return -ENOTSUP;
		flag_set(&s->ipv6_opts, name, v);
		return id_option(s, RDMA_OPTION_ID_AFONLY, v);
	default:
		return -ENOTSUP;
	}
}

/* ---- get ------------------------------------------------------------------------------------- */

static int give(void *val, socklen_t *len, const void *from, size_t n)
{
	memcpy(val, from, min_of((size_t)*len, n));
	*len = (socklen_t)min_of((size_t)*len, n);
	return 0;
}

static int give_int(void *val, socklen_t *len, int v)
{
	return give(val, len, &v, sizeof(v));
}

static int give_timeout(void *val, socklen_t *len, int ms)
{
	struct timeval tv = {0};

	if (ms >= 0)
		tv = (struct timeval){ms / 1000, ms % 1000 * 1000};
	return give(val, len, &tv, sizeof(tv));
}

static int get_socket(struct stream *s, int name, void *val, socklen_t *len)
{
	struct linger l = {.l_onoff = s->linger_s >= 0, .l_linger = max_of(s->linger_s, 0)};

	switch (name) {
	case SO_REUSEADDR:
	case SO_KEEPALIVE:
	case SO_OOBINLINE:
	case SO_REUSEPORT:
		return give_int(val, len, flag_get(s->so_opts, name));
	case SO_RCVBUF:
		return give_int(val, len, (int)s->set.rbuf_size);
	case SO_SNDBUF:
		return give_int(val, len, (int)s->set.sbuf_size);
	case SO_LINGER:
		return give(val, len, &l, sizeof(l));
	case SO_RCVTIMEO:
		return give_timeout(val, len, s->sock.rcv_timeout_ms);
	case SO_SNDTIMEO:
		return give_timeout(val, len, s->sock.snd_timeout_ms);
	case SO_ERROR:
		if (s->tcp && atomic_load(&s->state) >= STREAM_CONNECTED)
			stream_progress(s);
		return give_int(val, len, atomic_exchange(&s->err, 0));
	case SO_TYPE:
		return give_int(val, len, SOCK_STREAM);
	case SO_DOMAIN:
		return give_int(val, len, s->sock.domain);
	case SO_PROTOCOL:
		return give_int(val, len, IPPROTO_TCP);
	case SO_ACCEPTCONN:
		return give_int(val, len, atomic_load(&s->state) == STREAM_LISTENING);
	case SO_BROADCAST:
		return give_int(val, len, 0);
	default:
		return -ENOTSUP;
	}
}

static int maxseg(const struct stream *s)
{
	return s->id->route.num_paths ? 1 << (7 + s->id->route.path_rec->mtu) : 2048;
}

static int get_tcp(struct stream *s, int name, void *val, socklen_t *len)
{
	static const uint8_t tcp_state[] = {
		[STREAM_INIT] = TCP_CLOSE,	     [STREAM_BOUND] = TCP_CLOSE,
		[STREAM_LISTENING] = TCP_LISTEN,     [STREAM_CONNECTING] = TCP_SYN_SENT,
		[STREAM_CONNECT_FAILED] = TCP_CLOSE, [STREAM_CONNECTED] = TCP_ESTABLISHED,
		[STREAM_DISCONNECTED] = TCP_CLOSE,   [STREAM_FAILED] = TCP_CLOSE,
	};
	struct tcp_info info = {.tcpi_state = tcp_state[atomic_load(&s->state)],
				.tcpi_snd_cwnd = s->set.sq_size};

	switch (name) {
	case TCP_NODELAY:
		return give_int(val, len, flag_get(s->tcp_opts, name));
	case TCP_KEEPIDLE:
		return give_int(val, len,
				(int)(s->keepalive_s ? s->keepalive_s : keepalive_default()));
	case TCP_KEEPCNT:
	case TCP_KEEPINTVL:
		return give_int(val, len, 1);
	case TCP_MAXSEG:
		return give_int(val, len, maxseg(s));
	case TCP_CONGESTION:
		return give(val, len, "rdma", sizeof("rdma"));
	case TCP_INFO:
		return give(val, len, &info, sizeof(info));
	default:
		return -ENOTSUP;
	}
}

static void path_data(const struct ibv_sa_path_rec *from, struct ibv_path_data *to)
{
	enum { EXACTLY = 2 << 6 };

	memset(to, 0, sizeof(*to));
	to->path.dgid = from->dgid;
	to->path.sgid = from->sgid;
	to->path.dlid = from->dlid;
	to->path.slid = from->slid;
	to->path.flowlabel_hoplimit = htobe32(be32toh(from->flow_label) << 8 | from->hop_limit);
	to->path.tclass = from->traffic_class;
	to->path.reversible_numpath = (uint8_t)(from->reversible << 7 | 1);
	to->path.pkey = from->pkey;
	to->path.qosclass_sl = htobe16(from->sl);
	to->path.mtu = from->mtu | EXACTLY;
	to->path.rate = from->rate | EXACTLY;
	to->path.packetlifetime = from->packet_life_time | EXACTLY;
	to->flags = from->preference;
}

static int get_route(const struct stream *s, void *val, socklen_t *len)
{
	struct ibv_path_data path;

	if (s->route) {
		if (*len < s->route_len)
			return -EINVAL;
		return give(val, len, s->route, s->route_len);
	}
	if (*len < sizeof(path))
		return -EINVAL;
	if (!s->id->route.num_paths) {
		*len = 0;
		return 0;
	}
	path_data(s->id->route.path_rec, &path);
	return give(val, len, &path, sizeof(path));
}

static int get_rdma(const struct stream *s, int name, void *val, socklen_t *len)
{
	switch (name) {
	case RDMA_SQSIZE:
		return give_int(val, len, (int)s->set.sq_size);
	case RDMA_RQSIZE:
		return give_int(val, len, (int)s->set.rq_size);
	case RDMA_INLINE:
		return give_int(val, len, (int)s->set.sq_inline);
	case RDMA_IOMAPSIZE:
		return give_int(val, len, (int)s->set.iomap_size);
	case RDMA_ROUTE:
		return get_route(s, val, len);
	default:
		return -ENOTSUP;
	}
}

int stream_getsockopt(struct stream *s, int level, int name, void *val, socklen_t *len)
{
	if (!val || !len)
		return -EFAULT;
	switch (level) {
	case SOL_SOCKET:
		return get_socket(s, name, val, len);
	case IPPROTO_TCP:
		return get_tcp(s, name, val, len);
	case SOL_RDMA:
		return get_rdma(s, name, val, len);
	case IPPROTO_IP:
		return name == IP_TOS ? give_int(val, len, s->tos) : -ENOTSUP;
	case IPPROTO_IPV6:
		return name == IPV6_V6ONLY ? give_int(val, len, flag_get(s->ipv6_opts, IPV6_V6ONLY))
					   : -ENOTSUP;
	default:
		return -ENOTSUP;
	}
}
