"""Debian's packages: what a program needs, what is missing, how it comes here without leaving a server running.

SPDX-License-Identifier: MIT
"""
import contextlib
import glob
import os
import pathlib
import re
import shutil
import subprocess

from harness.program import Failed

POLICY = pathlib.Path("/usr/sbin/policy-rc.d")
QUIET = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}


def is_here(tool):
    return bool(glob.glob(tool)) if "/" in tool else shutil.which(tool) is not None


def missing(program):
    """Packages whose commands are not here."""
    return sorted({package for tool, package in program.tools.items() if not is_here(tool)})


def apt(*words):
    return subprocess.run(["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300", *words], env=QUIET, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)


@contextlib.contextmanager
def no_services():
    """While a package is installed, its server must not start by itself: only the program is wanted."""
    ours = not POLICY.exists()
    if ours:
        POLICY.write_text("#!/bin/sh\nexit 101\n")
        POLICY.chmod(0o755)
    try:
        yield
    finally:
        if ours:
            POLICY.unlink()


def install(packages, say):
    """Install what can be installed; package by package, so that one that fails does not take the others with it."""
    if not packages or os.getuid() != 0 or not shutil.which("apt-get"):
        return
    say("apt-get update")
    apt("update")
    with no_services():
        for package in packages:
            say(f"apt-get install {package}")
            done = apt("install", "-y", "--no-install-recommends", package)
            if done.returncode != 0:
                say(f"apt-get install {package} failed: {done.stderr.strip()[-200:]}")


def source_entries():
    """The system's own package sources as entries for source packages: one-line form and deb822 form."""
    lines, stanzas = [], []
    for path in [pathlib.Path("/etc/apt/sources.list"), *pathlib.Path("/etc/apt/sources.list.d").glob("*.list")]:
        if path.exists():
            lines += [re.sub(r"^deb\b", "deb-src", line) for line in path.read_text().splitlines() if re.match(r"deb\s", line)]
    for path in pathlib.Path("/etc/apt/sources.list.d").glob("*.sources"):
        stanzas.append(re.sub(r"^Types:.*$", "Types: deb-src", path.read_text(), flags=re.M))
    return lines, stanzas


def fetch_source(package, folder):
    """Debian's source package, unpacked into folder, with lists of its own: the system's are left as they are."""
    if next(folder.glob(f"{package}-*/"), None):
        return
    parts, lists = folder / "apt" / "parts", folder / "apt" / "lists"
    for path in (parts, lists / "partial"):
        path.mkdir(parents=True, exist_ok=True)
    lines, stanzas = source_entries()
    (parts / "source.list").write_text("\n".join(lines) + "\n")
    for number, stanza in enumerate(stanzas):
        (parts / f"source{number}.sources").write_text(stanza)
    options = [f"-oDir::Etc::SourceList={os.devnull}", f"-oDir::Etc::SourceParts={parts}", f"-oDir::State::Lists={lists}",
               "-oDir::Cache::pkgcache=", "-oDir::Cache::srcpkgcache=", "-oAPT::Sandbox::User=root"]
    for words in (["update"], ["source", package]):
        done = subprocess.run(["apt-get", "-qq", *options, *words], cwd=folder, env=QUIET, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=300)
        if done.returncode != 0:
            raise Failed(f"apt-get {' '.join(words)}: {done.stderr.strip()[-300:]}")
