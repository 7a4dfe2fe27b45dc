// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "base/kernel_socket.h"

#include <sys/syscall.h>
#include <unistd.h>

int kernel_socket(int domain, int type, int protocol)
{
	return (int)syscall(SYS_socket, domain, type, protocol);
}
