/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "port/hop/known.h"

#include <string.h>

#include "base/bytes.h"

static struct known *set_of(void *v, size_t size, const struct flow *f)
{
	uint64_t h = ld_le64(f->dgid.raw) ^ ld_le64(f->dgid.raw + 8) ^
		     (ld_le64(f->sgid.raw) + ld_le64(f->sgid.raw + 8)) * 31;

	_Static_assert(KNOWN_SETS == 256, "by eight bits");
	return (void *)((char *)v + size * KNOWN_WAYS * (h * 0x9e3779b97f4a7c15u >> 56));
}

static struct known *nth(struct known *set, size_t size, size_t i)
{
	return (void *)((char *)set + size * i);
}

static bool is_about(const struct known *k, const struct flow *f)
{
	return k->until && k->scope == f->scope && gid_equal(&k->dgid, &f->dgid) &&
	       gid_equal(&k->sgid, &f->sgid);
}

struct known *known_find(void *v, size_t size, const struct flow *f, uint64_t now)
{
	struct known *set = set_of(v, size, f);

	for (size_t i = 0; i < KNOWN_WAYS; i++) {
		struct known *k = nth(set, size, i);

		if (is_about(k, f) && now < k->until)
			return k;
	}
	return NULL;
}

struct known *known_begin(void *v, size_t size, const struct flow *f)
{
	struct known *set = set_of(v, size, f), *ret = set;

	for (size_t i = 0; i < KNOWN_WAYS; i++) {
		struct known *k = nth(set, size, i);

		if (is_about(k, f)) {
			ret = k;
			break;
		}
		if (k->until < ret->until)
			ret = k;
	}
	memset(ret, 0, size);
	ret->sgid = f->sgid;
	ret->dgid = f->dgid;
	ret->scope = f->scope;
	return ret;
}

void known_end(struct known *k, uint64_t now)
{
	k->until = now + (k->there ? KNOWN_KEEP_NS : KNOWN_RETRY_NS);
}
