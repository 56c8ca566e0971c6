#!/usr/bin/env bash
# Builds the static binary for musl with Debian's toolchain, where rustup has no musl standard library: the standard library
# is built from its sources (packages rustc-web cargo-web rust-web-src musl-tools libunwind-14-dev). The smallest binary.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(rustc-web cargo-web rust-web-src musl-tools libunwind-14-dev)
if ! dpkg -s "${packages[@]}" >/dev/null 2>&1; then
  if [ "$(id -u)" -ne 0 ]; then
    printf 'not root; run this once, then try again:\n  sudo apt-get install -y %s\n' "${packages[*]}" >&2
    exit 1
  fi
  apt-get update >&2
  DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -y --no-install-recommends "${packages[@]}" >&2
fi

target=$(uname -m)-unknown-linux-musl
parts=$PWD/target/static-musl
mkdir -p "$parts"
# LLVM's unwinder, as the linker looks for it; Debian built it against glibc's checked printf.
ln -sfn /usr/lib/llvm-14/lib/libunwind.a "$parts/libunwind.a"
cat >"$parts/checked.c" <<'C'
#include <stdarg.h>
#include <stdio.h>
int __fprintf_chk(FILE *file, int flag, const char *format, ...) {
  (void)flag;
  va_list values;
  va_start(values, format);
  int n = vfprintf(file, format, values);
  va_end(values);
  return n;
}
C
musl-gcc -c -O1 -U_FORTIFY_SOURCE "$parts/checked.c" -o "$parts/checked.o"

upper=$(printf '%s' "$target" | tr 'a-z-' 'A-Z_')
export RUSTC_BOOTSTRAP=1 RUSTC=/usr/bin/rustc
export "CARGO_TARGET_${upper}_LINKER=musl-gcc" "CC_${target//-/_}=musl-gcc"
export RUSTFLAGS="-C link-self-contained=no -C target-feature=+crt-static -C relocation-model=static -L native=$parts -C link-arg=$parts/checked.o"
/usr/bin/cargo build --release --locked -Z build-std=std,panic_unwind -p run-coreos-installer --target "$target" --target-dir "$parts"

binary=$parts/$target/release/run-coreos-installer
printf '%s: %s bytes, %s with gzip -9\n' "$binary" "$(stat -c %s "$binary")" "$(gzip -9c "$binary" | wc -c)"
