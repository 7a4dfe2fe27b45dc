/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The list of services, and those entries that find one by the type of a queue pair. */
#include "rnic/core.h"

static const struct service *const services[] = {
#define X(name) &service_##name,
#include "rnic/services.def"
#undef X
};

static const struct service *service_of(enum rnic_qp_type type)
{
	for (size_t i = 0; i < ARRAY_SIZE(services); i++)
		if (services[i]->type == type)
			return services[i];
	return NULL;
}

int rnic_qp_create(struct rnic_pd *pd, struct rnic_qp_init *init, struct rnic_qp **ret)
{
	const struct service *s = service_of(init->type);

	return s ? qp_create(s, pd, init, ret) : -EOPNOTSUPP;
}

bool rnic_qp_transition(enum rnic_qp_type type, enum rnic_qp_state from, enum rnic_qp_state to,
			uint32_t *ret_required, uint32_t *ret_optional)
{
	const struct service *s = service_of(type);

	return s && qp_transition(s, from, to, ret_required, ret_optional);
}
