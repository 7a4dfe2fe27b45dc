#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""docs/tutorial-mpi-ci.md works: the steps of its workflow, and what its pods run.

usage: tutorial.py BUILD (workflow | kind)

workflow: the commands of the first section, and every `run:` in a new system, are typed into a shell,
in a network namespace. kind: the commands of the pods run in containers of the Dockerfile's image
and user, with networks as Kind's pods have: each is joined to the node alone, which forwards.
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import tempfile
import textwrap

import installed
import lab
import package
import places

FILES = f"{lab.TOP}/docs/tutorial"
DATAGRAMS = 50  # at least, of two ranks


def tutorial(name):
    with open(f"{FILES}/{name}", encoding="utf-8") as f:
        return f.read()


def scripts(text, head):
    """The texts of `head |` and of `head text` in YAML, where text does not name something."""
    for m in re.finditer(rf"^( *){head} (?:\|\n((?:\1 +.*\n|\n)+)|(\w[^:\n]*)\n)", text, re.M):
        yield textwrap.dedent(m[2]) if m[2] else m[3] + "\n"


def packages(text):
    """What apt-get is told to install, less weft."""
    words = re.search(r"apt-get -qq install ((?:.*\\\n)*.*)", text)[1].replace("\\\n", " ")
    return {w for w in words.split("&&")[0].split() if not w.startswith(("-", "/"))}


def are_listed(_):
    """What the files install is what the machine of the tests has."""
    with open(f"{lab.TOP}/scripts/packages", encoding="utf-8") as f:
        listed = set(re.sub(r"#.*", "", f.read()).split())
    unknown = (packages(tutorial("workflow.yml")) | packages(tutorial("Dockerfile"))) - listed
    unknown.discard("ca-certificates")  # for what is cloned by https
    return f"not in scripts/packages: {unknown}" if unknown else None


# ---- the workflow --------------------------------------------------------------------------------

def own_machine(host, build, path):
    """The commands of the page; and mpirun's fails without weft, for there is no other way."""
    with open(f"{lab.TOP}/docs/tutorial-mpi-ci.md", encoding="utf-8") as f:
        section = re.search(r"^## On your own machine\n(.*?)^## ", f.read(), re.M | re.S)[1]
    compiled, run = re.findall(r"^ {4}(.*)\n", section, re.M)
    with tempfile.TemporaryDirectory() as here:
        os.symlink(build, f"{here}/build")
        os.symlink(f"{lab.TOP}/docs", f"{here}/docs")
        env = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        for command, log, says in (
                (f"{compiled} && {run}", "with.log", "2 ranks, 0 bytes wrong"),
                (run.partition(" -- ")[2], "without.log", "PML ucx cannot be selected")):
            p = lab.Program(host, ["sh", "-c", f"cd {here} && {command}"], f"{path}/{log}", env=env)
            status = p.wait(60)
            p.kill()
            if (status == 0) != (log == "with.log") or not p.says(says):
                return f"{command} ends with {status}, and not with '{says}'"
    return None


# Of a container's: what mpirun and the network's figures need.
IN_SYSTEM = """mount -t proc proc "$0/proc" && mount --rbind /sys "$0/sys" &&
	mount -t devtmpfs dev "$0/dev" && mount -t tmpfs shm "$0/dev/shm" && exec chroot "$0" "$@\""""
ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
       "DEBIAN_FRONTEND": "noninteractive"}


class System:
    """A new Debian below a directory; missing: why there is none."""

    def __init__(self, path):
        self.path = path
        able = os.geteuid() == 0 and shutil.which("mmdebstrap")
        self.missing = package.new_system(path) if able else "only root, with mmdebstrap, can"

    def inside(self, argv):
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--", "sh", "-c", IN_SYSTEM,
                self.path, *argv]


def online(argv, log, env=None):
    """Runs with the machine's network, as what asks for packages must."""
    with open(log, "ab") as out:
        return subprocess.run(argv, env=env or ENV, stdin=subprocess.DEVNULL, stdout=out,
                              stderr=out, timeout=900, check=False).returncode


