#!/usr/bin/env bash
# `make test`: all tests. The shipped program takes minutes of one CPU to link, so it is built while the first tests, which
# mostly wait, run and the virtual machines' images are made.
set -euo pipefail
cd "$(dirname "$0")/.."

tests/setup.sh build
mkdir -p target
log=target/program.log
nice make --no-print-directory static >"$log" 2>&1 &
program=$!
trap 'kill "$program" 2>/dev/null || true' EXIT

make --no-print-directory quick
make --no-print-directory ironic
tests/vm/setup >/dev/null
echo "waiting for the static program, whose build started with the tests ($log)"
if ! wait "$program"; then
  echo "the program could not be built; the end of $log:" >&2
  tail -n 30 "$log" >&2
  exit 1
fi
make --no-print-directory vm
