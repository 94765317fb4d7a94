# `make` lists the targets. Needed: make, and Python 3.11 or newer with venv; everything else comes into .venv.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq

PYTHONS := $(PYTHON) python3.14 python3.13 python3.12 python3.11 python3 python
PYTEST_ARGS ?= -q -n 3 --dist loadgroup
FUZZ_CASES ?= 1000000
CHAOS_ARGS ?= --seconds 150

# Python may keep what it has compiled: tests start many processes, and compile all asserts
unexport PYTHONDONTWRITEBYTECODE

# what is typed: source and tests, and the scripts beside them
TYPED := src tests $(wildcard docs/*.py benchmarks/*.py benchmarks/peers/*.py examples/*.py examples/foreign/*.py)

.PHONY: help demo quick test whole check lint format types imports fresh pure bench peers docs lock fuzz long chaos chaos-cluster chaos-proxy clean tools

help: ## show this list
	@sed -n 's/^\([a-z]*\):[^#]*## /\1\t/p' Makefile | while IFS='	' read -r name what; do printf '  make %-8s %s\n' "$$name" "$$what"; done

demo: $(READY) ## run a small network and look at what it said
	@rm -rf build/demo
	@echo "== a network of six processes, and a lake: about a minute"
	@$(BIN)/hopwire demo --keep build/demo

quick: $(READY) ## check, and run every test without processes, Spark or much chance: for every save
	@$(MAKE) --no-print-directory -j 2 check pure

test: lint format tools ## check, and run every test
	@$(MAKE) --no-print-directory -j 2 whole types imports fresh \
		|| { echo "red: a test above, or what a line with *** above names"; exit 1; }
	@echo "green: every test that can run here, lint, format, types, import rules, documents"

whole: $(READY)
	@echo "== tests"
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

tools: ## install what tests need of Debian, where that is possible: tshark, chromium, and libzmq for the programs in C
	@for tool in tshark chromium libzmq3-dev; do \
		case $$tool in \
			libzmq3-dev) test -e /usr/include/zmq.h && continue ;; \
			*) command -v $$tool >/dev/null && continue ;; \
		esac; \
		if test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then \
			echo "== install $$tool"; \
			apt-cache show $$tool >/dev/null 2>&1 || apt-get update -qq >/dev/null 2>&1; \
			DEBIAN_FRONTEND=noninteractive apt-get install -qq -y $$tool >$(VENV)/$$tool.log 2>&1 && continue; \
			tail -n 1 $(VENV)/$$tool.log; \
		fi; \
		echo "$$tool is not here, and its tests are skipped (Debian: apt-get install $$tool)"; \
	done

check: lint format types imports fresh ## lint, format, types, import rules and generated documents

lint: $(READY)
	@echo "== lint"
	@$(BIN)/ruff check -q .

format: $(READY)
	@echo "== format"
	@$(BIN)/ruff format -q --check . || { echo "remedy: $(BIN)/ruff format"; exit 1; }

types: $(READY)
	@echo "== types"
	@$(BIN)/mypy --no-error-summary $(TYPED)

imports: $(READY)
	@echo "== imports"
	@$(BIN)/lint-imports --no-logo >$(VENV)/imports.log || { cat $(VENV)/imports.log; exit 1; }

fresh: $(READY)
	@echo "== docs"
	@$(BIN)/python docs/generate.py --check

# these tests wait for nothing and share nothing: a process for each core, no group, nothing that watches for hangs
# beside the time limit of each test, and files in memory where a gigabyte is free for them
MEMORY = $(shell test -w /dev/shm && df --output=avail /dev/shm 2>/dev/null | awk 'NR == 2 && $$1 > 1000000 {print "/dev/shm"}')
pure: PYTEST_ARGS = -q -n 2 --dist worksteal -o faulthandler_timeout=0 -o tmp_path_retention_count=1
pure: export TMPDIR := $(or $(MEMORY),$(TMPDIR))
pure: $(READY)
	@echo "== tests that are quick"
	@$(BIN)/python -m pytest $(PYTEST_ARGS) -m "not slow and not spark and not fuzz"

bench: $(READY) ## measure against the targets
	@$(BIN)/python benchmarks/run.py

peers: $(READY) ## install what `ask` is measured beside, into .venv-peers
	@$(BIN)/python benchmarks/peers/install.py

docs: $(READY) ## write the generated documents anew, and make the site of all pages: build/site
	@$(BIN)/python docs/generate.py
	@$(BIN)/python docs/make_site.py

fuzz: $(READY) ## run the fuzz tests for long: FUZZ_CASES=1000000
	@$(BIN)/python -m pytest $(PYTEST_ARGS) -m fuzz --fuzz-cases $(FUZZ_CASES) --timeout 0

long: $(READY) ## run what takes minutes, and what can be tried more often, for long
	@$(BIN)/python -m pytest $(PYTEST_ARGS) --long --networks 500 --timeout 0

chaos: $(READY) ## let networks suffer for long, and say what held: CHAOS_ARGS="--seconds 150 --seed 1 --report FILE"
	@$(BIN)/python -m tests.chaos $(CHAOS_ARGS)

chaos-cluster: $(READY) ## the same for a cluster of ten members and two rendezvous: CHAOS_ARGS="--seconds 300 --seed 1"
	@$(BIN)/python -m tests.chaos.cluster $(CHAOS_ARGS)

chaos-proxy: $(READY) ## two nodes on a network that cuts, stalls, delays, doubles: CHAOS_ARGS="--seconds 300 --seed 1"
	@$(BIN)/python -m tests.attacks.faulty_proxy $(CHAOS_ARGS)

lock: $(READY) ## choose the newest versions of everything for requirements.lock
	@$(PIP) install uv
	@$(BIN)/uv pip compile -q --upgrade --universal --python-version 3.11.5 --all-extras --group dev --generate-hashes \
		--no-header --no-emit-index-url --no-emit-find-links --annotation-style line \
		pyproject.toml -o requirements.lock
	@$(BIN)/uv pip compile -q --upgrade --universal --python-version 3.11.5 --constraints requirements.lock \
		--no-header --no-emit-index-url --no-emit-find-links --annotation-style line \
		benchmarks/requirements.in -o benchmarks/requirements.txt
	@echo "requirements.lock is new; make test installs it"

clean: ## remove .venv and everything that was made
	@rm -rf $(VENV) .venv-peers build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis spark-warehouse
	@find src tests docs examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(READY): requirements.lock pyproject.toml
	@echo "== set up $(VENV): 2 GB, some minutes, the first time only"
	@$(BIN)/python -c 'import pip' 2>/dev/null || { \
		for python in $(PYTHONS); do \
			$$python -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
				&& exec $$python -m venv --clear $(VENV); \
		done; \
		echo "no Python 3.11 or newer with venv found: install one, or name it with make PYTHON=..." >&2; exit 1; }
	@$(PIP) install -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@
