# Two commands do everything:  make leaderboard   and   make test
PYTHON ?= python3.11
ifeq ($(shell command -v $(PYTHON) 2>/dev/null),)
PYTHON := python3
endif
BIN := .venv/bin
# Two processes of one thread each: more of either only wait for each other on two cores.
PYTEST := OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest -q -n 2 --dist worksteal
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: bench-agreement help leaderboard test test-long lint schemas bench-attacks bench-clean bench-oracle bench-corruptions bench-pages bench-site clean

help:
	@echo "make leaderboard   install, measure the embedded demo, write site/_build/index.html"
	@echo "make test          install with dev extras, run lint, types, import contracts and tests"
	@echo "make test-long     the batteries that take minutes"
	@echo "make lint          only lint, types and import contracts"
	@echo "make schemas       rewrite the JSON Schemas under registry/schema"
	@echo "make bench-agreement do our attacks find what those of other libraries find?"
	@echo "make bench-attacks our attacks beside those of other libraries, in an environment of their own"
	@echo "make bench-clean   clean evaluation beside timm's own loop"
	@echo "make bench-corruptions  our corruptions beside those of other libraries, likewise"
	@echo "make bench-pages   large boards: rendering, opening and sorting in Chromium"
	@echo "make bench-site    a million predictions and 2,000 models beside pandas and a naive rebuild"
	@echo "make bench-oracle  the loop of generated images beside the same loop one image at a time"

leaderboard: .venv/.installed
	@$(BIN)/robustboard demo

test: .venv/.installed-dev lint
	@sh tests/system-packages.sh
	@$(PYTEST) -m "not long"

test-long: .venv/.installed-dev
	@sh tests/system-packages.sh
	@$(PYTEST) -m long

lint: .venv/.installed-dev
	@$(BIN)/ruff check robustboard tests
	@$(BIN)/ruff format --check --quiet robustboard tests
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

schemas: .venv/.installed
	@$(BIN)/python -m robustboard.schemas

bench-attacks: .venv/.installed-dev
	@sh tests/system-packages.sh
	@sh tests/bench/make-peers.sh
	@OMP_WAIT_POLICY=PASSIVE .venv-peers/bin/python -m tests.bench.attacks $(ARGUMENTS)

bench-clean: .venv/.installed-dev
	@sh tests/system-packages.sh
	@OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m tests.bench.clean $(ARGUMENTS)

bench-corruptions: .venv/.installed-dev
	@sh tests/bench/imagemagick.sh
	@sh tests/bench/make-peers.sh
	@OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE .venv-peers/bin/python -m tests.bench.corruptions $(ARGUMENTS)

bench-agreement: .venv/.installed-dev
	@sh tests/system-packages.sh
	@sh tests/bench/make-peers.sh
	@OMP_WAIT_POLICY=PASSIVE .venv-peers/bin/python -m tests.bench.agreement $(ARGUMENTS)

bench-pages: .venv/.installed-dev
	@sh tests/system-packages.sh
	@OMP_NUM_THREADS=1 .venv/bin/python -m tests.bench.pages

bench-oracle: .venv/.installed-dev
	@OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE .venv/bin/python -m tests.bench.oracle $(ARGUMENTS)

bench-site: .venv/.installed-dev
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.bench.site $(ARGUMENTS)

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.installed: pyproject.toml | .venv/bin/python
	@echo "Installing robustboard into .venv (the first time downloads PyTorch: some minutes)"
	@$(PIP) --editable .
	@touch $@

.venv/.installed-dev: pyproject.toml | .venv/bin/python
	@echo "Installing robustboard with its development tools into .venv"
	@$(PIP) --editable '.[dev]'
	@touch $@ .venv/.installed

clean:
	rm -rf site/_build runs dist
