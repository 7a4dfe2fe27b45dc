# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""TLS: the kernel's host against `weft serve`, weft's host against nvmet. The kernel's handshakes are tlshd's; Linux 6.1 has no TLS."""
import base64
import hashlib
import hmac
import os
import shutil

import auth_cases
import cases
import guests
from cases import ACTIVE, PASSIVE
from lab import Failed
from nvme_cases import DISCONNECT, MIB, NQN, bracketed, comes_back, connect, random_file, serve, sha256

HOST = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-4333-8444-555555555555"
ROOT = "/run/tlshd"
NVME = f"chroot {ROOT} nvme"
HASHES = {1: hashlib.sha256, 2: hashlib.sha384}


def expand(digest, key, label, context):
    """HKDF-Expand-Label of RFC 8446, to as many bytes as came in."""
    prk = hmac.new(bytes(digest().digest_size), key, digest).digest()
    info = (len(key).to_bytes(2, "big") + bytes([6 + len(label)]) + b"tls13 " + label.encode() +
            bytes([len(context)]) + context.encode())
    return hmac.new(prk, info + b"\1", digest).digest()[:len(key)]


def identity_and_key(text, version):
    """What host and subsystem derive of a key, reckoned here and not by weft."""
    h = int(text.split(":")[1])
    digest, key = HASHES[h], base64.b64decode(text.split(":")[2])[:-4]
    retained = expand(digest, key, "HostNQN", HOST)
    mac = base64.b64encode(hmac.new(retained, f"{HOST} {NQN} NVMe-over-Fabrics".encode(), digest).digest()).decode()
    identity = f"NVMe{version}R{h:02} {HOST} {NQN}" + (f" {mac}" if version else "")
    return identity, expand(digest, retained, "nvme-tls-psk", f"{h:02} {mac}" if version else identity)


def tlshd(t):
    """In the guest, from here to its end."""
    where = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "weft-vm", "tlshd")
    os.makedirs(where, exist_ok=True)
    try:
        guests.made("trixie", where, "make-tlshd", guests.recipe(["make-tlshd"]))
    except guests.Broken as e:
        raise Failed(f"there is no tlshd, of Debian 13's packages: {e}") from e
    if not os.path.exists(os.path.join(t.lab.share, "tlshd.tar")):
        shutil.copy(os.path.join(where, "tlshd.tar"), t.lab.share)
    t.kernel.shell(f"[ -e {ROOT}/proc/1 ] || {{ mkdir -p {ROOT} && tar -xf /lab/tlshd.tar -C {ROOT} && modprobe tls && modprobe nvme-tcp && "
                   f"for d in proc sys dev; do mount --rbind /$d {ROOT}/$d || exit 1; done; }}\n"
                   f"pgrep -x tlshd >/dev/null || setsid chroot {ROOT} tlshd -s -c /etc/tlshd.conf </dev/null >/tmp/tlshd.log 2>&1 &\n"
                   "sleep 1; pgrep -x tlshd >/dev/null || { cat /tmp/tlshd.log >&2; exit 1; }", 120)


def insert(t, text, version, by_nvme):
    """Into the guest's keyring: as nvme-cli of Debian 13 derives it, or as RFC 8446 has it."""
    if by_nvme:
        t.kernel.shell(f"{NVME} check-tls-key -d {text} -i -n {HOST} -c {NQN} -I {version}")
        return
    identity, key = identity_and_key(text, version)
    octal = "".join(f"\\{b:03o}" for b in key)
    t.kernel.shell(f"printf '{octal}' | chroot {ROOT} keyctl padd psk '{identity}' %:.nvme")


def forget(t):
    t.kernel.shell(f"chroot {ROOT} keyctl clear %:.nvme; true")


def new_key(t, name, hmac_id):
    text, path = t.weft.tool("gen-tls-key", "-m", str(hmac_id)).strip(), t.weft.file(t, name)
    t.weft.shell(f"(umask 077; echo {text} >{path})")
    return text, path


def case(name, directions, **kwargs):
    return cases.case("NVMe/TCP: TLS, " + name, directions, tcp=True, newer=True, **kwargs)


# Hash, version of the identity, whether nvme-cli derives. Of SHA-384 none: Debian 13's GnuTLS 3.8.9 shows that it has such a key
# by SHA-256 all the same, which is no key of that name to others. (tlshd 1.4 with GnuTLS 3.8.13 was tried, with Linux 7.3: it is.)
KINDS = ((1, 0, True), (1, 1, True), (1, 0, False), (1, 1, False))


