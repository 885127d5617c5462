# Everything a person or the CI does with this repository. `make` alone lists the targets.

VENV := .venv
BIN := $(VENV)/bin
# What the demo needs is there: the package and its five dependencies. Then also all extras and tools.
DEMO_READY := $(VENV)/.demo-ready
READY := $(VENV)/.setup-done

# python3.11 where it runs (a version manager may have a name without an interpreter behind it), else python3.
ifndef PYTHON
PYTHON := $(shell python3.11 -c '' >/dev/null 2>&1 && echo python3.11 || echo python3)
endif

# Seconds the demo runs. A plain assignment on purpose: `make demo SECONDS=10` wins over it, while a SECONDS
# in the environment (bash counts its own age in a variable of that name) does not.
SECONDS = 30

# More arguments for pytest, for example `make test PYTEST_ARGS="tests/model -x"`.
PYTEST_ARGS =

# Of the files that pip would compile few are ever imported; Python compiles those, once.
INSTALL := $(BIN)/python -m pip --quiet --disable-pip-version-check --no-input install --no-compile
# Where it may keep what it has compiled: else each process would compile all it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup lint format quick quick-tests quick-seeds test test-times test-coverage planted test-kafka soak chaos-kafka sim-coverage demo bench bench-kafka bench-gateway bench-smoke clients proto wheel clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## Make the virtual environment in .venv (again only when pyproject.toml or constraints.txt change)

# Installing says each step with the seconds so far, on stderr: `make -s bench-smoke` prints JSON and nothing else.
STEPS = set -e; start=$$(date +%s); step() { echo "$$(( $$(date +%s) - start )) s  $$*" >&2; }

$(DEMO_READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "Holdfast needs Python 3.11 or later, and '$(PYTHON)' is not: install it, or name one with 'make PYTHON=/path/to/python3.11'" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "'$(PYTHON)' cannot make virtual environments: install its venv package (Debian: python3-venv)" >&2; exit 1; }
	@$(STEPS); \
		step "1/3 making $(VENV) with $$($(PYTHON) --version)"; $(PYTHON) -m venv $(VENV) >&2; \
		step "2/3 installing what builds the package"; $(INSTALL) -c constraints.txt hatchling editables >&2; \
		step "3/3 installing holdfast and its five dependencies"; \
		$(INSTALL) -c constraints.txt --no-build-isolation -e . >&2; \
		step "$(VENV) has what the demo needs"
	@touch $@

$(READY): $(DEMO_READY) tests/servers/requirements.txt
	@$(STEPS); \
		step "1/3 installing the pip of constraints.txt"; $(INSTALL) -c constraints.txt pip >&2; \
		step "2/3 installing all extras and the tools of tests and benchmarks (about a gigabyte)"; \
		$(INSTALL) -c constraints.txt --no-build-isolation -e '.[all,dev,bench]' >&2; \
		step "3/3 installing servers for the tests"; \
		$(INSTALL) --require-hashes --no-deps -r tests/servers/requirements.txt >&2; \
		step "$(VENV) has everything"
	@touch $@

lint: setup ## Check style and types (ruff, mypy --strict)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy --strict src tests bench

format: setup ## Format the code and apply the safe fixes of ruff
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

# Those that start brokers: by far the slowest, and the only ones that need Java and Maven.
KAFKA_TESTS = tests/kafka $(wildcard tests/engine/test_kafka_*.py tests/servers/test_kafka_*.py)

# In processes beside each other: more than cores, because most tests wait most of the time.
SIDE_BY_SIDE = -n 4 --dist loadfile
TESTS = $(SIDE_BY_SIDE) $(KAFKA_TESTS:%=--ignore=%) $(PYTEST_ARGS)

# Each part is shown when it ends. Lint looks at what has changed: ruff and mypy remember the rest.
quick: setup ## A verdict within a minute: lint, the pure layers, one engine, 50 seeds
	@start=$$(date +%s); verdict=passed; \
		$(MAKE) --no-print-directory --keep-going --output-sync -j3 lint quick-tests quick-seeds || verdict=FAILED; \
		echo "quick: $$verdict after $$(( $$(date +%s) - start )) s"; \
		test $$verdict = passed

