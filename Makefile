# Needs Python 3.11 or newer, git and make; everything else is set up in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/ready
FULL   ?=

.PHONY: run test lint bench torture docs clean

run: $(VENV)/installed            ## the main job, end to end, in a scratch directory
	@$(BIN)/holdfast tour

test: $(READY)                    ## all tests
	@$(BIN)/python -m pytest -n auto -q

lint: $(READY)                    ## style, types, layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

docs: $(READY)                    ## regenerate the pages made from code
	@$(BIN)/python docs/generate.py
	@$(BIN)/python docs/picture.py

bench: $(READY)                   ## ratios within one run, as a table and bench/results/*.json
	@$(BIN)/python -m pip install -q --group bench
	@$(BIN)/python bench/run.py

torture: $(READY)                 ## faults at scale; FULL=1 for the night's counts
	@$(BIN)/python -m pip install -q --group torture
	@HOLDFAST_TORTURE=$(if $(FULL),night,pr) $(BIN)/python -m pytest -n auto -q tests/faults tests/core tests/formats

$(VENV)/installed: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install -q -e .
	@touch $@

$(READY): $(VENV)/installed
	@$(BIN)/python -m pip install -q --group dev
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