class Job:
    """A shell for each step; in a new system, or on this one, without apt's, if none can be made."""

    def __init__(self, top):
        self.host, _ = lab.lab(1)
        self.system = System(f"{top}/system")
        self.home = top if self.system.missing else f"{self.system.path}/root"
        os.makedirs(f"{self.home}/src")
        shutil.copy(f"{FILES}/ring.c", f"{self.home}/src")
        subprocess.run(["git", "clone", "--quiet", "--bare", "--depth", "1", f"file://{lab.TOP}",
                        f"{self.home}/weft.git"], check=True)

    def step(self, text, path):
        home = self.home if self.system.missing else "/root"
        env = {**ENV, "HOME": home, "GITHUB_PATH": f"{home}/path",
               "WEFT_GIT": f"file://{home}/weft.git"}
        if os.path.exists(f"{self.home}/path"):
            with open(f"{self.home}/path", encoding="utf-8") as f:
                env["PATH"] = ":".join([*f.read().split(), env["PATH"]])
        argv = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", 'cd "$HOME"\n' + text]
        if not self.system.missing:
            argv = self.system.inside(argv)
        if re.search("apt-get|scripts/setup", text):
            status = online(argv, f"{path}/step.log", env)
        else:
            p = lab.Program(self.host, argv, f"{path}/step.log", env=env)
            status = p.wait(600)
            p.kill()
        return None if status == 0 else f"the shell ends with {status}"


def workflow(report, build):
    with tempfile.TemporaryDirectory() as top:
        job = Job(top)
        report.attempt("own machine", lambda path: own_machine(job.host, build, path))
        for text in scripts(tutorial("workflow.yml"), "run:"):
            name = text.split("\n")[0]
            if job.system.missing and text.startswith("apt-get"):
                report.skip(name, f"no new system can be made: {job.system.missing}")
            else:
                report.attempt(name, lambda path, t=text: job.step(t, path))
        report.everything_ends((job.host,))


# ---- the pods ------------------------------------------------------------------------------------

class Cluster:
    """A node that forwards, and its pods; each has its gateway and no neighbour else."""

    def __init__(self, names):
        within = places.user_namespace()
        self.node = lab.Host("node", "10.244.0.1", None, within)
        self.node.run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
        self.pods = {}
        for i, name in enumerate(names, 2):
            pod = self.pods[name] = lab.Host(name, f"10.244.0.{i}", None, within)
            self.node.ip("link", "add", f"veth{i}", "type", "veth", "peer", "name", "eth0", "netns",
                         str(pod.holder.pid))
            self.node.ip("addr", "add", "10.244.0.1/32", "dev", f"veth{i}")
            self.node.ip("link", "set", f"veth{i}", "up")
            self.node.ip("route", "add", pod.address, "dev", f"veth{i}")
            pod.ip("addr", "add", f"{pod.address}/32", "dev", "eth0")
            pod.ip("link", "set", "eth0", "up")
            pod.ip("route", "add", "10.244.0.1", "dev", "eth0")
            pod.ip("route", "add", "default", "via", "10.244.0.1")


def follow(dockerfile, system, log):
    """Does what a Dockerfile says, with weft's package as it is now. What is wrong, or None."""
    packages_dir = f"{os.path.dirname(system.path)}/packages"
    if online([f"{lab.TOP}/scripts/deb"], log, {**os.environ, "BUILD": packages_dir}):
        return "make deb fails"
    for word, rest in re.findall(r"^([A-Z]+) ((?:.*\\\n)*.*)", dockerfile, re.M):
        rest = rest.replace("\\\n", " ")
        if word == "COPY":
            *patterns, to = rest.split()
            os.makedirs(system.path + to, exist_ok=True)
            for pattern in patterns:
                found = glob.glob(f"{FILES}/{pattern}") or glob.glob(f"{packages_dir}/deb/{pattern}")
                if len(found) != 1:
                    return f"COPY {pattern}: {found}"
                shutil.copy(found[0], system.path + to)
        elif word == "RUN" and online(system.inside(["sh", "-c", rest]), log):
            return f"RUN {rest} fails"
    return None


