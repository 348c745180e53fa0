import os
import shutil
import stat
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.elf import MalformedElf, read_elf
from heddle.errors import HeddleError
from heddle.target import resolve_target

EMPTY_PROGRAM = "int main(void) { return 0; }"


def script(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def error_of(name):
    with pytest.raises(HeddleError) as caught:
        resolve_target(str(name))
    assert "\n" not in caught.value.message
    return caught.value


def test_python_itself_is_dynamic():
    target = resolve_target(sys.executable)
    assert target.elf.interpreter and target.elf.has_dynamic and not target.elf.is_static


def test_a_static_program_is_refused(compile_c):
    error = error_of(compile_c("static_program", EMPTY_PROGRAM, "-static"))
    assert "is statically linked, an allocator can't be preloaded" in error.message
    assert error.exit_code == 126


def test_a_static_pie_is_refused_though_it_has_a_dynamic_section(compile_c):
    path = compile_c("static_pie", EMPTY_PROGRAM, "-static-pie", "-fPIE")
    assert read_elf(path).has_dynamic
    assert "statically linked" in error_of(path).message


@pytest.mark.parametrize("bits, word", [(stat.S_ISUID, "setuid"), (stat.S_ISGID, "setgid")])
def test_privileged_bits_are_refused(tmp_path, bits, word):
    path = tmp_path / "copy"
    shutil.copy(os.path.realpath(shutil.which("true")), path)
    path.chmod(0o755 | bits)
    if not path.stat().st_mode & bits:
        pytest.skip("this file system does not keep the bit")
    error = error_of(path)
    assert word in error.message and error.exit_code == 126


def test_not_found_and_not_executable(tmp_path):
    assert error_of("no-such-program-anywhere").exit_code == 127
    assert error_of(tmp_path / "nothing").exit_code == 127
    assert error_of(tmp_path).exit_code == 126
    (tmp_path / "plain").write_text("data")
    assert "not executable" in error_of(tmp_path / "plain").message or os.geteuid() == 0
    assert error_of("").exit_code == 127


def test_scripts_are_followed_to_their_interpreter(tmp_path):
    real_sh = os.path.realpath("/bin/sh")
    plain = resolve_target(script(tmp_path / "plain", "#!/bin/sh -e\nexit 0\n"))
    assert os.path.realpath(plain.binary) == real_sh and len(plain.chain) == 2
    through_env = resolve_target(script(tmp_path / "env", "#!/usr/bin/env sh\n"))
    assert os.path.realpath(through_env.binary) == real_sh
    split = resolve_target(script(tmp_path / "split", "#!/usr/bin/env -S A=b sh -e\n"))
    assert os.path.realpath(split.binary) == real_sh


def test_a_script_with_a_static_interpreter_is_refused(tmp_path, compile_c):
    path = compile_c("static_interpreter", EMPTY_PROGRAM, "-static")
    assert "statically linked" in error_of(script(tmp_path / "uses_static", f"#!{path}\n")).message


def test_broken_scripts(tmp_path):
    assert error_of(script(tmp_path / "gone", "#!/no/such/interpreter\n")).exit_code == 127
    assert "neither an ELF program nor a script" in error_of(script(tmp_path / "text", "hello\n")).message
    loop = tmp_path / "loop"
    assert "too many levels" in error_of(script(loop, f"#!{loop}\n")).message


@given(cut=st.integers(min_value=0, max_value=400), flips=st.lists(st.tuples(st.integers(0, 399), st.integers(0, 255))))
def test_damaged_elf_files_never_crash_the_reader(tmp_path_factory, cut, flips):
    with open(os.path.realpath(sys.executable), "rb") as file:
        data = bytearray(file.read(400))
    for at, value in flips:
        data[at] = value
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(bytes(data[:cut]))
    try:
        read_elf(str(path))
    except (MalformedElf, OSError, OverflowError) as error:
        assert not isinstance(error, OverflowError)
