"""Shared by all tests: the command as a child process, and small programs and allocators compiled on the spot."""

import os
import shutil
import subprocess
import sys
import textwrap

import pytest
from hypothesis import settings

TOOLS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, TOOLS)

# Every run draws the same examples, and a failure prints the line that replays it.
settings.register_profile("heddle", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("heddle")

COMPILER = shutil.which("cc") or shutil.which("gcc")


@pytest.fixture
def heddle():
    """Runs `python -m heddle ...` and gives the finished process."""

    def call(*arguments, environment=None, timeout=120, **extra):
        variables = {key: value for key, value in os.environ.items() if key not in ("HEDDLE", "LD_PRELOAD")}
        variables["PYTHONPATH"] = TOOLS
        variables.update(environment or {})
        return subprocess.run([sys.executable, "-m", "heddle", *map(str, arguments)], capture_output=True, text=True,
                              env=variables, timeout=timeout, **extra)

    return call


@pytest.fixture(scope="session")
def compile_c(tmp_path_factory):
    """Compiles C source and gives the path; skips the test where there is no compiler."""
    if COMPILER is None:
        pytest.skip("needs a C compiler")
    directory = tmp_path_factory.mktemp("built")

    def build(name, source, *flags):
        path = directory / name
        (directory / f"{name}.c").write_text(textwrap.dedent(source))
        done = subprocess.run([COMPILER, "-O1", "-fno-builtin", "-o", str(path), str(directory / f"{name}.c"), *flags],
                              capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"the compiler cannot build this here: {done.stderr.strip().splitlines()[-1]}")
        return str(path)

    return build


FORWARDING_ALLOCATOR = """
    #include <stddef.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/mman.h>
    void *__libc_malloc(size_t);
    static char *fat;
    void *malloc(size_t bytes) {
      if (WASTE && !fat) {
        fat = mmap(0, WASTE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(fat, 1, WASTE);
      }
      for (volatile int turn = 0; turn < SPIN; turn++) { }
      if (FAIL) abort();
      return __libc_malloc(bytes);
    }
"""


@pytest.fixture(scope="session")
def fake_allocator(compile_c):
    """A preloadable malloc that hands on to libc, after `spin` turns of a loop and `waste` bytes touched once."""

    def build(name, spin=0, waste=0, fail=0):
        return compile_c(f"{name}.so", FORWARDING_ALLOCATOR, "-shared", "-fPIC",
                         f"-DSPIN={spin}", f"-DWASTE={waste}", f"-DFAIL={fail}")

    return build


@pytest.fixture(scope="session")
def churner(compile_c):
    """A program of a few milliseconds that allocates and frees 20,000 blocks."""
    return compile_c("churner", """
        #include <stdio.h>
        #include <stdlib.h>
        int main(void) {
          static char *kept[64];
          for (int i = 0; i < 20000; i++) {
            free(kept[i % 64]);
            kept[i % 64] = malloc(16 + i % 500);
            kept[i % 64][0] = 1;
          }
          puts("done");
          return 0;
        }
    """)


@pytest.fixture(scope="session")
def heddle_library():
    from heddle.libraries import find_heddle
    path = find_heddle()
    if path is None:
        pytest.skip("libheddle.so.1 is not built")
    return path
