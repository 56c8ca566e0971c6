#!/usr/bin/env bash
# Builds the static binary, target/static/run-coreos-installer, in the first of these ways that this machine supports:
#
#   musl     rustup or the distribution has the standard library for musl
#   debian   Debian's compiler builds that library from its sources (packages as below)
#   glibc    static-pie; about a fifth larger
#
# With the first, `cargo build --release --locked --target x86_64-unknown-linux-musl` gives the same program.
#
#   RCI_STATIC_WAY=glibc tests/static.sh       uses the named way
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }

host=$(rustc -vV | sed -n 's/^host: //p')
arch=${host%%-*}
musl=$arch-unknown-linux-musl
build=(build --release --locked -p run-coreos-installer)

debian_packages=(rustc-web cargo-web rust-web-src musl-tools libunwind-14-dev lld-14)

# Debian's compiler must be new enough for the project.
debian_has_it() {
  command -v apt-get >/dev/null || return 1
  dpkg -s "${debian_packages[@]}" >/dev/null 2>&1 && return
  [ "$(id -u)" -eq 0 ] && apt-get -qq update >&2
  local wanted offered
  wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
  offered=$(apt-cache policy rustc-web | sed -n 's/^ *Candidate: //p')
  dpkg --compare-versions "${offered:-0}" ge "$wanted" || return 1
  apt-cache show "${debian_packages[@]}" >/dev/null 2>&1
}

install_debian_packages() {
  dpkg -s "${debian_packages[@]}" >/dev/null 2>&1 && return
  if [ "$(id -u)" -ne 0 ]; then
    say 'not root; run this once, then try again (or build for glibc: RCI_STATIC_WAY=glibc):'
    say "  sudo apt-get install -y --no-install-recommends ${debian_packages[*]}"
    exit 1
  fi
  say "installing ${debian_packages[*]}"
  DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=600 install -y --no-install-recommends "${debian_packages[@]}" >&2
}

# The standard library's needs beyond musl-gcc are built in target/static-musl.
build_for_debian() {
  install_debian_packages
  local parts=$PWD/target/static-musl upper
  mkdir -p "$parts"
  # LLVM's unwinder under the name that rustc expects, since gcc's needs a glibc function. It was built against glibc's checked printf.
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
/* The compiler emits a call to it for mimalloc, and musl-gcc does not link libgcc. */
int __popcountdi2(unsigned long bits) {
  int n = 0;
  for (; bits; bits &= bits - 1) n++;
  return n;
}
C
  musl-gcc -c -O1 -U_FORTIFY_SOURCE "$parts/checked.c" -o "$parts/checked.o"
  upper=$(printf '%s' "$musl" | tr 'a-z-' 'A-Z_')
  # Building the standard library is not stable yet; RUSTC_BOOTSTRAP lets this compiler do it. The flags join those of .cargo/config.toml.
  # LLVM's linker merges equal functions; GNU's cannot.
  env RUSTC_BOOTSTRAP=1 RUSTC=/usr/bin/rustc "CARGO_TARGET_${upper}_LINKER=musl-gcc" "CC_${musl//-/_}=musl-gcc" \
    "CARGO_TARGET_${upper}_RUSTFLAGS=-C link-self-contained=no -L native=$parts -C link-arg=$parts/checked.o -C link-arg=-Wl,--no-dynamic-linker -C link-arg=-fuse-ld=lld -C link-arg=-B/usr/lib/llvm-14/bin -C link-arg=-Wl,--icf=all" \
    /usr/bin/cargo "${build[@]}" -Z build-std=std,panic_abort -Z build-std-features=optimize_for_size --target "$musl"
}

way=${RCI_STATIC_WAY:-}
if [ -z "$way" ]; then
  if [ -d "$(rustc --print sysroot)/lib/rustlib/$musl" ]; then
    way=musl
  elif debian_has_it; then
    way=debian
  else
    way=glibc
  fi
fi
target=$musl
case $way in
  musl) cargo "${build[@]}" --target "$target" ;;
  debian) build_for_debian ;;
  glibc) target=$arch-unknown-linux-gnu && cargo "${build[@]}" --target "$target" ;;
  *) say "RCI_STATIC_WAY is \"$way\", expected musl, debian or glibc" && exit 2 ;;
esac
built=target/$target/release/run-coreos-installer

mkdir -p target/static
cp "$built" target/static/run-coreos-installer.new
mv target/static/run-coreos-installer.new target/static/run-coreos-installer
file -b target/static/run-coreos-installer | cut -c1-120
printf '%s, %s: %s bytes, %s with gzip -9\n' target/static/run-coreos-installer "$way" \
  "$(stat -c %s "$built")" "$(gzip -9c "$built" | wc -c)"
