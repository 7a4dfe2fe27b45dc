#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Shells complete every command, and every option that the --help of a command has.

usage: completion.py BUILD (bash | zsh)

bash is asked through the function that it would call; zsh is typed to, on a terminal.
"""
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import threading

import lab

SOCKET = os.path.join(tempfile.gettempdir(), f"weft-completion-{os.getpid()}")
HERE = os.path.join(lab.TOP, "src", "cli", "completion")
# What bash makes of a line, by its COMP_WORDBREAKS.
BASH = '''source "$1/weft.bash"; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _weft; printf '%s\\n' "${COMPREPLY[@]}"'''


class Bash:
    def __init__(self, build, scratch):
        self.build, self.scratch = build, scratch

    def complete(self, line):
        words = [w for w in re.split(r"(=)|\s+", line) if w]
        if line.endswith((" ", "=")):
            words += [""] if line.endswith(" ") else []
        words[0] = os.path.join(self.build, "weft")
        r = subprocess.run(["bash", "--norc", "-c", BASH, "bash", HERE, *words], text=True,
                           capture_output=True, cwd=self.scratch, check=True)
        return set(filter(None, (w.rstrip("=") for w in r.stdout.splitlines())))

    def close(self):
        pass


# What the completion system offers goes into the file $OFFERED, and a line when it is done.
ZSH = r"""
fpath=($COMPLETIONS $fpath); autoload -U compinit; compinit -u -D
compadd() {
	local -a offered
	[[ ${@[1,(i)(-|--)]} == *-(O|A|D)* ]] || {
		builtin compadd -A offered "$@"
		print -rl -- $offered >> $OFFERED
	}
	builtin compadd "$@"
}
offer() { zle complete-word; print -r -- "DONE $BUFFER" >> $OFFERED }
zle -N offer; bindkey '^I' offer; bindkey '^U' kill-whole-line; unsetopt automenu autolist
: > $OFFERED.ready
"""


class Zsh:
    def __init__(self, build, scratch):
        self.offered = os.path.join(scratch, ".offered")
        self.begin = os.path.join(scratch, ".begin")
        with open(self.begin, "w", encoding="ascii") as f:
            f.write(ZSH)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(scratch)
            os.environ.update(TERM="dumb", PATH=f"{build}:{os.environ['PATH']}",
                              OFFERED=self.offered, COMPLETIONS=HERE)
            os.execvp("zsh", ["zsh", "-f", "-i"])
        threading.Thread(target=self.drain, daemon=True).start()
        self.type(f"source {self.begin}\n")
        if not lab.until(lambda: os.path.exists(self.offered + ".ready"), 30):
            raise RuntimeError("zsh does not start")

    def drain(self):
        """Nobody looks at the terminal, but it must not fill."""
        try:
            while os.read(self.fd, 65536):
                pass
        except OSError:
            pass

    def type(self, text):
        os.write(self.fd, text.encode())

    def offers(self):
        with open(self.offered, encoding="utf-8") as f:
            return f.read()

    def complete(self, line):
        with open(self.offered, "w", encoding="ascii"):
            pass
        self.type(f"\x15{line}\t")
        if not lab.until(lambda: "DONE" in self.offers(), 30):
            raise RuntimeError(f"zsh has no end of {line!r}")
        return {w.rstrip("=").replace("\\", "") for w in self.offers().partition("DONE")[0].split("\n") if w}

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def options(text):
    """Each option's names and its argument ("=FILE", "[=only]" or "") in a --help text."""
    found = {}
    for short, long, argument in re.findall(r"^ {2,6}(?:(-.), )?(--[\w-]+)(\[?=\S+)?", text, re.M):
        found[long] = (short, argument)
    return found


def check(shell, weft, commands):
    """What is wrong, one line each."""
    got = shell.complete("weft ")
    if not {*commands, "help"} <= got:
        yield f"of the commands there are {sorted(got)}"
    if not set(commands) <= shell.complete("weft help "):
        yield "the commands are not completed behind help"
    if "--version" not in shell.complete("weft --"):
        yield "no --version"
    words = 0
    for c in commands:
        text = subprocess.run([weft, c, "--help"], check=True, capture_output=True, text=True).stdout
        has = options(text)
        if not has:
            yield f"{c} --help shows no option"
        got = {w for w in shell.complete(f"weft {c} -") if w.startswith("-") and w != "-"}
        want = {*has, *(short for short, _ in has.values() if short)}
        if not want <= got or {w for w in got if w.startswith("--")} - want:
            yield f"{c} -: missing {sorted(want - got)}, not there {sorted(got - want)}"
        for long, (short, argument) in has.items():
            name = argument.strip("[]=")
            if re.search("[A-Z]", name) or not name:
                continue
            words += 1
            choice = set(name.split("|"))
            if not choice <= shell.complete(f"weft {c} {long}="):
                yield f"{c} {long}=: not {choice}"
            if short and "[" not in argument and not choice <= shell.complete(f"weft {c} {short} "):
                yield f"{c} {short}: not {choice}"
    if words < 5:
        yield "hardly an option has words to choose from"
    for line, word, there in (("weft target cre", "create", True), ("weft target ls so", "some.img", False),
                              ("weft target restore so", "some.img", True),
                              (f"weft target -s {SOCKET} ls /sub", "/subsystems/nqn.a:s/namespaces/1", True),
                              (f"weft target -s {SOCKET} remove /ports", "/ports/1", True),
                              (f"weft target -s {SOCKET} remove /ports", "/hosts", False),
                              ("weft serve so", "some.img", True), ("weft cp --verify so", "some.img", True),
                              ("weft id-ns so", "some.img", False),
                              ("weft write -d so", "some.img", True),
                              ("weft write --data=so", "some.img", True),
                              ("weft run -- mktem", "mktemp", True),
                              ("weft run --sockets -- mktem", "mktemp", True),
                              ("weft run --sockets=only mktem", "mktemp", True),
                              ("weft run cat so", "some.img", True)):
        if (word in shell.complete(line)) != there:
            yield f"{line!r}: {word} is {'not ' if there else ''}completed"


class Target:
    """A service, whose socket is where it can be named in a word."""

    def __init__(self, build):
        self.process = subprocess.Popen(
            [os.path.join(build, "weft"), "serve", "null:1m", "-n", "nqn.a:s", "-l", "tcp://127.0.0.1",
             "--control", SOCKET], stdout=subprocess.PIPE, text=True, preexec_fn=lab.die_with_parent)
        while "ready" not in self.process.stdout.readline():
            if self.process.poll() is not None:
                raise RuntimeError("weft serve does not start")

    def close(self):
        self.process.terminate()
        self.process.wait()


def main():
    build, name = os.path.abspath(sys.argv[1]), sys.argv[2]
    lab.need(name)
    lab.enter()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with open(os.path.join(lab.TOP, "src", "cli", "commands.def"), encoding="utf-8") as f:
        commands = re.findall(r'^X\(\w+,\s*"([^"]+)"', f.read(), re.M)
    report = lab.Report(build, f"completion-{name}")
    path = report.case(name)
    with tempfile.TemporaryDirectory() as scratch:
        for file in ("some.img", "some.other"):
            with open(os.path.join(scratch, file), "wb"):
                pass
        shell = {"bash": Bash, "zsh": Zsh}[name](build, scratch)
        target = Target(build)
        faults = list(check(shell, os.path.join(build, "weft"), commands))
        target.close()
        shell.close()
    if faults:
        report.fail(name, path, "\n  ".join(faults))
    else:
        report.ok(name, path)
    report.finish()


main()
