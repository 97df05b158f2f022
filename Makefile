# Every target sets up what it needs. Only Python 3.11 or later (with venv and pip), git and make are assumed.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
# Tests and commands start many Python processes. Each would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

IS_NEW_ENOUGH := -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
# The first interpreter that starts and is new enough; `make PYTHON=python3.13 …` chooses another.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14; do \
	$$p $(IS_NEW_ENOUGH) && echo $$p && break; done)
# Another interpreter than the one .venv was made with makes it anew, if it is new enough.
ifeq ($(origin PYTHON),command line)
ifneq ($(shell $(PYTHON) $(IS_NEW_ENOUGH) && $(PYTHON) -V),$(shell $(PYTHON) $(IS_NEW_ENOUGH) && $(BIN)/python -V 2>&1))
$(shell rm -rf $(VENV))
endif
endif
# Says which Python there is and which is needed.
define REQUIRE_PYTHON
$(or $(PYTHON),false) $(IS_NEW_ENOUGH) || { \
	there=$$($(or $(PYTHON),python3) -V 2>&1 | head -n 1) || there="not found"; \
	echo "bpc needs Python 3.11 or later; $(or $(PYTHON),python3): $$there" >&2; \
	echo "  install a newer one, or name one that you have: make PYTHON=python3.12 $(or $(MAKECMDGOALS),setup)" >&2; \
	exit 78; }
endef
# uv from the machine if it has one, otherwise our own pinned copy in .uv, never in the system's Python.
UV := $(or $(shell command -v uv 2>/dev/null),.uv/bin/uv)

