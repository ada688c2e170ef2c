# The front door: `make demo`, `make test`, `make help`. C sources and flags: kernels/kernels.mk.
.DEFAULT_GOAL := help
SHELL := /bin/sh
# `make board-test ARCH=armhf` names a board in Debian's word. The objects' ARCH is found out.
BOARD := $(if $(filter armhf,$(ARCH)),armhf,arm64)
ifneq ($(filter arm64 armhf,$(ARCH)),)
override undefine ARCH
endif
include kernels/kernels.mk

PYTHON ?= python3
VENV ?= .venv
N ?= 20000
PYTEST_ARGS ?=
TORCH_PYTHON ?= $(VENV)/bin/python

VENV_PYTHON = $(VENV)/bin/python
PIP = $(VENV_PYTHON) -m pip --disable-pip-version-check --quiet
PY_SOURCES = armtrain scripts boards tests setup.py
TYPED_SOURCES = armtrain scripts boards
C_FORMATTED = $(shell find kernels tests/c tests/bench -name '*.[ch]' -not -path 'kernels/cython/*' \
  -not -name art_plan.h -not -name art_limits.h -not -name art_ops.h -not -name art_op_codes.h -not -name art_levels.h)
SANITIZE = -O1 -g -fno-omit-frame-pointer -fno-sanitize-recover=all
ASAN = BUILD=build/asan OPT="$(SANITIZE) -fsanitize=address,undefined"
TSAN = BUILD=build/tsan OPT="$(SANITIZE) -fsanitize=thread"

.PHONY: help real-data venv lib run ext cross cross-a64 cross-a32 cross-v6 check-artifacts show test test-c \
  test-emulated test-emulated-py arm-perf arm-perf-update board board-test test-py lint format types asan tsan fuzz bench bench-kernels golden \
  wheel sdist clean demo check-host check-host-c asan-build c-tests run-c-tests generated

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 16

# --- for users -----------------------------------------------------------------------------

demo: $(VENV)/.stamp-ext ## set up .venv, build, and train a network on the embedded digits
	$(VENV)/bin/armtrain demo

test: ## set up .venv, build, run all tests (C, then Python)
	@$(MAKE) --no-print-directory test-c
	@$(MAKE) --no-print-directory test-py

# --- building ------------------------------------------------------------------------------

check-host-c: ## is everything there to build the C parts?
	@CC="$(CC)" AR="$(AR)" scripts/check_host.sh c

check-host: ## is everything there to build the Python parts?
	@CC="$(CC)" AR="$(AR)" scripts/check_host.sh python "$(PYTHON)"

$(VENV)/.stamp-venv:
	@CC="$(CC)" AR="$(AR)" scripts/check_host.sh python "$(PYTHON)"
	$(PYTHON) -m venv $(VENV)
	@touch $@

# Run-time and build requirements only: what `make demo` needs.
$(VENV)/.stamp-build: pyproject.toml $(VENV)/.stamp-venv
	$(PIP) install 'setuptools>=77' 'cython>=3.1' 'numpy>=1.24' tqdm
	@touch $@

$(VENV)/.stamp-dev: pyproject.toml $(VENV)/.stamp-build
	$(PIP) install $$($(VENV_PYTHON) scripts/list_requirements.py dev)
	@touch $@

$(VENV)/.stamp-cross: pyproject.toml $(VENV)/.stamp-build
	$(PIP) install $$($(VENV_PYTHON) scripts/list_requirements.py cross)
	@touch $@

