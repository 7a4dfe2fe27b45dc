/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* IP addresses, as transports that have them are told of them and tell of them. */
#ifndef WEFT_NVMF_TRANSPORT_ADDRESS_H
#define WEFT_NVMF_TRANSPORT_ADDRESS_H

#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "base/compiler.h"
#include "nvmf/target/target.h"

struct transport_host_config;

/* Without its port; empty if it is none. */
void address_text(const struct sockaddr *sa, char *text, size_t room);
/* Is it one of this machine's, or rather of this network namespace? */
bool address_is_here(const struct sockaddr *sa);
/* The family of which an address (text) means every address; AF_UNSPEC: it means one. */
int address_wildcard(const char *address);

/* --- of targets --------------------------------------------------------------------------------
 */

/* Begins to listen on one address; -errno and why. */
typedef int address_listen_fn(void *ctx, const struct sockaddr *sa, bool wildcard, const char *port,
			      char *why, size_t room);
/* On an address as text; NULL: on every one, of each family its own; -errno and why. */
int address_listen(const char *address, const char *port, address_listen_fn *one, void *ctx,
		   char *why, size_t room) must_use;
/* Where that is, as the discovery log has it. */
void address_port(struct target_port *p, const struct target_transport_ops *ops,
		  const struct sockaddr *sa, bool wildcard, const char *port);
/* Calls show for each address of this machine that is usable, loopback ones last; how many. */
int address_each(int family, bool (*usable)(const struct sockaddr *sa),
		 void (*show)(void *ctx, const char *address, bool loopback), void *ctx);

/* --- of hosts ----------------------------------------------------------------------------------
 */

/* Those of the target, of the family of our own address (source) if that is said. -errno, and why;
 * what: where our addresses are shown, for that. */
int address_of_target(const struct transport_host_config *config, struct sockaddr_storage *source,
		      struct addrinfo **ret, const char *what, char *why, size_t room) must_use;

#endif
