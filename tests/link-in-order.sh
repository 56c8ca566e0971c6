#!/usr/bin/env bash
# Links like the musl-gcc after this one in PATH, with the functions in the order of their names.
#
# Copies of a generic function and the glue of similar types are then adjacent. gzip only finds repetitions within
# 32 KiB, so this makes the compressed program 80 kB smaller. The code itself is the same.
set -euo pipefail

real=$(type -ap musl-gcc | sed -n 2p)
case " $* " in
  *" -fuse-ld=lld "*) ;;
  *) exec "$real" "$@" ;; # it compiles, or links with GNU's linker, which has no option for the order
esac
order=$(mktemp)
trap 'rm -f "$order"' EXIT
for argument; do
  case $argument in
    *.o) paste <(nm -p --defined-only "$argument") <(nm -pC --defined-only "$argument" | cut -c20-) ;;
  esac
done | awk -F '\t' '{ split($1, symbol, " ") } symbol[2] ~ /^[tTwW]$/ { print symbol[3] "\t" $2 }' |
  LC_ALL=C sort -t "$(printf '\t')" -d -k2 | cut -f1 >"$order"
"$real" "$@" "-Wl,--symbol-ordering-file=$order" -Wl,--no-warn-symbol-ordering