quick-tests:
	@$(BIN)/python -m pytest -q -n 2 -k 'not sqlite' tests/model tests/stepping tests/house \
		tests/compiling/test_refusals.py tests/engine/test_conformance.py tests/runtime/test_semantics_*.py

quick-seeds:
	@told=$$($(BIN)/holdfast simulate $(SIMULATED) --seeds 50) || { echo "$$told"; exit 1; }; echo "$$told" | head -1

test: setup ## Set up, lint, run all tests but those on Kafka
	@start=$$(date +%s); status=0; said=$$(mktemp); \
		$(MAKE) --no-print-directory lint >"$$said" 2>&1 & lint=$$!; \
		trap 'kill $$lint 2>/dev/null; rm -f "$$said"' EXIT; trap 'exit 130' INT TERM; \
		$(BIN)/python -m pytest --durations=10 $(TESTS) || status=$$?; \
		wait $$lint || status=$$?; \
		echo "make lint:"; cat "$$said"; \
		echo "tests and lint took $$(( $$(date +%s) - start )) s; those on Kafka: make test-kafka"; \
		exit $$status

test-times: setup ## What the tests of `make test` cost: a table by folder and file
	@status=0; times=$$(mktemp); trap 'rm -f "$$times"' EXIT; trap 'exit 130' INT TERM; \
		HOLDFAST_TEST_TIMES="$$times" $(BIN)/python -m pytest -p tests.run.times $(TESTS) || status=$$?; \
		$(BIN)/python -m tests.run.times "$$times"; \
		exit $$status

COVERAGE = $(BIN)/python -m coverage
COVERAGE_SETTINGS = --rcfile=tests/run/coverage.ini

test-coverage: setup ## Which share of the lines of each top folder the tests of `make test` run
	@status=0; found=$$(mktemp -d); trap 'rm -rf "$$found"' EXIT; trap 'exit 130' INT TERM; \
		export COVERAGE_FILE="$$found/data"; \
		$(COVERAGE) run $(COVERAGE_SETTINGS) -m pytest -q $(TESTS) || status=$$?; \
		$(COVERAGE) combine $(COVERAGE_SETTINGS) -q; \
		$(COVERAGE) json $(COVERAGE_SETTINGS) -q -o "$$found/json"; \
		$(BIN)/python -m tests.run.coverage "$$found/json"; \
		exit $$status

planted: setup ## Plant the known bugs, each by itself: which are caught, which are missed
	@$(BIN)/python -m tests.run.planted

test-kafka: setup ## Run the tests on real Kafka brokers (needs Java and Maven)
	@start=$$(date +%s); status=0; \
		$(BIN)/python -m pytest --durations=10 -n 4 -p tests.kafka.spreading $(KAFKA_TESTS) $(PYTEST_ARGS) || status=$$?; \
		echo "tests on Kafka took $$(( $$(date +%s) - start )) s"; \
		exit $$status

# The fleet with every feature of an agent, in two releases.
SIMULATED = tests/simulation/fleet_v1.py --upgrade tests/simulation/fleet_v2.py
# Minutes of `make soak`. Seeds go on from the time of day, so that two soaks are not the same.
MINUTES = 10

soak: setup ## What `make test` leaves out: exhaustive and random tests, then new seeds (MINUTES=10)
	@status=0; \
		echo "1/2 exhaustive tests and random examples, where make test takes samples and the same ones each time"; \
		$(BIN)/python -m pytest -m 'soak or chance' $(SIDE_BY_SIDE) $(PYTEST_ARGS) || status=$$?; \
		echo "2/2 simulating new seeds for $(MINUTES) minutes, where make test has the same ones each time"; \
		$(BIN)/holdfast simulate $(SIMULATED) --minutes '$(MINUTES)' --first "$$(date +%s)0000" || status=$$?; \
		exit $$status

# Faults on real brokers, workers and producers, seed after seed. SEED= repeats a run that failed.
SEED =

