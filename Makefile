# make demo and make test are all a newcomer needs. `make help` lists the rest.
.DEFAULT_GOAL := help
.PHONY: help demo prepare test chaos bench lint lock clean deploy verify status logs ssh rollback backup drill restore maintenance-on maintenance-off rotate-secrets test-host

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

# Where the site is: copy ansible/inventory.example to ansible/inventory. ARGS goes to ansible-playbook.
INVENTORY ?= ansible/inventory
ARGS ?=

define SET_UP_DEPLOY
$(SET_UP) requirements-deploy.txt
@test -e $(INVENTORY) || { echo "$(INVENTORY) is missing: cp ansible/inventory.example ansible/inventory, and fill in the first three lines." >&2; exit 1; }
@mkdir -p var
endef

# One playbook at a time from this folder; the host has a lock of its own against others.
PLAY = ANSIBLE_CONFIG=ansible/ansible.cfg flock -n -E 75 var/deploy.lock .venv/bin/ansible-playbook -i $(INVENTORY)
BUSY = || { code=$$?; [ $$code != 75 ] || echo "Another deploy runs from this folder. Wait for its end." >&2; exit $$code; }
ON_HOST = .venv/bin/python deploy/on_host.py $(INVENTORY)

COMPILE = .venv/bin/uv pip compile -q pyproject.toml --universal --python-version 3.11 --generate-hashes --no-annotate --no-header

help: ## Show what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-15s %s\n", $$1, $$2}'

demo: ## Run the whole kit here, without any server: sign up and watch the jobs (PORT=8000 FLOWER_PORT=5555)
	$(SET_UP) requirements.txt
	@.venv/bin/python manage.py demo --port $(PORT) --flower-port $(FLOWER_PORT)

prepare: ## Set up .venv with what the tests need
	$(SET_UP) requirements-dev.txt

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

deploy: ## Bring the server in ansible/inventory to the whole kit, or to this commit (ARGS=--check: only look)
	$(SET_UP_DEPLOY)
	@$(PLAY) ansible/site.yml $(ARGS) $(BUSY)

verify: ## Attack the deployed site and compare it with what it should be
	$(SET_UP_DEPLOY)
	@$(PLAY) ansible/verify.yml $(ARGS) $(BUSY)

status: ## Show which release serves, how its processes do and what waits
	$(SET_UP_DEPLOY)
	@$(ON_HOST) kit status

logs: ## Follow the journal of the app (ROLE=web, relay, worker, beat or flower: of one process)
	$(SET_UP_DEPLOY)
	@$(ON_HOST) kit logs --follow $(ROLE)

ssh: ## Open a shell on the server
	$(SET_UP_DEPLOY)
	@$(ON_HOST)

rollback: ## Let the release before serve again; migrations stay applied
	$(SET_UP_DEPLOY)
	@$(ON_HOST) kit rollback

backup: ## Take a backup now (FETCH=1: and copy the encrypted repository to var/backups)
	$(SET_UP_DEPLOY)
	@$(PLAY) ansible/backup.yml -e kit_backup_fetch=$(FETCH) $(ARGS) $(BUSY)

drill: ## Restore the latest backup into a scratch database and compare it with what was dumped
	$(SET_UP_DEPLOY)
	@$(ON_HOST) kit drill

restore: ## Make a site of the backup in FROM=folder, repository or latest (HOLD=mail: send none yet; CONFIRM=yes: replace a site)
	$(SET_UP_DEPLOY)
	@test -n "$(FROM)" || { echo "From where? make restore FROM=var/backups/DOMAIN, a repository elsewhere, or latest: what lies on the host." >&2; exit 1; }
	@$(PLAY) ansible/restore.yml -e kit_restore_from=$(FROM) -e kit_restore_confirm=$(CONFIRM) -e kit_restore_hold=$(HOLD) $(ARGS) $(BUSY)

maintenance-on: ## Show visitors a page that says the site is being worked on; jobs go on
	$(SET_UP_DEPLOY)
	@$(ON_HOST) kit maintenance on

maintenance-off: ## Show visitors the site again
	$(SET_UP_DEPLOY)
	@$(ON_HOST) kit maintenance off

rotate-secrets: ## Make new passwords and keys, without a failed job or a lost session
	$(SET_UP_DEPLOY)
	@$(PLAY) ansible/rotate-secrets.yml $(ARGS) $(BUSY)

test-host: ## Deploy to a machine of its own, attack it and pull its plug (needs root on Debian; ARGS=--short)
	$(SET_UP) requirements-dev.txt
	@.venv/bin/python -m tests.host $(ARGS)
