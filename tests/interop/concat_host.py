#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A host that does secure channel concatenation with nothing of weft's: sockets, Python's hmac, and openssl for TLS.

usage: concat_host.py ADDRESS PORT HOSTNQN SUBNQN KEYFILE [null]

Connects in plain, proves itself by DH-HMAC-CHAP (SHA-256, ffdhe2048; null: that group alone is offered), derives the
key of TLS as Base 8.13.5.9 and NVMe/TCP 3.6.1.3 have it, tries to go on without it, then comes by TLS. A line for each.
"""
import base64
import hashlib
import hmac
import secrets
import socket
import struct
import subprocess
import sys

SC_C, T_ID = 2, 0x4242
AUTH_REQUIRED = 0x191


def prime():
    """ffdhe2048, as RFC 7919 defines it: of e, the base of natural logarithms."""
    extra = 64
    one = 1 << (1918 + extra)
    e, term, n = 0, one, 0
    while term:
        e, n = e + term, n + 1
        term //= n
    return 2**2048 - 2**1984 + ((e >> extra) + 560316) * 2**64 - 1


def mac(key, *pieces):
    return hmac.new(key, b"".join(pieces), hashlib.sha256).digest()


def expand_label(secret, label, context):
    label = b"tls13 " + label
    info = struct.pack(">HB", 32, len(label)) + label + bytes([len(context)]) + context
    return mac(mac(bytes(32), secret), info, b"\1")


def tls_psk(secret, c1, c2, hostnqn, subnqn):
    generated = mac(hashlib.sha256(secret).digest(), c1, c2)
    digest = base64.b64encode(mac(generated, f"{hostnqn} {subnqn} NVMe-over-Fabrics".encode())).decode()
    return f"NVMe1G01 {hostnqn} {subnqn} {digest}", expand_label(generated, b"nvme-tls-psk", f"01 {digest}".encode())


ICREQ = struct.pack("<BBBBIHBBI", 0, 0, 128, 0, 128, 0, 0, 0, 0).ljust(128, b"\0")


def command(fctype, specific, data=b"", room=0):
    """A Fabrics command: its data behind it, or room for what comes."""
    sgl = struct.pack("<QI3xB", 0, len(data) or room, 0x01 if data else 0x5a)
    sqe = struct.pack("<BBHB19s16s", 0x7f, 0x40, 1, fctype, b"", sgl) + specific.ljust(24, b"\0")
    return struct.pack("<BBBBI", 4, 0, 72, 72 if data else 0, 72 + len(data)) + sqe + data


def connect(hostnqn, subnqn):
    data = b"weft's test host" + struct.pack("<H", 0xffff).ljust(240, b"\0")
    data += subnqn.encode().ljust(256, b"\0") + hostnqn.encode().ljust(256, b"\0")
    return command(1, struct.pack("<HHHBxI", 0, 0, 31, 0, 0), data.ljust(1024, b"\0"))


def completion(pdu):
    """(status, cntlid, whether authentication is demanded)"""
    result, status = struct.unpack("<I8x2xH", pdu[8:24])
    return status >> 1 & 0x7ff, result & 0xffff, bool(result >> 17 & 1)


class Plain:
    def __init__(self, address, port):
        self.socket = socket.create_connection((address, port), 10)
        self.socket.settimeout(10)
        self.socket.sendall(ICREQ)
        self.pdu()

    def take(self, n):
        got = b""
        while len(got) < n:
            more = self.socket.recv(n - len(got))
            if not more:
                raise SystemExit("the target has closed the connection")
            got += more
        return got

    def pdu(self):
        head = self.take(8)
        return head + self.take(struct.unpack("<I", head[4:])[0] - 8)

    def execute(self, *args, **kwargs):
        """What it brings, and its completion."""
        self.socket.sendall(command(*args, **kwargs))
        return self.answer()

    def answer(self):
        data = b""
        while (pdu := self.pdu())[0] != 5:
            data += pdu[pdu[3]:]
        return data, completion(pdu)

    def say(self, message):
        status = self.execute(5, struct.pack("<BBBBI", 0, 1, 1, 0xe9, len(message)), message)[1][0]
        if status:
            raise SystemExit(f"Authentication Send: {status:#x}")

    def hear(self):
        data, (status, *_) = self.execute(6, struct.pack("<BBBBI", 0, 1, 1, 0xe9, 2048), room=2048)
        if status:
            raise SystemExit(f"Authentication Receive: {status:#x}")
        if data[:2] == b"\0\xf1":
            raise SystemExit(f"failure {data[7]}")
        return data


def authenticate(plain, hostnqn, subnqn, key, groups):
    """The key of TLS that comes of it."""
    plain.say(struct.pack("<BBHHBB", 0, 0, 0, T_ID, SC_C, 1) + bytes([1, 0, 1, len(groups)]) +
              b"\1".ljust(30, b"\0") + groups.ljust(30, b"\0"))
    challenge = plain.hear()
    hl, _, hash_id, group, dhvlen, seqnum = struct.unpack("<BBBBHI", challenge[6:16])
    if (hl, hash_id, group, dhvlen) != (32, 1, 1, 256):
        raise SystemExit(f"challenged by hash {hash_id}, group {group}")
    c1, theirs = challenge[16:48], int.from_bytes(challenge[48:304], "big")
    p, x, c2 = prime(), secrets.randbits(320), secrets.token_bytes(32)
    secret = pow(theirs, x, p).to_bytes(256, "big")
    augmented = mac(hashlib.sha256(secret).digest(), c1)
    response = mac(key, augmented, struct.pack("<IHB", seqnum, T_ID, SC_C), b"HostHost", hostnqn.encode(), b"\0", subnqn.encode())
    plain.say(struct.pack("<BBHHBBBBHI", 1, 2, 0, T_ID, 32, 0, 1, 0, 256, 0) + response + c2 + pow(2, x, p).to_bytes(256, "big"))
    if plain.hear()[:2] != b"\1\3":
        raise SystemExit("no success")
    return tls_psk(secret, c1, c2, hostnqn, subnqn)


def by_tls(address, port, identity, psk, what):
    """What comes back for these bytes, and what openssl says."""
    argv = ["openssl", "s_client", "-connect", f"{address}:{port}", "-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256",
            "-psk_identity", identity, "-psk", psk.hex(), "-quiet"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as s:
        try:
            s.stdin.write(what)
            s.stdin.flush()
            got = s.stdout.read(128 + 24)
        except BrokenPipeError:
            got = b""
        s.kill()
        return got, s.stderr.read().decode(errors="replace")


def main():
    address, port, hostnqn, subnqn, path = sys.argv[1:6]
    with open(path, encoding="ascii") as f:
        text = f.read().split(":")
    key = base64.b64decode(text[2])[:-4]
    if text[1] != "01":
        raise SystemExit("a key that SHA-256 transforms is wanted")
    key = mac(key, hostnqn.encode(), b"NVMe-over-Fabrics")
    plain = Plain(address, int(port))
    plain.socket.sendall(connect(hostnqn, subnqn))
    status, _, demanded = plain.answer()[1]
    print(f"plain: status {status:#x}, {'proof demanded' if demanded else 'nothing demanded'}")
    identity, psk = authenticate(plain, hostnqn, subnqn, key, b"\0" if sys.argv[6:] else b"\0\1\2")
    print("authenticated")
    status = plain.execute(4, struct.pack("<B3xI", 0, 0x1c))[1][0]
    print("without TLS:", "authentication required" if status == AUTH_REQUIRED else f"status {status:#x}")
    plain.socket.close()
    got, said = by_tls(address, port, identity, psk, ICREQ + connect(hostnqn, subnqn))
    if len(got) != 152:
        raise SystemExit(f"by TLS: {said[-300:]}")
    status, _, demanded = completion(got[128:])
    print(f"by TLS: status {status:#x}, {'proof demanded' if demanded else 'nothing demanded'}")
    for name, i, k in (("another digest", identity[:-2] + ("A" if identity[-2] != "A" else "B") + "=", psk),
                       ("another key", identity, bytes(32))):
        print(f"{name}: {'let in' if by_tls(address, port, i, k, ICREQ)[0] else 'not let in'}")


if __name__ == "__main__":
    sys.exit(main())