@case("the kernel's host by every identity; who has another key, or none, is not let in", (PASSIVE,),
      log_may_say=("timeout", "I/O error", "TLS", "tls", "failed to connect"))
def kernel_host(t):
    tlshd(t)
    for hmac_id, version, by_nvme in KINDS:
        text, path = new_key(t, "tls.key", hmac_id)
        forget(t)
        insert(t, text, version, by_nvme)
        p, image = serve(t, 64, "--tls-key", f"{HOST}={path}", *(("--tls-compat",) if by_nvme else ()), tls=True)
        join = connect(t, f"-q {HOST} --tls -i 2").replace("nvme connect", f"{NVME} connect")
        seen = t.kernel.shell(
            join + f"head -c {MIB} /dev/urandom >/tmp/r; dd if=/tmp/r of=$disk bs=64k oflag=direct 2>/dev/null || exit 1\n"
            "dd if=$disk of=/tmp/r2 bs=64k count=16 iflag=direct 2>/dev/null && cmp /tmp/r /tmp/r2 || exit 1\n"
            "sha256sum </tmp/r\n" + DISCONNECT, 180)
        if seen.split()[-1 if len(seen.split()) == 1 else -2] != sha256(t.weft, image, MIB) or "by TLS" not in p.output:
            raise Failed(f"{hmac_id}, {version}: {seen}; {p.output[-300:]}")
        for key in (new_key(t, "other.key", hmac_id)[0], None):
            forget(t)
            if key:
                insert(t, key, version, by_nvme)
            if t.lab.guest(t.kernel.guest, join).returncode == 0:
                raise Failed(f"{hmac_id}, {version}: let in with {'another key' if key else 'none'}")
        if p.stop() not in (0, -15):
            raise Failed(f"weft serve: {p.output[-200:]}")
    return f"{len(KINDS)} kinds"


@case("the target killed and started again: the kernel's host reconnects", (PASSIVE,),
      log_may_say=("timeout", "I/O error", "Buffer I/O", "TLS", "tls", "failed to connect"))
def kernel_host_comes_back(t):
    tlshd(t)
    text, path = new_key(t, "tls.key", 1)
    forget(t)
    insert(t, text, 1, False)
    join = connect(t, f"-q {HOST} --tls -i 2 -k 5 -c 1").replace("nvme connect", f"{NVME} connect")
    comes_back(t, lambda: serve(t, 64, "--tls-key", f"{HOST}={path}", tls=True)[0], join)


@case("weft's host against the kernel's target", (ACTIVE,), log_may_say=("TLS", "tls", "queue"))
def weft_host(t):
    tlshd(t)
    address = t.kernel.address[t.family]
    t.kernel.shell("lab-nvmet clear 2>/dev/null; modprobe -rq brd\n"
                   "sed 's/rdma/tcp/; s|echo 4420|echo tls1.3 >ports/1/addr_tsas; echo 4420|' $(which lab-nvmet) >/tmp/lab-nvmet\n"
                   f"modprobe brd rd_nr=1 rd_size={64 * 1024} && bash /tmp/lab-nvmet export {address} {NQN} /dev/ram0")
    uri = f"nvme+tcp+tls://{bracketed(address)}:4420/{NQN}?ns=1"
    try:
        source, back = random_file(t, "source", MIB), t.weft.file(t, "back")
        for hmac_id, version, by_nvme in KINDS:
            text, path = new_key(t, "tls.key", hmac_id)
            forget(t)
            insert(t, text, version, by_nvme)
            mine = ("-q", HOST, "--tls-key", f"@{path}", f"--tls-identity={version}", *(("--tls-compat",) if by_nvme else ()))
            t.weft.tool("cp", "--verify", source, uri, *mine)
            t.weft.tool("cp", "--size", MIB, uri, back, *mine)
            if sha256(t.weft, source, MIB) != sha256(t.weft, back, MIB):
                raise Failed(f"{hmac_id}, {version}: what came back differs")
            for options in (("-q", HOST, "--tls-key", f"@{new_key(t, 'other.key', hmac_id)[1]}"),):
                try:
                    t.weft.tool("id-ctrl", uri, *options)
                except Failed as e:
                    if "TLS" not in str(e):
                        raise
                else:
                    raise Failed("let in with another key")
            try:
                t.weft.tool("id-ctrl", uri.replace("+tls", ""), "-q", HOST)
            except Failed:
                pass
            else:
                raise Failed("let in without TLS")
    finally:
        forget(t)
        t.kernel.shell("lab-nvmet clear")
    return f"{len(KINDS)} kinds"


