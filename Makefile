# Everything a person or the CI does with this repository. `make` alone lists the targets.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-done

# python3.11 where it runs (a version manager may have a name without an interpreter behind it), else python3.
ifndef PYTHON
PYTHON := $(shell python3.11 -c '' >/dev/null 2>&1 && echo python3.11 || echo python3)
endif

# Seconds the demo runs. A plain assignment on purpose: `make demo SECONDS=10` wins over it, while a SECONDS
# in the environment (bash counts its own age in a variable of that name) does not.
SECONDS = 30

# More arguments for pytest, for example `make test PYTEST_ARGS="tests/model -x"`.
PYTEST_ARGS =

PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check --no-input

.DEFAULT_GOAL := help
.PHONY: help setup lint format test test-kafka soak chaos-kafka sim-coverage demo bench bench-kafka bench-gateway bench-smoke clients proto wheel clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP) ## Make the virtual environment in .venv (again only when pyproject.toml or constraints.txt change)

# Messages go to stderr, so that `make -s bench-smoke` prints JSON and nothing else.
$(STAMP): pyproject.toml constraints.txt tests/servers/requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "Holdfast needs Python 3.11 or later, and '$(PYTHON)' is not: install it, or name one with 'make PYTHON=/path/to/python3.11'" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "'$(PYTHON)' cannot make virtual environments: install its venv package (Debian: python3-venv)" >&2; exit 1; }
	@echo "setting up $(VENV) with $$($(PYTHON) --version)" >&2
	@$(PYTHON) -m venv $(VENV) >&2
	@$(PIP) install -c constraints.txt pip >&2
	@$(PIP) install -c constraints.txt hatchling editables >&2
	@$(PIP) install -c constraints.txt --no-build-isolation -e '.[dev,s3,parquet,postgres,kafka,protobuf,compiled,gateway,grpc,mqtt,sql,traces,profile,bench]' >&2
	@$(PIP) install --require-hashes --no-deps -r tests/servers/requirements.txt >&2
	@touch $(STAMP)

lint: setup ## Check style and types (ruff, mypy --strict)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy --strict src tests bench

format: setup ## Format the code and apply the safe fixes of ruff
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

# Those that start brokers: by far the slowest, and the only ones that need Java and Maven.
KAFKA_TESTS = tests/kafka $(wildcard tests/engine/test_kafka_*.py tests/servers/test_kafka_*.py)

test: setup lint ## Set up, lint, run all tests but those on Kafka
	@start=$$(date +%s); status=0; \
		$(BIN)/python -m pytest --durations=10 $(KAFKA_TESTS:%=--ignore=%) $(PYTEST_ARGS) || status=$$?; \
		echo "tests took $$(( $$(date +%s) - start )) s; those on Kafka: make test-kafka"; \
		exit $$status

test-kafka: setup ## Run the tests on real Kafka brokers (needs Java and Maven)
	@start=$$(date +%s); status=0; \
		$(BIN)/python -m pytest --durations=10 $(KAFKA_TESTS) $(PYTEST_ARGS) || status=$$?; \
		echo "tests on Kafka took $$(( $$(date +%s) - start )) s"; \
		exit $$status

# The fleet with every feature of an agent, in two releases.
SIMULATED = tests/simulation/fleet_v1.py --upgrade tests/simulation/fleet_v2.py
# Minutes of `make soak`. Seeds go on from the time of day, so that two soaks are not the same.
MINUTES = 10

soak: setup ## Simulate new seeds on all cores (MINUTES=10): simulated hours, faults by kind, failing seeds
	@$(BIN)/holdfast simulate $(SIMULATED) --minutes '$(MINUTES)' --first "$$(date +%s)0000"

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

demo: setup ## A drone fleet in the terminal, a kill -9 in the middle, an audit at the end (SECONDS=30)
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
			install -c constraints.txt "$$fresh"/dist/*.whl; \
		mkdir -p dist; cp "$$fresh"/dist/*.whl dist/; \
		cd "$$fresh"; \
		./venv/bin/holdfast --version; \
		./venv/bin/python -c 'import holdfast, pathlib; assert (pathlib.Path(holdfast.__file__).parent / "py.typed").exists(), "the wheel lacks py.typed"'; \
		echo "the wheel installs and runs: $$(cd dist && echo *.whl)"

clean: ## Remove the environment, caches and built files (data directories stay)
	@rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .servers
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
