/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/device_port.h"

#include <stddef.h>

#include "base/compiler.h"

enum { PHYS_POLLING = 2, PHYS_DISABLED = 3, PHYS_LINK_UP = 5 };

uint8_t device_port_state(const struct broker_device *d)
{
	return d->up ? DEVICE_PORT_ACTIVE : DEVICE_PORT_DOWN;
}

uint8_t device_port_phys_state(const struct broker_device *d)
{
	return d->up ? PHYS_LINK_UP : d->enabled ? PHYS_POLLING : PHYS_DISABLED;
}

void device_port_rate(const struct broker_device *d, uint8_t *ret_width, uint8_t *ret_speed)
{
	static const struct {
		uint32_t mbps;
		uint8_t width, speed;
	} codes[] = {
		{2500, 1, 1},	  /* 1X SDR; also where the interface does not say */
		{10000, 1, 8},	  /* 1X FDR10 */
		{25000, 1, 32},	  /* 1X EDR */
		{40000, 2, 8},	  /* 4X FDR10 */
		{50000, 16, 32},  /* 2X EDR */
		{100000, 2, 32},  /* 4X EDR */
		{200000, 2, 64},  /* 4X HDR */
		{400000, 2, 128}, /* 4X NDR */
	};
	size_t i = 0;

	while (i < ARRAY_SIZE(codes) - 1 && codes[i].mbps < d->speed_mbps)
		i++;
	*ret_width = codes[i].width;
	*ret_speed = codes[i].speed;
}
