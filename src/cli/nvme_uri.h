/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#ifndef WEFT_CLI_NVME_URI_H
#define WEFT_CLI_NVME_URI_H

#include "nvmf/lib/uri.h"

#endif
