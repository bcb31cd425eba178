# Two commands do everything on a fresh machine: make demo, make test.  make alone lists all.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# So that the first start of a command is as quick as any, where Python may write no caches too.
COMPILE := $(BIN)/python -m compileall -q rocketmq_emulator protocol scenarios pipeline pyspark_rocketmq
READY := $(VENV)/.ready
SPARK := $(VENV)/.ready-spark  # half a gigabyte more: only what needs Spark asks for it
NEWEST ?= python3.13
OTHER := .venv-newest
# pytest keeps the tests as it rewrites their assertions, though the shell may ask for no caches:
# to rewrite all of them again takes each of its processes longer than to read them.
export PYTHONDONTWRITEBYTECODE :=
SMALL := --set seconds=30 --set rate=4 --set brokers=2 --set members_max=3  # scenarios/weather/shape.py
# Shapes with slaves and their releases: 500 seeds of each are 3,000.
REPLICATED := slaves:4.9.7 slaves:5.3.3 slaves_longer:5.3.3 acting_masters:5.3.3 one_controller:5.3.3 three_controllers:5.3.3

.DEFAULT_GOAL := help
.PHONY: help demo test lint wheel bench torture mutation power healthy parity newest weather replicas live study docs page clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY)  ## the mini-cluster at work: a consumer and a broker are killed, nothing is lost
	$(BIN)/rmqemu demo $(if $(INPUT),--input $(INPUT))

test: $(SPARK)  ## every test; official SDKs run where Java, Node and Go are found (JOBS=2: two files at once)
	$(COMPILE)
	$(MAKE) --no-print-directory -j2 lint .cache/collected.txt
	$(BIN)/python -m pytest -ra --durations=10 $(if $(JOBS),-n $(JOBS) --dist loadfile --no-loadscope-reorder)

lint: $(SPARK)  ## what ruff and mypy say
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.cache/collected.txt: $(SPARK) FORCE  # once, beside mypy: all processes of JOBS would do it at the same time
	@mkdir -p $(@D)
	@$(BIN)/python -m pytest --collect-only -qq > $@ || { cat $@; exit 1; }

FORCE:

wheel: $(READY)  ## what a package index takes: dist/*.whl and dist/*.tar.gz, checked
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[release]'
	rm -rf dist
	$(BIN)/python -m hatchling build
	$(BIN)/python -m twine check --strict dist/*

bench: $(SPARK)  ## figures beside a real RocketMQ (Java and Maven needed)
	$(BIN)/python -m benchmarks.run

torture: $(READY)  ## the limits at full size: many members, topics, locks, frames, kill -9
	$(BIN)/python -m tools.torture

mutation: $(READY)  ## which changes of the code no test notices (slow; MODULES="locks" for one part)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[mutation]'
	nice $(BIN)/python -m tools.mutation $(MODULES)

power: $(READY)  ## how many planted bugs the checkers find (SEEDS=12; CHECK=1: whether all still apply)
	nice $(BIN)/python -m tools.power $(if $(CHECK),--check) $(if $(SEEDS),--seeds $(SEEDS)) $(BUGS)

healthy: $(READY)  ## 3,000 seeds of weather without a planted bug: what checkers object to
	nice $(BIN)/python -m tools.healthy

parity: $(SPARK)  ## the same tests against a real RocketMQ (Java and Maven needed)
	REQUIRE_PARTS=1 $(BIN)/python -m pytest -ra -m "real or parity" tests/parity tests/histories tests/failover tests/mqadmin tests/pipeline

newest: $(READY)  ## the wheel's own tests on another Python (NEWEST=python3.13)
	rm -rf $(OTHER)
	$(NEWEST) -m venv $(OTHER)
	$(OTHER)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt '.[dev,spark]'
	$(OTHER)/bin/python -m pip uninstall --quiet --yes rocketmq-emulator  # its dependencies stay
	REQUIRE_PARTS=1 WHEEL_PYTHON=$(abspath $(OTHER))/bin/python $(BIN)/python -m pytest -ra tests/test_wheel.py

weather: $(READY)  ## 10,000 seeds of weather a release; what was finished before is not run again
	$(BIN)/rmqemu run weather --seeds 1..10000 --release 4.9.7 $(SMALL)
	$(BIN)/rmqemu run weather --seeds 1..10000 --release 5.3.3 $(SMALL)

replicas: $(READY)  ## 3,000 seeds of weather with slaves, acting masters and controllers, as make weather (SEEDS=500)
	@failed=; for each in $(REPLICATED); do \
		echo "shape $${each%:*} of $${each#*:}"; \
		$(BIN)/rmqemu run weather --seeds 1..$(or $(SEEDS),500) --release $${each#*:} --set shape=$${each%:*} \
			|| failed="$$failed $$each"; \
	done; test -z "$$failed" || { echo "not all seeds passed:$$failed"; exit 1; }

live: $(SPARK)  ## Spark counts a topic while a broker is killed and comes back, on a page that updates
	$(BIN)/python examples/spark/live.py

study: $(SPARK)  ## the finished studies of docs/studies (STUDY=skew for one); says what ten times as much takes
	$(BIN)/python -m docs.generate.studies $(STUDY)

docs: $(READY)  ## the pages as a site that needs no network: .cache/site/index.html
	$(BIN)/python -m docs.generate.site

page: $(SPARK)  ## what the pages in docs/ have from the code, and from a virtual run
	$(BIN)/python -m docs.generate.protocol
	$(BIN)/python -m docs.generate.settings
	$(BIN)/python -m docs.generate.facts
	$(BIN)/python -m docs.generate.worlds
	$(BIN)/python -m docs.generate.faults
	$(BIN)/python -m docs.generate.replication
	$(BIN)/python -m docs.generate.checkers
	$(BIN)/python -m docs.generate.tried
	$(BIN)/python -m docs.generate.mqadmin
	$(BIN)/python -m docs.generate.compatibility
	$(BIN)/python -m docs.generate.quirks
	$(BIN)/python -m docs.generate.idleness
	$(BIN)/python -m docs.generate.penalties
	$(BIN)/python -m docs.generate.errata
	$(BIN)/python -m docs.generate.evidence
	$(BIN)/python -m docs.generate.invariants
	$(BIN)/python -m docs.generate.server_invariants
	$(BIN)/python -m docs.generate.sdk_monitors
	$(BIN)/python -m tools.faces
	$(BIN)/python -m docs.generate.failures
	$(BIN)/python -m docs.generate.scenarios
	$(BIN)/python -m docs.generate.coverage
	$(BIN)/python -m docs.generate.bounds
	$(BIN)/python -m docs.generate.tables
	$(BIN)/python -m docs.generate.sweeps

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	$(COMPILE)
	touch $@

$(SPARK): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[spark,study]'
	touch $@

clean:  ## remove .venv and all caches
	rm -rf $(VENV) $(OTHER) .cache .pytest_cache .mypy_cache .ruff_cache
