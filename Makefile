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

.PHONY: build debug demo test install bench bench-arena lint fmt clean help
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
