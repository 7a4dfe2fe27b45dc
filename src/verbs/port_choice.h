/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * By what a process's packets go: UDP sockets, and what WEFT_PORT asks for before them. What is not
 * to be had is said in the log, and done without.
 */
#ifndef WEFT_VERBS_PORT_CHOICE_H
#define WEFT_VERBS_PORT_CHOICE_H

#include <stddef.h>
#include <stdint.h>

#include "port/port.h"

#define PORT_CHOICE_MAX 1

/* The ports that stand before UDP's, for this slot, in v; returns how many. capture: the file that
 * packets are written to, or NULL. */
size_t port_choice(struct port *v[PORT_CHOICE_MAX], uint8_t slot, const char *capture);

#endif
