#!/usr/bin/env bash
# Shortens a report for people: six lines per section, no wider than the terminal. "…" marks every cut.
#
#   … | tests/shorten.sh           outside a terminal: COLUMNS wide, or 120
set -euo pipefail

# bash does not export COLUMNS, so the terminal itself is asked first.
exec 3>&1
width=$(stty size <&3 2>/dev/null | cut -d ' ' -f 2) || true
[ "${width:-0}" -gt 1 ] || width=${COLUMNS:-120}

# sed counts characters and not bytes, so that no character is cut in two.
awk '
  /^####/ { n = 0 }
  ++n <= 7 { print }
  n == 8 { print " …" }' | LC_ALL=C.UTF-8 sed -E "s/^(.{$((width - 1))}).{2,}\$/\\1…/"
