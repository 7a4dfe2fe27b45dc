# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Results of the matrix, kept as they come, so that a run that was stopped can be gone on with."""
import json
import os
import subprocess

from cases import Result
from lab import TOP


def git(*args):
    return subprocess.run(["git", "-C", TOP, *args], capture_output=True, text=True, check=False)


def commit():
    """With a mark where there is more than that commit, but for the report itself."""
    name = git("describe", "--always").stdout.strip() or "unknown"
    changed = git("diff", "--quiet", "HEAD", "--", ".", ":!docs/interop.md").returncode
    return f"{name}, changed" if changed else name


class Record:
    """One file: the commit, the kernels by section, the last result of each step."""

    def __init__(self, path, resume, keep):
        self.path, self.keep = path, keep
        self.commit = commit()
        self.kernels, self.results = {}, {}
        if resume:
            self.load()

    def load(self):
        try:
            with open(self.path, encoding="utf-8") as f:
                old = json.load(f)
        except (OSError, ValueError):
            return
        if old["commit"] != self.commit:
            return  # what another weft did says nothing
        self.kernels = old["kernels"]
        for r in (Result(**fields) for fields in old["results"]):
            self.results[r.step] = r

    def passed(self, step):
        return step in self.results and self.results[step].verdict == "ok"

    def kernel(self, section, release):
        self.kernels[section] = release

    def add(self, result):
        self.results[result.step] = result
        if not self.keep:
            return
        with open(self.path + ".new", "w", encoding="utf-8") as f:
            json.dump({"commit": self.commit, "kernels": self.kernels,
                       "results": [vars(r) for r in self.results.values()]}, f, indent=1)
        os.replace(self.path + ".new", self.path)
