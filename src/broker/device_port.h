/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a device's port says of itself, by the verbs and in sysfs: the codes of the verbs. */
#ifndef WEFT_BROKER_DEVICE_PORT_H
#define WEFT_BROKER_DEVICE_PORT_H

#include "broker/proto.h"

#define DEVICE_PORT_CAPS (1u << 16 | 1u << 26) /* CM_SUP, IP_BASED_GIDS */

enum { DEVICE_PORT_DOWN = 1, DEVICE_PORT_ACTIVE = 4 };

uint8_t device_port_state(const struct broker_device *);
uint8_t device_port_phys_state(const struct broker_device *);
/* Width and speed codes: the product is at least the interface's rate. */
void device_port_rate(const struct broker_device *, uint8_t *ret_width, uint8_t *ret_speed);

#endif
