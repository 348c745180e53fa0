"""libheddle-mi.so exports exactly the functions that mimalloc.h declares, and the archive has them all.

usage: symbols.py mimalloc.h libheddle-mi.so libheddle-mi.a

SPDX-License-Identifier: MIT
"""
import re
import subprocess
import sys


def defined(path, *flags):
    lines = subprocess.run(["nm", *flags, path], capture_output=True, text=True, check=True).stdout.splitlines()
    return {words[-1].split("@")[0] for words in map(str.split, lines) if len(words) == 3 and words[1] in "TDBRVW"}


def declared(path):
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    text = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    statements = [s for s in re.split(r"[;{}]", text) if "typedef" not in s]
    bare = [re.sub(r"mi_(attr|decl)_\w+(\([^)]*\))?", "", s) for s in statements]
    return {match[1] for s in bare if (match := re.search(r"\b(mi_[a-z_]+)\(", s))}


def main():
    header, shared, static = sys.argv[1:]
    names = declared(header)
    problems = []
    if len(names) < 120:
        problems.append(f"only {len(names)} functions found in {header}")
    exported = defined(shared, "-D", "--defined-only")
    problems += [f"{name} is declared and not exported" for name in sorted(names - exported)]
    problems += [f"{name} is exported and not declared" for name in sorted(exported - names)]
    problems += [f"{name} is not in the archive" for name in sorted(names - defined(static, "--defined-only", "--extern-only"))]
    print("\n".join(problems) or f"ok: {len(names)} functions")
    sys.exit(bool(problems))


main()
