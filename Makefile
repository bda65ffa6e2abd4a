# make demo and make test are all a newcomer needs. `make help` lists the rest.
.DEFAULT_GOAL := help
.PHONY: help demo test chaos bench lint lock clean

PORT ?= 8000
FLOWER_PORT ?= 5555
DURATION ?= 120
SEED ?= 1
# The first one that is new enough; if there is none, deploy/prepare.py says so. Choose another: make demo PYTHON=...
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && exit; done; echo python3)

define SET_UP
@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is missing: install Python 3.11 or newer." >&2; exit 1; }
@$(PYTHON) deploy/prepare.py
endef

COMPILE = .venv/bin/uv pip compile -q pyproject.toml --universal --python-version 3.11 --generate-hashes --no-annotate --no-header

help: ## Show what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-8s %s\n", $$1, $$2}'

demo: ## Run the whole kit here, without any server: sign up and watch the jobs (PORT=8000 FLOWER_PORT=5555)
	$(SET_UP) requirements.txt
	@.venv/bin/python manage.py demo --port $(PORT) --flower-port $(FLOWER_PORT)

test: lint ## Set up whatever the tests need, then run them on every rung
	@.venv/bin/python -m tests.machine
	@.venv/bin/python -m tests.rungs -q

chaos: ## Kill things at random for DURATION=120 seconds, then check that nothing was lost (SEED=1)
	$(SET_UP) requirements-dev.txt
	@.venv/bin/python -m tests.chaos --duration $(DURATION) --seed $(SEED)

bench: ## Print what things cost, on PostgreSQL and Redis
	$(SET_UP) requirements-dev.txt
	@.venv/bin/python -m tests.rungs --rung postgresql+redis -q tests/benchmarks/bench_*.py

lint: ## Check style and format
	$(SET_UP) requirements-dev.txt
	@.venv/bin/ruff check --quiet .
	@.venv/bin/ruff format --quiet --check .
	@.venv/bin/yamllint --strict .
	@cd ansible && ANSIBLE_HOME=$(CURDIR)/var/ansible PATH="$(CURDIR)/.venv/bin:$$PATH" ansible-lint -q --offline
	@.venv/bin/shellcheck $$(git grep -lE '^#!/(usr/)?bin/(env )?(ba)?sh' -- deploy tests ansible .ci)

lock: ## Pin the dependencies of pyproject.toml with their hashes
	$(SET_UP) requirements-dev.txt
	@$(COMPILE) -o requirements.txt
	@$(COMPILE) --group dev -o requirements-dev.txt
	@.venv/bin/uv pip compile -q --group deploy --universal --python-version 3.11 --generate-hashes --no-annotate --no-header -o requirements-deploy.txt

clean: ## Remove caches; keeps .venv and the demo's data in var
	rm -rf .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
