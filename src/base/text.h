/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Text of others, as neither a terminal nor JSON stumbles over it: peers, and programs, may call
 * themselves anything. */
#ifndef WEFT_BASE_TEXT_H
#define WEFT_BASE_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* Puts '?' in the place of each byte that is a control character's, one's for the direction of text
 * or not of UTF-8. */
void text_tame(char *text);
/* A text of JSON, of which such bytes can stand in strings alone: as their escapes. */
void text_put_json(FILE *f, const char *text);
/* Cuts it to so many characters. */
void text_cut(char *text, int width);

#endif
