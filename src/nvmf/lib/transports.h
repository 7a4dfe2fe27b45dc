/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The rows of transports.def. */
#ifndef WEFT_NVMF_LIB_TRANSPORTS_H
#define WEFT_NVMF_LIB_TRANSPORTS_H

#include "nvmf/transport/transport.h"

enum {
#define TRANSPORT(name) TRANSPORT_##name,
#include "nvmf/lib/transports.def"
#undef TRANSPORT
	TRANSPORTS
};

/* The index of that name; empty: the first. It must be one that nvme_transport_valid() takes. */
unsigned int transport_index(const char *name);
const struct nvmf_transport *transport_at(unsigned int index);

#endif