# The tests of a file run on one worker, in their order, so that what they share is set up once. Tests wait for servers
# and processes, so there are more workers than two processors.
PYTEST := $(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder
PACKAGES := packages/service-jobs packages/bpc-client
TESTS := tests packages
# Tests that also run on a PostgreSQL that is not ours.
EXTERNAL := tests/storage tests/upgrades packages/service-jobs/tests
# What `make check` does not repeat on another PostgreSQL, to stay short. Of the rest it repeats a sample: the first
# test of each file, and every twentieth of all. `make test-external` repeats all.
NOT_ELSEWHERE := $(addprefix --ignore=packages/service-jobs/tests/jobs/,faults test_conformance.py download \
	worker/test_scale.py worker/test_speed.py worker/state_machine)
# One test of a long run may take longer than any test of `make check` is allowed to.
PATIENT := -o faulthandler_timeout=14400

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(READY) ## Create .venv with bpc and all tools in it

.uv/bin/uv: requirements/uv.txt
	@$(REQUIRE_PYTHON)
	@echo "== uv is not on this machine: installing it into .uv"
	@$(PYTHON) -m venv .uv
	@.uv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@touch $@

# What the client's modules are generated from, when it is installed.
CLIENT := $(addprefix packages/bpc-client/,openapi.json client_generator.py hatch_build.py)

$(READY): requirements/dev.txt pyproject.toml $(addsuffix /pyproject.toml,$(PACKAGES)) $(CLIENT) | $(filter .uv/bin/uv,$(UV))
	@$(REQUIRE_PYTHON)
	@echo "== creating $(VENV)"
	@$(UV) venv --quiet --allow-existing --python "$(PYTHON)" $(VENV)
	@$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements/dev.txt
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation \
		$(addprefix -e ,$(PACKAGES)) -e .
	@touch $@

.PHONY: demo
demo: $(READY) ## Show all eight steps with an example battery
	@$(BIN)/bpc demo

.PHONY: up
up: $(READY) ## Start the database, the API and workers; run until Ctrl-C
	@$(BIN)/bpc up

.PHONY: test
test: $(READY) ## Run all tests on the embedded PostgreSQL
	$(BIN)/python -m tools.run_tests

.PHONY: test-external
test-external: $(READY) ## Run the database tests on DATABASE_URL (PostgreSQL 15 or later)
	$(BIN)/python -m tools.external $(PYTEST) $(EXTERNAL) -m external

.PHONY: quick
quick: $(READY) ## What changed: format, lint, types, its tests, and the tests of the core; in a minute
	@$(BIN)/python -m tools.quick

.PHONY: dist packages
dist: packages sbom ## Build what is installed, from the last commit: packages, chart, bill of materials, checksums
	@$(BIN)/python -m tools.release.provenance dist

packages: $(READY)
	@$(BIN)/python -m tools.release.build dist

# IMAGES="--base machine" where no base image can be fetched; what follows `--` in it goes to `podman build`.
.PHONY: images
images: $(READY) ## Build the images with Podman, start one, and put them into dist/bpc-images-*.tar
	@mkdir -p dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m tools.release.images \
		"$$($(BIN)/hatchling version)" "dist/bpc-images-$$($(BIN)/hatchling version).tar" $(IMAGES)

.PHONY: version
version: $(READY) ## Show the version everywhere; make version TO=0.2.0 sets it
	@$(BIN)/python -m tools.release.version $(TO)

.PHONY: format
format: $(READY) ## Format the code
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format --quiet .

.PHONY: static format-check lint types layers
static: $(READY) ## Format, lint, types and layers, without running anything
	@$(MAKE) --no-print-directory --jobs=2 types layers format-check lint

format-check: $(READY)
	$(BIN)/ruff format --check .

lint: $(READY)
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy

layers: $(READY)
	$(BIN)/lint-imports --no-cache

.PHONY: check
check: static .clients/.ready ## Everything CI runs: static checks, tests, coverage gates
	rm -rf .coverage .coverage.*
	$(BIN)/python -m tools.run_tests --measure
	$(BIN)/coverage combine --quiet
	$(BIN)/python tools/coverage_gates.py
	$(BIN)/python -m tools.external --if-present $(PYTEST) $(EXTERNAL) $(NOT_ELSEWHERE) -m external --sample 20

.PHONY: cases
cases: $(READY) ## Rewrite what is made from the code (schema, references, messages, golden passports), then read the diff
	$(BIN)/python tools/schema.py
	$(BIN)/python tools/distribution.py
	$(BIN)/python tools/settings_reference.py
	$(BIN)/python tools/openapi.py
	$(BIN)/python tools/api_reference.py
	$(BIN)/python tools/client.py
	$(BIN)/python tools/rule_reference.py
	$(BIN)/python tools/editor_grammar.py
	$(BIN)/python tools/shipped_rules.py
	$(BIN)/python tools/catalogues.py
	$(BIN)/python -m tools.console_words
	$(BIN)/python tools/public_formats.py
	$(BIN)/python tools/rule_cases.py
	$(BIN)/python tools/reference_input.py
	$(BIN)/python tools/golden.py
	$(BIN)/python -m tools.verify_corpus
	$(BIN)/python -m tools.rule_tables
	$(BIN)/python -m tools.page_script

.bench/.ready: requirements/bench.txt | $(READY)
	@echo "== creating .bench"
	@$(UV) venv --quiet --allow-existing --python "$(PYTHON)" .bench
	@$(UV) pip sync --quiet --python .bench/bin/python --require-hashes requirements/bench.txt
	@touch $@

# Job queues have an environment of their own, with the latest Python there is: one of them needs 3.12. A queue that
# does not install keeps the reason in a file, which the table shows.
QUEUES := awa-pg chancy dbos oban pgqueuer procrastinate saq
QUEUES_PYTHON ?= $(shell for p in python3.13 python3.12 "$${PYENV_ROOT:-/}"/versions/{3.13,3.12}.*/bin/python; do \
	$$p -c '' 2>/dev/null && echo $$p && exit; done; echo $(PYTHON))

.bench-queues/.ready: requirements/bench-queues.txt requirements/runtime.txt | $(READY)
	@echo "== creating .bench-queues"
	@rm -rf .bench-queues
	@$(UV) venv --quiet --python "$(QUEUES_PYTHON)" .bench-queues
	@$(UV) pip sync --quiet --python .bench-queues/bin/python --require-hashes requirements/runtime.txt
	@for queue in $(QUEUES); do \
		$(UV) pip install --quiet --python .bench-queues/bin/python --constraint requirements/bench-queues.txt \
			"$$queue" "psycopg[binary,pool]" 2>.bench-queues/$$queue.failed && rm .bench-queues/$$queue.failed || true; \
	done
	@touch $@

# Ray and Spark, which compile the same batteries as a worker: a gigabyte, so in an environment of their own.
.engines/.ready: requirements/engines.txt | $(READY)
	@echo "== creating .engines"
	@$(UV) venv --quiet --allow-existing --python "$(PYTHON)" .engines
	@$(UV) pip sync --quiet --python .engines/bin/python --require-hashes requirements/engines.txt
	@touch $@

.ops/.ready: requirements/ops.txt | $(READY)
	@echo "== creating .ops"
	@$(UV) venv --quiet --allow-existing --python "$(PYTHON)" .ops
	@$(UV) pip sync --quiet --python .ops/bin/python --require-hashes requirements/ops.txt
	@touch $@

.policies/.ready: requirements/policies.txt | $(READY)
	@echo "== creating .policies"
	@$(UV) venv --quiet --allow-existing --python "$(PYTHON)" .policies
	@$(UV) pip sync --quiet --python .policies/bin/python --require-hashes requirements/policies.txt
	@touch $@

# Generators of clients from the API's document. Tests use what is there, and say what is not.
.clients/.ready: requirements/clients.txt | $(READY)
	@echo "== creating .clients"
	@$(UV) venv --quiet --allow-existing --python "$(PYTHON)" .clients
	@$(UV) pip sync --quiet --python .clients/bin/python --require-hashes requirements/clients.txt
	@touch $@

.clients-java/.ready: requirements/clients-java.txt | $(READY)
	@echo "== creating .clients-java"
	@$(UV) venv --quiet --allow-existing --python "$(PYTHON)" .clients-java
	@$(UV) pip sync --quiet --python .clients-java/bin/python --require-hashes requirements/clients-java.txt
	@touch $@

# Programs that run on Node.js, each in a folder of its own with exactly what its lock file names.
NPM := npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --silent
.node/lint/.ready: tools/openapi_lint/package-lock.json
	@mkdir -p .node/lint && cp tools/openapi_lint/package*.json .node/lint
	@if command -v npm >/dev/null; then echo "== creating .node/lint"; cd .node/lint && $(NPM) && touch .ready; \
	else echo "npm is not on this machine: the API's document is checked by the tests only"; fi

.node/clients/.ready: examples/clients/package-lock.json
	@mkdir -p .node/clients && cp examples/clients/package*.json .node/clients
	@if command -v npm >/dev/null; then echo "== creating .node/clients"; cd .node/clients && $(NPM) && touch .ready; \
	else echo "npm is not on this machine: no client in TypeScript is tried"; fi

.node/editor/.ready: editors/vscode/package-lock.json
	@mkdir -p .node/editor && cp -r editors/vscode/. .node/editor
	@if command -v npm >/dev/null; then echo "== creating .node/editor"; cd .node/editor && $(NPM) && touch .ready; \
	else echo "npm is not on this machine: the extension for Visual Studio Code is not packaged"; fi

# Exactly what an image installs, to write down what that is.
.runtime/.ready: requirements/runtime.txt | $(READY)
	@echo "== creating .runtime"
	@$(UV) venv --quiet --allow-existing --python "$(PYTHON)" .runtime
	@$(UV) pip sync --quiet --python .runtime/bin/python --require-hashes requirements/runtime.txt
	@touch $@

.PHONY: api-lint
api-lint: .node/lint/.ready ## Lint docs/openapi.yaml with Redocly CLI and Spectral
	@if [ -e .node/lint/.ready ]; then set -x; \
		.node/lint/node_modules/.bin/redocly lint docs/openapi.yaml --config tools/openapi_lint/redocly.yaml; \
		.node/lint/node_modules/.bin/spectral lint docs/openapi.yaml --ruleset tools/openapi_lint/spectral.yaml \
			--fail-severity=hint; \
	fi

RENDERED := build/manifests
CHART := deploy/helm/bpc
# kubectl renders the overlay; a machine without it checks the files one by one and says so.
.PHONY: manifests
manifests: .ops/.ready .policies/.ready api-lint ## Lint the API's document and the files for containers, clusters and workflows
	.ops/bin/hadolint Dockerfile
	.ops/bin/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml docker-compose.test.yml
	.ops/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	.ops/bin/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	.ops/bin/yamllint --config-file deploy/yamllint.yaml deploy docker-compose.yml docker-compose.test.yml .github
	.ops/bin/python tools/manifests.py $(filter-out %/kustomization.yaml,$(wildcard deploy/kubernetes/base/*.yaml)) \
		deploy/kubernetes/monitoring/monitors.yaml deploy/monitoring/prometheusrule.yaml
	@rm -rf $(RENDERED) && mkdir -p $(RENDERED)
	.ops/bin/helm lint --strict --quiet $(CHART)
	.ops/bin/helm template bpc $(CHART) | .ops/bin/python tools/manifests.py -
	.ops/bin/helm template bpc $(CHART) --set monitoring.enabled=true | .ops/bin/python tools/manifests.py -
	@if command -v kubectl >/dev/null; then set -x; \
		kubectl kustomize deploy/kubernetes/base | .ops/bin/python tools/manifests.py -; \
		kubectl kustomize deploy/kubernetes/example >$(RENDERED)/example.yaml; \
		.ops/bin/python tools/manifests.py $(RENDERED)/example.yaml; \
	else echo "kubectl is not on this machine: the overlay is not rendered, and not checked"; fi
	@if command -v promtool >/dev/null; then set -x; \
		promtool check rules deploy/monitoring/alerts.yaml; \
		promtool check config deploy/monitoring/prometheus.yaml; \
		promtool test rules deploy/monitoring/alerts_test.yaml; \
	else echo "promtool is not on this machine: the alerts are not checked here, but by the tests if they can fetch it"; fi
	@cp -r Dockerfile .github $(RENDERED)
	.policies/bin/checkov --config-file deploy/checkov.yaml --directory $(RENDERED)
	.ops/bin/zizmor --offline --config deploy/zizmor.yml .github
	.ops/bin/gixy-next deploy/nginx.conf

PINNED := requirements/runtime.txt requirements/image.txt requirements/build.txt
.PHONY: audit
audit: .ops/.ready ## Known holes in dependencies, and their licences (needs the Internet)
	.ops/bin/python tools/audit.py $(PINNED)
	$(BIN)/python tools/licences.py --check

.PHONY: sbom
sbom: .ops/.ready .runtime/.ready ## Write a bill of materials of what an image installs (dist/sbom.cdx.json)
	@mkdir -p dist
	.ops/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --validate \
		--output-file dist/sbom.cdx.json .runtime/bin/python
	$(BIN)/python tools/sbom.py dist/sbom.cdx.json "$$($(BIN)/hatchling version)"

.PHONY: licences
licences: $(READY) ## Rewrite docs/licences.md from what is installed
	$(BIN)/python tools/licences.py

.site/.ready: requirements/site.txt | $(READY)
	@echo "== creating .site"
	@$(UV) venv --quiet --allow-existing --python "$(PYTHON)" .site
	@$(UV) pip sync --quiet --python .site/bin/python --require-hashes requirements/site.txt
	@touch $@

.PHONY: editor
editor: .node/editor/.ready ## Package the extension for Visual Studio Code, dist/bpc-rules.vsix
	@mkdir -p dist
	@if [ -e .node/editor/.ready ]; then cp -r editors/vscode/. .node/editor && cd .node/editor && \
		node_modules/.bin/vsce package --allow-missing-repository --out $(CURDIR)/dist/bpc-rules.vsix; fi

.node/console/.ready: editors/console/package-lock.json
	@mkdir -p .node/console && cp editors/console/package*.json .node/console
	@echo "== creating .node/console"; cd .node/console && $(NPM) && cp package-lock.json .ready

.PHONY: console-editor
console-editor: .node/console/.ready ## Build the editor of the console from editors/console (needs npm)
	@cp -r editors/console/. .node/console && cd .node/console && \
		node build.mjs $(CURDIR)/src/bpc/api/console/static/editor.js

.PHONY: site
site: .site/.ready ## Build the documentation's site, dist/site/index.html; a link that leads nowhere fails
	.site/bin/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env --jobs auto \
		--doctree-dir .site/doctrees --conf-dir tools/site . dist/site
	.site/bin/python tools/site/built.py dist/site

.PHONY: bench
bench: .bench/.ready .bench-queues/.ready ## Measure against peers, side by side
	PYTHONPATH=src:$(subst $() ,:,$(addsuffix /src,$(PACKAGES))) .bench/bin/python -m bench
	@echo "== put the tables into docs/measurements, then: make pictures"

.PHONY: bench-items
bench-items: $(READY) ## Measure how passports of batteries are issued; BENCH_ITEMS=10000,100000 says how many
	$(BIN)/python -m bench items

.PHONY: pictures
pictures: $(READY) ## Draw the pictures of the documentation; RECORD=yes runs the demo for them first
	$(BIN)/python -m tools.pictures $(if $(RECORD),--record)

.PHONY: shown
shown: $(READY) .clients/.ready .clients-java/.ready .node/clients/.ready ## Run the tests at full figures and write docs/measurements
	BPC_EFFORT=shown $(BIN)/python tools/shown.py $(BIN)/python -m pytest $(PATIENT)

.PHONY: campaign
campaign: $(READY) .ops/.ready ## Run the long reliability figures, then look for known holes in dependencies
	BPC_EFFORT=campaign $(PYTEST) $(PATIENT) $(TESTS)
	.ops/bin/python tools/audit.py --if-reachable $(PINNED)

.PHONY: item-kills
item-kills: $(READY) ## Kill workers, commands and PostgreSQL while batteries are issued, and count what is lost or doubled
	BPC_EFFORT=campaign BPC_MEASUREMENTS=docs/measurements $(BIN)/python -m pytest -n 0 -q $(PATIENT) \
		tests/worker/test_item_campaign.py

.PHONY: engines
engines: .engines/.ready ## Compile batteries on Ray and on Spark, and compare every byte
	PYTHONPATH=src:$(subst $() ,:,$(addsuffix /src,$(PACKAGES))):. .engines/bin/python -m pytest --noconftest -p no:cacheprovider -o addopts= -q tests/engines

.PHONY: upgrade
upgrade: $(READY) ## Upgrade an earlier version to this one, under load: make upgrade REVISION=v1.0.0
	$(BIN)/python -m tools.upgrade $(or $(REVISION),HEAD)

# Our own packages are installed from this working copy, never from an index.
NOT_OURS := --no-emit-package service-jobs --no-emit-package bpc-client
.PHONY: lock
lock: | $(filter .uv/bin/uv,$(UV)) ## Renew the pinned requirements
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --upgrade $(NOT_OURS) pyproject.toml -o requirements/runtime.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --upgrade $(NOT_OURS) pyproject.toml --extra s3 -o requirements/image.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --upgrade $(NOT_OURS) pyproject.toml --group dev -o requirements/dev.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --upgrade $(NOT_OURS) pyproject.toml --group bench -o requirements/bench.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --upgrade $(NOT_OURS) pyproject.toml --group bench-queues -o requirements/bench-queues.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --upgrade $(NOT_OURS) pyproject.toml --group engines -o requirements/engines.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --upgrade --group build -o requirements/build.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --upgrade --group ops -o requirements/ops.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --upgrade --group policies -o requirements/policies.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --upgrade --group clients -o requirements/clients.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --upgrade --group clients-java -o requirements/clients-java.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --upgrade --group site -o requirements/site.txt
	echo uv | $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --upgrade - -o requirements/uv.txt

.PHONY: clean
clean: ## Remove what the targets made (not your data)
	rm -rf .venv .uv .bench .bench-queues .clients .clients-java .engines .node .ops .policies .runtime .site .tools .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis htmlcov dist build
