/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Text of others within HTML, and within the SVG in it. */
#ifndef WEFT_CLI_HTML_H
#define WEFT_CLI_HTML_H

#include <stdio.h>

/* In an element or a quoted attribute. What is no UTF-8, or moves a cursor, is shown as U+FFFD. */
void html_put(FILE *f, const char *text);

#endif
