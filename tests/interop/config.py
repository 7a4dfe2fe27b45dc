#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`weft serve --config`: what nvmetcli's file says is what hosts find, and at SIGHUP what it says by then.

usage: config.py BUILD [--transport rdma|tcp]

What stays is not touched: a verified bench goes on meanwhile.
"""
import argparse
import copy
import json
import os
import signal
import sys
import tempfile

import lab

S1, S2 = "nqn.2026-11.org.weft:one", "nqn.2026-11.org.weft:two"
H1, H2 = "nqn.2026-11.org.weft:host1", "nqn.2026-11.org.weft:host2"
KEY, OTHER = (f"DHHC-1:00:{text}:" for text in (
    "gdBptlUQZJhRJWcp+9eKrCaEVRTxg81Lwu7sMWz4iI4Za/dH", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR"))
UUID = "11111111-2222-4333-8444-555555555555"


class Config:
    def __init__(self, build, transport, name="config"):
        self.transport = transport
        self.weft = os.path.join(os.path.abspath(build), "weft")
        self.hosts = lab.lab(1)
        self.report = lab.Report(build, f"{name}-{transport}")
        self.tmp = tempfile.TemporaryDirectory()
        self.programs = []
        self.path = ""
        self.server = None

    def image(self, name, size=8 << 20):
        path = os.path.join(self.tmp.name, name)
        with open(path, "wb") as f:
            f.write(os.urandom(size))
        return path

    def document(self):
        """Two subsystems, of which one is for host 1 alone, at one port."""
        return {
            "hosts": [{"nqn": H1}, {"nqn": H2}],
            "subsystems": [
                {"nqn": S1, "allowed_hosts": [H1], "attr": {"allow_any_host": "0", "serial": "serial-1"},
                 "namespaces": [{"nsid": 1, "enable": 1,
                                 "device": {"path": self.image("a.img"), "uuid": UUID}},
                                {"nsid": 7, "enable": 0, "device": {"path": "/nonexistent"}}]},
                {"nqn": S2, "attr": {"allow_any_host": "1", "model": "model-2"},
                 "namespaces": [{"nsid": 3, "enable": 1, "device": {"path": self.image("b.img")}},
                                {"nsid": 4, "enable": 1, "device": {"path": "mem:8m"}}]}],
            "ports": [self.port(5, 4420, S1, S2)]}

    def port(self, portid, trsvcid, *subsystems):
        return {"portid": portid, "subsystems": list(subsystems), "param": {"inline_data_size": "-1"},
                "addr": {"trtype": self.transport, "adrfam": "ipv4", "traddr": self.hosts[0].address,
                         "trsvcid": str(trsvcid), "treq": "not specified"},
                "referrals": [{"name": "other", "enable": 1, "addr": {
                    "trtype": "tcp", "adrfam": "ipv6", "traddr": "2001:db8::9", "trsvcid": "8009", "portid": "9"}}]}

    @property
    def file(self):
        return os.path.join(self.tmp.name, "config.json")

    def write(self, doc):
        with open(self.file, "w") as f:
            f.write(doc if isinstance(doc, str) else json.dumps(doc, sort_keys=True, indent=2))

    def start(self, *argv):
        return self.start_as([], *argv)

    def start_as(self, user, *argv):
        p = lab.Program(self.hosts[0], [*user, self.weft, *argv], f"{self.path}/{len(self.programs)}-{argv[0]}.log")
        self.programs.append(p)
        return p

    def serve(self, doc):
        self.write(doc)
        self.server = self.start("serve", "--config", self.file)
        self.until("ready")

    def until(self, text):
        if not lab.until(lambda: self.server.says(text) or self.server.status() is not None, 20) \
                or self.server.status() is not None:
            raise AssertionError(f"the service does not say '{text}': {self.server.output()[-500:]}")

    def reload(self, doc, expected):
        before = self.server.output().count(expected)
        self.write(doc)
        self.server.process.send_signal(signal.SIGHUP)
        if not lab.until(lambda: self.server.output().count(expected) > before, 20):
            raise AssertionError(f"the service does not say '{expected}': {self.server.output()[-500:]}")

    def uri(self, nqn, ns=None, host=H1, port=4420):
        query = [f"hostnqn={host}"] + ([f"ns={ns}"] if ns else [])
        return f"nvme+{self.transport}://{self.hosts[0].address}:{port}/{nqn}?{'&'.join(query)}"

    def host(self, *argv, fails=None, seconds=60):
        p = self.start(*argv)
        status = p.wait(seconds)
        if status is None:
            p.kill()
            raise AssertionError(f"weft {argv[0]} still runs after {seconds} s")
        if bool(status) != bool(fails) or (fails and fails not in p.output()):
            raise AssertionError(f"weft {' '.join(argv)} ended with {status}: {p.output()[-300:]}")
        return p.output()

    def records(self, host=H1, port=4420):
        out = self.host("discover", "-t", self.transport, f"{self.hosts[0].address}:{port}", "-q", host,
                        "-o", "json")
        return json.loads(out)["records"]

    def offered(self, host=H1, port=4420):
        return sorted(r["subnqn"] for r in self.records(host, port) if r["subtype"] == "nvme subsystem")

    def bench(self, uri, seconds):
        return self.start("bench", uri, "--rw", "randrw", "--bs", "16k", "--iodepth", "4", "--runtime",
                          str(seconds), "--verify", "--yes")

    def run(self, name, function):
        self.report.prove_and_end(name, self, lambda: function(self))


def same(got, expected, what):
    if got != expected:
        raise AssertionError(f"{what}: {got}, not {expected}")


def as_it_says(c):
    doc = c.document()
    c.serve(doc)
    where = f"{c.transport} -a {c.hosts[0].address} -s 4420"
    for line in (f"weft: nvme+{c.transport}://{c.hosts[0].address}/{S1}?ns=1 --hostnqn={H1}\n",
                 f"Linux: nvme connect -t {where} -n {S1} -q {H1}\n", f"Linux: nvme connect -t {where} -n {S2}\n"):
        same(line in c.server.output(), True, f"'{line.strip()}' in {c.server.output()}")
    same("no host can use" in c.server.output(), False, "a warning")
    same(c.offered(H1), [S1, S2], "host 1 is offered")
    same(c.offered(H2), [S2], "host 2 is offered")
    records = c.records()
    same({r["portid"] for r in records if r["subtype"] == "nvme subsystem"}, {5}, "the port's number")
    referral = [r for r in records if "referral" in r["subtype"]]
    same([(r["trtype"], r["adrfam"], r["traddr"], r["trsvcid"], r["portid"]) for r in referral],
         [("tcp", "ipv6", "2001:db8::9", "8009", 9)], "referrals")
    same(json.loads(c.host("id-ctrl", c.uri(S1), "-o", "json"))["sn"].strip(), "serial-1", "serial")
    same(json.loads(c.host("id-ctrl", c.uri(S2), "-o", "json"))["mn"].strip(), "model-2", "model")
    same(json.loads(c.host("id-ns", c.uri(S1, 1), "-o", "json"))["nguid"], UUID.replace("-", ""), "nguid")
    c.host("id-ctrl", c.uri(S1, host=H2), fails="does not let host")
    c.host("id-ns", c.uri(S1, 7), fails="7")
    c.host("cp", c.uri(S2, 3), os.path.join(c.tmp.name, "copy"))
    with open(os.path.join(c.tmp.name, "copy"), "rb") as f, open(os.path.join(c.tmp.name, "b.img"), "rb") as g:
        same(f.read() == g.read(), True, "the copy is the disk")


def refused(c):
    """Nothing is served of a file in which something is wrong, or protects what it cannot."""
    base = c.document()
    for change, words in (
            (lambda d: d["subsystems"][1]["namespaces"][0].update(nsid=0), "subsystems[1].namespaces[0].nsid"),
            (lambda d: d["ports"][0]["subsystems"].append("nqn.2026-11.org.weft:x"), "ports[0].subsystems[2]"),
            (lambda d: d["ports"][0]["addr"].update(treq="required"), "ports[0].addr.treq"),
            (lambda d: d["hosts"][1].update(dhchap={"key": "DHHC-1:00:c2VjcmV0:"}), "hosts[1].dhchap.key"),
            (lambda d: d["hosts"][1].update(dhchap={"ctrl_key": KEY}), "hosts[1].dhchap.key"),
            (lambda d: d["hosts"][1].update(dhchap={"key": KEY, "hash": "md5"}), "hosts[1].dhchap.hash"),
            (lambda d: d["hosts"][1].update(dhchap={"key": KEY, "dhgroup": "modp"}), "hosts[1].dhchap.dhgroup"),
            (lambda d: d["subsystems"][0]["namespaces"][0]["device"].update(path="/nonexistent"), "/nonexistent"),
            (lambda d: d["subsystems"][1]["namespaces"][1]["device"].update(path="mem:much"), "mem:much"),
            (lambda d: d["subsystems"][1]["namespaces"][1]["device"].update(path=os.path.join(c.tmp.name, "a.img")),
             "named twice")):
        doc = copy.deepcopy(base)
        change(doc)
        c.write(doc)
        said = c.host("serve", "--config", c.file, fails=words)
        if "c2VjcmV0" in said:
            raise AssertionError(f"a secret is told: {said}")
    c.write("{\n \"hosts\": [}\n")
    c.host("serve", "--config", c.file, fails="config.json: line 2")
    c.host("serve", "--config", os.path.join(c.tmp.name, "none"), fails="No such file")
    c.host("serve", "--config", c.file, "x.img", fails="stands in the file")


def neighbours_stay(c):
    """Namespaces, subsystems and a port come and go; who uses another does not notice."""
    doc = c.document()
    c.serve(doc)
    bench = c.bench(c.uri(S2, 4), 6)
    lab.until(lambda: c.server.says("connected"), 10)
    c.reload(doc, "read again, 0 changes")
    new = copy.deepcopy(doc)
    new["subsystems"][1]["namespaces"][0] = {"nsid": 9, "enable": 1, "device": {"path": "mem:4m"}}
    new["subsystems"].pop(0)
    new["subsystems"].append({"nqn": S1 + "-new", "attr": {"allow_any_host": 1}, "namespaces": [
        {"nsid": 1, "enable": 1, "device": {"path": os.path.join(c.tmp.name, "a.img")}}]})
    new["ports"] = [c.port(6, 4420, S2), c.port(7, 4421, S1 + "-new")]
    new["ports"][0]["referrals"] = []
    # The file of the subsystem that goes is the new one's.
    c.reload(new, "read again")
    same(c.offered(), [S2], "offered at the first port")
    same(c.offered(port=4421), [S1 + "-new"], "offered at the second port")
    c.host("id-ns", c.uri(S2, 9))
    c.host("id-ns", c.uri(S2, 3), fails="3")
    c.host("id-ctrl", c.uri(S1), fails=S1)
    c.host("cp", c.uri(S1 + "-new", 1, port=4421), os.path.join(c.tmp.name, "copy"))
    c.reload(doc, "read again")
    same(c.offered(), [S1, S2], "offered again")
    c.host("id-ctrl", c.uri(S2, port=4421), fails="4421")
    same(bench.wait(30), 0, "the bench's status")


def nothing_or_all(c):
    doc = c.document()
    c.serve(doc)
    new = copy.deepcopy(doc)
    new["subsystems"].pop(0)
    new["ports"] = [c.port(5, 4420, S2), c.port(6, 4421, S2)]
    new["subsystems"][0]["namespaces"].append({"nsid": 5, "enable": 1, "device": {"path": "/nonexistent"}})
    c.reload(new, "/nonexistent: no such file")
    c.reload("{", "line 1, column 2: it ends")
    same(c.offered(), [S1, S2], "offered")
    c.host("id-ctrl", c.uri(S2, port=4421), fails="4421")
    c.host("id-ns", c.uri(S1, 1))
    new["subsystems"][0]["namespaces"].pop()
    new["ports"].append({**c.port(7, 4422, S2)})
    new["ports"][2]["addr"]["traddr"] = "192.0.2.99"
    c.reload(new, "192.0.2.99")
    same(c.offered(), [S1, S2], "offered")
    c.host("id-ctrl", c.uri(S2, port=4421), fails="4421")
    new["ports"].pop()
    c.reload(new, "read again")
    same(c.offered(port=4421), [S2, S2], "offered at both ports")


def nobody_can_use(c):
    """What is missing before a host can use anything is told, and it serves."""
    for change, says in ((lambda d: d.update(ports=[]), "it has no port"),
                         (lambda d: d["ports"][0].update(subsystems=[]), "no port of it names a subsystem"),
                         (lambda d: [s.update(allowed_hosts=[], attr={}) for s in d["subsystems"]], "no host may use"),
                         (lambda d: [n.update(enable=0) for s in d["subsystems"] for n in s["namespaces"]],
                          "namespace that is enabled")):
        doc = c.document()
        change(doc)
        c.serve(doc)
        same("no host can use a disk yet" in c.server.output() and says in c.server.output(), True,
             f"'{says}' in {c.server.output()}")
        same("nvme connect" in c.server.output(), False, "a line to connect by")
        c.server.kill()


def who_has_the_key(c):
    """A host with a key in the file proves that it has it, from the next reading of the file on."""
    doc = c.document()
    c.serve(doc)
    bench = c.bench(c.uri(S2, 3, host=H2), 4)
    lab.until(lambda: c.server.says("connected"), 10)
    new = copy.deepcopy(doc)
    new["hosts"][0]["dhchap"] = {"key": KEY, "ctrl_key": OTHER, "hash": "hmac(sha384)", "dhgroup": "ffdhe2048"}
    c.reload(new, "read again, 1 change")
    for nqn in (S1, S2):
        c.host("id-ctrl", c.uri(nqn), fails="demands in-band authentication")
        c.host("id-ctrl", c.uri(nqn), "-S", OTHER, fails="does not take this host's key")
        c.host("id-ctrl", c.uri(nqn), "-S", KEY)
        c.host("id-ctrl", c.uri(nqn), "-S", KEY, "-C", OTHER)
    c.host("id-ctrl", c.uri(S1), "-S", KEY, "-C", KEY, fails="does not have the controller's key")
    c.reload(doc, "read again, 1 change")
    c.host("id-ctrl", c.uri(S1))
    same(bench.wait(30), 0, "the bench's status")
    if KEY[10:40] in c.server.output() or OTHER[10:40] in c.server.output():
        raise AssertionError("a secret is told")


def who_may_no_longer(c):
    """Hosts that are not allowed any more are disconnected, as are those of what is offered no more."""
    doc = c.document()
    doc["subsystems"][1]["attr"]["allow_any_host"] = "0"
    doc["subsystems"][1]["allowed_hosts"] = [H1, H2]
    c.serve(doc)
    stays, goes = c.bench(c.uri(S2, 4), 5), c.bench(c.uri(S2, 3, H2), 60)
    lab.until(lambda: c.server.output().count("connected:") == 2, 10)
    doc["subsystems"][1]["allowed_hosts"] = [H1]
    c.reload(doc, "read again, 1 change\n")
    if not goes.wait(30):
        raise AssertionError("the host that may no longer goes on")
    same(stays.wait(30), 0, "the other's status")
    c.host("id-ctrl", c.uri(S2, host=H2), fails="does not let host")


def discovery_is_watched(c):
    """Each log is a document; a change that the host does not see prints none."""
    doc = c.document()
    doc["discovery"] = {"nqn": "nqn.2026-11.org.weft:discovery"}
    c.serve(doc)
    watch = c.start("discover", "--persistent", "-t", c.transport, f"{c.hosts[0].address}:4420", "-q", H2, "-o", "json",
                    "-n", doc["discovery"]["nqn"])

    def logs():
        text, found = watch.output(), []
        while text.strip():
            try:
                log, end = json.JSONDecoder().raw_decode(text.lstrip())
            except ValueError:
                break
            found.append(log)
            text = text.lstrip()[end:]
        return found

    def nth(n):
        if not lab.until(lambda: len(logs()) >= n, 20):
            raise AssertionError(f"no log number {n}: {watch.output()[-300:]}")
        same(len(logs()), n, "logs")
        return sorted(r["subnqn"] for r in logs()[-1]["records"] if "referral" not in r["subtype"])

    same(nth(1), [doc["discovery"]["nqn"], S2], "before")
    doc["subsystems"][0]["allowed_hosts"] = [H1, H2]
    c.reload(doc, "read again, 1 change")
    same(nth(2), [doc["discovery"]["nqn"], S1, S2], "host 2 is allowed")
    doc["subsystems"][1]["attr"].update(model="model-3", vendor_id="0x1b36", ieee_oui="0x525400")
    c.reload(doc, "read again, 1 change")
    doc["ports"][0]["subsystems"] = [S1]
    doc["subsystems"].pop()
    c.reload(doc, "read again, 2 changes")
    same(nth(3), [doc["discovery"]["nqn"], S1], "a subsystem is gone")
    watch.process.send_signal(signal.SIGINT)
    same(watch.wait(10), 130, "its status")


def same_disk_other_name(c):
    """A namespace that gets another identity keeps its disk, be it one in memory."""
    doc = c.document()
    c.serve(doc)
    for nqn, ns, name in ((S1, 1, "a.img"), (S2, 4, "a.img")):
        c.host("cp", os.path.join(c.tmp.name, name), c.uri(nqn, ns))
    other = UUID.replace("1", "9")
    doc["subsystems"][0]["namespaces"][0]["device"]["uuid"] = other
    doc["subsystems"][1]["namespaces"][1]["device"]["uuid"] = UUID
    c.reload(doc, "read again, 4 changes")
    same(json.loads(c.host("id-ns", c.uri(S1, 1), "-o", "json"))["nguid"], other.replace("-", ""), "nguid")
    for nqn, ns in ((S1, 1), (S2, 4)):
        c.host("cp", c.uri(nqn, ns), os.path.join(c.tmp.name, "copy"))
        with open(os.path.join(c.tmp.name, "copy"), "rb") as f, open(os.path.join(c.tmp.name, "a.img"), "rb") as g:
            same(f.read() == g.read(), True, "what was written is there")
    # A disk that has left is somebody else's.
    doc["subsystems"][0]["namespaces"] = []
    c.reload(doc, "read again, 1 change\n")
    taken = c.start("serve", os.path.join(c.tmp.name, "a.img"), "-l", f"tcp://{c.hosts[0].address}:4430")
    if not lab.until(lambda: taken.says("ready"), 10):
        raise AssertionError(f"the file is not free: {taken.output()}")


def same_disk_to_be_read(c):
    """A file is served for reading alone, and to be written again: nobody else can have it meanwhile."""
    doc = c.document()
    c.serve(doc)
    bench = c.bench(c.uri(S2, 4), 8)
    lab.until(lambda: c.server.says("connected"), 10)
    image, device = os.path.join(c.tmp.name, "a.img"), doc["subsystems"][0]["namespaces"][0]["device"]
    with open(image, "rb") as f:
        content = f.read()
    new = c.image("new")

    def holds(what):
        c.host("cp", c.uri(S1, 1), os.path.join(c.tmp.name, "copy"))
        with open(os.path.join(c.tmp.name, "copy"), "rb") as f:
            same(f.read() == what, True, "it holds what it held")

    for _ in range(2):
        device["path"] = image + ",ro"
        c.reload(doc, "read again, 2 changes")
        c.host("cp", new, c.uri(S1, 1), fails="write-protected")
        holds(content)
        c.host("serve", image, "-l", f"tcp://{c.hosts[0].address}:4430", fails="is in use")
        device["path"] = image
        c.reload(doc, "read again, 2 changes")
        with open(new, "rb") as f:
            content = f.read()
        c.host("cp", new, c.uri(S1, 1))
        holds(content)
        c.host("serve", image + ",ro", "-l", f"tcp://{c.hosts[0].address}:4430", fails="is in use")
        new = c.image("new")
    # Twice it is none.
    doc["subsystems"][0]["namespaces"].append({"nsid": 2, "enable": 1, "device": {"path": image + ",ro"}})
    c.reload(doc, "is in use: named twice, or served already by another process; nothing has changed")
    same(bench.wait(30), 0, "the bench's status")


def same_disk_without_blocks(c):
    """A file that was cut to nothing under its namespace is none for another."""
    doc = c.document()
    c.serve(doc)
    bench = c.bench(c.uri(S2, 4), 6)
    lab.until(lambda: c.server.says("connected"), 10)
    path = os.path.join(c.tmp.name, "a.img")
    blocks = lambda: json.loads(c.host("id-ns", c.uri(S1, 1), "-o", "json"))["nsze"]
    before = blocks()
    for size in (0, 8 << 20):
        os.truncate(path, size)
        if not lab.until(lambda: blocks() == (before if size else 0), 10):
            raise AssertionError(f"the file's {size} bytes are not seen")
        doc["subsystems"][0]["namespaces"][0]["device"]["uuid"] = UUID.replace("1", "9")
        c.reload(doc, "read again, 2 changes" if size else "too small to be a namespace; nothing has changed")
    same(bench.wait(30), 0, "the bench's status")


def made_disk_grows(c):
    """Another size for a disk in memory is no other disk: who works on it goes on, and what it holds stays."""
    doc = c.document()
    c.serve(doc)
    blocks = lambda: json.loads(c.host("id-ns", c.uri(S2, 4), "-o", "json"))["nsze"]
    bench = c.bench(c.uri(S2, 4), 5)
    lab.until(lambda: c.server.says("connected"), 10)
    before = blocks()
    for size, changes in (("64m", 8), ("32m", 4), ("8m", 1)):
        doc["subsystems"][1]["namespaces"][1]["device"]["path"] = f"mem:{size}"
        c.reload(doc, "read again, 1 change\n")
        same(blocks(), before * changes, f"blocks with mem:{size}")
    same(bench.wait(30), 0, "the bench's status")
    doc["subsystems"][1]["namespaces"][1]["device"]["path"] = "mem:much"
    c.reload(doc, "mem:much: it is not a size of a disk")
    doc["subsystems"][1]["namespaces"][1]["device"]["path"] = "mem:64m"
    doc["subsystems"][1]["namespaces"].append({"nsid": 5, "enable": 1, "device": {"path": "/nonexistent"}})
    c.reload(doc, "/nonexistent: no such file")
    same(blocks(), before, "blocks of what was not done")


def what_controllers_are(c):
    """Version, in-capsule data and transfers are as the file says, of controllers that come from then on."""
    doc = c.document()
    attr, param = doc["subsystems"][1]["attr"], doc["ports"][0]["param"]
    c.serve(doc)

    def told():
        ctrl = json.loads(c.host("id-ctrl", c.uri(S2), "-o", "json"))
        for size in ("16k", "512"):
            c.host("bench", c.uri(S2, 4), "--rw=write", f"--bs={size}", "--size=256k", "--iodepth=8", "--verify", "--yes")
        vs = int(json.loads(c.host("get-property", c.uri(S2), "--offset=8", "-o", "json"))["value"], 16)
        same(vs, ctrl["ver"], "property VS")
        return ctrl["ver"], ctrl["ioccsz"], ctrl["mdts"]

    same(told(), (0x20000, 4 + 8192 // 16, 8), "what is not told")
    bench = c.bench(c.uri(S2, 3), 10)
    for version, data, mdts, want in (("1.3", "16384", "5", (0x10300, 4 + 1024, 5)), ("1.4", 0, "2", (0x10400, 4, 2)),
                                      ("2.0", "1000", "20", (0x20000, 4 + 62, 8)),
                                      ("2.1", "-1", "-1", (0x20000, 4 + 512, 8))):
        attr["version"], param["inline_data_size"], param["mdts"] = version, data, mdts
        c.reload(doc, "read again, 2 changes\n")
        same(told(), want, f"with {version}, {data}, {mdts}")
    for words in ("hosts are told 2.0", "mdts: 8 is the most there is"):
        same(words in c.server.output(), True, words)
    same(bench.wait(60), 0, "the status of a bench that was there before")
    attr["version"] = "two"
    c.reload(doc, "subsystems[1].attr.version: a version")


def many_of_all(c):
    """As many ports as anybody has, which come and go, and the last namespace."""
    doc = c.document()
    doc["subsystems"][1]["namespaces"] += [{"nsid": n, "enable": 1, "device": {"path": "mem:1m"}} for n in (257, 1024)]
    ports = [c.port(portid, 4420 + portid, S2) for portid in range(1, 151)]
    doc["ports"] = ports
    c.serve(doc)
    for port in (4421, 4570):
        same(len([r for r in c.records(port=port) if r["subtype"] == "nvme subsystem"]), 150, f"records by port {port}")
    listed = json.loads(c.host("list-ns", c.uri(S2, port=4570), "-o", "json"))
    same([n["nsid"] for n in listed["nsid_list"]], [3, 4, 257, 1024], "namespaces")
    for ns in (257, 1024):
        load = c.bench(c.uri(S2, ns, port=4500), 1)
        same(load.wait(30), 0, f"a load on namespace {ns}: {load.output()[-300:]}")
    for some, changes in ((ports[::2], 75), (ports[1::2], 150), (ports, 75)):
        doc["ports"] = some
        c.reload(doc, f"read again, {changes} changes")
        same(len([r for r in c.records(port=4420 + some[-1]["portid"]) if r["subtype"] == "nvme subsystem"]), len(some),
             "records")
    c.write({})
    c.server.process.send_signal(signal.SIGHUP)
    c.until("port 150: removed")
    c.host("id-ctrl", c.uri(S2, port=4421), fails="4421")


def device_comes_back(c):
    """Its address is listened on again, and what others do meanwhile is not touched."""
    def come():
        c.hosts[0].ip("link", "add", "name", "comes0", "type", "veth", "peer", "name", "comes1")
        for name in ("comes0", "comes1"):
            c.hosts[0].ip("link", "set", name, "up")
        c.hosts[0].ip("addr", "add", "10.99.0.1/24", "dev", "comes0")

    doc = c.document()
    doc["ports"].append(c.port(6, 4421, S2))
    doc["ports"][1]["addr"]["traddr"] = "10.99.0.1"
    come()
    c.serve(doc)
    bench = c.bench(c.uri(S2, 3), 8)
    uri = f"nvme+{c.transport}://10.99.0.1:4421/{S2}"
    for _ in range(2):
        c.host("id-ctrl", uri)
        before = c.server.output().count("are heard again at 10.99.0.1 port 4421")
        c.hosts[0].ip("link", "del", "comes0")
        lab.until(lambda: "weft_comes0 is gone" in c.server.output(), 10)
        come()
        if not lab.until(lambda: c.server.output().count("are heard again at 10.99.0.1 port 4421") > before, 10):
            raise AssertionError(f"it is not listened on again: {c.server.output()[-300:]}")
    c.host("id-ctrl", uri)
    # It can be taken away as any other, while it is there and while it is not.
    c.hosts[0].ip("link", "del", "comes0")
    lab.until(lambda: c.server.output().count("weft_comes0 is gone") > 2, 10)
    del doc["ports"][1]
    c.reload(doc, "read again")
    same(bench.wait(60), 0, "the status of a bench at the other port")


def arguments(doc):
    p = argparse.ArgumentParser(description=doc.splitlines()[0])
    p.add_argument("build")
    p.add_argument("--transport", choices=("rdma", "tcp"), default="rdma")
    return p.parse_args()


def main():
    args = arguments(__doc__)
    lab.enter()
    c = Config(args.build, args.transport)
    c.run("what the file says", as_it_says)
    c.run("files that are refused", refused)
    c.run("neighbours stay", neighbours_stay)
    c.run("all or nothing", nothing_or_all)
    c.run("who may no longer", who_may_no_longer)
    c.run("nobody can use it", nobody_can_use)
    c.run("who has the key", who_has_the_key)
    c.run("discovery is watched", discovery_is_watched)
    if args.transport == "rdma":
        c.run("a device that comes back", device_comes_back)
    c.run("another size for a disk in memory", made_disk_grows)
    c.run("what controllers are", what_controllers_are)
    c.run("many ports and the last namespace", many_of_all)
    c.run("another name for the same disk", same_disk_other_name)
    c.run("the same disk to be read alone", same_disk_to_be_read)
    c.run("another name for a disk without blocks", same_disk_without_blocks)
    c.report.everything_ends(c.hosts)
    c.report.finish()


if __name__ == "__main__":
    sys.exit(main())
