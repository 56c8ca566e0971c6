# run-coreos-installer: `make demo` shows it, `make test` proves it. `make help` lists the rest.

SHELL := /bin/bash -eo pipefail
CARGO ?= cargo
CACHE := $(or $(RCI_CACHE),$(XDG_CACHE_HOME),$(HOME)/.cache)$(if $(RCI_CACHE),,/run-coreos-installer)
STATIC := target/static/run-coreos-installer

export PATH := $(PATH):$(CACHE)/cargo-deny-0.20.2/bin
export RCI_STATIC_AGENT := $(CURDIR)/$(STATIC)

.PHONY: help
help: ## List what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 16

.PHONY: setup
setup: ## Install what the other targets need (root), or print the line that does
	@tests/setup.sh

.PHONY: demo
demo: static lab-vim ## Boot a bare virtual machine and install it before your eyes
	@echo 'preparing what the virtual machine boots (the first time takes a while)'
	@tests/vm/setup >/dev/null
	@RCI_DEMO=1 $(CARGO) test -q -p run-coreos-installer --test vm -- --nocapture --exact \
	  job::a_bare_machine_becomes_an_installed_one_with_the_ignition_that_the_vim_returned

.PHONY: test
test: quick vm ## Everything: unit, replay, integration and virtual machine tests

.PHONY: quick
quick: ## All tests without virtual machines
	@tests/setup.sh build
	RCI_REQUIRE_TOOLS=1 $(CARGO) test --workspace --exclude run-coreos-installer
	RCI_REQUIRE_TOOLS=1 $(CARGO) test -p run-coreos-installer --lib --bins --test main --test job --test noise

.PHONY: vm
vm: static lab-vim ## The tests of the static binary and the virtual machine tests alone
	$(CARGO) test -p run-coreos-installer --test static
	@tests/vm/setup
	$(CARGO) test -p run-coreos-installer --test vm -- --test-threads=1

.PHONY: lab-vim
lab-vim: ## The lab VIM, target/release/lab-vim
	$(CARGO) build -q --release --locked -p lab-vim

.PHONY: static
static: ## The static binary, target/static/run-coreos-installer
	@tests/setup.sh build
	@tests/static.sh

.PHONY: check
check: ## Formatting, lints, docs, licences, scripts and units
	@tests/setup.sh
	$(CARGO) fmt --all --check
	$(CARGO) clippy -q --workspace --all-targets --locked -- -D warnings
	$(CARGO) check -q --manifest-path probes/fuzz/Cargo.toml --locked --target-dir target/fuzz-check
	$(CARGO) clippy -q -p run-coreos-installer --test static --test vm --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc -q --workspace --no-deps --locked
	cargo-deny --log-level error check licenses bans sources
	git ls-files | xargs grep -lE '^#!.*\b(ba)?sh' | grep -v '\.md$$' | xargs shellcheck -x
	tests/verify-units.sh

.PHONY: fuzz
fuzz: ## Fuzz every parser, FUZZ_SECONDS (30) each, with a table of executions
	@tests/setup.sh build fuzz
	@tests/fuzz.sh

.PHONY: bench
bench: static ## Cost of a report beside other tools and beside a bare reader, in one run
	tests/bench.sh
