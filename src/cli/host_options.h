/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a verb's options say, as the library of <weft/nvmf.h> takes it. */
#ifndef WEFT_CLI_HOST_OPTIONS_H
#define WEFT_CLI_HOST_OPTIONS_H

#include <weft/nvmf.h>

#include "cli/nvme_opts.h"

/* The caller's, to be destroyed; NULL: told. */
struct weft_options *host_options(const struct nvme_opts *opts);

#endif