# ---- secure channel concatenation: a key of TLS that DH-HMAC-CHAP has made; Linux has it since 6.15 ----

CONCAT = (("sha256", "ffdhe2048"), ("sha256", "ffdhe4096"))  # of SHA-384 none: see KINDS


@case("concatenated to DH-HMAC-CHAP, the kernel's host; who proves nothing is not let in", (PASSIVE,), newest=True,
      log_may_say=auth_cases.REFUSED + ("TLS", "tls", "failed to connect"))
def kernel_concat(t):
    tlshd(t)
    key, key_file, ctrl, ctrl_file, wrong, _ = auth_cases.keys(t)
    for hash_, group in CONCAT:
        p, image = serve(t, 64, "--allow-host", HOST, "--dhchap-secret", f"{HOST}={key_file}", "--dhchap-ctrl-secret",
                         f"{HOST}={ctrl_file}", "--dhchap-hash", hash_, "--dhchap-dhgroup", group, tls=True,
                         query="?treq=not-required")
        mutual = f"-q {HOST} --dhchap-secret={key} --dhchap-ctrl-secret={ctrl} --concat -i 2"
        join = connect(t, mutual).replace("nvme connect", f"{NVME} connect")
        seen = t.kernel.shell(
            join + "c=${disk#/dev/}; grep . /sys/class/nvme/${c%n1}/{tls_mode,tls_key} >&2\n"
            f"head -c {MIB} /dev/urandom >/tmp/r; dd if=/tmp/r of=$disk bs=64k oflag=direct 2>/dev/null || exit 1\n"
            "dd if=$disk of=/tmp/r2 bs=64k count=16 iflag=direct 2>/dev/null && cmp /tmp/r /tmp/r2 || exit 1\n"
            "sha256sum </tmp/r\n" + DISCONNECT, 180)
        if sha256(t.weft, image, MIB) not in seen.split() or "by TLS" not in p.output:
            raise Failed(f"{hash_}, {group}: {seen}; {p.output[-300:]}")
        if t.lab.guest(t.kernel.guest, join.replace(key, wrong)).returncode == 0:
            raise Failed(f"{hash_}, {group}: let in with another key")
        if p.stop() not in (0, -15):
            raise Failed(f"weft serve: {p.output[-200:]}")
    return f"{len(CONCAT)} kinds"


@case("concatenated to DH-HMAC-CHAP, weft's host against the kernel's target", (ACTIVE,), newest=True,
      log_may_say=auth_cases.REFUSED + ("TLS", "tls", "queue"))
def weft_concat(t):
    tlshd(t)
    key, key_file, ctrl, _, _, wrong_file = auth_cases.keys(t)
    address = t.kernel.address[t.family]
    t.kernel.shell("lab-nvmet clear 2>/dev/null; modprobe -rq brd\n"
                   "sed 's/rdma/tcp/; s|echo 4420|echo tls1.3 >ports/1/addr_tsas; echo not required >ports/1/addr_treq; echo 4420|' "
                   "$(which lab-nvmet) >/tmp/lab-nvmet\n"
                   f"modprobe brd rd_nr=1 rd_size={64 * 1024} && bash /tmp/lab-nvmet export {address} {NQN} /dev/ram0")
    uri = f"nvme+tcp://{bracketed(address)}:4420/{NQN}?ns=1"
    try:
        source, back = random_file(t, "source", MIB), t.weft.file(t, "back")
        for hash_, group in CONCAT:
            auth_cases.demand(t, key, ctrl, hash_, group)
            # Without the controller's proof: nvmet has forgotten the challenges by then, and makes no key (Linux 7.2).
            mine = ("-q", HOST, "-S", f"@{key_file}", "--concat")
            t.weft.tool("cp", "--verify", source, uri, *mine)
            t.weft.tool("cp", "--size", MIB, uri, back, *mine)
            if sha256(t.weft, source, MIB) != sha256(t.weft, back, MIB):
                raise Failed(f"{hash_}, {group}: what came back differs")
            try:
                t.weft.tool("id-ctrl", uri, "-q", HOST, "-S", f"@{wrong_file}", "--concat")
            except Failed:
                pass
            else:
                raise Failed("let in with another key")
    finally:
        auth_cases.forget(t)
    return f"{len(CONCAT)} kinds"
