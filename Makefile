# Evenkeel. `make` lists what there is. Everything made stays in this folder: .venv, .jars, .run.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup run up test test-slow matrix iceberg cluster trino chaos soak fuzz model lint audit bench papers papers-quick shots lock wheel reference docs docs-serve docs-version image clean distclean
ARGS ?=

PY := .venv/bin/python
IN_ENV := eval "$$($(PY) -I evenkeel/local_env.py)" &&

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.installed .jars/.ready ## install all that is needed into this folder (once)

# evenkeel/__init__.py has the version, which pip notes where it installs.
.venv/.installed: requirements.lock pyproject.toml evenkeel/__init__.py setup/python.sh
	@setup/python.sh
	@touch $@

.jars/.ready: requirements.lock setup/spark.sh setup/java.sh setup/warm.py | .venv/.installed
	@setup/spark.sh
	@touch $@

export DATA KEY TIME
run: setup ## rebalance the flights of 2013 (or DATA=file KEY=col TIME=col) through the whole pipeline
	@mkdir -p .run
	@$(IN_ENV) exec $(PY) -m evenkeel.demo.replay $(ARGS)

export PORT
up: setup ## the Airflow UI with the flights in it, on 127.0.0.1 (PORT=9000 for another port); Ctrl-C stops it
	@mkdir -p .run
	@$(IN_ENV) exec $(PY) -m evenkeel.demo.airflow.up $(ARGS)

PYTEST = .venv/bin/pytest -q -n auto --maxprocesses 4 --no-loadscope-reorder
test: setup lint .venv/docs/.installed ## lint, then all tests but the slow ones (ARGS="-k word" for some)
	@setup/chromium.sh
	@$(IN_ENV) exec $(PYTEST) -m "not slow" $(ARGS)

test-slow: setup .venv/docs/.installed ## the slow tests (an hour and more): whole matrices of crashes, races, writers and installations
	@setup/chromium.sh
	@$(IN_ENV) exec $(PYTEST) -m slow $(ARGS)

matrix: .venv/.installed ## the state and DAG tests on each Spark, Airflow and Python that is claimed (ARGS=--write for the docs)
	@$(PY) -m tests.matrix $(ARGS)

iceberg: setup ## tests of Iceberg tables, with those of a REST catalog, which Maven fetches (ARGS="-m slow" for all kills)
	@setup/iceberg_catalogs.sh || echo "tests of a REST catalog are skipped"
	@$(IN_ENV) EVENKEEL_EVERY_CASE=1 exec $(PYTEST) -m "not slow" tests/evenkeel_spark/iceberg $(ARGS)

cluster: setup ## Airflow on PostgreSQL, Spark on two workers, data on an S3 that stalls; then jobs on YARN, data on HDFS
	@setup/cluster.sh
	@$(IN_ENV) EVENKEEL_CLUSTER=1 exec .venv/bin/pytest -q -p no:xdist tests/evenkeel_airflow/test_topology.py \
		tests/evenkeel_airflow/test_yarn.py tests/evenkeel/registry/files/test_whole_files_on_hdfs.py $(ARGS)

trino: setup ## read a table with Trino, as docs/how-to/read.md says; fetches its server (0.8 GB), needs Java 24 or newer
	@variables=$$(setup/trino.sh) && eval "$$variables" && $(IN_ENV) exec .venv/bin/pytest -q -p no:xdist -m slow \
		tests/project/pages/test_how_to.py -k 'a_page_does_what_it_says and read' $(ARGS)

chaos: setup ## kill, starve and cut off every step at 200 points of a seed, and see that nothing is lost (ARGS="--format iceberg")
	@$(IN_ENV) exec $(PY) -m tests.chaos $(ARGS)

soak: setup ## play a year of a table with kills, restores and two schedulers, held against pandas each week
	@$(IN_ENV) exec $(PY) -m tests.soak $(ARGS)

fuzz: setup ## 150,000 damaged specs, plans, epochs, marks, watches, profiles, sketches, params and forms
	@EVENKEEL_FUZZ=15000 $(PY) -m pytest -q --timeout 0 tests/project/test_fuzz.py $(ARGS)

model: .venv/.installed ## visit the states of the protocol's model, and tell the shortest story of what is broken
	@$(PY) -m tests.model $(ARGS)

