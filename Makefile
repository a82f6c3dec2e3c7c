# One place for everything that is done with this project. Plain `make` says what there is.

# Outside the checkout, so that clones share what is built.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/c5c3
export CARGO_TARGET_DIR ?= $(CACHE)/target
export PATH := $(CACHE)/bin:$(PATH)

# The Python clients of Kubernetes, of OpenBao and of OpenStack, which tests drive the embedded servers with.
PYTHON := $(CACHE)/python/bin/python
PYTHON_CLIENT := 33.1.0
HVAC := 2.3.0
OPENSTACK := 10.5.0
OSC_PLACEMENT := 4.9.1
# What checks bills of materials: the schemas of CycloneDX, the validator of SPDX.
PYTHON_BILLS := cyclonedx-python-lib[json-validation]==11.12.0 spdx-tools==0.8.5

# What `make mutants` changes.
MUTANTS := $(patsubst %,crates/kit/src/%.rs,apply children job_order plan plan_check prune reconcile write write_limit) \
	$(patsubst %,crates/service/src/%.rs,migrations record release upgrade)

# What nextest says of a run, by .config/nextest.toml.
REPORT := target/nextest/default/junit.xml

.DEFAULT_GOAL := help
.PHONY: help up down dist clients test clouds images check lint fuzz mutants bench crds charts contracts docs helm kubectl packages promtool registry

help: ## Say what there is
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 16

up: packages ## Start a cluster on this machine, in the background
	cargo build --release --locked -p c5c3
	@mkdir -p $(CACHE)/bin && ln -sf $(CARGO_TARGET_DIR)/release/c5c3 $(CACHE)/bin/c5c3
	@ln -sf c5c3 $(CACHE)/bin/kubectl-c5c3
	$(CARGO_TARGET_DIR)/release/c5c3 up --detach

dist: packages ## Build the program as it is published, and the image of it; takes longer than a release build
	cargo build --profile dist --locked -p c5c3
	$(CARGO_TARGET_DIR)/dist/c5c3 image build c5c3

clients: kubectl $(PYTHON) ## Install kubectl and the OpenStack client, for a machine that has none
	@mkdir -p $(CACHE)/bin && ln -sf $(CACHE)/python/bin/openstack $(CACHE)/bin/openstack
	@echo 'they are beside c5c3: export PATH="$(CACHE)/bin:$$PATH"'

down: ## Stop it and remove what it made; the data stays (c5c3 down --wipe removes that too)
	$(CARGO_TARGET_DIR)/release/c5c3 down

test: $(CACHE)/bin/cargo-nextest helm kubectl packages promtool registry $(PYTHON) ## Run all tests but those of `make clouds`
	@tools/room 20
	cargo test --workspace --locked --doc --quiet
	@rm -f $(REPORT)
	cargo nextest run --workspace --locked --no-fail-fast; code=$$?; tools/flaky $(REPORT); exit $$code

clouds: $(CACHE)/bin/cargo-nextest kubectl packages $(PYTHON) ## Run the four largest clouds, which `make test` leaves out, and a hundred servers by Cortex; takes over an hour
	@tools/room 20
	C5C3_CORTEX_BATCH=25 cargo nextest run --workspace --locked --no-fail-fast --profile clouds

images: $(CACHE)/bin/cargo-nextest packages ## Build all images of all releases, start each and boot the tiny guest; takes minutes and 10 GB
	cargo nextest run --locked --no-fail-fast -p c5c3-images --test running --test contents --run-ignored only
	cargo nextest run --locked --no-fail-fast -p c5c3 --test own_image

check: $(CACHE)/bin/cargo-nextest helm kubectl packages promtool registry $(PYTHON) ## Check format, lints, docs and all tests that need no container, quickly
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet
	cargo nextest run --workspace --locked --no-fail-fast --profile check

lint: check $(CACHE)/bin/cargo-deny ## Check also licences and advisories of dependencies
	CUSTOM_LIBFUZZER_PATH=/not-linked/libfuzzer.a cargo check --locked --quiet --manifest-path embedded/fields/fuzz/Cargo.toml
	cargo deny --locked check bans licenses sources
	@if cargo deny fetch db 2>/dev/null; then cargo deny --locked check advisories; \
	else echo "make lint: the advisory database cannot be reached from here; advisories were NOT checked" >&2; fi

