/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nvmf/tcp/tcp.h"

#include "nvmf/tcp/host.h"
#include "nvmf/tcp/target.h"

const struct nvmf_transport tcp_transport = {
	.name = "tcp",
	.port = "4420",
	.no_answer = TCP_NO_ANSWER,
	.target_create = tcp_target_create,
	.addresses = tcp_addresses,
	.host_create = tcp_host_create,
};
