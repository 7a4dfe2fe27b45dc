/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Scatter lists: the walk from a message's byte offset to memory. */
#include "rnic/core.h"

int sge_gather(struct rnic_pd *pd, const struct rnic_sge *sge, uint32_t num_sge, uint32_t off,
	       uint32_t len, uint32_t need, struct iovec iov[RNIC_MAX_SGE], uint8_t *ret_niov)
{
	uint8_t n = 0;

	/* Most have one. */
	if (num_sge == 1 && len) {
		uint8_t *p;

		assert(off < sge->length && len <= sge->length - off);
		p = mem_local(pd, sge->lkey, sge->addr + off, len, need);
		iov[0] = (struct iovec){p, len};
		*ret_niov = 1;
		return p ? 0 : -EFAULT;
	}
	for (uint32_t i = 0; len; i++) {
		uint32_t part;
		uint8_t *p;

		assert(i < num_sge);
		if (off >= sge[i].length) {
			off -= sge[i].length;
			continue;
		}
		part = min_of(sge[i].length - off, len);
		p = mem_local(pd, sge[i].lkey, sge[i].addr + off, part, need);
		if (!p)
			return -EFAULT;
		iov[n++] = (struct iovec){p, part};
		len -= part;
		off = 0;
	}
	*ret_niov = n;
	return 0;
}

int sge_scatter(struct rnic_pd *pd, const struct rnic_sge *sge, uint32_t num_sge, uint32_t off,
		const uint8_t *data, uint32_t len)
{
	struct iovec iov[RNIC_MAX_SGE];
	uint8_t n;
	int rc = sge_gather(pd, sge, num_sge, off, len, RNIC_ACCESS_LOCAL_WRITE, iov, &n);

	for (uint8_t i = 0; !rc && i < n; i++) {
		memcpy(iov[i].iov_base, data, iov[i].iov_len);
		data += iov[i].iov_len;
	}
	return rc;
}

bool sge_allowed(const struct rnic_qp *qp, const struct rnic_sge *sge, uint32_t num_sge,
		 uint32_t need)
{
	for (uint32_t i = 0; i < num_sge; i++)
		if (sge[i].length &&
		    !mem_allowed(qp->pd, sge[i].lkey, sge[i].addr, sge[i].length, need))
			return false;
	return true;
}
