/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The commands that pages.def makes. */
#include "cli/page.h"

#define PAGE(id, ...) int cmd_##id(int argc, char **argv);
#include "cli/pages.def"

#define PAGE(id, name, target, takes, doc)                                           \
	int cmd_##id(int argc, char **argv)                                          \
	{                                                                            \
		static const struct page_verb verb = {name,  doc,	 target,     \
						      takes, fetch_##id, show_##id}; \
                                                                                     \
		return page_run(&verb, argc, argv);                                  \
	}
#include "cli/pages.def"
