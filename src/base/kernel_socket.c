// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "base/kernel_socket.h"

#include <sys/syscall.h>
#include <unistd.h>

/* libweft-sockets.so's, where that is preloaded: our numbers are to be out of a program's way. */
int weft_private_keep_number(int fd) __attribute__((weak));

int kernel_socket(int domain, int type, int protocol)
{
	int fd = (int)syscall(SYS_socket, domain, type, protocol);

	return weft_private_keep_number ? weft_private_keep_number(fd) : fd;
}
