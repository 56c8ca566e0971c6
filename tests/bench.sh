#!/usr/bin/env bash
# Cost of a report beside the tools that it replaces, in one run on this machine.
#
#   tests/bench.sh [ROUNDS]        medians over ROUNDS runs, 11 by default
#
# CPU time, system calls and opens are steady on a noisy machine; wall time is not, and is not shown.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${1:-11}
agent=${RCI_STATIC_AGENT:-target/release/run-coreos-installer}

missing=()
for program in strace lshw dmidecode lspci; do command -v "$program" >/dev/null || missing+=("${program/lspci/pciutils}"); done
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    apt-get -qq -o DPkg::Lock::Timeout=600 install -y --no-install-recommends "${missing[@]}" >/dev/null
  else
    printf 'left out, not installed: %s\n' "${missing[*]}" >&2
  fi
fi

# Median CPU time in ms and peak memory in KiB of a command.
cost() {
  python3 - "$rounds" "$@" <<'PY'
import os, statistics, subprocess, sys
rounds, command = int(sys.argv[1]), sys.argv[2:]
times, peak = [], 0
for _ in range(rounds):
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    _, _, usage = os.wait4(child.pid, 0)
    times.append((usage.ru_utime + usage.ru_stime) * 1000)
    peak = max(peak, usage.ru_maxrss)
print(f'{statistics.median(times):.1f} {peak}')
PY
}

# Opens and all system calls of a command.
calls() {
  command -v strace >/dev/null || { echo '- -'; return; }
  local counts
  counts=$(mktemp)
  strace -f -c -o "$counts" "$@" >/dev/null 2>&1 </dev/null || true
  awk '$NF ~ /^open/ { o += $4 } $NF == "total" { t = ($4 ~ /^[0-9]+$/) ? $4 : $3 } END { print o + 0, t + 0 }' "$counts"
  rm -f "$counts"
}

row() {
  local name=$1
  shift
  command -v "$1" >/dev/null || return 0
  read -r cpu peak < <(cost "$@")
  read -r opens all < <(calls "$@")
  printf '| %s | %s | %s | %s | %s |\n' "$name" "$cpu" "$peak" "$opens" "$all"
}

printf 'Machine: %s, %s logical CPUs, kernel %s; median of %s runs\n\n' \
  "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)" "$(nproc)" "$(uname -r)" "$rounds"
printf '| program | CPU ms | peak KiB | opens | system calls |\n|---|---|---|---|---|\n'
row 'run-coreos-installer inspect (everything)' "$agent" inspect --format json
row lscpu lscpu
row 'lsblk -O' lsblk -O
row lsmem lsmem
row 'lspci -vv' lspci -vv
row dmidecode dmidecode
row 'lshw -json' lshw -json -quiet
