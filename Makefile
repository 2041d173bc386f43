# chsink: what a developer and CI run.  `make help` lists the targets; all of them work from any folder with `make -C`.
#
# Rules: a target sets up what it needs; what is set up is not touched again (stamps in .venv, checksums of jars); nothing
# needs the network twice.  PYTHON=… names another Python 3.11.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
# Tests start hundreds of Pythons: byte code is kept, whatever the caller prefers.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --no-input
PYTEST := $(PY) -m pytest
# The first that runs and is 3.11: a name on PATH may be a shim of a version manager that has no such version.
PYTHON ?= $(shell for p in python3.11 /usr/bin/python3.11 python3 python; do \
	$$p -c 'import ensurepip, sys, venv; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null && echo $$p && break; done)

ARGS ?=
SEED ?= 1
STEPS ?= 1000000
MINUTES ?= 0
HOURS ?= 1
# Test files side by side; each worker has services and a Spark session of its own.
WORKERS ?= 3
PARALLEL := -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*## (.*)/\1\t\2/' | expand -t 10
	@echo
	@echo 'Options: ARGS="…" goes to the program behind demo, test, chaos and bench.'

# -- set up ---------------------------------------------------------------------------------------

.PHONY: setup
setup: $(VENV)/.jars ## make .venv with all pinned packages, and fetch the pinned jars

$(VENV)/.python:
	@test -n "$(PYTHON)" || { echo "no Python 3.11 with venv found: install it, or run make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@echo "setup: virtual environment"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# A registry fails now and then: what came is kept in pip's cache and the rest is asked for again.
$(VENV)/.requirements: requirements.lock $(VENV)/.python
	@echo "setup: packages"
	@for pause in 5 20 60 0; do \
		$(PIP) install --quiet --retries 10 -r requirements.lock && break; \
		test $$pause != 0 || { echo "setup: packages could not be installed" >&2; exit 1; }; \
		echo "setup: trying again in $$pause s" >&2; sleep $$pause; \
	done
	@touch $@

$(VENV)/.package: pyproject.toml $(VENV)/.requirements
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.jars: chsink/jvm/jars.toml $(VENV)/.package
	@echo "setup: jars"
	@$(PY) -m chsink.jvm.jars >/dev/null
	@touch $@

$(VENV)/spark.jsa: $(VENV)/.jars tests/support/classes.py
	@echo "setup: archives of Spark's and Kafka's classes for the tests, and the byte code of the tests"
	@$(PYTEST) --collect-only --quiet >/dev/null & $(PY) -m tests.support.classes >/dev/null; wait

# -- run ------------------------------------------------------------------------------------------

.PHONY: demo
demo: setup ## land real records in ClickHouse and Iceberg exactly once, killing the job on the way
	@$(PY) demo/run.py $(ARGS)

.PHONY: bench
bench: setup ## measure speed and memory against what people write today
	@$(PY) -m bench $(ARGS)

# -- check ----------------------------------------------------------------------------------------

.PHONY: test
test: setup $(VENV)/spark.jsa ## run the tests, but for those of chaos and soak
	@$(PYTEST) --ignore=tests/chaos -m "not soak" $(PARALLEL) $(ARGS)

.PHONY: chaos
chaos: setup $(VENV)/spark.jsa ## break real services under the real job: each fault once, or again and again for MINUTES=n
	@MINUTES=$(MINUTES) $(PYTEST) tests/chaos -m "not long" $(PARALLEL) --durations=10 $(ARGS)

.PHONY: chaos-long
chaos-long: setup $(VENV)/spark.jsa ## run the faults that make chaos leaves out
	@$(PYTEST) tests/chaos -m long $(PARALLEL) --durations=10 $(ARGS)

.PHONY: soak
soak: setup $(VENV)/spark.jsa ## run what make test leaves out: more cases of a kind, longer searches, all examples
	@$(PYTEST) --ignore=tests/chaos -m "soak or hypothesis" --hypothesis-profile=soak $(PARALLEL) --durations=10 $(ARGS)

.PHONY: sim
sim: setup ## run the simulator: SEED=n STEPS=n
	@$(PY) -m tests.sim --seed $(SEED) --steps $(STEPS) $(ARGS)

.PHONY: sim-long
sim-long: setup ## run the simulator on all cores: HOURS=n, ARGS="--of mirror" for the mirror
	@$(PY) -m tests.sim.long --seed $(SEED) --hours $(HOURS) $(ARGS)

.PHONY: model
model: setup ## explore all orders of everything in small worlds
	@$(PY) -m tests.model $(ARGS)
	@$(PY) -m tests.mirror_model

# Once a day, it asks the package index's service about each package; without an answer it says so and goes on.
$(VENV)/.audit-%: requirements.lock tests/audit.py | setup
	@$(PY) -m tests.audit $(VENV)/audit
	@touch $@

.PHONY: lint
lint: setup $(VENV)/.audit-$(shell date +%Y-%m-%d) ## check style, layout, and the packages for known vulnerabilities
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

.PHONY: type
type: setup ## check types
	@$(PY) -m mypy

.PHONY: docs
docs: setup ## write the pages, tables and pictures that are made from the code and the tests
	@$(PY) -m chsink.statemachine.render < docs/how-a-batch-survives.md > docs/.batch.new
	@mv docs/.batch.new docs/how-a-batch-survives.md
	@$(PY) -m chsink.statemachine.commit.render < docs/mirror.md > docs/.mirror.new
	@mv docs/.mirror.new docs/mirror.md
	@$(PY) -m chsink.config.page > docs/.configuration.new
	@mv docs/.configuration.new docs/configuration.md
	@$(PY) -m chsink.cli.page > docs/.commands.new
	@mv docs/.commands.new docs/commands.md
	@$(PY) -m docs.site.api > docs/.python.new
	@mv docs/.python.new docs/python.md
	@$(PY) -m chsink.errors.page docs
	@$(PY) -m tests.support.pages docs
	@$(PY) -m docs.site.pictures docs/images

.PHONY: pictures
pictures: setup ## draw the status page's states for docs/ui.md again, with Chromium
	@CHSINK_DRAW=1 $(PYTEST) tests/browser/test_page.py $(ARGS)

.PHONY: site
site: setup ## build the documentation of this version as a site in build/site; dead links and anchors are errors
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet \
		--site-dir build/site/$$($(PY) -c 'import chsink; print(chsink.__version__)')
	@echo "build/site/index.html"

# -- package --------------------------------------------------------------------------------------

.PHONY: wheel
wheel: setup ## build dist/chsink-….whl
	@rm -rf build dist
	@$(PIP) wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@rm -rf build
	@ls dist/*.whl

.PHONY: release
release: setup ## build and check what a release uploads, and try it with each Python from 3.11 to 3.13 on PATH or in pyenv
	@$(PY) -m tests.release

.PHONY: clean
clean: ## remove everything made here; the cache of jars stays (CHSINK_CACHE or ~/.cache/chsink)
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info spark-warehouse metastore_db derby.log
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
