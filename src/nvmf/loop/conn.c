/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nvmf/loop/conn.h"

#include <stdlib.h>

void loop_conn_free(struct loop_conn *c)
{
	if (c->host || c->target)
		return;
	free(c->cmds);
	free(c->capsules);
	free(c);
}

static void forget(struct list *cmds)
{
	while (!list_empty(cmds))
		list_entry(list_pop_head(cmds), struct loop_cmd, link)->state = LOOP_CMD_FREE;
}

/* What nobody took is lost with the connection. */
void loop_conn_close(struct loop_conn *c)
{
	c->host = NULL;
	forget(&c->sent);
	forget(&c->answered);
	loop_conn_free(c);
}