lint: .venv/.installed ## style, types, plain English and the arrows between packages
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check -q .
	@.venv/bin/mypy
	@.venv/bin/mypy --config-file tests/mypy.ini
	@.venv/bin/lint-imports --no-cache --no-logo
	@$(PY) -m tests.support.docs.prose

audit: .venv/.installed ## ask OSV for known vulnerabilities of what is pinned, the docs' site included
	@setup/audit.sh

bench: setup ## run the benchmarks
	@$(IN_ENV) exec $(PY) -m benchmarks $(ARGS)

papers: setup ## run every experiment of the papers and put its figures into docs/PAPERS.md
	@$(IN_ENV) exec $(PY) -m benchmarks.papers $(ARGS)

papers-quick: setup ## the same on less, printed only
	@$(IN_ENV) exec $(PY) -m benchmarks.papers --quick $(ARGS)

shots: setup ## make the pictures of the docs in docs/img: a story in a browser on an Airflow of its own
	@setup/chromium.sh
	@$(IN_ENV) EVENKEEL_SHOTS=docs/img exec .venv/bin/pytest -q -n 0 -m "" tests/evenkeel_ui/browser $(ARGS)

lock: .venv/.installed ## pin again what pyproject.toml asks for, into requirements.lock
	@mkdir -p .run
	@printf 'pyspark==4.1.*\npyspark-client==4.1.*\n' >.run/series.txt # the newest that Iceberg has a runtime for
	@.venv/bin/uv pip compile -q --upgrade --constraint .run/series.txt --universal --python-version 3.11 --all-extras --generate-hashes \
		--no-emit-index-url --no-emit-find-links --no-header --no-annotate -o requirements.lock pyproject.toml
	@.venv/bin/uv pip compile -q --upgrade --universal --python-version 3.11 --group docs --generate-hashes \
		--no-emit-index-url --no-emit-find-links --no-header --no-annotate -o setup/docs/requirements.lock

wheel: .venv/.installed ## build the wheel into dist (ARGS=0.1.0 refuses another version than that)
	@rm -rf dist build
	@.venv/bin/pip wheel -q --no-deps --no-build-isolation -w dist .
	@ls dist/evenkeel-$(or $(ARGS),*)-py3-none-any.whl

reference: setup ## write what comes from code: docs/reference, the tables of docs/GATES.md, the drawings
	@$(IN_ENV) $(PY) -m setup.docs.reference && exec $(PY) -m setup.docs.drawings

docs: .venv/docs/.installed ## build the site of the docs strictly and pack it into dist (ARGS=0.1.0 names the archive)
	@# Not with -q: it drops the warnings that the strict build must fail by.
	@NO_MKDOCS_2_WARNING=1 .venv/docs/bin/mkdocs build
	@mkdir -p dist
	@tar -czf dist/evenkeel-docs-$(or $(ARGS),docs).tar.gz -C .run --transform 's,^site,evenkeel-docs-$(or $(ARGS),docs),' site
	@ls dist/evenkeel-docs-$(or $(ARGS),docs).tar.gz

docs-serve: .venv/docs/.installed ## show the site on 127.0.0.1 and build it again as pages change (PORT=8000)
	@NO_MKDOCS_2_WARNING=1 exec .venv/docs/bin/mkdocs serve -a 127.0.0.1:$(or $(PORT),8000) $(ARGS)

docs-version: .venv/docs/.installed ## commit the site to the branch gh-pages here, as a release (ARGS=0.1.0) or as dev; pushes nothing
	@# Readers are led to `latest`: a release, never dev.
	@NO_MKDOCS_2_WARNING=1 PATH="$(CURDIR)/.venv/docs/bin:$$PATH" mike deploy $(if $(ARGS),--update-aliases $(ARGS) latest,dev)
	@$(if $(ARGS),PATH="$(CURDIR)/.venv/docs/bin:$$PATH" mike set-default latest,:)

.venv/docs/.installed: setup/docs/requirements.lock setup/docs/install.sh | .venv/.installed
	@setup/docs/install.sh

image: ## build the image of docker-compose.yml (ARGS=name:tag; ENGINE=podman)
	@$(or $(ENGINE),docker) build -t $(or $(ARGS),$(shell sed -n 's/^  image: //p' docker-compose.yml)) -f deploy/Dockerfile .

clean: ## remove what runs have left (.run)
	@rm -rf .run

distclean: clean ## remove what set-up has made, too
	@rm -rf .venv .jars *.egg-info
