/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What is to be done for a target to be another. A subsystem is the same if its NQN is, a
 * namespace if its number and what hosts know it by are, a port if its address is: everything else
 * of these changes in place, the size of a disk that is made ("mem:1g") too, and what stays as it
 * is, is no step.
 *
 * The order is one in which steps can be carried out: what is named is there before it is named,
 * and gone after. Who carries them out prepares those that can fail before it begins with any
 * (opens files, listens), so that there is nothing to be taken back.
 */
#ifndef WEFT_CONFIG_DIFF_H
#define WEFT_CONFIG_DIFF_H

#include "config/config.h"

enum config_step_type {
	STEP_DISCOVERY,	 /* what it is called */
	STEP_SUBSYS_ADD, /* without namespaces, those have steps of their own */
	STEP_NS_REMOVE,
	STEP_NS_ADD,
	STEP_NS_SIZE,	 /* of a disk that is made */
	STEP_SUBSYS_SET, /* its attributes, who may use it */
	STEP_PORT_REMOVE,
	STEP_PORT_ADD,
	STEP_PORT_SET,	    /* its number, what it offers, referrals, TLS */
	STEP_SUBSYS_REMOVE, /* with its namespaces */
	STEP_TYPES
};

struct config_step {
	enum config_step_type type;
	/* Of the new config; of those that are removed, the old one's. */
	const struct config_subsys *subsys;
	const struct config_ns *ns;
	const struct config_port *port;
	const char *discovery_nqn; /* NULL: as everywhere */
};

/* from may be NULL: nothing. To be freed; -ENOMEM. */
int config_diff(const struct config *from, const struct config *to, struct config_step **ret,
		size_t *ret_count) must_use;

bool config_addr_equal(const struct config_addr *a, const struct config_addr *b);

#endif
