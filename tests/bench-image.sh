#!/usr/bin/env bash
# Compares reading an image through the agent with reading it straight from its server.
#
#   tests/bench-image.sh IMAGE [ROUNDS [READER [ARGUMENT...]]]
#
# READER is coreos-installer by default, which decompresses the image into a file; `URL` stands for the address.
set -euo pipefail
cd "$(dirname "$0")/.."

image=$(realpath "$1")
rounds=${2:-5}
shift $(($# < 2 ? $# : 2))
if [ $# -eq 0 ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  set -- coreos-installer download --insecure --decompress -C "$work" -u URL
fi
cargo bench -q --locked -p run-coreos-installer --bench image --profile "${RCI_BENCH_PROFILE:-release}" -- "$image" "$rounds" "$@"
