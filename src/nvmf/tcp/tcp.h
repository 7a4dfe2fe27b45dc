/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * NVMe/TCP: each NVMe queue is a TCP connection. NVMe TCP Transport 1.0.
 */
#ifndef WEFT_NVMF_TCP_TCP_H
#define WEFT_NVMF_TCP_TCP_H

#include "nvmf/transport/transport.h"

extern const struct nvmf_transport tcp_transport;

#endif
