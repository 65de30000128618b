# Device farm. `make` alone prints what there is.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; done)
BIN := .venv/bin
# Typed to the last word; a room without a module yet is left out.
TYPED = $(sort $(foreach room,farm runner virtual dashboard engine suites benchmarks,$(if $(shell find $(room) -name '*.py' -print -quit 2>/dev/null),$(room))))
DEMO_FLAGS = $(if $(ONCE),--once --json) $(foreach fault,$(FAULT),--fault '$(fault)') \
	$(if $(FAULT_DEVICE),--fault-device '$(FAULT_DEVICE)')

.DEFAULT_GOAL := help
.PHONY: help setup setup-tests demo test test-slow lint bench lock clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo '  make demo ONCE=1                         run once, print the result as JSON, end'
	@echo '  make demo ONCE=1 FAULT=slow-stage=decode:2.0   with a fault on one virtual device'

setup:  ## what the demo needs: environment, build tools, browser libraries
	@$(if $(PYTHON),$(PYTHON) tools/setup.py,echo 'Python 3.11 or newer was not found: name one with make PYTHON=/path/to/python' >&2; exit 1)

setup-tests:  ## what the tests need as well
	@$(if $(PYTHON),$(PYTHON) tools/setup.py --with-tests,echo 'Python 3.11 or newer was not found: name one with make PYTHON=/path/to/python' >&2; exit 1)

demo: setup  ## three virtual devices, an engine, suites and a dashboard (ONCE=1, FAULT=…, FAULT_DEVICE=…)
	@$(BIN)/farm demo $(DEMO_FLAGS)

test: setup-tests lint  ## lint, types, import contract and tests
	timeout --signal=INT --kill-after=60 3600 $(BIN)/pytest -n auto --dist loadfile

test-slow: setup-tests  ## every test, the slow ones too (a foreign engine is built, gigabytes are sent)
	timeout --signal=INT --kill-after=60 5400 $(BIN)/pytest -n auto --dist loadfile --slow

lint: setup-tests  ## ruff, mypy, import contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(TYPED)
	cd tools && ../$(BIN)/mypy --config-file ../pyproject.toml setup.py bounded.py progress.py
	$(BIN)/lint-imports

bench: setup  ## every benchmark in benchmarks/, one after the other
	@for benchmark in benchmarks/*.py; do echo "== $$benchmark"; $(BIN)/python "$$benchmark" || exit 1; done

lock: setup  ## pin what changed in requirements*.lock and dashboard/package-lock.json (UPGRADE=1: everything)
	@PYTHON=$(BIN)/python UPGRADE=$(UPGRADE) sh tools/lock.sh

clean:  ## remove what was built and cached; .venv and .farm (your runs) stay
	rm -rf build dist .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dashboard/static/vendor
	find . -path ./.venv -prune -o -name __pycache__ -type d -print0 | xargs -0 rm -rf
