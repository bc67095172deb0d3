# Every target works as the first command on a fresh machine with Python 3.11 (or newer) and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Processes that share the tests: one for each core, up to eight. JOBS=0 keeps them in one process, for a debugger.
JOBS ?= auto

.DEFAULT_GOAL := help
.PHONY: help setup serve test test-clients bench table check wheel lock clean

help:  ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 21

setup: $(READY)  ## Create .venv from the hash-locked requirements

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Tandem needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) -V 2>&1)."; \
	       echo "hint: make setup PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || { echo "Creating $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "Installing the locked packages into $(VENV) (about a minute the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q router policies adapters  # so that the first start is as quick as the next
	@$(BIN)/python tests/bench/faster_python.py || true
	@touch $@

serve: $(READY)  ## Run the router (the simulated tiers, until config.yaml names others)
	@$(BIN)/tandem serve

test: $(READY)  ## Run the tests, those of real clients apart; ARGS="--durations=20" or any of pytest's own
	@$(BIN)/python -m pytest -n $(JOBS) --maxprocesses 8 --dist worksteal --ignore tests/clients $(ARGS)

test-clients: $(READY)  ## Install real clients (npm, 600 MB) and run them against the router
	@$(BIN)/python -m pytest tests/clients $(ARGS)

bench: $(READY)  ## Measure against direct calls, or another version with ARGS="--against COMMIT"; JSON with "--json FILE"
	@$(BIN)/python -m tests.bench $(ARGS)

table: $(READY)  ## Run every real client against one-dialect upstreams and write the page (needs ../shared)
	@$(BIN)/python -m tests.clients.table $(ARGS)

check: $(READY)  ## Lint, format and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

wheel: $(READY)  ## Build a wheel into dist/
	@$(BIN)/python -m build --wheel --no-isolation --outdir dist .

lock: $(READY)  ## Resolve pyproject.toml anew into requirements.lock (needs uv; nothing younger than seven days)
	uv pip compile pyproject.toml --group dev --extra litellm --extra train --extra uvloop --universal --python-version 3.11 \
	  --generate-hashes --no-header --no-emit-index-url --upgrade --exclude-newer "$$(date -u -d '7 days ago' +%F 2>/dev/null || date -u -v-7d +%F)" \
	  --output-file requirements.lock

clean:  ## Remove what the other targets made
	rm -rf $(VENV) dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis tandem.db tandem.db-*
