#!/usr/bin/env bash
# Shows the program: this machine's report first, then the whole job on a bare virtual machine.
#
#   tests/demo.sh [report]         report: stop after this machine's report
#
# One agent build serves both; it is the one for the tests: static, and without optimisation, since the demo spends more time
# in compilers than in the agent. Everything built here is kept in target/, everything that is not ours in the cache.
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/steps.sh

tests/setup.sh rust
built=target/$(rustc --print host-tuple)/debug
steps_begin "$PWD/target/demo-steps"

# cargo's progress bar goes to the log, from which the percentage comes.
build() {
  CARGO_TERM_PROGRESS_WHEN=always CARGO_TERM_PROGRESS_WIDTH=100 cargo build --workspace --locked "$@"
}

# Expected CPU seconds for each step, from a run without caches.
step_planned compiler 5
step_planned agent 120
if [ "${1:-}" != report ]; then
  step_planned lab-vim 80
  tests/vm/setup --plan installer kernel live disk
fi

step_run compiler 'C compiler and static C library, where they are missing' tests/setup.sh demo
step_run agent 'one static build of the agent' build --bin run-coreos-installer
echo
printf '%s\n' "this machine, by $built/run-coreos-installer inspect (shortened here; run it yourself to see all of it):" ''
# The agent reads its options from RCI_*, and refuses the scripts' own variables.
env -u RCI_CACHE -u RCI_STATIC_AGENT -u RCI_STEPS -u RCI_STATIC_WAY -u RCI_VM_ARTIFACTS -u RCI_LAB_VIM "$built/run-coreos-installer" inspect | tests/shorten.sh
[ "${1:-}" != report ] || exit 0

printf '%s\n' '' 'preparing a bare virtual machine, and the live image, installer and server that it needs (kept for the next time)' ''
# The lab VIM and the demo's program are built during the downloads.
step_run lab-vim 'the lab VIM and the program that runs the virtual machine' build --bin lab-vim --bin vm-demo &
programs=$!
trap 'kill "$programs" 2>/dev/null || true' EXIT
tests/vm/setup installer kernel live disk >target/demo-steps/artifacts
wait "$programs"
trap - EXIT

printf '%s\n' '' 'the virtual machine starts' ''
RCI_VM_ARTIFACTS=target/demo-steps/artifacts RCI_LAB_VIM=$PWD/$built/lab-vim "$built/vm-demo"
