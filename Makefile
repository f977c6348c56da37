# Every target brings what it needs with it (tools/setup.sh): a fresh Debian or Ubuntu with Python 3.10 will do.
#
#   VENV       where the virtual environment goes              (default .venv)
#   PYTHON     the interpreter it is made from                 (default: the system's, at least 3.10)
#   DEMO_PORT  where `make demo` listens                       (default 8000)
#   DEMO_BOARD simulated board of the demo, even where there is a GPU  (default none)
#   LAB        passed on to `make lab-day`, `lab-rush` and `lab-fleet`, as in LAB="--users 30 --seconds 20"
#   MATRIX     passed on to `make memory-matrix`, as in MATRIX="--simulate a100-80"
#   BENCH      passed on to `make bench`, as in BENCH="--simulate h200 --only saturated"
#   BENCH_PYTHON  the interpreter of `make bench`; the rows of training loops need PyTorch in it  (default: VENV's)
#   ARGS       passed on to pytest, as in ARGS="tests/hub -x"
#   WORKERS    how many share the Python tests; 0 = none, as --pdb wants it  (default: two a core and one more, at most 8: most
#              of a test is waiting; on two cores 3 take 6 minutes, 5 less than 5)

VENV ?= .venv
DEMO_PORT ?= 8000
DEMO_BOARD ?=
ARGS ?=
LAB ?=
BENCH ?= --mps --budget 7200
MATRIX ?=
WORKERS ?= $(shell nproc | awk '{print $$1 < 4 ? 2 * $$1 + 1 : 8}')

# npm and yarn would leave a cache of compiled modules in /tmp.
export NODE_DISABLE_COMPILE_CACHE := 1
# Node knows no certificates but its own; pip and git here trust what the system does, a company's own included.
ifneq ($(wildcard /etc/ssl/certs/ca-certificates.crt),)
export NODE_EXTRA_CA_CERTS ?= /etc/ssl/certs/ca-certificates.crt
endif
export VENV PYTHON WORKERS DEMO_PORT
BIN := $(abspath $(VENV))/bin
export PATH := $(BIN):$(PATH)
BENCH_PYTHON ?= $(BIN)/python

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.SUFFIXES:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

JOBS := $(shell nproc)
AT_LENGTH := tools/at-length.sh
PANEL := jupyter_vgpu/labextension/package.json
PANEL_SOURCES := $(shell find labextension -not -path '*/node_modules/*' -not -path '*/.yarn/*' \
  -not -path 'labextension/lib/*' -not -path '*/coverage/*' -type f -not -name '*.tsbuildinfo')
C_FILES = $(shell git ls-files --cached --others --exclude-standard 'native/*.c' 'native/*.h')
SLOW_DIR := build/slow

.PHONY: help
help: ## Say what there is to make
	@grep -hE '^[a-z-]+:.*## ' Makefile | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

# --- to run ------------------------------------------------------------------------------------------

.PHONY: demo
demo: setup-port setup-demo ## Run a JupyterHub with GPU slices on this machine; Ctrl-C ends it and removes all traces
	@exec $(BIN)/python demo/run.py --port "$(DEMO_PORT)" --board "$(DEMO_BOARD)"

# What would else be found after minutes of set-up. demo/run.py looks more closely.
.PHONY: setup-port
setup-port:
	@if ! [[ "$$DEMO_PORT" =~ ^[0-9]{1,5}$$ ]]; then \
	  echo "make demo: DEMO_PORT: '$$DEMO_PORT' is not allowed; a port number from 1 to 65535 is, as in DEMO_PORT=8888" >&2; exit 1; fi
	@if (exec 3<>"/dev/tcp/127.0.0.1/$$DEMO_PORT") 2>/dev/null; then \
	  echo "make demo: port $$DEMO_PORT on 127.0.0.1 is in use; choose another, as in DEMO_PORT=8888" >&2; exit 1; fi

# --- to build ----------------------------------------------------------------------------------------

.PHONY: native
native: setup-build ## Compile the native libraries into jupyter_vgpu/lib
	@[ -e build/native/CMakeCache.txt ] || echo '==> compiling the native libraries'
	@$(AT_LENGTH) build/native.log cmake -S native -B build/native
	@$(AT_LENGTH) build/native.log cmake --build build/native --target install --parallel $(JOBS)

.PHONY: labextension
labextension: setup-build $(PANEL) ## Build the JupyterLab panel into jupyter_vgpu/labextension

$(PANEL): $(PANEL_SOURCES)
	@echo '==> building the JupyterLab panel (a minute or two on a fresh machine)'
	@$(AT_LENGTH) build/panel.log bash -c 'cd labextension && jlpm install --immutable && jlpm build:prod'
	@touch $@

.PHONY: wheel
wheel: labextension ## Build the sdist and the wheel into dist
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .

# --- to measure ---------------------------------------------------------------------------------------

.PHONY: bench
bench: setup-demo ## Measure what each tenant gets of this machine's GPU, beside native sharing; goes on where it stopped
	@$(BENCH_PYTHON) benchmarks/governor/run.py $(BENCH)

.PHONY: bench-summary
bench-summary: ## Print the newest table of `make bench`
	@python3 benchmarks/governor/summary.py

