# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""DH-HMAC-CHAP: the kernel's host against `weft serve`, weft's host against nvmet. Debian's Linux 6.1 is built without."""
import re

import cases
from cases import ACTIVE, PASSIVE
from lab import Failed
from nvme_cases import DISCONNECT, MIB, NQN, by_tcp, comes_back, connect, export, random_file, serve, sha256

HOST = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-4333-8444-555555555555"
# Every hash, every group.
KINDS = (("sha256", "null"), ("sha384", "ffdhe2048"), ("sha512", "ffdhe3072"), ("sha256", "ffdhe4096"),
         ("sha384", "ffdhe6144"), ("sha512", "ffdhe8192"))
# And what is left, which takes an emulated processor minutes.
OTHERS = tuple((hash_, group) for group in dict(map(reversed, KINDS)) for hash_ in ("sha256", "sha384", "sha512")
               if (hash_, group) not in KINDS)
ALONE = (("sha256", "null"), ("sha512", "ffdhe2048"))
# What the kernel says of a host, or a target, that does not prove who it is.
REFUSED = ("timeout", "I/O error", "auth", "controller is down")


def case(name, directions, **kwargs):
    """By RDMA and by TCP."""
    def note(function):
        cases.case(name, directions, nvme=True, newer=True, **kwargs)(function)
        return cases.case("NVMe/TCP: " + name, directions, tcp=True, newer=True, **kwargs)(function)
    return note


def new_key(t, name, *options):
    """A key, and the file that it is in on weft's side."""
    text, path = t.weft.tool("gen-dhchap-key", *options).strip(), t.weft.file(t, name)
    t.weft.shell(f"(umask 077; echo {text} >{path})")
    return text, path


def keys(t):
    return (*new_key(t, "host.key", "-m", "1", "-n", HOST), *new_key(t, "ctrl.key", "-m", "3", "-n", NQN),
            *new_key(t, "wrong.key"))


def kernel_proves(t, kinds, mutual):
    """The guest's host to weft serve, and where mutual that to it; what it writes is read and is in the image."""
    key, key_file, ctrl, ctrl_file, _, _ = keys(t)
    serves, connects = ("--dhchap-secret", f"{HOST}={key_file}"), f"-q {HOST} --dhchap-secret={key} -i 2"
    if mutual:
        serves, connects = (*serves, "--dhchap-ctrl-secret", f"{HOST}={ctrl_file}"), f"{connects} --dhchap-ctrl-secret={ctrl}"
    for hash_, group in kinds:
        p, image = serve(t, 64, "--allow-host", HOST, *serves, "--dhchap-hash", hash_, "--dhchap-dhgroup", group)
        seen = t.kernel.shell(
            connect(t, connects) +
            f"dmesg | tail -40 | grep -q 'authenticated with hash hmac({hash_}) dhgroup {group}' || "
            f"{{ echo 'not by {hash_}, {group}' >&2; exit 1; }}\n"
            f"head -c {MIB} /dev/urandom >/tmp/r; dd if=/tmp/r of=$disk bs=64k oflag=direct 2>/dev/null || exit 1\n"
            "c=${disk#/dev/}; before=$(dmesg | grep -c 'qid 0: authenticated with')\n"
            f"echo {key} >/sys/class/nvme/${{c%n1}}/dhchap_secret || exit 1\n"
            "for i in {1..200}; do [ $(dmesg | grep -c 'qid 0: authenticated with') -gt $before ] && break; "
            "sleep 0.1; done\n"
            "[ $(dmesg | grep -c 'qid 0: authenticated with') -gt $before ] || { echo 'not again' >&2; exit 1; }\n"
            f"dd if=$disk of=/tmp/r2 bs=64k count=16 iflag=direct 2>/dev/null && cmp /tmp/r /tmp/r2 || exit 1\n"
            "sha256sum </tmp/r\n" + DISCONNECT, 180)
        if p.stop() not in (0, -15):
            raise Failed(f"weft serve: {p.output[-200:]}")
        if seen.split()[0] != sha256(t.weft, image, MIB):
            raise Failed("the image does not hold what the guest wrote")
    return f"{len(kinds)} kinds"


@case("DH-HMAC-CHAP, mutual, every hash and group; connections authenticated again", (PASSIVE,), log_may_say=("auth",))
def kernel_host(t):
    return kernel_proves(t, KINDS, True)


@case("DH-HMAC-CHAP, the host alone proves itself", (PASSIVE,), log_may_say=("auth",))
def kernel_host_alone(t):
    return kernel_proves(t, ALONE, False)


@by_tcp("DH-HMAC-CHAP, mutual, the other pairs of hash and group", (PASSIVE,), newer=True, long=True, log_may_say=("auth",))
def kernel_host_others(t):
    return kernel_proves(t, OTHERS, True)


