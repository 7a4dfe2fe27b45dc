/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Answers those who ask what path MTU the way to this host carries (wire/path_probe.h): with a
 * datagram as long as theirs, from the address they asked, or with a short one if our interface
 * does not carry that. Who asks for more (weft doctor) is told in which traffic class the question
 * came, the interface's MTU and the receive buffers' room, and answered in the class of his choice.
 */
#ifndef WEFT_BROKER_REFLECTOR_H
#define WEFT_BROKER_REFLECTOR_H

/* Takes what is in the socket, one of leases.h's. */
void reflector_serve(int fd);

#endif
