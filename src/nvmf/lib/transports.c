/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nvmf/lib/transports.h"

#include <assert.h>
#include <string.h>

#include "nvmf/rdma/rdma.h"
#include "nvmf/tcp/tcp.h"

static const struct nvmf_transport *const transports[TRANSPORTS] = {
#define TRANSPORT(name) &name##_transport,
#include "nvmf/lib/transports.def"
#undef TRANSPORT
};

unsigned int transport_index(const char *name)
{
	unsigned int i = 0;

	while (*name && strcmp(transports[i]->name, name) != 0) {
		i++;
		assert(i < TRANSPORTS);
	}
	return i;
}

const struct nvmf_transport *transport_at(unsigned int index)
{
	return transports[index];
}
