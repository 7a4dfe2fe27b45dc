/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nvmf/common/command.h"

#include <string.h>

#include "wire/nvme_fabrics.h"

enum nvmf_dir nvmf_dir_of(const struct nvme_sqe *s)
{
	return (enum nvmf_dir)((s->opcode == NVME_FABRICS ? nvmf_fctype(s) : s->opcode) & 3);
}

bool nvmf_nqn_valid(const char *field, size_t room)
{
	size_t n = strnlen(field, room);

	if (n == room || n > NVME_NQN_MAX || n < 5 || memcmp(field, "nqn.", 4) != 0)
		return false;
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)field[i] <= ' ' || field[i] == 0x7f)
			return false;
	return true;
}

bool nvmf_nqn_equal(const char a[NVME_NQN_LEN], const char *b)
{
	return strncmp(a, b, NVME_NQN_LEN) == 0;
}

void nvmf_pad(char *field, size_t room, const char *text)
{
	size_t n = strnlen(text, room);

	memcpy(field, text, n);
	memset(field + n, ' ', room - n);
}

void nvmf_unpad(char *ret, const char *field, size_t room)
{
	size_t n = strnlen(field, room);

	while (n && field[n - 1] == ' ')
		n--;
	memcpy(ret, field, n);
	ret[n] = '\0';
}
