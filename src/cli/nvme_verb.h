/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The letters of the verbs that nvme-cli has, too. Of the letters that say where a controller is
 * (-t -a -s -n and the like) nvme-cli's verbs have many for other things, as they have a device for
 * that. So it is here of a URI, which stands in place of the device: beside it the letters are the
 * verb's. Without one they are those of `nvme connect`, and what the verb has for them is said by
 * its long words. What looks as if the other was meant is wrong usage, and told.
 *
 * A verb's table is written with nvme-cli's letters. Its parser is called with them either way.
 */
#ifndef WEFT_CLI_NVME_VERB_H
#define WEFT_CLI_NVME_VERB_H

#include "cli/nvme_opts.h"

/* Rows that the verb's parser does not see: the namespace, with weft's own letter for it, */
#define NVME_VERB_NSID                                                 \
	{"namespace-id", 'n', "NSID", 0, "Namespace", 0},              \
	{                                                              \
		NULL, 'N', NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0 \
	}
/* what no verb of weft's sends: nothing but zero is taken, which nvme-cli sends unless told, */
#define NVME_VERB_ZERO(name, letter)                                    \
	{                                                               \
		name, letter, "N", OPTION_HIDDEN, nvme_verb_zero_doc, 0 \
	}
#define NVME_VERB_NO_FILE(name, letter)                                    \
	{                                                                  \
		name, letter, "FILE", OPTION_HIDDEN, nvme_verb_zero_doc, 0 \
	}
#define NVME_VERB_NOT(name, letter)                                      \
	{                                                                \
		name, letter, NULL, OPTION_HIDDEN, nvme_verb_zero_doc, 0 \
	}
/* and what makes no difference without a kernel's device. */
#define NVME_VERB_IDLE(name, key)                                     \
	{                                                             \
		name, key, NULL, OPTION_HIDDEN, nvme_verb_idle_doc, 0 \
	}
extern const char nvme_verb_zero_doc[], nvme_verb_idle_doc[];

/*
 * cli_parse() for them. argp: with the verb's options and its parser, which at ARGP_KEY_INIT says
 * where the struct nvme_opts is (child_inputs[0]); its children are nvme_opts_children.
 */
void nvme_verb_parse(const struct argp *argp, const char *name, int argc, char **argv, void *input);

/*
 * Of a letter -o that is a number in nvme-cli 2.3 and the form of the output in later ones: what is
 * a form is taken as that. False: it is none.
 */
bool nvme_verb_took_format(struct nvme_opts *opts, struct argp_state *state, const char *text);

#endif
