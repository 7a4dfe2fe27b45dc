/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "port/xdp/xsk.h"

#include <errno.h>
#include <linux/if_xdp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/kernel_socket.h"
#include "base/units.h"
#include "port/xdp/frame.h"

#define FRAME_LEN_MIN 2048
#define FRAME_LEN_MAX 4096 /* a page: no kernel takes more without huge pages */
#define RX_HEADROOM   256  /* XDP_PACKET_HEADROOM */
#define FRAMES	      (XSK_RX_FRAMES + XSK_TX_FRAMES)

_Static_assert(XSK_MTU_MAX == FRAME_LEN_MAX - RX_HEADROOM - FRAME_ETH_LEN, "what fits");
#define SNDBUF_BYTES  (8 << 20)
#define BIND_TRIES    200
#define BIND_PAUSE_NS (5 * NSEC_PER_MSEC)

static uint32_t frame_len_for(uint32_t mtu)
{
	uint32_t need = mtu + FRAME_ETH_LEN + RX_HEADROOM;

	return need <= FRAME_LEN_MIN ? FRAME_LEN_MIN : need <= FRAME_LEN_MAX ? FRAME_LEN_MAX : 0;
}

uint32_t xsk_longest(uint32_t mtu)
{
	uint32_t len = frame_len_for(mtu);

	return len ? len - RX_HEADROOM : 0;
}

/* ---- rings ----------------------------------------------------------------------------------- */

static uint32_t theirs(const uint32_t *index)
{
	return __atomic_load_n(index, __ATOMIC_ACQUIRE);
}

static void publish(uint32_t *index, uint32_t at)
{
	__atomic_store_n(index, at, __ATOMIC_RELEASE);
}

static uint64_t *address_at(const struct xsk_ring *r, uint32_t at)
{
	return (uint64_t *)r->entries + (at & (r->size - 1));
}

static struct xdp_desc *desc_at(const struct xsk_ring *r, uint32_t at)
{
	return (struct xdp_desc *)r->entries + (at & (r->size - 1));
}

static int map_ring(int fd, struct xsk_ring *r, const struct xdp_ring_offset *o, uint32_t size,
		    size_t entry_len, uint64_t offset)
{
	size_t len = o->desc + size * entry_len;
	uint8_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
			  (off_t)offset);

	if (p == MAP_FAILED)
		return -errno;
	(void)madvise(p, len, MADV_DONTFORK);
	*r = (struct xsk_ring){
		.producer = (uint32_t *)(void *)(p + o->producer),
		.consumer = (uint32_t *)(void *)(p + o->consumer),
		.flags = (uint32_t *)(void *)(p + o->flags),
		.entries = p + o->desc,
		.size = size,
		.map = p,
		.map_len = len,
	};
	return 0;
}

static int set(int fd, int name, uint32_t v)
{
	return setsockopt(fd, SOL_XDP, name, &v, sizeof(v)) < 0 ? -errno : 0;
}

