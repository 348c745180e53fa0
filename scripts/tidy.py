#!/usr/bin/env python3
"""The style guide as a test: CONTRIBUTING.md names the rules, this checks those that a machine can check.

usage: scripts/tidy.py [--root DIRECTORY]

Prints `file:line: sentence` for each breach and ends with status 1 if there was one. Each rule is one function with the
name check_*, which yields (path, line, sentence). scripts/test_tidy.py proves of each that it can fail.
"""

import argparse
import ast
import os
import re
import subprocess
import sys

from tidy_c import directives, find_functions, strip_c

FILE_LINES = 800
FUNCTION_LINES = 70
LINE_COLUMNS = 140
CORE_IFS_PER_1000 = 12

LAYERS = ("base", "os", "core", "objects", "override")  # the last two stand side by side
CODE = (".c", ".h", ".cc", ".cpp", ".hpp", ".py", ".sh", ".cmake", ".def")
SKIPPED_DIRECTORIES = {"__pycache__", "node_modules", ".git", ".venv", ".pytest_cache", ".ruff_cache", ".hypothesis"}

# Functions of the C library that may allocate, lock, read the locale or overrun: base, os and core must not call them.
BANNED = (
    "malloc calloc realloc reallocarray free aligned_alloc posix_memalign memalign strdup strndup asprintf vasprintf "
    "printf fprintf sprintf snprintf vprintf vfprintf vsprintf vsnprintf dprintf perror puts fputs putchar fwrite "
    "scanf sscanf fscanf fopen fdopen fclose fflush getline strcpy strcat strncat gets strtok strerror "
    "strtol strtoul strtoll strtoull strtod atoi atol atof strcoll setlocale localeconv tolower toupper isalpha isdigit "
    "isspace exit alloca setenv putenv qsort pthread_mutex_lock pthread_create"
).split()
# The core names no operating system: these belong behind os.h.
SYSTEM_HEADERS = ("sys/mman.h", "sys/syscall.h", "linux/", "windows.h", "mach/", "unistd.h", "fcntl.h", "sched.h")
SYSTEM_CALLS = "mmap munmap mremap madvise mprotect sbrk brk syscall VirtualAlloc VirtualFree vm_allocate futex".split()
# Directories of people's machines. Written in pieces, so that this file does not name them.
MACHINE_PATHS = "|".join([r"(?<![\w.$}>])/wo" r"rk/", r"/tmp/ba" r"sh", r"/tmp/h" r"d\b", r"/ro" r"ot/", r"/ho" r"me/[a-z]"])


class Tree:
    """The files of the project, read once."""

    def __init__(self, root):
        self.root = root
        self.paths = sorted(self._list())
        self.text = {}
        for path in self.paths:
            with open(os.path.join(root, path), "rb") as file:
                data = file.read()
            if b"\0" not in data:
                self.text[path] = data.decode("utf-8", "replace")

    def _list(self):
        """What git would commit; without git, everything but build directories."""
        if os.path.exists(os.path.join(self.root, ".git")):
            done = subprocess.run(["git", "-C", self.root, "ls-files", "-z", "-co", "--exclude-standard"], capture_output=True, text=True)
            if done.returncode == 0:
                listed = {path for path in done.stdout.split("\0") if path}
                return [path for path in listed if os.path.isfile(os.path.join(self.root, path))]
        found = []
        for directory, names, files in os.walk(self.root):
            names[:] = [n for n in names if n not in SKIPPED_DIRECTORIES and not n.startswith("build") and not n.endswith(".egg-info")]
            found += [os.path.relpath(os.path.join(directory, name), self.root) for name in files]
        return found

    def under(self, *prefixes, ends=("",)):
        for path, text in self.text.items():
            if path.startswith(prefixes) and path.endswith(tuple(ends)):
                yield path, text

    def code(self):
        for path, text in self.text.items():
            if path.endswith(CODE) or text.startswith("#!"):
                yield path, text

    def c_files(self, *prefixes):
        return self.under(*(prefixes or ("",)), ends=(".c", ".h"))


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def matches(pattern, text):
    for match in re.finditer(pattern, text, re.M):
        yield match, line_of(text, match.start())


# ---- length ---------------------------------------------------------------------------------------------------------


def check_lengths(tree):
    for path, text in tree.code():
        lines = text.splitlines()
        if len(lines) > FILE_LINES:
            yield path, FILE_LINES + 1, f"the file has {len(lines)} lines; split it ({FILE_LINES} at most)"
        for number, line in enumerate(lines, 1):
            if len(line) > LINE_COLUMNS:
                yield path, number, f"the line has {len(line)} columns ({LINE_COLUMNS} at most)"


