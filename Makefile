# make demo       record a program and show its flame graph
# make test       set up and run the tests in parallel
# make test-all   run also the slow tests
# make bench      compare with other tools
PYTHON ?= python3
SETUP := $(PYTHON) tools/bootstrap.py
BIN := .venv/bin
export PATH := $(CURDIR)/.cache/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help demo serve quick test test-all bench lint format constraints venv clean

help: ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## /  make \1	/p' Makefile

demo: ## set up, record a bundled program, serve its flame graph (ARGS="--port 9000")
	@$(SETUP) demo
	@exec $(BIN)/perfloom demo $(ARGS)

serve: ## set up and serve (ARGS="--port 9000")
	@$(SETUP) demo
	@exec $(BIN)/perfloom serve $(ARGS)

# In several processes (-n 0: in one). Tests start hundreds of Python processes, whose modules are compiled to bytecode once.
quick test test-all: export PYTHONDONTWRITEBYTECODE =
# These tests are CPU-bound, so there is one process per CPU.
CORE = $(addprefix tests/,domain ingest readers analysis charts exporters recording/fields recording/recorders recording/probe web/jobs test_config.py test_scripts.py)
QUICK = -n $$(nproc) -m "not slow and not heavy" --ignore tests/readers/test_compiled.py --ignore-glob "*_browser.py"
PYTEST = $(BIN)/python -m pytest -n auto
# .ci/run reads pytest's exit status from a file.
STATUS = $(if $(PYTEST_STATUS),; echo $$? >$(PYTEST_STATUS))

quick: ## run the core tests: no servers, browser or recordings (ARGS="-k name")
	@$(SETUP) venv --extras test
	@$(PYTEST) $(QUICK) $(ARGS) $(CORE)

test: ## set up and run all tests but those marked slow (ARGS="-k name")
	@$(SETUP) test
	@$(PYTEST) -m "not slow" $(ARGS)$(STATUS)

test-all: ## set up and run all tests (ARGS="-k name")
	@$(SETUP) test
	@$(PYTEST) $(ARGS)$(STATUS)

bench: ## compare with other tools on the same files, write docs/performance.md (ARGS="--install")
	@$(SETUP) venv --extras test
	@$(BIN)/python -m benchmarks.peers $(ARGS)

lint: venv node_modules/.package-lock.json ## check style, types and imports
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --config setup.cfg --no-logo --cache-dir .cache/import-linter
	@node_modules/.bin/eslint --max-warnings 0
	@node_modules/.bin/tsc
	@node_modules/.bin/tsc --project tsconfig.strict.json
	@$(PYTEST) -q tests/test_style.py

# eslint and TypeScript, which only `make lint` needs. npm writes this file last.
node_modules/.package-lock.json: package.json package-lock.json
	@command -v npm >/dev/null || { echo "make lint needs npm: apt-get install npm" >&2; exit 1; }
	@npm ci --no-audit --no-fund --loglevel=error

format: venv ## format the code
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

venv: ## create .venv with all development dependencies
	@$(SETUP) venv --extras dev,test

constraints: ## pin the newest versions that setup.cfg allows, in tools/constraints.txt
	@$(PYTHON) tools/constraints.py

clean: ## remove all generated files except recordings
	rm -rf .venv .cache node_modules build dist *.egg-info
