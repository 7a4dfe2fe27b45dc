/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/counted.h"

#include <stdlib.h>

#include "base/sight.h"

#define X(name, unit, text) #name " "
static const char target_keys[] =
#include "nvmf/target/counters.def"
	;
#undef X

/* A text takes a column for each eight bytes, NAME_00 and so on. */
#define KEY(name, ...)	 #name " "
#define KEYS_4(name, at) #name "_" #at "0 " #name "_" #at "1 " #name "_" #at "2 " #name "_" #at "3 "
#define KEYS_8(name, at) \
	KEYS_4(name, at) #name "_" #at "4 " #name "_" #at "5 " #name "_" #at "6 " #name "_" #at "7 "
#define KEYS_10(name, at) KEYS_8(name, at) #name "_" #at "8 " #name "_" #at "9 "

_Static_assert(FIGURES_NQN_WORDS == 28 && FIGURES_REASON_WORDS == 8 && FIGURES_BUCKETS == 21 &&
		       FIGURES_QUEUE_BUCKETS == 8,
	       "as many names as columns");

static const char figures_host_keys[] =
#define HOST		      KEY
#define HOST_TEXT(name, text) KEYS_10(name, 0) KEYS_10(name, 1) KEYS_8(name, 2)
#include "nvmf/target/figures.def"
	;
static const char figures_op_keys[] =
#define OP		       KEY
#define OP_BUCKETS(name, text) KEYS_10(name, 0) KEYS_10(name, 1) #name "_20 "
#include "nvmf/target/figures.def"
	;
static const char figures_error_keys[] =
#define ERROR KEY
#include "nvmf/target/figures.def"
	;
static const char figures_queue_keys[] =
#define QUEUE			  KEY
#define QUEUE_BUCKETS(name, text) KEYS_8(name, 0)
#include "nvmf/target/figures.def"
	;
static const char figures_queue_error_keys[] =
#define QUEUE_ERROR KEY
#include "nvmf/target/figures.def"
	;
static const char figures_reason_keys[] =
#define REFUSAL			 KEY
#define REFUSAL_TEXT(name, text) KEYS_8(name, 0)
#include "nvmf/target/figures.def"
	;

struct target_counters *counted_target(void)
{
	return sight_take("target", target_keys, SIGHT_COLUMNS(struct target_counters), 1);
}

void counted_add(struct target_counters *sum, const struct target_counters *n)
{
#define X(name, unit, text) sum->name += n->name;
#include "nvmf/target/counters.def"
#undef X
}

void counted_figures_free(struct target_figures *f)
{
	if (!f)
		return;
	sight_release(f->hosts);
	sight_release(f->ops);
	sight_release(f->errors);
	sight_release(f->queues);
	sight_release(f->queue_errors);
	sight_release(f->reasons);
	free(f);
}

struct target_figures *counted_figures(void)
{
	struct target_figures *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	sight_together(FIGURES_HOSTS * sizeof(*f->hosts) + FIGURES_OPS * sizeof(*f->ops) +
			       FIGURES_ERRORS * sizeof(*f->errors) +
			       FIGURES_QUEUES * sizeof(*f->queues) +
			       FIGURES_QUEUE_ERRORS * sizeof(*f->queue_errors) +
			       FIGURES_REASONS * sizeof(*f->reasons),
		       6);
#define TAKE(room, table, keys, rows) \
	(f->table = sight_take(room, keys, SIGHT_COLUMNS(*f->table), rows))
	if (TAKE("target-hosts", hosts, figures_host_keys, FIGURES_HOSTS) &&
	    TAKE("target-commands", ops, figures_op_keys, FIGURES_OPS) &&
	    TAKE("target-errors", errors, figures_error_keys, FIGURES_ERRORS) &&
	    TAKE("target-queues", queues, figures_queue_keys, FIGURES_QUEUES) &&
	    TAKE("target-queue-errors", queue_errors, figures_queue_error_keys,
		 FIGURES_QUEUE_ERRORS) &&
	    TAKE("target-refusals", reasons, figures_reason_keys, FIGURES_REASONS))
		return f;
#undef TAKE
	counted_figures_free(f);
	return NULL;
}