fuzz: ## Let a fuzzer look at patches and server-side apply, five minutes each (SECONDS=300)
	@tools/fuzz $(CACHE) $(or $(SECONDS),300)

# In the checkout itself, since tests read what is beside it. An interrupted run may leave a line that says
# "changed by cargo-mutants": `git checkout` takes it back. Guards of mutexes have no constructors: they never compile.
mutants: export CARGO_TARGET_DIR := $(CACHE)/mutants
mutants: $(CACHE)/bin/cargo-mutants $(CACHE)/bin/cargo-nextest ## Change the kit and upgrades in 450 places, one by one, and list what no test notices; takes hours (MUTANTS=FILE)
	NEXTEST_RETRIES=0 cargo mutants --in-place --test-tool nextest --minimum-test-timeout 120 --exclude-re MutexGuard:: \
		--package c5c3-kit --package c5c3-service --output $(CACHE) $(foreach file,$(MUTANTS),--file '$(file)')

bench: packages ## Run the benchmarks
	cargo bench --workspace --locked
	cargo build --release --locked -p c5c3 -p c5c3-bench
	$(CARGO_TARGET_DIR)/release/bench api
	$(CARGO_TARGET_DIR)/release/bench idle
	$(CARGO_TARGET_DIR)/release/bench rest
	$(CARGO_TARGET_DIR)/release/bench up

crds: ## Write deploy and docs/api again from the Rust types
	cargo run --quiet --locked -p c5c3 -- crds --output deploy/crds
	cargo run --quiet --locked -p c5c3 -- manifests --output deploy/operators
	cargo run --quiet --locked -p c5c3 -- charts --output deploy/charts
	cargo run --quiet --locked -p c5c3 -- flux --output deploy/flux
	cargo run --quiet --locked -p c5c3 -- monitoring --output deploy/monitoring
	cargo run --quiet --locked -p c5c3 -- reference --output docs/api

charts: helm ## Package the charts into a repository with its index, to be served over HTTP (REPOSITORY=folder)
	@tools/charts $(or $(REPOSITORY),$(CACHE)/charts)

contracts: $(CACHE)/bin/cargo-nextest ## Make the contracts with other projects' kinds from genuine CRDs (CRDS=folder)
	@tools/contracts "$(CRDS)"

docs: $(CACHE)/bin/mdbook ## Build the documentation as a site (SITE=folder)
	@tools/docs $(or $(SITE),$(CACHE)/site)

helm:
	@tools/helm $(CACHE)

kubectl:
	@tools/kubectl $(CACHE)

packages:
	@tools/packages

promtool:
	@tools/promtool $(CACHE)

registry:
	@tools/registry $(CACHE)

$(PYTHON): $(MAKEFILE_LIST)
	@echo "installing the Python clients of Kubernetes, OpenBao and OpenStack, and what checks bills of materials"
	@python3 -m venv --clear $(CACHE)/python || { apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null && python3 -m venv --clear $(CACHE)/python; }
	@$(CACHE)/python/bin/pip install --quiet --disable-pip-version-check kubernetes==$(PYTHON_CLIENT) hvac==$(HVAC) python-openstackclient==$(OPENSTACK) osc-placement==$(OSC_PLACEMENT) '$(firstword $(PYTHON_BILLS))' $(lastword $(PYTHON_BILLS))
	@touch $@

# Tools come from the registry when the machine does not have them, and stay in the cache.
$(CACHE)/bin/cargo-%:
	@mkdir -p $(CACHE)/bin
	@if command -v cargo-$* >/dev/null 2>&1; then ln -sf "$$(command -v cargo-$*)" $@; \
	else echo "installing cargo-$* (once, a few minutes)"; cargo install --quiet --locked --root $(CACHE) cargo-$*; fi

$(CACHE)/bin/mdbook:
	@mkdir -p $(CACHE)/bin
	@if command -v mdbook >/dev/null 2>&1; then ln -sf "$$(command -v mdbook)" $@; \
	else echo "installing mdbook (once, a few minutes)"; cargo install --quiet --locked --root $(CACHE) mdbook; fi
