#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""weft's verbs beside nvme-cli's, which is the judge: both are asked about one controller, that of `weft
serve`, and say the same, in JSON key by key, in binary byte by byte, in text field by field.

usage: nvme_cli.py BUILD HELPERS [--transport rdma|tcp] [--only WORD]

nvme-cli is Debian's own, unmodified. Its ioctl()s are carried to the controller by `weft
admin-passthru` and `weft io-passthru` (nvme_ioctl.c), which are tried thereby, too.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

import lab

NQN = "nqn.2026-11.org.weft:nvme-cli"
BLOCK, BLOCKS = 512, 4096
U32 = 1 << 32
# Of the association, not of the controller.
OWN = {"cntlid"}


class Service:
    def __init__(self, args):
        self.weft = os.path.join(os.path.abspath(args.build), "weft")
        self.preload = os.path.join(os.path.abspath(args.helpers), "libnvme-ioctl.so")
        self.host = lab.lab(1)[0]
        self.report = lab.Report(args.build, f"nvme-cli-{args.transport}")
        self.tmp = tempfile.TemporaryDirectory()
        self.uri = f"nvme+{args.transport}://{self.host.address}/{NQN}"
        self.listen = f"{args.transport}://{self.host.address}"
        self.only, self.path, self.programs = args.only, "", []
        self.image = os.path.join(self.tmp.name, "disk.img")

    def serve(self, *options):
        with open(self.image, "wb") as f:
            for i in range(BLOCKS):
                f.write(i.to_bytes(4, "little") * (BLOCK // 4))
        p = lab.Program(self.host, [self.weft, "serve", self.image, "--nqn", NQN, "-l", self.listen,
                                    "--block-size", str(BLOCK), *options], f"{self.path}/serve.log")
        self.programs.append(p)
        if not lab.until(lambda: p.says("ready") or p.status() is not None, 10):
            raise AssertionError("weft serve does not come up")

    def run(self, *argv, status=0, says="", text=True, stdin=None):
        if argv[0] == "nvme":
            argv = ("env", f"LD_PRELOAD={self.preload}", f"WEFT={self.weft}", f"WEFT_URI={self.uri}", *argv)
        if text:
            r = self.host.run(*argv, timeout=60, input=stdin)
        else:
            path = os.path.join(self.tmp.name, "out")
            with open(path, "wb") as f:
                r = self.host.run(*argv, timeout=60, capture_output=False, stdout=f)
            with open(path, "rb") as f:
                r.stdout, r.stderr = f.read(), ""
        if status not in (None, r.returncode) or (says and says not in r.stdout + r.stderr):
            raise AssertionError(f"{' '.join(argv)}: status {r.returncode}, not {status}, or no "
                                 f"'{says}': {r.stderr[-300:]}{r.stdout[-200:]!r}")
        return r.stdout

    def nvme(self, verb, *args, **kwargs):
        return self.run("nvme", verb, "/dev/null", *args, **kwargs)

    def verb(self, verb, *args, **kwargs):
        return self.run(self.weft, verb, self.uri, *args, **kwargs)

    def prove(self, name, function):
        if self.only in name:
            self.report.prove_and_end(name, self, lambda: function(self))


def plain(value):
    """Numbers of 128 bits are strings to nvme-cli 2.3, and those of 32 with the top bit negative; its
    name of the device is what weft's is of the subsystem."""
    if isinstance(value, dict):
        return {NQN if k == "null" else k: plain(v) for k, v in value.items() if k not in OWN}
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, str):
        return int(value) if value.isdigit() else NQN if value == "null" else value
    return value + U32 if isinstance(value, int) and value < 0 else value


def differs(ours, theirs, where=""):
    """Each thing of theirs is in ours, and the same; what ours has besides hurts no script."""
    if isinstance(theirs, dict):
        if not isinstance(ours, dict):
            return f"{where} is no object"
        for key in theirs:
            if key not in ours:
                return f"{where}.{key} is missing"
            fault = differs(ours[key], theirs[key], f"{where}.{key}")
            if fault:
                return fault
        return None
    if isinstance(theirs, list):
        if not isinstance(ours, list) or len(ours) != len(theirs):
            return f"{where} is {ours!r}, not {theirs!r}"
        faults = (differs(o, t, f"{where}[{i}]") for i, (o, t) in enumerate(zip(ours, theirs)))
        return next(filter(None, faults), None)
    return None if ours == theirs else f"{where} is {ours!r}, not {theirs!r}"


# Both are given the same words; a URI stands for the device.
NS = ["-n", "1"]
JSON = [("id-ctrl",), ("id-ns", *NS), ("id-ns", "--namespace-id=1"), ("list-ns",),
        ("list-ns", "-n", "2"), ("list-ns", "-y", "0"), ("ns-descs", *NS), ("smart-log",), ("smart-log", "-n", "0xffffffff"),
        ("smart-log", "-H"), ("error-log",), ("error-log", "-e", "3"), ("fw-log",), ("changed-ns-list-log",),
        ("effects-log", "-c", "0"), ("fid-support-effects-log",),
        ("cmdset-ind-id-ns", *NS), ("nvm-id-ctrl",), ("nvm-id-ns", *NS), ("nvm-id-ns", *NS, "-U", "0")]
BINARY = [("id-ctrl",), ("id-ns", *NS), ("ns-descs", *NS), ("smart-log",), ("error-log", "-e", "5"), ("fw-log",),
          ("changed-ns-list-log",), ("effects-log", "-c", "0")]
TEXT = ["id-ctrl", "cmdset-ind-id-ns -n 1", "nvm-id-ctrl", "nvm-id-ns -n 1", "id-ns -n 1", "ns-descs -n 1", "list-ns",
        "error-log -e 2", "fw-log", "effects-log -c 0", "effects-log -H -c 0"]
CNTLID = slice(78, 80)


def shapes(s):
    s.serve()
    s.verb("admin-passthru", "--opcode=0x55", status=1, says="Invalid Command Opcode")
    for words in JSON:
        a = plain(json.loads(s.verb(*words, "-o", "json")))
        b = plain(json.loads(s.nvme(*words, "-o", "json")))
        fault = differs(a, b, " ".join(words))
        if fault:
            raise AssertionError(fault)
    # Over fabrics nvme-cli 2.3 shows what happens to lie in its memory, and fails: its keys are right.
    theirs = re.findall(r'"(\w+)":', s.nvme("show-regs", "-o", "json", status=None))
    ours = json.loads(s.verb("show-regs", "-o", "json"))
    if not theirs or list(ours) != theirs:
        raise AssertionError(f"show-regs has {list(ours)}, not {theirs}")
    if ours["vs"] >> 16 not in (1, 2) or ours["csts"] & 1 != 1 or ours["pmrmscu"] != U32 - 1:
        raise AssertionError(f"show-regs has {ours}")
    return f"{len(JSON) + 1} alike"


def bytes_of(s):
    s.serve()
    for words in BINARY:
        want = bytearray(s.nvme(*words, "-b", text=False))
        for form in (["-b"], ["-o", "binary"]):
            got = bytearray(s.verb(*words, *form, text=False))
            if words[0] == "id-ctrl":
                got[CNTLID] = want[CNTLID]
            if got != want:
                raise AssertionError(f"{words} {form}: {len(got)} bytes differ from nvme-cli's {len(want)}")
    return f"{len(BINARY)} alike"


def fields(text):
    """A line's label and value, whatever the spaces; the name of the device is nobody's concern."""
    for line in text.splitlines():
        label, _, value = line.partition(":")
        label, value = re.sub(r"[\s.-]+", " ", label).strip(), re.sub(r"\s+", " ", value).strip()
        if label and label not in OWN and "device" not in label:
            yield label, value


def texts(s):
    s.serve()
    for line in TEXT:
        theirs = dict(fields(s.nvme(*line.split())))
        ours = dict(fields(s.verb(*line.split())))
        for label, value in theirs.items():
            # What is meant is told in words of one's own.
            if label == "trtype" or "Admin Commands" in label:
                continue
            if label == "status_field":
                value = value.partition(":")[0] + ")"
            if ours.get(label, "").lower() != value.lower():
                raise AssertionError(f"{line}: {label} is {ours.get(label)!r}, not {value!r}")
    return f"{len(TEXT)} alike"


# Whole lines that are alike.
LINES = [f"get-feature -f {fid}" for fid in (1, 2, 4, 5, 7, 0xa, 0xb, 0xf)] + [
    "get-feature -f 7 -s 1", "get-feature -f 7 -s 3", "get-feature --feature-id=7 --sel=1", "get-feature -f 0x81 -c 1",
    "get-feature -f 0x81 -c 1 -l 16", "get-feature -n 1 -f 5", "set-feature -f 0xb -v 0x100", "set-feature -f 1 -v 0 -c 0",
    "set-feature --feature-id=0xb --value=1", "get-property -o 0", "get-property -o 8", "get-property --offset=8",
    "get-property -o 0x14", "get-property -o 0x1c", "set-property -o 0x14 -v 0x460001",
    "list-ns", "list-ns -n 2", "id-iocs", "id-iocs -c 1", "ns-descs -n 1", "supported-log-pages",
    "fid-support-effects-log", "get-log -i 2 -l 512", "get-log -i 3 -l 64 -n 1", "get-log --log-id=5 --log-len=64 --lpo=4", "get-log -i 5 -l 64 -o 4 -y 0",
    "get-log -i 0 -l 64 -s 0 -S 0 -U 0 -r", "get-log -a 0x020000 -l 16", "get-log -i 2 -l 0x10 -n 0xffffffff",
    "admin-passthru -o 6 -n 1 -4 0 -l 4096 -r -t 5000", "admin-passthru -o 0xa -4 7", "io-passthru -o 0 -n 1"]


def told(text):
    """What both say of the device is each its own."""
    return re.sub(r"\b(null|" + re.escape(NQN) + r")\b", "DEVICE", text)


def lines(s):
    s.serve()
    for line in LINES:
        ours, theirs = told(s.verb(*line.split())), told(s.nvme(*line.split()))
        if line.startswith("get-log -i 2 -l 512"): # what nvme-cli itself asked for is counted, too
            ours, theirs = ours.splitlines()[:3], theirs.splitlines()[:3]
        if ours != theirs:
            raise AssertionError(f"{line}: {ours[:300]!r}, not {theirs[:300]!r}")
    return f"{len(LINES)} alike"


# What changes the disk, or is read of it.
IO = ["read -n 1 -s 7 -c 1 -z 1024", "read -n 1 -s 0x10 -c 0x7 -z 4k", "read -n 1 --start-block=9 --data-size=512 -l -f",
      "read -n 1 -s 1 -z 512 -r 0 -p 0 -a 0 -m 0 -g 0 -D 0 -T 0 -S 0", "write -n 1 -s 100 -c 1 -z 1024 -d {data}",
      "write -n 1 -s 1k -z 512 -d {data} -f -l --force", "compare -n 1 -s 0 -z 512 -d {image}", "flush -n 1",
      "write-zeroes -n 1 -s 8 -c 3", "write-zeroes -n 1 -s 20 -c 0 -d -f -l -p 0 -r 0 -S 0",
      "write-zeroes --namespace-id=1 --start-block=30 --block-count=1", "verify -n 1 -s 0 -c 255 -f -l -S 0",
      "dsm -n 1 -s 40,50 -b 8,8 -d", "dsm -n 1 --slbs=60 --blocks=8 -a 0 -r", "dsm -n 1 -s 0 -b 8 -c 2",
      "dsm -n 1 -s 0 -b 8 -w", "copy -n 1 -d 200 -s 7,9 -b 0,1 -f -l -F 0 -p 0 -P 0", "write-uncor -n 1 -s 300 -c 1",
      "write -n 1 -s 300 -c 1 -z 1024 -d {data}"]


def blocks(s):
    s.serve()
    data = os.path.join(s.tmp.name, "data.bin")
    with open(data, "wb") as f:
        f.write(os.urandom(1024))
    with open(s.image, "rb") as f:
        before = f.read()
    for line in IO:
        words, became = line.format(data=data, image=s.image).split(), []
        for who in (s.nvme, s.verb):
            said = who(*words, text=words[0] != "read")
            with open(s.image, "r+b") as f:
                became.append((said, f.read()))
                f.seek(0)
                f.write(before)
        if became[0] != became[1]:
            differing = [i for i in range(BLOCKS) if became[0][1][i * BLOCK:][:BLOCK] != became[1][1][i * BLOCK:][:BLOCK]]
            raise AssertionError(f"{line}: {became[1][0][:80]!r}, not {became[0][0][:80]!r}; blocks that differ: {differing[:9]}")
    # The addresses of memory are each program's own.
    shown = [{f for f in fields(who("read", *NS, "-s", "5", "-c", "3", "-z", "2048", "-f", "-w", "-d", "/dev/null"))
              if f[0] not in ("addr", "metadata")} for who in (s.nvme, s.verb)]
    if shown[0] != shown[1]:
        raise AssertionError(f"--dry-run shows {shown[1]}, not {shown[0]}")
    s.verb("write", *NS, "-s", "5", "-z", "512", "-d", data, "--dry-run", "-t", says="latency: write")
    with open(s.image, "rb") as f:
        if f.read() != before:
            raise AssertionError("--dry-run has written")
    return f"{len(IO)} alike"


# Verbs that name where they go by letters of their own, or go nowhere.
ELSEWHERE = {"discover", "connect-all", "list", "gen-hostnqn", "show-hostnqn", "gen-dhchap-key", "check-dhchap-key",
             "gen-tls-key", "check-tls-key"}
FAILED, USAGE = 1, 2
NOBODY = "nvme+tcp://127.0.0.1:1/" + NQN
# Of options that do not take 0.
VALUES = {"log-entries": "4", "log-len": "512", "data-size": "4k", "output-format": "json", "data": "/dev/null",
          "input-file": "/dev/null", "opcode": "6", "feature-id": "1"}
# What these ask for is not sent, and that is told.
NOT_SENT = {"storage-tag-check", "metadata"}


def answer(s, verb, *words):
    """What is said where nobody listens: who takes all words fails to connect."""
    r = subprocess.run([s.weft, verb, NOBODY, *words], timeout=60, text=True, capture_output=True,
                       stdin=subprocess.DEVNULL, check=False)
    return r.returncode, r.stderr.partition("\n")[0]


def letters_of(s, verb, options):
    """What is wrong with nvme-cli's options of a verb: each is taken by its word and by its letter, and nonsense
    behind the letter is told by the word's name."""
    for long, kind, letter in options:
        if letter and kind in ("NUM", "IONUM", "LIST"):
            code, text = answer(s, verb, f"-{letter}", "zz")
            if code != USAGE or not re.search(rf"--{long}[ :]", text):
                return f"-{letter} zz: {code}, {text}"
        if long in NOT_SENT and "weft sends no" not in answer(s, verb, f"-{letter}", *(["x"] if kind else []))[1]:
            return f"-{letter}: {answer(s, verb, f'-{letter}', *(['x'] if kind else []))}"
    options = [o for o in options if o[0] not in NOT_SENT and (o[0] != "dry-run" or "passthru" not in verb)]
    words = [f"--{long}" + (f"={VALUES.get(long, '0')}" if kind else "") for long, kind, _ in options]
    short = [w for long, kind, letter in options for w in
             ([f"-{letter}"] if letter else [f"--{long}"]) + ([VALUES.get(long, "0")] if kind else [])]
    for all_words in (words, short):
        code, text = answer(s, verb, *all_words)
        if code != FAILED or "cannot connect" not in text:
            return f"{' '.join(all_words)}: {code}, {text}"
    return None


def letters(s):
    with open(os.path.join(lab.TOP, "src", "cli", "commands.def"), encoding="utf-8") as f:
        ours = set(re.findall(r'^X\(\w+,\s*"([^"]+)"', f.read(), re.M))
    r = s.host.run("nvme", "help", timeout=60)
    count = 0
    for verb in sorted(ours & set(re.findall(r"^  ([a-z][a-z-]+)  ", r.stdout + r.stderr, re.M)) - ELSEWHERE):
        r = s.host.run("nvme", verb, "--help", timeout=60)
        options = re.findall(r"^  \[  --([\w-]+)(?:=<(\w+)>)?(?:, -(\w))?", r.stdout + r.stderr, re.M)
        fault = letters_of(s, verb, options)
        if fault:
            raise AssertionError(f"{verb} {fault}")
        count += len(options)
    if count < 150:
        raise AssertionError(f"only {count} options of nvme-cli were found")
    return f"{count} options"


def features(s):
    s.serve()
    every = json.loads(s.verb("get-feature", "-o", "json"))
    if every["feature: 0x07"]["name"] != "Number of Queues" or len(every) < 8:
        raise AssertionError(f"the features are {every}")
    s.verb("get-feature", "-f", "7", "-H", says="I/O submission queues (NSQA)")
    s.verb("get-feature", "--sel=3", "-f", "7", "-o", "json", says='"changeable"')
    if len(s.verb("get-feature", "-f", "0x81", "-b", text=False)) != 16:
        raise AssertionError("the host's identifier has not 16 bytes")
    s.verb("get-feature", "-f", "0x55", status=1, says="Invalid Field in Command")
    s.verb("get-feature", "--sel=5", status=2, says="0 to 3, or 8")
    s.verb("set-feature", "-f", "1", status=2, says="--value")
    s.verb("set-feature", "--value", "1", status=2, says="--feature-id")
    s.verb("set-feature", "-f", "0x81", "-d", "/dev/null", status=1, says="/dev/null has 0 bytes; --data-len says 16")
    s.verb("set-feature", "-f", "1", "--value", "0", "--save", status=1, says="Not Saveable")
    s.verb("set-feature", "-f", "0xf", "--value", "90000", "-o", "json", says='"result": 90000')
    s.verb("get-property", status=2, says="--offset")
    s.verb("set-property", "--offset", "8", status=2, says="--value")
    s.verb("set-property", "--offset", "8", "--value", "1", status=1, says="Invalid Field in Command")
    s.verb("get-property", "--offset", "0x1c", "-H", says="Ready (RDY)")
    s.verb("show-regs", "-H", says="Timeout (TO)")
    name = s.run(s.weft, "gen-hostnqn").strip()
    if not re.fullmatch(r"nqn\.2014-08\.org\.nvmexpress:uuid:[0-9a-f-]{36}", name):
        raise AssertionError(f"gen-hostnqn says {name}")
    if os.path.exists("/etc/nvme/hostnqn") and s.run(s.weft, "show-hostnqn") != s.run("nvme", "show-hostnqn"):
        raise AssertionError("show-hostnqn differs")


def uncorrectable(s):
    s.serve()
    s.verb("write-uncor", "-n", "1", "-s", "5", says="NVME Write Uncorrectable Success")
    s.verb("read", "-n", "1", "-s", "5", "-d", "/dev/null", status=1, says="Unrecovered Read Error")
    s.verb("read", "-n", "1", "-s", "6", "-d", "/dev/null")
    s.verb("write", "-n", "1", "-s", "5", "-d", s.weft, "-z", "512")
    s.verb("read", "-n", "1", "-s", "5", "-d", "/dev/null")


def refused(s):
    """What the controller does not have is told with its status, whoever asks."""
    s.serve()
    for verb, words, status in (("ana-log", [], "Invalid Log Page"), ("get-log", ["-i", "0xfe", "--log-len", "16"],
                                                                     "Invalid Log Page"),
                                ("admin-passthru", ["--opcode=0x80"], "Invalid Command Opcode"),
                                ("io-passthru", ["--opcode=0x7e", "-N", "1"], "Invalid Command Opcode")):
        s.verb(verb, *words, status=1, says=status)
    s.verb("get-log", status=2, says="--log-id")
    s.verb("get-log", "-i", "2", status=2, says="--log-len")
    s.verb("get-log", "-i", "2", "--log-len", "7", status=2, says="multiple of 4")
    s.verb("admin-passthru", status=2, says="--opcode")
    s.verb("admin-passthru", "--opcode=0x0c", status=1, says="of its own under way")
    s.verb("admin-passthru", "--opcode=8", "--data-len=8", status=2, says="one way")
    s.verb("list-ns", "--namespace-id", "x", status=2, says="--namespace-id")


def passthru(s):
    s.serve()
    out = os.path.join(s.tmp.name, "out.bin")
    s.verb("io-passthru", "--opcode=2", "-N", "1", "--cdw10=7", "--cdw12=1", "--data-len=1024", "-i", out,
           says="IO Command Read is Success")
    with open(out, "rb") as f:
        got = f.read()
    if got != b"".join(i.to_bytes(4, "little") * 128 for i in (7, 8)):
        raise AssertionError("blocks 7 and 8 are not what was read")
    s.verb("io-passthru", "--opcode=1", "-N", "1", "--cdw10=100", "--cdw12=1", "--data-len=1024", "-i", out)
    with open(s.image, "rb") as f:
        f.seek(100 * BLOCK)
        if f.read(1024) != got:
            raise AssertionError("blocks 100 and 101 are not what was written")
    s.verb("io-passthru", "--opcode=1", "-N", "1", "--data-len=4096", "-i", out, status=1, says="has 1024 bytes")
    s.verb("admin-passthru", "--opcode=6", "--cdw10=1", "--data-len=4096", "--dry-run", says="cdw10        : 00000001")
    r = json.loads(s.verb("admin-passthru", "--opcode=0x0a", "--cdw10=7", "-o", "json"))
    if r["result"] & 0xffff != r["result"] >> 16:
        raise AssertionError(f"Number of Queues is {r}")
    log = s.verb("get-log", "-i", "2", "--log-len", "512", "-b", text=False)
    if log != s.verb("smart-log", "-b", text=False) or len(log) != 512:
        raise AssertionError("get-log and smart-log differ")
    # As a namespace's device is to nvme-cli: where the controller is, and no more.
    if log != s.run(s.weft, "smart-log", s.uri + "?ns=1", "-b", text=False):
        raise AssertionError("a namespace in the URI narrows the page")
    theirs = s.nvme("get-log", "-i", "3", "-l", "64").splitlines()[1:]
    if s.verb("get-log", "-i", "3", "--log-len", "64").splitlines()[1:] != theirs:
        raise AssertionError("get-log is not shown as nvme-cli does")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("helpers")
    p.add_argument("--transport", choices=("rdma", "tcp"), default="rdma")
    p.add_argument("--only", default="")
    args = p.parse_args()
    lab.need("nvme")
    lab.enter()
    s = Service(args)
    for name, function in (("JSON, key by key", shapes), ("binary, byte by byte", bytes_of),
                           ("text, field by field", texts), ("text, line by line", lines), ("blocks", blocks),
                           ("letters", letters), ("features and properties", features),
                           ("write-uncor", uncorrectable), ("raw commands", passthru),
                           ("what is refused", refused)):
        s.prove(name, function)
    s.report.everything_ends([s.host])
    s.report.finish()


if __name__ == "__main__":
    sys.exit(main())
