"""A broken library at the price of one compilation: every object of the surrounding build is used again but for those that the changed
file is part of, and a test program is linked when a layer asks for it.

SPDX-License-Identifier: MIT
"""
import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

TESTS = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


class NotBuilt(Exception):
    """A change that does not compile or link."""


def call(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "error" in line or "undefined" in line]
        raise NotBuilt((lines or done.stderr.splitlines() or ["?"])[0])


def words(text):
    return [word for word in text.split(";") if word]


class Recipe:
    """How the surrounding build makes the library and its test programs; CMake writes it."""

    def __init__(self, path):
        text = json.loads(Path(path).read_text())
        self.cc = text["cc"]
        self.source = Path(text["source"])
        self.include = text["include"]
        self.build = Path(text["build"])
        self.test_programs = Path(text["test_programs"])
        self.flags = [flag for flag in (*text["flags"].split(), *words(text["options"])) if flag]
        self.objects = [Path(word) for word in words(text["objects"])]
        self.shims = [Path(word) for word in words(text["shims"])]
        self.link = [flag for flag in words(text["link"]) if flag]
        self.support = text["support"]
        self.programs = text["programs"]
        self.uses = {}

    def parts_of(self, file):
        """All files that a file includes, itself among them, by their names below src. Noted when it is whole: others ask meanwhile."""
        if file not in self.uses:
            parts, unread = {file}, [file]
            while unread:
                names = {name for name in INCLUDE.findall(self.read(unread.pop())) if (self.source / name).exists()}
                unread += names - parts
                parts |= names
            self.uses[file] = parts
        return self.uses[file]

    def read(self, file):
        path = self.source / file
        return path.read_text() if path.exists() else (TESTS / file).read_text()

    def affected(self, changed):
        return [file for file in self.sources() if changed in self.parts_of(file)]

    def sources(self):
        return [str(path.relative_to(self.source)) for part in ("base", "os", "core", "objects", "override")
                for path in sorted((self.source / part).glob("*.c")) if path.name != "os_fault.c"]

    def object_of(self, file):
        for path in (*self.objects, *self.shims):
            if str(path).endswith(f"/{file}.o"):
                return path
        raise NotBuilt(f"the build has no object of {file}")


class Built:
    """A library made of a source tree that differs from the build's in one file; or in none."""

    def __init__(self, recipe, folder, changed=None):
        self.recipe, self.folder, self.changed = recipe, folder, changed
        self.test_programs = recipe.test_programs
        self.source = folder / "src" if changed else recipe.source
        self.fresh = {}
        self.made = {}
        (folder / "objects").mkdir(parents=True, exist_ok=True)
        for file in recipe.affected(changed) if changed else []:
            target = folder / "objects" / (file.replace("/", "-") + ".o")
            throwing = ["-fexceptions"] if "/cxx_" in file else []
            self.compile(self.source / file, target, [*recipe.flags, *throwing])
            self.fresh[recipe.object_of(file)] = target

    def compile(self, file, target, flags):
        call([self.recipe.cc, *flags, f"-I{self.source}", f"-I{self.recipe.include}", "-w", "-c", file, "-o", target])

    def own(self, objects):
        return [self.fresh.get(path, path) for path in objects]

    def built_program(self, name):
        return Path(self.recipe.programs[name]["file"])

    def shared(self):
        target = self.folder / "libheddle.so"
        if not target.exists():
            call([self.recipe.cc, "-shared", "-o", target, *self.own(self.recipe.shims), *self.own(self.recipe.objects), *self.recipe.link,
                  "-ldl", "-lpthread"])
            (self.folder / "heddle-override.o").symlink_to(self.recipe.build / "heddle-override.o")
        return target

    def program_objects(self, program):
        """Its own objects; compiled anew where they hold inline functions of the changed header."""
        objects = words(program["objects"])
        source = program.get("source", "")
        if not self.changed or not source or self.changed not in self.recipe.parts_of(source):
            return objects
        target = self.folder / "objects" / (source.replace("/", "-") + ".o")
        self.compile(TESTS / source, target, ["-std=gnu11", "-O2", "-fno-builtin"])
        return [target]

    def archive(self):
        """As an archive, because programs bring some of its objects themselves."""
        target = self.folder / "libheddle.a"
        if not target.exists():
            call(["ar", "rcsD", target, *self.own(self.recipe.objects)])
        return target

    def program(self, name):
        program = self.recipe.programs[name]
        target = self.folder / name
        if not target.exists():
            call([self.recipe.cc, "-o", target, *self.program_objects(program), *words(program["link"]), self.recipe.support,
                  *words(program["libraries"]), self.archive(), "-ldl", "-lpthread"])
        return target

    def explore(self, models):
        """The schedule explorer of this library: (passed, message)."""
        spec = importlib.util.spec_from_file_location("sched_mutants", TESTS / "sched" / "mutants.py")
        sched = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sched)
        options = SimpleNamespace(cc=self.recipe.cc, source=self.source, include=self.recipe.include, out=self.folder / "sched",
                                  limit=20000, seed=20261121)
        try:
            folder = sched.Builder(options).build(Path(self.source), "all")
        except RuntimeError as error:
            raise NotBuilt(str(error)) from error
        for model in models:
            status, what = sched.explore(folder, model, options)
            if status != 0:
                return False, f"{model}: {what}"
        return True, ""

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
