/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the compiler offers and plain C lacks: must_use, container_of, ARRAY_SIZE, powers of two. */
#ifndef WEFT_BASE_COMPILER_H
#define WEFT_BASE_COMPILER_H

#include <stddef.h>
#include <stdint.h>

#define must_use	  __attribute__((warn_unused_result))
#define printf_like(f, a) __attribute__((format(printf, f, a)))

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define ARRAY_SIZE(a)			(sizeof(a) / sizeof((a)[0]))

#define min_of(a, b)                    \
	({                              \
		__typeof__(a) _a = (a); \
		__typeof__(b) _b = (b); \
		_a < _b ? _a : _b;      \
	})
#define max_of(a, b)                    \
	({                              \
		__typeof__(a) _a = (a); \
		__typeof__(b) _b = (b); \
		_a > _b ? _a : _b;      \
	})

/* At most 2^31; of 0 it is 1. */
static inline uint32_t round_up_pow2(uint32_t n)
{
	return n <= 1 ? 1 : 1u << (32 - __builtin_clz(n - 1));
}

#endif
