/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#ifndef WEFT_BROKER_ANSWER_FROM_H
#define WEFT_BROKER_ANSWER_FROM_H

#include <sys/socket.h>

/* What was received says which of our addresses it was sent to; that is left alone in it, as the
 * answer's source. Elsewhere than on a link the routes say by which interface the answer goes. */
void answer_from(struct msghdr *);

#endif