chaos-kafka: setup ## Kill, stop and cut off brokers and workers of a fleet on Kafka (MINUTES=10, SEED=…)
	@$(BIN)/python -m tests.kafka.chaos --minutes '$(MINUTES)' $(if $(SEED),--seed '$(SEED)')

sim-coverage: setup ## What simulation alone reaches of runtime/ and stepping/, file by file (150 seeds)
	@$(BIN)/python -m coverage run --branch --data-file=.coverage-simulation \
		--include='src/holdfast/runtime/*,src/holdfast/stepping/*' \
		$(BIN)/holdfast simulate $(SIMULATED) --seeds 150 --jobs 1
	@$(BIN)/python -m coverage report --data-file=.coverage-simulation --show-missing
	@rm -f .coverage-simulation

demo: $(DEMO_READY) ## A drone fleet in the terminal, a kill -9 in the middle, an audit at the end (SECONDS=30)
	@$(BIN)/holdfast demo --seconds '$(SECONDS)'

bench-smoke: setup ## A short benchmark, printed as JSON
	@$(BIN)/python -m bench.smoke

# Every contender of bench/contenders, one after the other, alone; hours. QUICK=1: about 3 minutes.
# The page in docs/ is written only by `make bench PUBLISH=1`; else the report is beside the results.
QUICK =
PUBLISH =
BENCH_ARGS =

bench: setup ## Holdfast beside Flink, PyFlink and Bytewax, into bench-data/ (QUICK=1, PUBLISH=1)
	@$(BIN)/python -m bench.run $(if $(QUICK),--quick) $(if $(PUBLISH),--publish) $(BENCH_ARGS)

bench-kafka: setup ## Holdfast on Kafka beside Quix Streams and Faust, into bench-data/ (PUBLISH=1)
	@$(BIN)/python -m bench.kafka.run $(if $(PUBLISH),--publish) $(BENCH_ARGS)

# The messages of the gateway's gRPC, from its schema; a test compares what is checked in.
PROTO = src/holdfast/gateway/grpc/holdfast.proto

proto: setup ## Make the Python messages of holdfast.proto anew
	@$(BIN)/python -m grpc_tools.protoc -Isrc --python_out=src --pyi_out=src $(PROTO)
bench-gateway: setup ## Load on the HTTP gateway, judged by an oracle, into bench-data/ (SECONDS=120, QUICK=1)
	@$(BIN)/python -m bench.gateway.run $(if $(QUICK),--quick) $(if $(filter command line,$(origin SECONDS)),--seconds '$(SECONDS)') $(BENCH_ARGS)

clients: setup ## Make the generated parts of examples/clients anew (needs Node.js, npm and Go)
	@$(BIN)/python -m tests.examples.clients.generating

# The wheel is tried from another directory, in an environment of its own, where the source tree cannot help it.
wheel: setup ## Build the wheel into dist/, install it into a fresh environment, run it
	@set -eu; \
		fresh=$$(mktemp -d); \
		trap 'rm -rf "$$fresh"' EXIT; \
		$(BIN)/python -m build --wheel --no-isolation --outdir "$$fresh/dist" . >"$$fresh/log" 2>&1 \
			|| { cat "$$fresh/log" >&2; exit 1; }; \
		$(BIN)/python -m venv "$$fresh/venv"; \
		"$$fresh/venv/bin/python" -m pip --quiet --disable-pip-version-check --no-input \
			install --no-compile -c constraints.txt "$$fresh"/dist/*.whl; \
		mkdir -p dist; cp "$$fresh"/dist/*.whl dist/; \
		cd "$$fresh"; \
		./venv/bin/holdfast --version; \
		./venv/bin/python -c 'import holdfast, pathlib; assert (pathlib.Path(holdfast.__file__).parent / "py.typed").exists(), "the wheel lacks py.typed"'; \
		./venv/bin/holdfast demo --seconds 3; \
		echo "the wheel installs and runs: $$(cd dist && echo *.whl)"

clean: ## Remove the environment, caches and built files (data directories stay)
	@rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .servers
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