.PHONY: meter-summary
meter-summary: ## Print how far the meter of GPU time is from the truth, as last measured on a GPU
	@python3 benchmarks/meter/summary.py

.PHONY: memory-matrix
memory-matrix: setup-test ## Go every way to get device memory: is it limited, counted, freed? On the GPU, else a simulated one
	$(BIN)/python benchmarks/memory/matrix.py $(MATRIX)

# --- to check ----------------------------------------------------------------------------------------

.PHONY: test
test: lint test-native test-panel test-python ## Check everything that takes minutes: style, C, TypeScript, Python, browser

.PHONY: lint
lint: setup-test ## Check style, types and the floors of the house, change nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run --Werror $(C_FILES)
	cd labextension && jlpm lint:check

.PHONY: format
format: setup-test ## Bring all sources into their style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(C_FILES)
	cd labextension && jlpm lint

.PHONY: test-native
test-native: native ## Run the C tests, then again under the address and undefined-behaviour sanitizers
	$(AT_LENGTH) build/native.log cmake --build build/native --parallel $(JOBS)
	ctest --test-dir build/native --output-on-failure
	$(AT_LENGTH) build/native.log cmake -S native -B build/native-sanitized -DJVGPU_SANITIZE=ON -DJVGPU_WERROR=ON
	$(AT_LENGTH) build/native.log cmake --build build/native-sanitized --parallel $(JOBS)
	ctest --test-dir build/native-sanitized --output-on-failure

.PHONY: test-races
# The thread sanitizer wants its memory where the host kernel's randomisation may put something else.
test-races: native ## Run the C tests under the thread sanitizer
	$(AT_LENGTH) build/native.log cmake -S native -B build/native-threads -DJVGPU_SANITIZE=THREAD -DJVGPU_WERROR=ON
	$(AT_LENGTH) build/native.log cmake --build build/native-threads --parallel $(JOBS)
	setarch --addr-no-randomize ctest --test-dir build/native-threads --output-on-failure

.PHONY: test-panel
test-panel: labextension ## Run the panel's unit tests
	cd labextension && jlpm install --immutable >/dev/null && jlpm test

.PHONY: ui
ui: setup-test ## Run the browser tests
	cd labextension && jlpm install --immutable >/dev/null
	$(BIN)/pytest -m 'browser and not slow' tests/browser $(ARGS)

.PHONY: labextension-size
labextension-size: labextension ## Print the bytes of the panel that a browser loads
	@$(BIN)/python tools/labextension_size.py

.PHONY: test-python
test-python: setup-test ## Run the Python and browser tests
	$(BIN)/pytest -n $(WORKERS) -m 'not slow and not gpu' $(ARGS)

.PHONY: test-gpu
test-gpu: setup-test ## Run the tests that need an NVIDIA GPU
	$(BIN)/pytest -m gpu $(ARGS)

.PHONY: test-slow
# The test runner's own lines come last.
test-slow: sim-facts test-races test-long test-wheel test-oldest ## Check what takes longer: the wheel, the oldest dependencies, long-running tests

.PHONY: test-wheel
test-wheel: setup-test labextension ## Install sdist and wheel where there is no Node, and import them
	tools/test-wheel.sh $(SLOW_DIR)/wheel

.PHONY: test-oldest
test-oldest: native ## Run the tests against the oldest versions that pyproject.toml allows
	tools/test-oldest.sh $(SLOW_DIR)/oldest

.PHONY: test-long
test-long: setup-slow ## Run the tests marked slow
	@$(BIN)/pytest -m 'slow and not gpu' $(ARGS) || { code=$$?; [ $$code = 5 ] && echo 'no test is marked slow yet' || exit $$code; }

.PHONY: lab-day
lab-day: setup-test ## Live a teaching lab's day in minutes: 200 users, four simulated boards, a hub that is killed three times
	$(BIN)/python benchmarks/lab/day.py $(LAB)

.PHONY: lab-rush
lab-rush: setup-test ## Sixteen users who all begin, or leave, at the same moment: how long each takes, on the hub's side alone
	$(BIN)/python benchmarks/lab/rush.py $(LAB)

.PHONY: lab-fleet
lab-fleet: setup-test ## Place 10,000 users on 1,000 nodes on paper: decisions per second, and how that grows
	$(BIN)/python benchmarks/lab/fleet.py $(LAB)

.PHONY: sim-facts
sim-facts: setup-test ## Compare the simulated H200 with what was measured on a real one, row by row
	$(BIN)/python benchmarks/sim/facts.py

# --- to set up and to tidy ---------------------------------------------------------------------------

.PHONY: setup-build setup-demo setup-test setup-slow
setup-build:
	@tools/setup.sh build
	@mkdir -p build

# The compiled parts come first, so that their output is seen and pip finds them ready.
setup-demo: native labextension
	@tools/setup.sh demo

# The tests start our programs hundreds of times; where $PYTHONDONTWRITEBYTECODE is set, each would compile them anew.
setup-test: native labextension
	@tools/setup.sh test
	@$(BIN)/python -m compileall -q jupyter_vgpu

setup-slow: setup-test
	@tools/setup.sh slow

.PHONY: clean
clean: ## Remove what was built, not the virtual environment
	rm -rf build dist jupyter_vgpu/lib jupyter_vgpu/labextension labextension/lib labextension/tsconfig.tsbuildinfo
