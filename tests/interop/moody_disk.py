# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A file whose disk fails or hangs when told to: a file system in user space, spoken by hand.

It is seen in the mount namespace of the calling process, which gets one of its own, and by the
programs that it starts from then on.
"""
import ctypes
import errno
import multiprocessing
import os
import struct
import sys
import time

import lab

CLONE_NEWNS = 0x20000
MS_REC_PRIVATE = 0x4000 | 0x40000
LOOKUP, FORGET, GETATTR, SETATTR, OPEN, READ, WRITE = 1, 2, 3, 4, 14, 15, 16
RELEASE, FSYNC, INIT, INTERRUPT, BATCH_FORGET = 18, 20, 26, 36, 42
ROOT, FILE = 1, 2
MNT_DETACH = 2
FOPEN_DIRECT_IO = 1
# DEAF: a program that waits for it can still be killed, as the request was not seen yet.
FINE, FAILS, HANGS, DEAF = range(4)


class MoodyDisk:
    def __init__(self, directory, size):
        self.size, self.mood = size, multiprocessing.Value("i", FINE)
        self.path = os.path.join(directory, "disk")
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, MS_REC_PRIVATE, None):
            lab.skip("no right to make a mount namespace here")
        try:
            self.fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            lab.skip("no /dev/fuse")
        options = f"fd={self.fd},rootmode=40000,user_id=0,group_id=0"
        if libc.mount(b"weft", directory.encode(), b"fuse", 0, options.encode()):
            lab.skip(f"cannot mount: {os.strerror(ctypes.get_errno())}")
        self.server = multiprocessing.Process(target=self.serve, daemon=True)
        self.server.start()
        os.close(self.fd)  # so that who waits for it is let go when the server ends
        # That a close asks nothing the kernel learns from the first: nobody has to wait in one.
        os.close(os.open(self.path, os.O_RDONLY))

    def close(self):
        """Or whoever cleans up would ask a file system that does not answer any more."""
        ctypes.CDLL(None).umount2(os.path.dirname(self.path).encode(), MNT_DETACH)
        self.server.terminate()
        self.server.join()

    def be(self, mood):
        self.mood.value = mood

    def attributes(self, node):
        directory = node == ROOT
        return struct.pack("<6Q10I", node, 0 if directory else self.size, 0, 0, 0, 0, 0, 0, 0,
                           0o40755 if directory else 0o100600, 1, 0, 0, 0, 4096, 0)

    def serve(self):
        data, waiting = bytearray(self.size), []
        os.set_blocking(self.fd, False)
        while True:
            if self.mood.value == DEAF:
                time.sleep(0.001)
                continue
            try:
                waiting.append(os.read(self.fd, (1 << 20) + 4096))
            except BlockingIOError:
                time.sleep(0.001)
            except OSError:  # unmounted
                sys.exit(0)
            waiting = [r for r in waiting if not self.answer(r, data)]

    def answer(self, request, data):
        """False: later."""
        _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
        body, mood, error, reply = request[40:], self.mood.value, 0, b""
        if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
            return True
        if opcode in (READ, WRITE, FSYNC) and mood == HANGS:
            return False
        if opcode in (READ, WRITE, FSYNC) and mood == FAILS:
            error = errno.EIO
        elif opcode == INIT:
            reply = struct.pack("<4I2H2I2H8I", 7, 31, 1 << 17, 0, 64, 48, 1 << 17, 1, 0, 0, *[0] * 8)
        elif opcode == LOOKUP and body == b"disk\0":
            reply = struct.pack("<4Q2I", FILE, 0, 0, 0, 0, 0) + self.attributes(FILE)
        elif opcode == LOOKUP:
            error = errno.ENOENT
        elif opcode in (GETATTR, SETATTR):
            reply = struct.pack("<Q2I", 0, 0, 0) + self.attributes(node)
        elif opcode == OPEN:
            reply = struct.pack("<Q2I", 1, FOPEN_DIRECT_IO, 0)
        elif opcode == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            reply = bytes(data[offset:offset + size])
        elif opcode == WRITE:
            _, offset, size = struct.unpack_from("<QQI", body)
            data[offset:offset + size] = body[40:40 + size]
            reply = struct.pack("<2I", size, 0)
        elif opcode not in (RELEASE, FSYNC):
            error = errno.ENOSYS
        if error:
            reply = b""
        try:
            os.write(self.fd, struct.pack("<IiQ", 16 + len(reply), -error, unique) + reply)
        except OSError:  # whoever asked has been killed
            pass
        return True