static int make_rings(struct xsk *x)
{
	struct xdp_mmap_offsets o;
	socklen_t len = sizeof(o);
	int rc = set(x->fd, XDP_UMEM_FILL_RING, XSK_RX_FRAMES);

	if (rc == 0)
		rc = set(x->fd, XDP_RX_RING, XSK_RX_FRAMES);
	if (rc == 0)
		rc = set(x->fd, XDP_UMEM_COMPLETION_RING, XSK_TX_FRAMES);
	if (rc == 0)
		rc = set(x->fd, XDP_TX_RING, XSK_TX_FRAMES);
	if (rc == 0 && getsockopt(x->fd, SOL_XDP, XDP_MMAP_OFFSETS, &o, &len) < 0)
		rc = -errno;
	if (rc == 0 && len != sizeof(o))
		rc = -EOPNOTSUPP; /* before Linux 5.4: rings without flags */
	if (rc == 0)
		rc = map_ring(x->fd, &x->fill, &o.fr, XSK_RX_FRAMES, sizeof(uint64_t),
			      XDP_UMEM_PGOFF_FILL_RING);
	if (rc == 0)
		rc = map_ring(x->fd, &x->rx, &o.rx, XSK_RX_FRAMES, sizeof(struct xdp_desc),
			      XDP_PGOFF_RX_RING);
	if (rc == 0)
		rc = map_ring(x->fd, &x->done, &o.cr, XSK_TX_FRAMES, sizeof(uint64_t),
			      XDP_UMEM_PGOFF_COMPLETION_RING);
	if (rc == 0)
		rc = map_ring(x->fd, &x->tx, &o.tx, XSK_TX_FRAMES, sizeof(struct xdp_desc),
			      XDP_PGOFF_TX_RING);
	return rc;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int register_frames(struct xsk *x, uint32_t mtu)
{
	struct xdp_umem_reg reg;
	void *p;

	x->frame_len = frame_len_for(mtu);
	if (!x->frame_len)
		return -EMSGSIZE;
	x->frames_len = (size_t)x->frame_len * FRAMES;
	p = mmap(NULL, x->frames_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return -errno;
	x->frames = p;
	(void)madvise(p, x->frames_len, MADV_DONTFORK);
	reg = (struct xdp_umem_reg){
		.addr = (uintptr_t)p, .len = x->frames_len, .chunk_size = x->frame_len};
	return setsockopt(x->fd, SOL_XDP, XDP_UMEM_REG, &reg, sizeof(reg)) < 0 ? -errno : 0;
}

static void hand_out_frames(struct xsk *x)
{
	for (uint32_t i = 0; i < XSK_RX_FRAMES; i++)
		*address_at(&x->fill, x->fill.at++) = (uint64_t)i * x->frame_len;
	publish(x->fill.producer, x->fill.at);
	for (uint32_t i = 0; i < XSK_TX_FRAMES; i++)
		x->free[x->nfree++] = (uint64_t)(XSK_RX_FRAMES + i) * x->frame_len;
}

static void grow_buffer(int fd)
{
	int bytes = SNDBUF_BYTES;

	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) < 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

/* Of a socket that was closed the kernel gives the queue back a little later. */
static int bind_patiently(int fd, const struct sockaddr_xdp *at)
{
	for (int tries = BIND_TRIES;; tries--) {
		if (bind(fd, (const struct sockaddr *)at, sizeof(*at)) == 0)
			return 0;
		if (errno != EBUSY || !tries)
			return -errno;
		nanosleep(&(struct timespec){.tv_nsec = BIND_PAUSE_NS}, NULL);
	}
}

int xsk_open(struct xsk *x, uint32_t ifindex, uint32_t queue, uint32_t mtu, const char **ret_what)
{
	struct sockaddr_xdp at = {.sxdp_family = AF_XDP,
				  .sxdp_flags = XDP_USE_NEED_WAKEUP,
				  .sxdp_ifindex = ifindex,
				  .sxdp_queue_id = queue};
	struct xdp_options options = {0};
	socklen_t len = sizeof(options);
	int rc;

	*x = (struct xsk){.fd = -1};
	*ret_what = "an XDP socket";
	x->fd = kernel_socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (x->fd < 0)
		return -errno;
	*ret_what = "locked memory for its frames";
	rc = register_frames(x, mtu);
	if (rc)
		goto fail;
	*ret_what = "its rings";
	rc = make_rings(x);
	if (rc)
		goto fail;
	hand_out_frames(x);
	*ret_what = "the queue of the interface";
	rc = bind_patiently(x->fd, &at);
	if (rc)
		goto fail;
	grow_buffer(x->fd);
	if (getsockopt(x->fd, SOL_XDP, XDP_OPTIONS, &options, &len) == 0)
		x->zero_copy = options.flags & XDP_OPTIONS_ZEROCOPY;
	return 0;
fail:
	xsk_close(x);
	return rc;
}

static void unmap(struct xsk_ring *r)
{
	if (r->map)
		munmap(r->map, r->map_len);
	*r = (struct xsk_ring){0};
}

void xsk_close(struct xsk *x)
{
	unmap(&x->fill);
	unmap(&x->rx);
	unmap(&x->tx);
	unmap(&x->done);
	if (x->fd >= 0)
		close(x->fd);
	x->fd = -1;
	if (x->frames)
		munmap(x->frames, x->frames_len);
	x->frames = NULL;
}

void xsk_forked(struct xsk *x)
{
	if (x->fd >= 0)
		close(x->fd);
	*x = (struct xsk){.fd = -1};
}

int xsk_error(const struct xsk *x)
{
	socklen_t len = sizeof(int);
	int error = 0;

	return getsockopt(x->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 ? -errno : -error;
}

/* ---- receiving ------------------------------------------------------------------------------- */

const uint8_t *xsk_rx(struct xsk *x, size_t *ret_len)
{
	const struct xdp_desc *d;

	if (x->rx.at == theirs(x->rx.producer))
		return NULL;
	d = desc_at(&x->rx, x->rx.at++);
	*ret_len = d->len;
	return x->frames + d->addr;
}

void xsk_rx_give_back(struct xsk *x, const uint8_t *frame)
{
	uint64_t address = (uint64_t)(frame - x->frames);

	*address_at(&x->fill, x->fill.at++) = address & ~(uint64_t)(x->frame_len - 1);
}

void xsk_rx_publish(struct xsk *x)
{
	publish(x->rx.consumer, x->rx.at);
	publish(x->fill.producer, x->fill.at);
	/* Of a driver that has stopped for want of frames, and does not look by itself. */
	if (__atomic_load_n(x->fill.flags, __ATOMIC_RELAXED) & XDP_RING_NEED_WAKEUP)
		(void)syscall(SYS_recvfrom, x->fd, NULL, 0, MSG_DONTWAIT, NULL, NULL);
}

/* ---- sending --------------------------------------------------------------------------------- */

static void collect_sent(struct xsk *x)
{
	uint32_t end = theirs(x->done.producer);

	if (x->done.at == end)
		return;
	while (x->done.at != end)
		x->free[x->nfree++] = *address_at(&x->done, x->done.at++);
	publish(x->done.consumer, x->done.at);
}

uint8_t *xsk_tx(struct xsk *x)
{
	if (!x->nfree)
		collect_sent(x);
	return x->nfree ? x->frames + x->free[x->nfree - 1] : NULL;
}

void xsk_tx_put(struct xsk *x, const uint8_t *frame, size_t len)
{
	x->nfree--;
	*desc_at(&x->tx, x->tx.at++) =
		(struct xdp_desc){.addr = (uint64_t)(frame - x->frames), .len = (uint32_t)len};
}

bool xsk_tx_pending(const struct xsk *x)
{
	return x->tx.at != theirs(x->tx.consumer);
}

int xsk_tx_kick(struct xsk *x)
{
	int rc = 0;

	publish(x->tx.producer, x->tx.at);
	if (!(__atomic_load_n(x->tx.flags, __ATOMIC_RELAXED) & XDP_RING_NEED_WAKEUP))
		return 0;
	/* Each call sends some 32 frames; one that sends none has found no room. */
	for (uint32_t left = x->tx.size + 1; rc == 0 && xsk_tx_pending(x);) {
		uint32_t now = x->tx.at - theirs(x->tx.consumer);

		if (now >= left)
			return -EAGAIN;
		left = now;
		if (syscall(SYS_sendto, x->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 &&
		    errno != EAGAIN && errno != EINTR)
			rc = -errno;
	}
	return rc;
}
