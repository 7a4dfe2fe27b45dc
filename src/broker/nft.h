/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The broker's table of nftables: in every datagram for one UDP port, with byte 5 of the payload in
 * a map, another port takes the place of the destination's, before the socket is looked for. The
 * table is owned by this process and ends with it.
 */
#ifndef WEFT_BROKER_NFT_H
#define WEFT_BROKER_NFT_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

struct nft;

/* Loads libnftables and makes the table. -errno, and a sentence in err. */
int nft_open(struct nft **ret, uint16_t port, char *err, size_t err_len) must_use;
void nft_close(struct nft *);
int nft_turn(struct nft *, uint8_t byte5, uint16_t port) must_use;
void nft_turn_back(struct nft *, uint8_t byte5);

#endif