def staged(scratch, build):
    """What stands for the image on this system: path in the pod -> path here."""
    weft, wrong = installed.stage(build, f"{scratch}/stage")
    if wrong:
        raise RuntimeError(wrong)
    subprocess.run(["mpicc.openmpi", "-O2", "-o", f"{scratch}/ring", f"{FILES}/ring.c"], check=True)
    with open(f"{scratch}/passwd", "w", encoding="ascii") as f:
        f.write("root:x:0:0::/root:/bin/sh\nmpi:x:1000:1000::/tmp:/bin/sh\n")
    return {"/usr/local": os.path.dirname(weft), "/opt/mpi/ssh_config": f"{FILES}/ssh_config",
            "/opt/mpi/ring": f"{scratch}/ring", "/etc/passwd": f"{scratch}/passwd"}


def image(scratch, build, report):
    """The image's files, if a system can be made of which it is one."""
    system = System(f"{scratch}/system")
    if system.missing:
        report.skip("Dockerfile", f"no new system can be made: {system.missing}")
        return staged(scratch, build)
    report.attempt("Dockerfile", lambda path: follow(tutorial("Dockerfile"), system, f"{path}/log"))
    for name in ("hosts", "nsswitch.conf"):  # where the pods get their own
        with open(f"{system.path}/etc/{name}", "a", encoding="ascii"):
            pass
    return {path: system.path + path for path in ("/usr", "/etc", "/opt", "/home")}


def kubernetes(scratch, pods):
    """What Kubernetes adds: the secret and the names, and nobody to ask for others."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{scratch}/id"], check=True)
    # Others' files may be open to read.
    os.chmod(f"{scratch}/id", 0o644 if lab.ordinary_user() else 0o600)
    hosts = "".join(f"{p.address} {name}\n" for name, p in pods.items())
    for name, text in (("hosts", f"127.0.0.1 localhost\n{hosts}"),
                       ("names", "passwd: files\ngroup: files\nhosts: files\n")):
        with open(f"{scratch}/{name}", "w", encoding="ascii") as f:
            f.write(text)
    return {"/ssh/id": f"{scratch}/id", "/ssh/id.pub": f"{scratch}/id.pub",
            "/etc/hosts": f"{scratch}/hosts", "/etc/nsswitch.conf": f"{scratch}/names"}


def kind(report, build):
    ranks = ("rank-0.mpi", "rank-1.mpi")
    cluster = Cluster((*ranks, "launcher"))
    sshd, start = scripts(tutorial("kind.yaml"), "-")
    with tempfile.TemporaryDirectory() as scratch:
        os.chmod(scratch, 0o755)
        files = {**image(scratch, build, report), **kubernetes(scratch, cluster.pods)}
        for name, pod in cluster.pods.items():
            pod.place = lambda argv, n=name: places.pod(files, n.split(".")[0], argv)

        def ring(path):
            programs = [lab.Program(cluster.pods[r], ["/bin/sh", "-c", sshd], f"{path}/{r}.log")
                        for r in ranks]
            launcher = lab.Program(cluster.pods["launcher"], ["/bin/sh", "-c", start],
                                   f"{path}/launcher.log")
            try:
                status = launcher.wait(60)
                if status != 0:
                    return f"the launcher ends with {status}"
                if not launcher.says("2 ranks, 0 bytes wrong"):
                    return "the program does not say that all is well"
                if not launcher.says("tag(rc_verbs/weft_eth0:1"):
                    return "UCX does not say that it uses rc_verbs"
                sent = [cluster.pods[r].datagrams() for r in ranks]
                return f"only {sent} datagrams" if min(sent) < DATAGRAMS else None
            finally:
                for p in (launcher, *programs):
                    p.kill()

        report.attempt("ring over two pods", ring)
        report.everything_ends((*cluster.pods.values(), cluster.node))


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("what", choices=["workflow", "kind"])
    args = p.parse_args()
    if os.geteuid():  # root's hosts need no more, and packages need the network
        lab.enter()
    lab.need("mpicc.openmpi", "mpirun.openmpi", *(["git", "meson"] if args.what == "workflow" else
                                  ["bwrap", "ssh", "ssh-keygen", "/usr/sbin/sshd"]))
    build = os.path.abspath(args.build)
    report = lab.Report(build, f"tutorial-{args.what}")
    report.attempt("packages", are_listed)
    if args.what == "workflow":
        if subprocess.run(["git", "-C", lab.TOP, "rev-parse"], capture_output=True,
                          check=False).returncode:
            lab.skip("not a git repository, which could be cloned")
        workflow(report, build)
    else:
        kind(report, build)
    report.finish()


if __name__ == "__main__":
    main()
