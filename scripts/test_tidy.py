"""tidy.py can fail: each rule is shown a tree that breaks it and one that does not.

Also the functions of scripts/test that read what the test runners print.
"""

import importlib.machinery
import importlib.util
import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import tidy  # noqa: E402
import tidy_c  # noqa: E402

SPDX = "/* A file.\n * SPDX-License-Identifier: MIT */\n"
GOOD = {
    "src/base/bits.h": SPDX + "#ifndef B_H\n#define B_H\n#endif\n",
    "src/os/os.h": SPDX + '#include "base/bits.h"\n',
    "src/os/os_linux.c": SPDX + '#include <sys/mman.h>\n#include "os/os.h"\n',
    "src/core/heap.h": SPDX + '#include "os/os.h"\n',
    "src/core/heap.c": SPDX + '#include "core/heap.h"\nint f(int x) {\n  return x;  /* malloc(1) */\n}\n',
    "src/core/options.def": 'OPTION(verbose, "verbose", FLAG)\n',
    "src/core/options.c": SPDX + '#include "core/options.def"\n',
    "src/override/malloc_elf.c": SPDX + '#include "core/heap.h"\n',
    "include/heddle.h": SPDX + "/** Does it. */\nHEDDLE_API void hd_do(void);\nHEDDLE_API void hd_do_more(void);\n",
    "docs/man/heddle-options.7": ".TP\n.B verbose\nText.\n",
    "docs/guide/start.md": "# Start\n",
    "README.md": "[start](docs/guide/start.md)\n",
}


def breaches(tmp_path, changed):
    for path, text in {**GOOD, **changed}.items():
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return [f"{path}: {sentence}" for path, _, sentence in tidy.run(str(tmp_path))]


def test_a_good_tree_has_no_breach(tmp_path):
    assert breaches(tmp_path, {}) == []


def core(text):
    return {"src/core/heap.c": SPDX + '#include "core/heap.h"\n' + text}


def function(lines, head="int f(void)"):
    return head + " {\n" + "  g();\n" * (lines - 2) + "}\n"


BAD = {
    "long file": (core("int x;\n" * 800), "lines; split it"),
    "long line": (core("int " + "x" * 140 + ";\n"), "columns"),
    "long function": (core(function(71)), "f has 71 lines"),
    "long function behind a conditional": (
        core("#if A\n" + function(3) + "#else\n" + function(71, "void g(int a)") + "#endif\n"), "g has 71"),
    "long function of Python": ({"tools/x.py": "def f():\n" + "    pass\n" * 70}, "f has 71 lines"),
    "included source": (core('#include "other.c"\n'), "compile it on its own"),
    "include that goes up": ({"src/base/bits.h": SPDX + '#include "core/heap.h"\n'}, "lies above it"),
    "os that knows the core": ({"src/os/os.h": SPDX + '#include "core/heap.h"\n'}, "lies above it"),
    "core that names the system": (core("#include <sys/mman.h>\n"), "only os names"),
    "system call in the core": (core("int f(void) {\n  return mmap(0);\n}\n"), "os layer's to call"),
    "unknown layer": ({"src/other/x.c": SPDX}, "no others"),
    "binding that looks inside": ({"bindings/cpp/x.cpp": '#include "core/heap.h"\n'}, "is internal"),
    "printf in the core": (core('int f(void) {\n  return printf("x");\n}\n'), "printf may allocate"),
    "free in base": ({"src/base/text.c": SPDX + "void f(void *p) {\n  free(p);\n}\n"}, "free may allocate"),
    "#if in a function": (core("int f(void) {\n#if A\n  return 1;\n#endif\n}\n"), "#if inside a function"),
    "many #if": (core("#if A\n#endif\n" * 13), "13 #if"),
    "space at the end": (core("int x; \n"), "white space"),
    "tab": (core("\tint x;\n"), "a tab"),
    "no last newline": (core("int x;"), "no newline"),
    "path of one machine": ({"docs/guide/start.md": "see /wo" + "rk/main\n"}, "path of one machine"),
    "no licence": ({"src/core/heap.c": '#include "core/heap.h"\n'}, "SPDX"),
    "header nobody includes": ({"src/core/lost.h": SPDX}, "nobody includes"),
    "os file nobody compiles": ({"src/os/plan9.c": SPDX}, "no build compiles"),
    "script nobody names": ({"scripts/lost": "#!/bin/sh\n"}, "nothing refers"),
    "page nobody names": ({"docs/guide/lost.md": "# Lost\n"}, "nothing refers"),
    "function without a comment": ({"include/heddle.h": SPDX + "\nHEDDLE_API void hd_do(void);\n"}, "hd_do has no comment"),
    "option that is not documented": (
        {"src/core/options.def": 'OPTION(a_b, "a-b", X)\nOPTION(verbose, "verbose", X)\n'}, "option a-b is not"),
    "documented option that is none": ({"docs/man/heddle-options.7": ".TP\n.B verbose\nX\n.TP\n.B gone\nX\n"}, "no option gone"),
    "dead link": ({"README.md": "[start](docs/guide/start.md) [x](docs/gone.md)\n"}, "leads nowhere"),
}


