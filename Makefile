# Every command makes its own environment (.venv) on first use; later calls start at once.
#   make demo                     see what a fast-weight memory does
#   make test                     all tests but the slow ones
#   make test-all                 the slow ones too (kills, sanitizers, whole reports)
#   make test-gpu                 the GPU kernels in Triton's interpreter, on the CPU (installs Triton)
#   make gpu-check                what your GPU shows (agreement, speed); without one, interpreter and compilation
#   make test-browser             the page of `fastweights play` in the system's Chromium
#   make check                    format, lint, types and the fast tests
#   make report                   figures, tables and claims from the records in results/
#   make docs                     the documentation as a site, in site/
#   make bench                    speed and memory against peers (twenty minutes; OPTIONS=--quick a minute)
#   make test PYTHON=python3.12   with another interpreter (remakes .venv if it holds a different one)

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
EXTRAS := dev,hf,mt
SOURCES_OF_BUILD := pyproject.toml constraints.txt CMakeLists.txt $(wildcard csrc/* csrc/*/*)
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt
# One process per core, one thread each: small problems gain nothing from more.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto
# What Triton's interpreter runs: the kernels, and every test of agreement, splits, padding and extremes.
INTERPRETED := tests/kernels/triton tests/memory/test_triton.py tests/memory/test_agreement.py tests/memory/test_scan.py \
  tests/test_streaming.py tests/test_extremes.py tests/layers/exact/test_padding.py
VERSION_OF = $(shell $(1) -c 'import sys; print(sys.version_info[:2])' 2>/dev/null)

# Named by the caller: an environment made with another version is remade.
ifdef PYTHON
ifneq ($(wildcard $(BIN)/python),)
ifneq ($(call VERSION_OF,$(PYTHON)),$(call VERSION_OF,$(BIN)/python))
.PHONY: $(READY)
endif
endif
else
PYTHON := $(firstword $(foreach candidate,$(BIN)/python python3.11 python3.12 python3.13 python3,$(if $(call VERSION_OF,$(candidate)),$(candidate))))
endif

.PHONY: help setup demo test test-all test-gpu gpu-check browser test-browser lint check bench report docs clean
.DELETE_ON_ERROR:

help:
	@sed -n 's/^#   //p' Makefile

setup: $(READY)

$(READY): $(SOURCES_OF_BUILD)
	@test -n "$(PYTHON)" || { echo 'No Python 3 was found: name one with PYTHON=...'; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"fastweights needs Python 3.11 or later, $(PYTHON) is {sys.version.split()[0]}: name another one with PYTHON=...")'
	@test "$$($(PYTHON) --version)" = "$$($(BIN)/python --version 2>/dev/null)" || $(PYTHON) -m venv --clear $(VENV)
	@echo "Setting up $(VENV) (a few minutes the first time)"
	@$(PIP) scikit-build-core cmake ninja
	@$(PIP) --no-build-isolation --editable '.[$(EXTRAS)]'
	@touch $@

demo: $(READY)
	@$(BIN)/fastweights demo

test: $(READY)
	$(PYTEST) -m "not slow" $(OPTIONS)

test-all: $(READY)
	@$(PIP) --no-build-isolation --editable '.[$(EXTRAS),cluster]'
	$(PYTEST) $(OPTIONS)

test-gpu: $(READY)
	@$(PIP) triton
	TRITON_INTERPRET=1 $(PYTEST) $(INTERPRETED) -m "not slow" $(OPTIONS)

gpu-check: $(READY)
	@$(PIP) triton
	INTERPRETED="$(INTERPRETED)" OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.gpu_check

browser: $(READY)
	@$(PIP) gradio playwright

test-browser: browser
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -rs tests/playground/browser $(OPTIONS)

lint: $(READY)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

check: lint
	$(PYTEST) -m "not slow" $(OPTIONS)

report: $(READY)
	$(BIN)/fastweights report --results results --figures docs/figures --update README.md docs/reproducing.md docs/translation.md docs/looking_inside.md docs/recall.md

bench: $(READY)
	$(BIN)/python -m benchmarks $(OPTIONS)

docs: $(READY)
	@$(PIP) --no-build-isolation --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo 'The documentation is site/index.html'

clean:
	rm -rf $(VENV) site build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
