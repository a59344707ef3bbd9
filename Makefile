# Set-up and everything that is run by hand or by CI. `make help` lists the targets.
PYTHON ?= python3
BIN := .venv/bin
.DELETE_ON_ERROR:
.PHONY: help demo test check soak cover clean

help:
	@echo 'make demo    train, evaluate and predict on real images, with 3 ranks on this machine'
	@echo '             (DATA=DIR: on your own folder of class folders)'
	@echo 'make test    all tests            (ARGS="tests/unit -k name": some of them)'
	@echo 'make check   format, lint, types, import direction, spelling, sizes'
	@echo 'make soak    the long tests: hundreds of kills of a save'
	@echo 'make cover   all tests, then which lines they did not reach'
	@echo 'make clean   removes .venv and caches; never a run or a demo folder'
	@echo 'Each sets up .venv first, with PYTHON=$(PYTHON).'

# The stamp is newer than both files when everything they ask for is installed.
.venv/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "shanty needs Python 3.10 or newer; choose one with: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make a virtual environment; install the Debian package that is missing:" >&2; \
	  $(PYTHON) -c 'import sys; print("  apt-get install python%d.%d-venv" % sys.version_info[:2])' >&2; \
	  exit 1; }
	@echo 'setting up .venv (the first time this downloads torch: several minutes)'
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --constraint constraints.txt --editable '.[train,dev]'
	@touch $@

demo: .venv/.ready
	@$(BIN)/python tools/demo.py $(if $(DATA),--data '$(DATA)')

test: .venv/.ready
	$(BIN)/python -m pytest $(ARGS)

check: .venv/.ready
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/pyrefly check
	$(BIN)/lint-imports --no-logo
	$(BIN)/codespell
	$(BIN)/python tools/sizes.py

soak: .venv/.ready
	$(BIN)/python -m pytest -m soak $(ARGS)

cover: .venv/.ready
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

clean:
	rm -rf .venv .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage .coverage.*
	find src tests tools benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
