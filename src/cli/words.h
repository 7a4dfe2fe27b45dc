/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A line as words, as a shell has them: apart by blanks, kept together by quotes or a backslash;
 * what stands behind a # that begins a word is nothing. */
#ifndef WEFT_CLI_WORDS_H
#define WEFT_CLI_WORDS_H

#include <stddef.h>

#include "base/compiler.h"

/* In place: the words are within line, which is changed. At most max; returns how many there are,
 * or -E2BIG, or -EINVAL: a quote has no end. */
int words_split(char *line, char **words, size_t max) must_use;

#endif