@case("DH-HMAC-CHAP: the target killed and started again, the host reconnects", (PASSIVE,),
      log_may_say=REFUSED + ("Buffer I/O", "rxe0: "))
def kernel_comes_back(t):
    key, key_file, ctrl, ctrl_file, _, _ = keys(t)
    comes_back(t, lambda: serve(t, 64, "--allow-host", HOST, "--dhchap-secret", f"{HOST}={key_file}", "--dhchap-ctrl-secret",
                                f"{HOST}={ctrl_file}")[0],
               connect(t, f"-q {HOST} --dhchap-secret={key} --dhchap-ctrl-secret={ctrl} -i 2 -k 5 -c 1"))


@case("DH-HMAC-CHAP: who has no key, another, or meets another target, is not let in", (PASSIVE,), log_may_say=REFUSED)
def kernel_strangers(t):
    key, key_file, ctrl, ctrl_file, wrong, _ = keys(t)
    p, _ = serve(t, 64, "--allow-host", HOST, "--dhchap-secret", f"{HOST}={key_file}",
                 "--dhchap-ctrl-secret", f"{HOST}={ctrl_file}")
    for options in ("", f"-q {HOST}", f"-q {HOST} --dhchap-secret={wrong}",
                    f"-q {HOST} --dhchap-secret={key} --dhchap-ctrl-secret={wrong}",
                    f"-q {HOST}0 --dhchap-secret={key}"):
        if t.lab.guest(t.kernel.guest, connect(t, options)).returncode == 0:
            raise Failed(f"let in with {options or 'nothing'}")
    t.kernel.shell(connect(t, f"-q {HOST} --dhchap-secret={key} --dhchap-ctrl-secret={ctrl}") + DISCONNECT, 60)
    if "not authenticated: " + HOST not in p.output:
        raise Failed("weft serve does not say who has failed")


def demand(t, key, ctrl, hash_, group):
    """Of the guest's target: the host HOST alone, with these."""
    t.kernel.shell(f"cd /sys/kernel/config/nvmet && mkdir -p hosts/{HOST} && cd hosts/{HOST} && echo {key} >dhchap_key && "
                   f"echo {ctrl} >dhchap_ctrl_key && echo 'hmac({hash_})' >dhchap_hash && echo {group} >dhchap_dhgroup && "
                   f"cd ../../subsystems/{NQN} && echo 0 >attr_allow_any_host && "
                   f"{{ [ -e allowed_hosts/{HOST} ] || ln -s ../../hosts/{HOST} allowed_hosts/{HOST}; }}")


def forget(t):
    t.kernel.shell(f"cd /sys/kernel/config/nvmet && rm -f subsystems/{NQN}/allowed_hosts/{HOST} && "
                   f"rmdir hosts/{HOST}; lab-nvmet clear")


def weft_proves(t, kinds):
    """weft's host to nvmet, and that to it, of every kind; and who has not the keys is refused."""
    key, key_file, ctrl, ctrl_file, _, wrong_file = keys(t)
    uri = export(t)
    try:
        source, back = random_file(t, "source", MIB), t.weft.file(t, "back")
        for hash_, group in kinds:
            demand(t, key, ctrl, hash_, group)
            mine = ("-q", HOST, "-S", f"@{key_file}")
            t.weft.tool("cp", "--verify", source, uri, *mine, "-C", f"@{ctrl_file}")
            t.weft.tool("cp", "--size", MIB, uri, back, *mine)
            if sha256(t.weft, source, MIB) != sha256(t.weft, back, MIB):
                raise Failed(f"{hash_}, {group}: what came back differs")
        # nvmet may close the connection before it has said so.
        refused = "does not take|before it had authenticated"
        for options, says in (((), "there is no key"), (("-S", f"@{wrong_file}"), refused),
                              (("-S", f"@{key_file}", "-C", f"@{wrong_file}"), "controller's key")):
            try:
                t.weft.tool("id-ctrl", uri, "-q", HOST, *options)
            except Failed as e:
                if not re.search(says, str(e)):
                    raise
            else:
                raise Failed(f"let in with {options or 'nothing'}")
    finally:
        forget(t)
    return f"{len(kinds)} kinds"


@case("DH-HMAC-CHAP, mutual, every hash and group", (ACTIVE,), log_may_say=REFUSED)
def weft_host(t):
    return weft_proves(t, KINDS)


@by_tcp("DH-HMAC-CHAP, mutual, the other pairs of hash and group", (ACTIVE,), newer=True, long=True, log_may_say=REFUSED)
def weft_host_others(t):
    return weft_proves(t, OTHERS)
