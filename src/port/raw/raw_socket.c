/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "port/raw/raw_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <netpacket/packet.h>
#include <unistd.h>

#include "base/kernel_socket.h"
#include "port/raw/v1_packet.h"

#define BUFFER_BYTES (8 << 20)
#define VERSION_MASK 0xf0
#define VERSION	     0x60
#define SLOT_AT	     (GRH_LEN + 5) /* bits 23:16 of the BTH's destination QPN */

int raw_socket_filter(int fd, uint8_t slot)
{
	/* What is too short for it is not taken, nor what an interface sees that takes all. */
	struct sock_filter code[] = {
		{.code = BPF_LD | BPF_B | BPF_ABS, .k = (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)},
		{.code = BPF_JMP | BPF_JEQ | BPF_K, .jf = 8, .k = PACKET_HOST},
		{.code = BPF_LD | BPF_B | BPF_ABS, .k = 0},
		{.code = BPF_ALU | BPF_AND | BPF_K, .k = VERSION_MASK},
		{.code = BPF_JMP | BPF_JEQ | BPF_K, .jf = 5, .k = VERSION},
		{.code = BPF_LD | BPF_B | BPF_ABS, .k = GRH_NEXT_AT},
		{.code = BPF_JMP | BPF_JEQ | BPF_K, .jf = 3, .k = GRH_NEXT_HEADER},
		{.code = BPF_LD | BPF_B | BPF_ABS, .k = SLOT_AT},
		{.code = BPF_JMP | BPF_JEQ | BPF_K, .jf = 1, .k = slot},
		{.code = BPF_RET | BPF_K, .k = UINT32_MAX},
		{.code = BPF_RET | BPF_K, .k = 0},
	};
	const struct sock_fprog prog = {.len = ARRAY_SIZE(code), .filter = code};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) < 0 ? -errno : 0;
}

int raw_socket_open(uint8_t slot)
{
	const struct sockaddr_ll all = {.sll_family = AF_PACKET,
					.sll_protocol = htons(V1_ETHERTYPE)};
	/* Of no protocol nothing comes before there is a filter. */
	int fd = kernel_socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), rc;

	if (fd < 0)
		return -errno;
	rc = raw_socket_filter(fd, slot);
	if (rc == 0 && bind(fd, (const struct sockaddr *)&all, sizeof(all)) < 0)
		rc = -errno;
	if (rc) {
		close(fd);
		return rc;
	}
	kernel_socket_grow(fd, BUFFER_BYTES);
	return fd;
}
