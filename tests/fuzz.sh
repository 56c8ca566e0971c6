#!/usr/bin/env bash
# Fuzzes every parser of bytes for a while and prints how often each ran.
#
#   tests/fuzz.sh [TARGET...]      all of probes/fuzz/fuzz_targets by default
#
# FUZZ_SECONDS is the time for each (default 30). Inputs that crash a target are kept in probes/fuzz/artifacts.
# FUZZ_SANITIZER=address also checks memory accesses, at a fifth of the speed; no parser has unsafe code.
# RUSTC_BOOTSTRAP lets the stable compiler instrument the code, which is an unstable feature.
set -euo pipefail
cd "$(dirname "$0")/.."

CARGO_FUZZ_VERSION=0.13.1
seconds=${FUZZ_SECONDS:-30}
cache=${RCI_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/run-coreos-installer}
where=$cache/cargo-fuzz-$CARGO_FUZZ_VERSION
fuzz=probes/fuzz
options=(--fuzz-dir "$fuzz" --features fuzzing --sanitizer "${FUZZ_SANITIZER:-none}")
out=${CARGO_TARGET_DIR:-target}/fuzz

if [ ! -x "$where/bin/cargo-fuzz" ]; then
  printf 'building cargo-fuzz %s (once; kept in %s)\n' "$CARGO_FUZZ_VERSION" "$where" >&2
  cargo install cargo-fuzz --version "$CARGO_FUZZ_VERSION" --locked --root "$where" >&2
fi
export PATH=$where/bin:$PATH RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=$PWD/$out
[[ $out == /* ]] && CARGO_TARGET_DIR=$out
# Replaces the shipped program's profile. The search is for sums that overflow and slices that end too early.
export CARGO_PROFILE_RELEASE_{LTO,STRIP}=false CARGO_PROFILE_RELEASE_PANIC=unwind CARGO_PROFILE_RELEASE_OPT_LEVEL=1
export CARGO_PROFILE_RELEASE_{OVERFLOW_CHECKS,DEBUG_ASSERTIONS}=true CARGO_PROFILE_RELEASE_DEBUG=line-tables-only CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for file in "$fuzz"/fuzz_targets/*.rs; do targets+=("$(basename "$file" .rs)"); done
fi

cargo fuzz build "${options[@]}" >&2

# Runs a target on the inputs from earlier runs and on the seeds, and prints its table row.
run() {
  local target=$1 log=$out/$1.log failed=''
  mkdir -p "$fuzz/corpus/$target"
  cargo fuzz run "${options[@]}" "$target" "$fuzz/corpus/$target" "$fuzz/seeds/$target" -- \
    -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=8192 \
    -print_final_stats=1 >"$log" 2>&1 || failed=FAILED
  awk -v target="$target" -v failed="$failed" '
    / cov: [0-9]+/ { for (i = 1; i < NF; i++) if ($i == "cov:") edges = $(i + 1) }
    /stat::number_of_executed_units:/ { n = $2 }
    /stat::average_exec_per_sec:/ { rate = $2 }
    /stat::peak_rss_mb:/ { peak = $2 }
    END { printf "%-18s %12d %10d %8d %9d  %s\n", target, n, rate, edges, peak, failed }' "$log"
  if [ -n "$failed" ]; then
    grep -E 'panicked at|ERROR:|SUMMARY|Test unit written' "$log" | head -5 >&2
    return 1
  fi
}

printf '%-18s %12s %10s %8s %9s\n' target executions per_second edges peak_MiB
n_failed=0
for target in "${targets[@]}"; do run "$target" || n_failed=$((n_failed + 1)); done
if [ "$n_failed" -gt 0 ]; then
  printf '%s of %s targets found something; the input is in %s/artifacts\n' \
    "$n_failed" "${#targets[@]}" "$fuzz" >&2
  exit 1
fi
