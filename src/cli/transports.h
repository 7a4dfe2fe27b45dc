/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#ifndef WEFT_CLI_TRANSPORTS_H
#define WEFT_CLI_TRANSPORTS_H

#include "nvmf/lib/transports.h"

#endif
