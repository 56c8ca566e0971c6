#!/usr/bin/env bash
# Links like the musl-gcc after this one in PATH, with functions and constants in the order of tests/order-sections.rs, which
# makes the compressed program 170 kB smaller. The code itself is the same.
set -euo pipefail

real=$(type -ap musl-gcc | sed -n 2p)
case " $* " in
  *" -fuse-ld=lld "*) ;;
  *) exec "$real" "$@" ;; # it compiles, or links with GNU's linker, which has no option for the order
esac
parts=$(mktemp -d)
trap 'rm -rf "$parts"' EXIT
arguments=()
for argument; do
  if [[ $argument == *.o ]]; then
    object=$parts/${#arguments[@]}.o
    "${0%/*}/order-sections" "$argument" >"$object.order"
    cat "$object.order" >>"$parts/order"
    # The linker orders symbols, and constants have none.
    sed -n 's/^\.rodata\..*/--add-symbol &=&:0,local,object/p' "$object.order" >"$object.symbols"
    objcopy "@$object.symbols" "$argument" "$object"
    argument=$object
  fi
  arguments+=("$argument")
done
"$real" "${arguments[@]}" "-Wl,--symbol-ordering-file=$parts/order" -Wl,--no-warn-symbol-ordering
