"""git: a repository made from nothing, cloned, repacked by threads, collected, searched and checked.

SPDX-License-Identifier: MIT
"""
import os

from harness.place import digest
from harness.program import Program

FIXED = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "GIT_TERMINAL_PROMPT": "0"}
FIXED |= {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
          for what, value in (("NAME", "a"), ("EMAIL", "a@b"), ("DATE", "2020-01-01T00:00:00Z"))}
THREADS = ("-c", "pack.threads=4", "-c", "gc.autoDetach=false", "-c", "pack.windowMemory=4m", "-c", "grep.threads=4")


def contents(number, at):
    return "".join(f"{number * at * line} line {line} of {at}\n" for line in range(120 + at * 10))


def run(place):
    def git(*words, where="made", **more):
        return place.run("git", "-C", place.folder / where, *THREADS, *words, env=FIXED, **more).out

    (place.folder / "made").mkdir()
    git("init", "-q", "-b", "main", ".")
    for number in range(place.times(25, least=6)):
        for at in range(place.times(30, least=10)):
            place.write(f"made/part{at % 5}/file{at}.txt", contents(number, at))
        place.write("made/binary", bytes(i * number % 251 for i in range(60000)))
        git("add", ".")
        git("commit", "-q", "-m", f"change {number}")
        if number % 5 == 4:
            git("checkout", "-q", "-b", f"side{number}", "HEAD~3")
            place.write(f"made/side{number}.txt", contents(number, 3))
            git("add", ".")
            git("commit", "-q", "-m", f"side {number}")
            git("checkout", "-q", "main")
            git("merge", "-q", "--no-edit", f"side{number}")
    git("clone", "-q", f"file://{place.folder}/made", "../clone")
    git("gc", "-q", "--aggressive", "--prune=now", where="clone")
    git("repack", "-a", "-d", "-f", "-q", "--depth=20", "--window=30", where="clone")
    git("fsck", "--full", "--strict", "--no-progress", where="clone")
    git("bundle", "create", "-q", "../all.bundle", "--all", where="clone")
    git("clone", "-q", "../all.bundle", "../third", where="clone")
    git("rebase", "-q", "--force-rebase", "HEAD~2", where="third")
    shown = {
        "head": git("rev-parse", "HEAD", where="clone").strip(),
        "tree": git("rev-parse", "HEAD^{tree}", where="third").strip(),
        "objects": digest(git("cat-file", "--batch-check", "--batch-all-objects", where="clone")),
    }
    for name, words in {"log": ("log", "-p", "--stat", "--graph", "--all", "-M", "-C"), "blame": ("blame", "-C", "part3/file3.txt"),
                        "grep": ("grep", "-n", "-E", "^[0-9]+0 line 1[0-9] of"), "export": ("fast-export", "--all"),
                        "archive": ("archive", "--format=tar", "HEAD"), "shortlog": ("shortlog", "--all")}.items():
        shown[name] = digest(git(*words, where="clone"))
    return shown


PROGRAMS = [
    Program("git", "git: commit, merge, clone, gc, repack, fsck, rebase, log, blame, grep", run, {"git": "git"}, mapped=("git",),
            short=True),
]
