#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""scripts/version names the commit: of a repository and of its archive, and of nothing else."""
import os
import re
import shutil
import subprocess
import tempfile

import tree

faults, seen = [], 0
NAMED = r"1\.2\.3 \([0-9a-f]{7,}\)"
GIT = ["git", "-c", "user.name=n", "-c", "user.email=e", "-c", "init.defaultBranch=main"]


def expect(where, pattern, path=os.environ["PATH"]):
    global seen
    seen += 1
    said = subprocess.run([os.path.join(where, "scripts/version"), "1.2.3"], text=True,
                          capture_output=True, env={**os.environ, "PATH": path})
    if said.returncode or said.stderr or not re.fullmatch(pattern, said.stdout.strip()):
        faults.append(f"{os.path.basename(where)}: {said.stdout + said.stderr!r} is no {pattern}")


with tempfile.TemporaryDirectory() as top:
    def fresh(name):
        os.makedirs(f"{top}/{name}/scripts")
        for file in ("scripts/version", ".gitattributes"):
            shutil.copy(os.path.join(tree.TOP, file), f"{top}/{name}/{file}")
        return f"{top}/{name}"

    def commit(where):
        for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
            subprocess.run([*GIT, *command], cwd=where, check=True)

    expect(fresh("no-repository"), r"1\.2\.3")
    repository = fresh("repository")
    commit(repository)
    expect(repository, NAMED)
    expect(fresh("repository/within-another"), r"1\.2\.3")
    archive = f"{top}/archive"
    os.mkdir(archive)
    tar = subprocess.run(["git", "archive", "HEAD"], cwd=repository, check=True,
                         capture_output=True).stdout
    subprocess.run(["tar", "-x"], input=tar, cwd=archive, check=True)
    expect(archive, NAMED)
    with open(f"{repository}/.gitattributes", "a", encoding="utf-8") as f:
        f.write("# changed\n")
    expect(repository, NAMED.replace(r"\)", r"-dirty\)"))
    os.mkdir(f"{top}/bin")
    for tool in ("sh", "dirname"):
        os.symlink(shutil.which(tool), f"{top}/bin/{tool}")
    expect(repository, r"1\.2\.3", f"{top}/bin")
tree.finish("version", faults, seen)