def check_function_lengths(tree):
    for path, text in tree.c_files():
        for function in find_functions(text):
            if function.line_count > FUNCTION_LINES:
                yield path, function.first_line, f"{function.name} has {function.line_count} lines ({FUNCTION_LINES} at most)"
    for path, text in tree.under("", ends=(".py",)):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                count = node.end_lineno - node.lineno + 1
                if count > FUNCTION_LINES:
                    yield path, node.lineno, f"{node.name} has {count} lines ({FUNCTION_LINES} at most)"


# ---- layers -----------------------------------------------------------------------------------------------------------


def includes(text):
    for match, line in matches(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', text):
        yield match.group(2), match.group(1) == "<", line


def check_no_included_sources(tree):
    for path, text in tree.c_files():
        for name, _, line in includes(text):
            if name.endswith(".c"):
                yield path, line, f"{name} is included; compile it on its own"


def check_layers(tree):
    for path, text in tree.c_files("src/"):
        layer = path.split("/")[1]
        if layer not in LAYERS:
            yield path, 1, f"src/ has the layers {', '.join(LAYERS)} and no others"
            continue
        for name, _, line in includes(text):
            target = name.split("/")[0]
            if target in LAYERS and (LAYERS.index(target) > LAYERS.index(layer) or (layer, target) == ("override", "objects")):
                yield path, line, f"{layer} includes {name}, which lies above it"
            if layer in ("base", "core") and name.startswith(SYSTEM_HEADERS):
                yield path, line, f"{layer} includes <{name}>; only os names an operating system"
            if layer == "base" and name.startswith("heddle"):
                yield path, line, "base knows nothing of allocators"


def check_outsiders(tree):
    inside = {os.path.relpath(path, "src") for path, _ in tree.under("src/", ends=(".h",))}
    for path, text in tree.under("bindings/", "tools/", "examples/", ends=(".c", ".h", ".cc", ".cpp", ".hpp")):
        for name, _, line in includes(text):
            if name in inside or "src/" in name:
                yield path, line, f"{name} is internal; only what include/ offers may be used here"


def check_banned_calls(tree):
    banned = re.compile(r"(?<![\w.>])(%s)\s*\(" % "|".join(BANNED))
    system = re.compile(r"(?<![\w.>])(%s)\s*\(" % "|".join(SYSTEM_CALLS))
    for path, text in tree.c_files("src/base/", "src/os/", "src/core/"):
        clean = strip_c(text)
        for match in banned.finditer(clean):
            yield path, line_of(clean, match.start()), f"{match.group(1)} may allocate, lock, read the locale or overrun"
        for match in system.finditer(clean) if not path.startswith("src/os/") else ():
            yield path, line_of(clean, match.start()), f"{match.group(1)} is the os layer's to call"


# ---- preprocessor -------------------------------------------------------------------------------------------------------


def check_conditionals(tree):
    lines, conditionals, worst = 0, 0, ("", 0)
    for path, text in tree.c_files("src/core/"):
        lines += text.count("\n")
        guard = re.search(r"^#ifndef (\w+)\n#define \1$", text, re.M)
        functions = find_functions(text)
        here = 0
        for word, line in directives(text):
            if word not in ("if", "ifdef", "ifndef") or (guard and line == line_of(text, guard.start())):
                continue
            here += 1
            if any(f.first_line < line <= f.last_line for f in functions):
                yield path, line, f"#{word} inside a function; choose a file, a constant or a function instead"
        conditionals += here
        worst = max(worst, (path, here), key=lambda pair: pair[1])
    # A handful is fine however small the core is.
    if conditionals > max(CORE_IFS_PER_1000, CORE_IFS_PER_1000 * lines / 1000):
        yield worst[0], 1, f"the core has {conditionals} #if in {lines} lines ({CORE_IFS_PER_1000} per 1,000 at most; most are here)"


# ---- tidiness ------------------------------------------------------------------------------------------------------------


def check_whitespace(tree):
    for path, text in tree.code():
        if text and not text.endswith("\n"):
            yield path, text.count("\n") + 1, "no newline at the end of the file"
        for _, line in matches(r"[ \t]+$", text):
            yield path, line, "white space at the end of the line"
        for _, line in matches(r"\t", text) if path.endswith((".c", ".h", ".py")) else ():
            yield path, line, "a tab; use spaces"


def check_machine_paths(tree):
    for path, text in tree.text.items():
        for match, line in matches(MACHINE_PATHS, text):
            yield path, line, f"{match.group(0)} is a path of one machine"


def check_licence(tree):
    for path, text in tree.c_files("src/", "include/"):
        if "SPDX-License-Identifier: MIT" not in text[:4000]:
            yield path, 1, "the header comment lacks `SPDX-License-Identifier: MIT`"


def compiled_by_name(name):
    """Whether cmake/Library.cmake's patterns, or the fault tests, take src/os/<name>."""
    systems = ("linux", "darwin", "windows", "wasm", "fault")
    return name in {f"os_{system}.c" for system in systems} or name.startswith(tuple(f"{system}_" for system in systems))


def check_dead_files(tree):
    everything = "\n".join(text for path, text in tree.text.items() if not path.startswith("src/") or path.endswith((".c", ".h")))
    for path, text in tree.under("src/", ends=(".h", ".def")):
        if not re.search(r'#\s*include\s*["<](?:[\w/]*/)?%s[">]' % re.escape(os.path.basename(path)), everything):
            yield path, 1, "nobody includes this header"
    for path, text in tree.under("src/os/", ends=(".c",)):
        if not compiled_by_name(os.path.basename(path)):
            yield path, 1, "no build compiles this file: name it os_SYSTEM.c or SYSTEM_part.c"
    for path, text in tree.under("scripts/", "docs/guide/", "docs/concepts/", "docs/reference/"):
        name = os.path.basename(path)
        stem = name[:-3] if name.endswith(".py") else name
        others = (other for where, other in tree.text.items() if where != path)
        if not any(re.search(r"(?<!\w)%s(?!\w)" % re.escape(stem), other) for other in others):
            yield path, 1, "nothing refers to this file"


# ---- documentation -------------------------------------------------------------------------------------------------------


def check_public_comments(tree):
    """Each public declaration stands under a comment, alone or in an unbroken group with others."""
    for path, text in tree.under("include/", ends=(".h",)):
        lines = text.splitlines()
        for number, line in enumerate(lines, 1):
            if not line.startswith("HEDDLE_API"):
                continue
            above = number - 2
            while above >= 0 and lines[above].strip() and not lines[above].rstrip().endswith("*/"):
                above -= 1
            if above < 0 or not lines[above].strip():
                name = re.search(r"(\w+)\(", line[len("HEDDLE_API"):].replace("HEDDLE_SIZE(", "").replace("HEDDLE_SIZE2(", ""))
                yield path, number, f"{name.group(1) if name else 'the function'} has no comment"


def check_options(tree):
    table = tree.text.get("src/core/options.def")
    manual = tree.text.get("docs/man/heddle-options.7")
    if table is None or manual is None:
        return
    names = {match.group(1): line for match, line in matches(r'^\s*OPTION\(\s*"?([\w-]+)"?', table)}
    named = {name.replace("_", "-"): line for name, line in names.items()}
    documented = {match.group(1).replace("\\-", "-"): line for match, line in matches(r'^\.TP\n\.BR? "?([a-z\\-]+)', manual)}
    for name, line in named.items():
        if name not in documented:
            yield "src/core/options.def", line, f"option {name} is not in heddle-options(7)"
    for name, line in documented.items():
        if name not in named:
            yield "docs/man/heddle-options.7", line, f"there is no option {name}"


def check_links(tree):
    """Links between the project's own documents lead somewhere."""
    for path, text in tree.under("", ends=(".md",)):
        for match, line in matches(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text):
            target = os.path.normpath(os.path.join(os.path.dirname(path), match.group(1)))
            if not os.path.exists(os.path.join(tree.root, target)):
                yield path, line, f"the link to {match.group(1)} leads nowhere"


CHECKS = [function for name, function in sorted(globals().items()) if name.startswith("check_")]


def run(root):
    """All breaches of the tree as sorted (path, line, sentence)."""
    tree = Tree(root)
    return sorted({breach for check in CHECKS for breach in check(tree)})


def main():
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description="Check the style guide's rules.")
    parser.add_argument("--root", default=here, help="the tree to check (default: this one)")
    root = parser.parse_args().root
    if not os.path.isdir(root):
        parser.error(f"{root} is not a directory")
    breaches = run(root)
    for path, line, sentence in breaches:
        print(f"{path}:{line}: {sentence}")
    print(f"tidy: {len(breaches)} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
