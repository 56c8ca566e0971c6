#!/usr/bin/env bash
# `make test`: all tests. The shipped program takes minutes of one CPU to link, so it is built while the first tests, which
# mostly wait, run at the same time.
set -euo pipefail
cd "$(dirname "$0")/.."

tests/setup.sh build
mkdir -p target
log=target/programs.log
nice make --no-print-directory static lab-vim >"$log" 2>&1 &
programs=$!
trap 'kill "$programs" 2>/dev/null || true' EXIT

make --no-print-directory quick
make --no-print-directory ironic
echo "waiting for the static program and the lab VIM, whose build started with the tests ($log)"
if ! wait "$programs"; then
  echo "the programs could not be built; the end of $log:" >&2
  tail -n 30 "$log" >&2
  exit 1
fi
make --no-print-directory vm
