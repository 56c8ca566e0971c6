# run-coreos-installer: `make demo` shows it, `make test` tests it. `make help` lists the rest.

SHELL := /bin/bash -eo pipefail
CARGO ?= cargo
CACHE := $(or $(RCI_CACHE),$(XDG_CACHE_HOME),$(HOME)/.cache)$(if $(RCI_CACHE),,/run-coreos-installer)
STATIC := target/static/run-coreos-installer

export PATH := $(PATH):$(CACHE)/cargo-deny-0.20.2/bin:$(CACHE)/promtool/bin

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 16

.PHONY: setup
setup: ## Check Rust; install the packages that the other targets need; without root, print the command
	@tests/setup.sh

.PHONY: demo
demo: ## Show this machine's report, then install a bare virtual machine
	@tests/demo.sh

.PHONY: report
report: ## Show this machine's report, by the build that the demo uses
	@tests/demo.sh report

.PHONY: test
test: ## Run all tests: unit, replay, integration, a real Ironic and virtual machines
	@tests/all.sh

.PHONY: quick
quick: ## Run all tests that need no virtual machine
	@tests/setup.sh build
	RCI_REQUIRE_TOOLS=1 $(CARGO) test --workspace --exclude run-coreos-installer
	RCI_REQUIRE_TOOLS=1 $(CARGO) test -p run-coreos-installer --lib --bins --test main --test job --test noise

.PHONY: ironic
ironic: ## Only the tests with a real Ironic, which is installed into the cache
	@tests/setup.sh ironic
	@tests/ironic/setup >/dev/null
	$(CARGO) test -p run-coreos-installer --test ironic

.PHONY: vm
# Only here: the program refuses RCI_ variables that are no options.
vm: export RCI_STATIC_AGENT := $(CURDIR)/$(STATIC)
vm: static ## Only the tests of the static binary and the virtual machine tests
	$(CARGO) test -p run-coreos-installer --test static
	@tests/setup.sh ironic
	@tests/vm/setup
	@CARGO="$(CARGO)" tests/vm/run

.PHONY: pictures
pictures: lab-vim ## Make the pictures of the lab VIM in docs/ again, with Chromium
	@tests/setup.sh build pictures
	$(CARGO) build -q -p run-coreos-installer
	tests/pictures.py target/release/lab-vim target/debug/run-coreos-installer docs

.PHONY: rack
rack: export RCI_STATIC_AGENT := $(CURDIR)/$(STATIC)
rack: static ## Boot the machines of docs/broken-machine.md, and make fixtures/rack again
	@tests/vm/setup >/dev/null
	$(CARGO) test -p run-coreos-installer --test vm -- --test-threads=1 rack
	for folder in target/vm/rack_*; do \
	  tar -xf "$$folder/guest.tar" -O ./capture.tar.zst >"fixtures/rack/$${folder#target/vm/rack_}.tar.zst"; done

.PHONY: exports
exports: ## Check exports and disk hints with the code of Ironic, Metal3, assisted-service, sushy
	@tests/setup.sh build
	$(CARGO) build -q -p run-coreos-installer
	$(CARGO) build -q -p run-coreos-installer --example match-hints
	@python=$$(tests/venv peers tests/exports/requirements.txt); for part in run check_lldp check_hints; do "$$python" -W ignore tests/exports/$$part.py; done

.PHONY: assisted
assisted: ## Check what the agent sends to assisted-service with the service's own client
	@tests/setup.sh build
	@rm -rf target/assisted && mkdir -p target/assisted
	RCI_RECORD=$(CURDIR)/target/assisted $(CARGO) test -q -p run-coreos-installer --test job assisted
	"$$(tests/venv assisted tests/assisted/requirements.txt)" tests/assisted/check.py target/assisted

.PHONY: accuracy
accuracy: ## Print recall by kind of injected fault, and precision by code, on captured machines
	@tests/setup.sh build
	$(CARGO) test -q -p run-coreos-installer --test accuracy -- --nocapture --test-threads=1

.PHONY: lab-vim
lab-vim: ## Build the lab VIM, target/release/lab-vim
	@tests/setup.sh rust
	$(CARGO) build -q --release --locked -p lab-vim

.PHONY: static
static: ## Build the static binary, target/static/run-coreos-installer
	@tests/setup.sh build
	@tests/static.sh

.PHONY: check
# Nothing is linked, so the fuzzer's own library need not be compiled.
check: ## Check formatting, lints, docs, licences, scripts and units
	@tests/setup.sh
	$(CARGO) fmt --all --check
	$(CARGO) clippy -q --workspace --all-targets --locked -- -D warnings
	CUSTOM_LIBFUZZER_PATH=/none/libfuzzer.a $(CARGO) check -q --manifest-path probes/fuzz/Cargo.toml --locked --target-dir target
	$(CARGO) clippy -q -p run-coreos-installer --test accuracy --test static --test vm --test ironic --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc -q --workspace --no-deps --locked
	cargo-deny --log-level error check licenses bans sources
	git ls-files | xargs grep -lE '^#!.*\b(ba)?sh' | grep -v '\.md$$' | xargs shellcheck -x
	tests/verify-units.sh

.PHONY: fuzz
fuzz: ## Fuzz every parser for FUZZ_SECONDS (30) each and count the executions
	@tests/setup.sh build fuzz
	@tests/fuzz.sh

.PHONY: bench
bench: static ## Compare the cost of a report with other tools and with a bare reader
	tests/bench.sh
