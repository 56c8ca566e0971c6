#!/usr/bin/env bash
# `make test`: all tests, then a table with the cost of each part and the number of skipped tests.
#
#   tests/all.sh [check]           check: `make check` before them
#
# Everything is compiled once. The images of the virtual machines are made while tests run, and the job tests, which mostly wait.
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/parts.sh

cargo=${CARGO:-cargo}

# Not exported: the agent refuses a variable of this form that is not one of its options.
run() { RCI_REQUIRE_TOOLS=1 part "$1" "$cargo" test --workspace --locked "${@:2}"; }

parts_begin target/parts
[ "${1:-}" != check ] || part check make --no-print-directory check
part setup tests/setup.sh build ironic
run compile --no-run --lib --bins --test '*'
images() { tests/vm/setup >target/parts/artifacts; }
part_aside images images
RCI_REQUIRE_TOOLS=1 part_aside job "$cargo" test --workspace --locked --test job
run noise --test noise
run lab --test lab
part ironic make --no-print-directory ironic
part samples make --no-print-directory samples
part_join images
# After the images, because a test of the documents needs the real coreos-installer and the ISO.
run main --lib --bins --test main
part_join job
RCI_VM_ARTIFACTS=$PWD/target/parts/artifacts part vm tests/vm/run
