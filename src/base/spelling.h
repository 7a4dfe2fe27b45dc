/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* How near a word is to one that may have been meant. */
#ifndef WEFT_BASE_SPELLING_H
#define WEFT_BASE_SPELLING_H

#include <stddef.h>
#include <string.h>

#include "base/compiler.h"

#define SPELLING_MAX 40 /* letters of a word that is compared */

/* How many letters to change, add, leave out or swap with the next to make b of a; both are at most
 * SPELLING_MAX long. */
static inline size_t spelling_distance(const char *a, const char *b)
{
	const size_t m = strlen(a), n = strlen(b);
	size_t rows[3][SPELLING_MAX + 1]; /* of the letter of a, and of the two before */

	for (size_t j = 0; j <= n; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= m; i++) {
		size_t *row = rows[i % 3];
		const size_t *last = rows[(i - 1) % 3], *before = rows[(i + 1) % 3];

		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			size_t change = last[j - 1] + (a[i - 1] != b[j - 1]);
			size_t add = min_of(last[j], row[j - 1]) + 1;

			row[j] = min_of(change, add);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = min_of(row[j], before[j - 2] + 1);
		}
	}
	return rows[m % 3][n];
}

#endif