@pytest.mark.parametrize("name", BAD)
def test_each_rule_can_fail(tmp_path, name):
    changed, expected = BAD[name]
    found = breaches(tmp_path, changed)
    assert any(expected in sentence for sentence in found), found


def test_every_check_is_shown_to_fail(tmp_path):
    """A rule that none of the trees above breaks would be a rule without proof."""
    silent = set(tidy.CHECKS)
    for number, (changed, _) in enumerate(BAD.values()):
        root = tmp_path / str(number)
        breaches(root, changed)
        tree = tidy.Tree(str(root))
        silent -= {check for check in silent if list(check(tree))}
    assert {check.__name__ for check in silent} == set()


def test_the_command_ends_with_status_1(tmp_path):
    breaches(tmp_path, core("int x; \n"))
    done = subprocess.run([sys.executable, os.path.join(HERE, "tidy.py"), "--root", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 1
    assert "src/core/heap.c:4: white space" in done.stdout


def test_functions_are_found():
    text = (
        'extern "C" {\nstatic int a(int x) { return x; }\n}\n'
        "struct s {\n  int (*call)(void);\n};\n"
        "int table[] = {f(1), 2};\n"
        "/* { */\nchar *b(void) {\n  return \"}\" ;\n}\n"
        "#define MACRO(x) do { x(); \\\n  } while (0)\n"
        "__attribute__((cold)) void c(\n    int x) {\n  if (x) {\n  }\n}\n"
    )
    assert [(f.name, f.line_count) for f in tidy_c.find_functions(text)] == [("a", 1), ("b", 3), ("c", 5)]


def load_test_runner():
    path = os.path.join(HERE, "test")
    loader = importlib.machinery.SourceFileLoader("test_runner", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("test_runner", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


@pytest.mark.parametrize("line, passed, failed, skipped", [
    (" 1/9 Test  #1: model.api ........................   Passed    0.00 sec\n", 1, 0, 0),
    (" 2/9 Test #12: fork.api .........................***Failed    0.00 sec\n", 0, 1, 0),
    ("10/99 Test #3: life ............................***Timeout  60.00 sec\n", 0, 1, 0),
    (" 3/9 Test  #3: crash ............................***Exception: SegFault  0.1 sec\n", 0, 1, 0),
    (" 4/9 Test  #4: apps .............................***Skipped   0.00 sec\n", 0, 0, 1),
    (" 5/9 Test  #5: gone .............................***Not Run   0.00 sec\n", 0, 1, 0),
    ("the program printed: 1/9 Test passed\n", 0, 0, 0),
])
def test_lines_of_ctest_are_counted(line, passed, failed, skipped):
    runner = load_test_runner()
    tally = runner.Tally()
    runner.read_ctest_line(line, tally)
    assert (tally.passed, len(tally.failed), len(tally.skipped)) == (passed, failed, skipped)


def test_a_tree_that_is_not_built_counts_as_a_failure(tmp_path):
    done = subprocess.run([sys.executable, "-B", "-c", (
        "import importlib.machinery as m, sys; r = m.SourceFileLoader('r', sys.argv[1]).load_module();"
        "r.PYTHON_TESTS = (); r.run_pytest = lambda *a: None; sys.argv = ['test', sys.argv[2]]; sys.exit(r.main())"),
        os.path.join(HERE, "test"), str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "0 passed, 1 failed"
