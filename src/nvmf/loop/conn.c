/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nvmf/loop/conn.h"

#include <stdlib.h>

void loop_conn_free(struct loop_conn *c)
{
	if (c->host || c->target || c->carried)
		return;
	free(c->cmds);
	free(c->capsules);
	free(c);
}

bool loop_carry(struct loop_conn *c, struct loop_cmd *cmd, enum loop_message m, uint32_t capsule,
		uint32_t data)
{
	if (!c->wire.carry)
		return false;
	cmd->state = LOOP_CMD_CARRIED;
	cmd->message = m;
	c->carried++;
	c->wire.carry(c->wire.ctx, c->qid, m, capsule, data, cmd);
	return true;
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
