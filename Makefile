# Everything runs inside .venv; `make demo` and `make test` set it up when they need it.
# PYTHON is the interpreter the environment is made with (3.11 or newer): make demo PYTHON=python3.12

PYTHON ?= python3
UV_VERSION := 0.13.9

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/setup.stamp
PYTEST_ARGS ?=
# make release-check RELEASE_ARGS="--versions newest --python 3.13"
RELEASE_ARGS ?=
# Tests run on all cores; the long drills, which fill the machine by themselves, one after the other.
SPREAD := -n auto --dist worksteal
TRAINING := tests/contract/test_methods.py tests/contract/test_models.py tests/models/test_convolution.py tests/training/test_narrow_networks.py
# What needs nothing but the package: reading, splitting, training, estimating, transforming.
LOWEST := tests/training/test_loop.py tests/training/test_run_context.py tests/training/test_selection.py tests/training/test_predicting.py \
  tests/training/test_loader.py tests/shifts tests/estimators tests/models/test_build.py tests/models/test_convolution.py \
  tests/data/sources/test_digits.py tests/data/test_tabular.py tests/cli/test_doctor.py tests/contract/test_transforms.py --ignore=tests/shifts/audit

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all test-training lowest release-check docs verify lint style types format lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## make .venv with the tested versions and install Crosswind into it, editable

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Crosswind needs Python 3.11 or newer; name one: make setup PYTHON=python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test "$$($(BIN)/uv --version 2>/dev/null | cut -d ' ' -f 2)" = "$(UV_VERSION)" \
	  || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	$(BIN)/uv pip install --python $(BIN)/python --quiet --require-hashes --compile-bytecode -r requirements.lock
	$(BIN)/uv pip install --python $(BIN)/python --quiet --no-deps --no-build-isolation -e .
	@# Compiled here, whatever the environment says: an uncompiled import of the package costs several times as much.
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m compileall -q src
	@touch $@

demo: setup ## run the main job on real data and print its tables (a few minutes)
	$(BIN)/crosswind run demo --workers 2 --out demo-out

test: setup ## the default tests (11 minutes of processor time: six on two free cores)
	$(BIN)/python -m pytest $(SPREAD) $(PYTEST_ARGS)

lint: style types ## format check, ruff, layers, types

style: setup ## format check, ruff, layers: seconds
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: setup ## the types, for Linux and for macOS: two minutes of one core
	@# Both at once, each with a cache of its own: with one, each would begin anew after the other.
	@# The second looks for what macOS lacks, which the types of packages do not tell: it leaves most of them out.
	$(BIN)/mypy & linux=$$!; \
	  $(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin --follow-imports skip --allow-subclassing-any \
	    --allow-untyped-decorators --no-warn-unused-ignores --disable-error-code overload-cannot-match; darwin=$$?; \
	  wait $$linux && exit $$darwin

test-all: style ## what continuous integration runs: style, types, and every test but the long drills
	@# The types keep one core busy and leave the others idle, so they are looked at beside the tests; an error in them is printed last.
	make --no-print-directory types >$(VENV)/types.log 2>&1 & types=$$!; \
	  $(BIN)/python -m pytest -m "not verify" $(SPREAD) --durations=20 $(PYTEST_ARGS); tests=$$?; \
	  wait $$types || { cat $(VENV)/types.log; exit 1; }; \
	  exit $$tests

test-training: setup ## what trains networks: every method, every model, and the convolutions
	$(BIN)/python -m pytest -m "not verify" $(SPREAD) $(PYTEST_ARGS) $(TRAINING)

docs: setup ## run the examples and build the documentation site strictly into build/site (a few minutes)
	$(BIN)/python -m tools.make_site

lowest: setup ## the lowest versions that pyproject.toml allows, in .venv-lowest, and the central tests on them
	$(BIN)/uv pip compile pyproject.toml --resolution lowest-direct --python-version 3.11 --quiet --output-file .venv-lowest.txt
	test -x .venv-lowest/bin/python || $(BIN)/uv venv --quiet --python $(BIN)/python .venv-lowest
	$(BIN)/uv pip install --python .venv-lowest/bin/python --quiet -r .venv-lowest.txt pytest hypothesis
	PYTHONPATH=src .venv-lowest/bin/python -m pytest -p no:cacheprovider -W "ignore:'click.utils:DeprecationWarning" $(LOWEST)
	PYTHONPATH=src .venv-lowest/bin/python -m crosswind run demo --scale tiny --out demo-out/lowest

release-check: setup ## build wheel and sdist, check them, and use the wheel in an empty environment with the locked versions
	$(BIN)/python -m tools.release_check $(RELEASE_ARGS)

verify: setup ## the long drills
	$(BIN)/python -m pytest -m verify $(SPREAD) --durations=20 $(PYTEST_ARGS)

format: setup ## format the code and apply ruff's safe fixes
	$(BIN)/ruff check --fix --quiet . || true
	$(BIN)/ruff format .

lock: setup ## resolve requirements.lock anew; newer versions only with UV_ARGS=--upgrade
	$(BIN)/uv pip compile pyproject.toml --group dev --group docs --all-extras --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --no-header --no-annotate --quiet $(UV_ARGS) --output-file requirements.lock

clean: ## remove the environment and what the tools cached
	rm -rf $(VENV) .venv-lowest .venv-lowest.txt .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