# The extension is built in place; the editable install adds metadata and the command.
$(VENV)/.stamp-ext: $(VENV)/.stamp-build setup.py $(SOURCES_BASE) $(SOURCES_GEMM) $(SOURCES_VEC) $(SOURCES_ROOF) \
  $(HEADERS) kernels/kernels.mk $(wildcard kernels/cython/*.p[yx][xdi])
	$(PIP) install --no-build-isolation --no-deps --editable .
	@touch $@

venv: $(VENV)/.stamp-dev ## .venv with everything developers need

lib: check-host-c $(BUILD)/libarmtrain.a ## the C library build/libarmtrain.a

run: check-host-c $(BUILD)/armtrain-run ## the static trainer without Python, build/armtrain-run

# Compilers and flags of the targets are in kernels/kernels.mk; scripts/cross_build.py adds wheels.
cross: $(VENV)/.stamp-cross ## all of dist/ for ARM boards, checked
	$(VENV_PYTHON) -m scripts.cross_build
	$(VENV_PYTHON) -m scripts.check_artifacts

cross-a64: $(VENV)/.stamp-cross ## dist/: wheel and armtrain-run for 64-bit ARM
	$(VENV_PYTHON) -m scripts.cross_build aarch64

cross-a32: $(VENV)/.stamp-cross ## dist/: wheel and armtrain-run for 32-bit ARM from ARMv7 on
	$(VENV_PYTHON) -m scripts.cross_build armv7

cross-v6: $(VENV)/.stamp-cross ## dist/: armtrain-run for ARMv6 (Raspberry Pi Zero and 1)
	$(VENV_PYTHON) -m scripts.cross_build armv6

check-artifacts: $(VENV)/.stamp-cross ## open everything in dist/: processor, libraries, page size, instructions
	$(VENV_PYTHON) -m scripts.check_artifacts

show: ## the values of variables, one a line (make show SHOW="CC OPT"), for scripts
	@$(foreach v,$(SHOW),echo '$($v)';)

ext: $(VENV)/.stamp-ext ## the Python extension, in place, and .venv/bin/armtrain

wheel: $(VENV)/.stamp-build ## dist/armtrain-*.whl
	$(PIP) wheel --no-build-isolation --no-deps --wheel-dir dist .

sdist: $(VENV)/.stamp-build ## dist/armtrain-*.tar.gz
	$(VENV_PYTHON) -c 'from setuptools import build_meta; print(build_meta.build_sdist("dist"))'

# --- checking ------------------------------------------------------------------------------

test-c: check-host-c run-c-tests ## the C tests

run-c-tests: $(C_TESTS) ## run the C tests of BUILD
	@set -e; for t in $(C_TESTS); do echo "== $$t"; $$t; done

c-tests: $(C_TESTS) ## build the C tests of BUILD, for other compilers and options

test-emulated: $(VENV)/.stamp-dev $(VENV)/.stamp-ext $(VENV)/.stamp-cross ## cross-built C tests and trainings on emulated ARM processors
	$(VENV_PYTHON) scripts/emulate.py --require
	$(VENV_PYTHON) -m pytest tests/emulated --ignore tests/emulated/test_python.py -m emulated $(PYTEST_ARGS)
	$(VENV_PYTHON) -m pytest tests/arch/test_contraction.py tests/arch/test_arm_perf.py $(PYTEST_ARGS)

arm-perf: $(VENV)/.stamp-build ## ARM kernels' instructions and modelled cycles (not seconds) against the stored ones
	$(VENV_PYTHON) scripts/arm_perf.py --require

arm-perf-update: $(VENV)/.stamp-build ## store the figures of make arm-perf in tests/bench/arm_perf.json
	$(VENV_PYTHON) scripts/arm_perf.py --update

# Runs what is in dist/, as it is: make cross-a64 cross-a32 builds it.
test-emulated-py: $(VENV)/.stamp-dev $(VENV)/.stamp-ext $(VENV)/.stamp-cross ## the wheels of dist/ and the Python tests in emulated Debian systems
	$(VENV_PYTHON) -m scripts.emulate_python
	$(VENV_PYTHON) -m pytest tests/emulated/test_python.py -m emulated $(PYTEST_ARGS)

test-py: $(VENV)/.stamp-dev $(VENV)/.stamp-ext $(BUILD)/armtrain-run $(BUILD)/bench_kernels.so ## the Python tests (PYTEST_ARGS=...)
	$(VENV_PYTHON) -m pytest $(PYTEST_ARGS)

BOARD_TARGET_arm64 = aarch64
BOARD_TARGET_armhf = armv7
BOARD_CUTS_arm64 = 20
BOARD_CUTS_armhf = 6
BOARD_ARGS_armhf = -k "not replayed"
BOARD_CUTS ?= $(BOARD_CUTS_$(BOARD))

board: $(VENV)/.stamp-dev ## kernel and SD card of an emulated board, in build/board (ARCH=arm64|armhf)
	$(VENV_PYTHON) -m scripts.board_image $(BOARD)

board-test: board $(VENV)/.stamp-ext $(VENV)/.stamp-cross ## deploy, train and cut the power on an emulated board (ARCH=arm64|armhf)
	$(VENV_PYTHON) -m scripts.cross_build $(BOARD_TARGET_$(BOARD))
	BOARD=$(BOARD) BOARD_CUTS=$(BOARD_CUTS) $(VENV_PYTHON) -m pytest tests/board_emulated -m board $(BOARD_ARGS_$(BOARD)) $(PYTEST_ARGS)

lint: $(VENV)/.stamp-dev ## ruff, cython-lint, clang-format
	$(VENV_PYTHON) -m ruff check $(PY_SOURCES)
	$(VENV_PYTHON) -m ruff format --check $(PY_SOURCES)
	PATH="$(abspath $(VENV))/bin:$$PATH" cython-lint kernels/cython
	$(VENV)/bin/clang-format --dry-run -Werror $(C_FORMATTED)

format: $(VENV)/.stamp-dev ## rewrite the sources in the house style
	$(VENV_PYTHON) -m ruff format $(PY_SOURCES)
	$(VENV)/bin/clang-format -i $(C_FORMATTED)

types: $(VENV)/.stamp-dev ## mypy --strict
	$(VENV_PYTHON) -m mypy --strict $(TYPED_SOURCES)

generated: $(VENV)/.stamp-ext ## are the generated C headers and docs/operations.md up to date?
	$(VENV_PYTHON) scripts/gen_c_headers.py --check
	CC="$(CC)" $(VENV_PYTHON) -m scripts.gen_op_docs --check

asan: check-host-c ## the C tests under the address and undefined-behaviour sanitizers
	$(MAKE) $(ASAN) run-c-tests

tsan: check-host-c ## the thread pool's test under the thread sanitizer
	$(MAKE) $(TSAN) build/tsan/tests/test_pool
	build/tsan/tests/test_pool

fuzz: check-host-c ## N mutated inputs per fuzzer under the sanitizers (make fuzz N=1000000)
	$(MAKE) $(ASAN) asan-build
	@set -e; for f in $(patsubst $(BUILD)/%,build/asan/%,$(C_FUZZERS)); do \
	  echo "== $$f $(N)"; $$f $(N); done

asan-build: $(C_FUZZERS) ## build the fuzzers of BUILD

# Symbols of the library are hidden: what is measured is linked with it.
$(BUILD)/bench_kernels.so: tests/bench/kernels.c $(BUILD)/libarmtrain.a
	$(CC) $(CFLAGS_COMMON) $(CONTRACT_OFF) -shared -o $@ $^ -lm

bench-kernels: check-host-c $(BUILD)/bench_kernels.so ## build what make bench measures products with

WORKLOADS ?=
FRAMEWORKS ?=
PARTS ?=
BENCH_ARGS ?=
bench: $(VENV)/.stamp-dev $(VENV)/.stamp-ext $(BUILD)/bench_kernels.so $(BUILD)/armtrain-run ## speed and memory beside PyTorch's and OpenBLAS's (docs/benchmarks.md)
	$(TORCH_PYTHON) -m tests.bench $(if $(WORKLOADS),--workloads $(WORKLOADS)) \
	  $(if $(FRAMEWORKS),--frameworks $(FRAMEWORKS)) $(if $(PARTS),--parts $(PARTS)) $(BENCH_ARGS)

real-data: $(VENV)/.stamp-dev $(VENV)/.stamp-ext ## fetch published data (31 MB of images and more) and train on them
	$(VENV_PYTHON) -m scripts.real_data
	$(VENV_PYTHON) -m pytest tests/real_data -m real_data $(PYTEST_ARGS)

golden: $(VENV)/.stamp-dev $(VENV)/.stamp-ext ## rewrite tests/golden (TORCH_PYTHON: a Python with PyTorch)
	$(TORCH_PYTHON) scripts/make_goldens.py

clean: ## remove everything that was built; .venv stays
	rm -rf build dist armtrain.egg-info armtrain/_*.so kernels/cython/_*.c
	rm -f $(VENV)/.stamp-ext
