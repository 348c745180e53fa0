# The entry points; `make help` lists them. The build itself is CMakeLists.txt.
MAKEFLAGS += --no-print-directory
# Evaluated late: scripts/setup may bring both.
CMAKE = $(or $(shell command -v cmake),build/venv/bin/cmake)
PYTHON = $(or $(wildcard $(CURDIR)/build/venv/bin/python),$(shell command -v python3))
# The demo's programs that are here, where nobody may install the others.
comma := ,
WORKLOADS = $(if $(shell command -v lua5.4),lua$(comma))python$(if $(shell command -v sqlite3),$(comma)sqlite)
JOBS ?= 2
PREFIX ?= /usr/local
DESTDIR ?=
ARGS ?=

.PHONY: build debug demo test test-long test-apps test-cross test-kernel test-faults coverage fuzz judge soak install bench bench-arena lint fmt clean help
.DEFAULT_GOAL := build

## build     build/libheddle.so, build/libheddle.a and build/heddle-override.o (the default)
build: build/CMakeCache.txt
	@$(CMAKE) --build build -j$(JOBS) --target heddle_shared heddle_static heddle_override

build/CMakeCache.txt:
	@scripts/setup build
	@$(CMAKE) -S . -B build -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=$(PREFIX)

## debug     the same in build-debug, with internal invariants checked
debug:
	@$(CMAKE) -S . -B build-debug -DCMAKE_BUILD_TYPE=Debug -DHEDDLE_DEBUG=ON
	@$(CMAKE) --build build-debug -j$(JOBS)

## demo      install what is missing, build, and compare allocators on real Lua, Python and SQLite programs (ARGS=...)
demo:
	@scripts/setup demo
	@$(MAKE) build
	@scripts/heddle demo --workloads $(WORKLOADS) $(ARGS)

## test      install what is missing, build, run every test; the last line says how many passed and failed
test:
	@scripts/setup test
	@$(MAKE) build/CMakeCache.txt
	@$(CMAKE) -S . -B build -DPython3_EXECUTABLE=$(PYTHON) >build/configure.log
	@$(CMAKE) --build build -j$(JOBS)
	@scripts/test build

## test-long  the long forms: models, forks, races, faults, soak, judge (hours; CTEST="-R soak" for a part)
test-long: build
	@scripts/setup test
	@$(CMAKE) -S . -B build -DPython3_EXECUTABLE=$(PYTHON) >build/configure.log
	@$(CMAKE) --build build -j$(JOBS)
	@cd build && ctest -C long -L long --output-on-failure $(CTEST)

## test-apps  real programs under load, each beside the system's malloc; installs what is missing (ARGS=--list)
test-apps: build
	@scripts/setup test
	@$(PYTHON) test/loaded/run $(ARGS)

## test-cross  other machines under qemu, i386, musl, old processors, Clang, flags of distributions (ARGS=--short)
test-cross: build
	@scripts/setup test
	@$(PYTHON) test/cross/run all $(ARGS)

## test-kernel  another Linux kernel in an emulated machine (ARGS="--kernel FILE" for one of your own, "--sandbox RUNSC" for gVisor)
test-kernel: build
	@scripts/setup test
	@$(CMAKE) --build build -j$(JOBS)
	@$(PYTHON) test/kernel/run --build build $(ARGS)

## test-faults  seeded faults in the core: which layer of tests finds each (ARGS=--help)
test-faults: build
	@scripts/setup test
	@$(CMAKE) --build build -j$(JOBS)
	@$(PYTHON) test/trust/seeded --recipe build/test/trust/seeded.json --out build/seeded $(ARGS)

## coverage  lines and branches of base and core that the tests reach
coverage: build
	@scripts/setup test
	@test/trust/coverage $(ARGS)

## fuzz      fuzz one target for S seconds (make fuzz T=ops S=60; T=list names them)
fuzz: build
	@scripts/setup test
	@test/fuzz/run $(T) $(S)

## judge     tests that others wrote, with Heddle and without (ARGS=--all)
judge: build
	@scripts/setup test
	@$(PYTHON) test/judge/run --library build/libheddle.so $(ARGS)

## soak      shapes of long-running programs: resident memory against live memory (ARGS="--hours 8")
soak: build
	@scripts/setup test
	@$(PYTHON) test/soak/run $(ARGS)

## install   libraries, headers, the command and man pages to PREFIX (default /usr/local), below DESTDIR
install: build
	@$(CMAKE) -S . -B build -DCMAKE_INSTALL_PREFIX=$(PREFIX) >build/configure.log
	@DESTDIR=$(DESTDIR) $(CMAKE) --install build

## bench     compare allocators on the workloads of bench/ (ARGS=--help)
bench: build
	@scripts/setup bench
	@$(PYTHON) bench/run.py $(ARGS)

## bench-arena  arenas and pools beside malloc: figures, percentiles, bars (ARGS=--help)
bench-arena: build
	@scripts/setup bench
	@$(PYTHON) bench/arena/run.py $(ARGS)

## lint      the style guide as a test, warnings as errors, and the checkers of C, Python and shell
lint:
	@scripts/setup lint
	@scripts/lint

## fmt       format C sources in place
fmt:
	@scripts/setup lint
	@scripts/lint --fix

## clean     remove what the compiler made; downloaded peers and the virtual environment stay (rm -rf build removes all)
clean:
	@for d in build build-*; do if [ -f $$d/CMakeCache.txt ]; then $(CMAKE) --build $$d --target clean; fi; done

## help      this list
help:
	@sed -n 's/^## /  make /p' Makefile
