/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What libibverbs shows to the librdmacm of the same build, as symbols of the version node
 * WEFT_PRIVATE_1: the process's one connection to the broker. All return 0 or -errno.
 */
#ifndef WEFT_VERBS_PRIVATE_H
#define WEFT_VERBS_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "broker/proto_cm.h"

/* As broker_client_call(), broker_client_cm_channel(). */
int weft_private_call(const void *req, size_t req_len, void *resp, size_t resp_len) must_use;
int weft_private_cm_channel(uint32_t *ret_channel, int *ret_fd) must_use;
/* As broker_client_recover(), broker_client_event(). */
int weft_private_recover(uint32_t *ret_generation) must_use;
void weft_private_cm_event(const struct broker_cm_event *);
/* As process_devices(), process_devices_lately(). */
int weft_private_devices(bool lately_will_do, struct broker_devices **ret) must_use;

#endif
