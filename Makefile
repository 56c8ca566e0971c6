# run-coreos-installer: `make demo` shows it, `make test` tests it. `make help` lists the rest.

SHELL := /bin/bash -eo pipefail
CARGO ?= cargo
CACHE := $(or $(RCI_CACHE),$(XDG_CACHE_HOME),$(HOME)/.cache)$(if $(RCI_CACHE),,/run-coreos-installer)
STATIC := target/static/run-coreos-installer
# What the tests and the demo use. One set of features, that of the workspace, so that everything is compiled once.
BUILT = $(CURDIR)/target/$(shell rustc --print host-tuple)/debug
TEST = $(CARGO) test --workspace --locked

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
	RCI_REQUIRE_TOOLS=1 $(TEST)

.PHONY: ironic
ironic: ## Only the tests with a real Ironic, which is installed into the cache
	@tests/setup.sh ironic
	@tests/ironic/setup >/dev/null
	$(TEST) --test ironic

.PHONY: vm
vm: ## Only the virtual machine tests
	@tests/setup.sh ironic
	@tests/vm/setup >/dev/null
	@CARGO="$(CARGO)" tests/vm/run

.PHONY: release-check
# Only here: the program refuses RCI_ variables that are no options.
release-check: export RCI_STATIC_AGENT := $(CURDIR)/$(STATIC)
release-check: static ## Test the shipped program: its form, its size, name resolution, one whole job
	$(TEST) --test static
	@tests/vm/setup >/dev/null
	@CARGO="$(CARGO)" tests/vm/run a_bare_machine_becomes_an_installed_one

.PHONY: torture
torture: exports assisted accuracy ## Run the tests that take too long for `make test`
	RCI_TORTURE=1 $(TEST) --test noise
	RCI_TORTURE=1 $(TEST) --test job property
	@tests/vm/setup >/dev/null
	@RCI_TORTURE=1 CARGO="$(CARGO)" tests/vm/run

.PHONY: samples
samples: ## A part of exports, assisted and accuracy, as in `make test`
	@$(MAKE) --no-print-directory exports MACHINES=two-socket-server HINTS=1000
	@$(MAKE) --no-print-directory assisted
	@RCI_NOISE_TREE=two-socket-server $(MAKE) --no-print-directory accuracy

.PHONY: pictures
pictures: lab-vim ## Make the pictures of the lab VIM in docs/ again, with Chromium
	@tests/setup.sh build pictures
	$(CARGO) build -q --workspace --locked --bin run-coreos-installer
	tests/pictures.py $(BUILT)/lab-vim $(BUILT)/run-coreos-installer docs

.PHONY: rack
rack: ## Boot the machines of docs/broken-machine.md, and make fixtures/rack again
	@tests/vm/setup >/dev/null
	$(TEST) --test vm -- --test-threads=1 rack
	for folder in target/vm/rack_*; do \
	  tar -xf "$$folder/guest.tar" -O ./capture.tar.zst >"fixtures/rack/$${folder#target/vm/rack_}.tar.zst"; done

.PHONY: exports
exports: export AGENT = $(BUILT)/run-coreos-installer
exports: ## Check exports and disk hints with the code of Ironic, Metal3, assisted-service
	@tests/setup.sh build
	$(CARGO) build -q --workspace --locked --bin run-coreos-installer --example match-hints
	@python=$$(tests/venv peers tests/exports/requirements.txt); cd tests/exports; \
	  "$$python" -W ignore run.py $(MACHINES); "$$python" -W ignore check_lldp.py; "$$python" -W ignore check_hints.py $(HINTS)

.PHONY: assisted
assisted: ## Check what the agent sends to assisted-service with the service's own client
	@tests/setup.sh build
	@rm -rf target/assisted && mkdir -p target/assisted
	RCI_RECORD=$(CURDIR)/target/assisted $(TEST) -q --test job assisted
	"$$(tests/venv assisted tests/assisted/requirements.txt)" tests/assisted/check.py target/assisted

.PHONY: accuracy
accuracy: ## Print recall by kind of injected fault, and precision by code, on captured machines
	@tests/setup.sh build
	RCI_TORTURE=1 $(TEST) -q --test accuracy -- --nocapture --test-threads=1

.PHONY: lab-vim
lab-vim: ## Build the lab VIM, target/static/lab-vim
	@tests/setup.sh demo
	$(CARGO) build -q --workspace --locked --bin lab-vim
	@mkdir -p target/static && strip -o target/static/lab-vim $(BUILT)/lab-vim

.PHONY: static
static: ## Build the static binary, target/static/run-coreos-installer
	@tests/setup.sh build
	@tests/static.sh

.PHONY: check
# Nothing is linked, so the fuzzer's own library need not be compiled. The second call is for tests with `test = false`.
check: export CUSTOM_LIBFUZZER_PATH = /none/libfuzzer.a
check: ## Check formatting, lints, docs, licences, scripts and units
	@tests/setup.sh
	$(CARGO) fmt --all --check
	$(CARGO) clippy -q --workspace --all-targets --features run-coreos-installer-fuzz/fuzzing --locked -- -D warnings
	$(CARGO) clippy -q --workspace --test '*' --features run-coreos-installer-fuzz/fuzzing --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc -q --workspace --no-deps --locked
	cargo-deny --log-level error check licenses bans sources
	tests/advisories.sh
	git ls-files | xargs grep -lE '^#!.*\b(ba)?sh' | grep -v '\.md$$' | xargs shellcheck -x
	tests/verify-units.sh

.PHONY: fuzz
fuzz: ## Fuzz every parser for FUZZ_SECONDS (30) each and count the executions
	@tests/setup.sh build fuzz
	@tests/fuzz.sh

.PHONY: bench
bench: static ## Compare the cost of a report with other tools and with a bare reader
	tests/bench.sh
