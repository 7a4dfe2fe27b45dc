/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Who is to have which congestion control: what WEFT_CC says, for all queue pairs of the process;
 * else, line by line, what a file says (weft-congestion(7)): the first line that fits a queue pair
 * is the one that counts, all of it. Behind the last stands the default, which fits all.
 */
#ifndef WEFT_ENGINE_CONGESTION_RULES_H
#define WEFT_ENGINE_CONGESTION_RULES_H

#include "engine/congestion.h"
#include "wire/flow.h"

#define CONGESTION_FILE	      "/etc/weft/congestion.conf"
#define CONGESTION_DEVICE_MAX 64
#define CONGESTION_TEXT_MAX   256

struct congestion_rules;

struct congestion {
	const struct cc_ops *cc; /* NULL: the default, which depends on what the peer can do */
	struct cc_params params;
	/* Whom it is for. */
	char device[CONGESTION_DEVICE_MAX]; /* as of fnmatch(3); empty: any */
	int dscp;			    /* -1: any */
	uint8_t peer_bits;		    /* so many of the address count; 0: any peer */
	struct gid peer;
	unsigned int line; /* of the file; 0: none says so */
};

/* Of what is wrong the log tells, and it is passed over. NULL: no memory. */
struct congestion_rules *congestion_read(void);
void congestion_free(struct congestion_rules *); /* or NULL */

/* The one of a queue pair of a device whose packets go that way. NULL: of what has none. */
const struct congestion *congestion_choose(const struct congestion_rules *, const char *device,
					   const struct flow *);
/* Those that queue pairs of a device may have, in their order: the one behind c, or, of NULL, the
 * first. NULL: c was the last, which all others have. */
const struct congestion *congestion_next(const struct congestion_rules *, const char *device,
					 const struct congestion *c);

/* Both return buf. "dscp 26 peer 10.0.0.0/8"; empty: for all. */
const char *congestion_whom(const struct congestion *, char buf[CONGESTION_TEXT_MAX]);
/* "/etc/weft/congestion.conf:3", "WEFT_CC" or "default" */
const char *congestion_said_by(const struct congestion_rules *, const struct congestion *,
			       char buf[CONGESTION_TEXT_MAX]);

#endif
