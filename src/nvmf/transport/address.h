/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* IP addresses, as transports that have them are told of them and tell of them. */
#ifndef WEFT_NVMF_TRANSPORT_ADDRESS_H
#define WEFT_NVMF_TRANSPORT_ADDRESS_H

#include <stddef.h>
#include <sys/socket.h>

/* Without its port; empty if it is none. */
void address_text(const struct sockaddr *sa, char *text, size_t room);
/* The family of which an address (text) means every address; AF_UNSPEC: it means one. */
int address_wildcard(const char *address);

#endif
