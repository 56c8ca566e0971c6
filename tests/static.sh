#!/usr/bin/env bash
# Builds the static binary, target/static/run-coreos-installer, in the first of these ways that this machine supports:
#
#   musl     rustup or the distribution has the standard library for musl
#   debian   Debian's compiler builds that library from its sources (packages as below)
#   glibc    static-pie; about a fifth larger
#
#   RCI_STATIC_WAY=glibc tests/static.sh       uses the named way
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }

host=$(rustc -vV | sed -n 's/^host: //p')
arch=${host%%-*}
musl=$arch-unknown-linux-musl
build=(build --profile static --locked -p run-coreos-installer)

# LLVM's linker merges equal functions; GNU's cannot.
linker=
for place in "$(rustc --print sysroot)/lib/rustlib/$host/bin/gcc-ld" /usr/lib/llvm-*/bin; do
  if [ -x "$place/ld.lld" ]; then
    linker="-C link-arg=-fuse-ld=lld -C link-arg=-B$place -C link-arg=-Wl,--icf=all"
    break
  fi
done

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

# mimalloc: huge pages would make 25 MiB resident instead of 7; reserving 64 MiB at once instead of 1 GiB sets up a sixteenth of
# the maps; nobody sets its variables; and a process that ends need not free its memory.
allocator="-DMI_DEFAULT_ALLOW_THP=0 -DMI_DEFAULT_ARENA_RESERVE=65536 -DMI_NO_GETENV=1 -DMI_SKIP_COLLECT_ON_EXIT=1"

way_musl() {
  env "CFLAGS_${musl//-/_}=$allocator" \
    RUSTFLAGS="-C relocation-model=static -C target-feature=+crt-static" cargo "${build[@]}" --target "$musl"
  built=target/$musl/static/run-coreos-installer
}

way_debian() {
  install_debian_packages
  local parts=$PWD/target/static-musl upper
  mkdir -p "$parts"
  # LLVM's unwinder under the name that rustc expects, since gcc's needs a function of glibc. It was built against glibc's checked printf.
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
  # A link named as the linker: naming another linker would compile everything anew.
  mkdir -p "$parts/bin"
  ln -sfn "$PWD/tests/link-in-order.sh" "$parts/bin/musl-gcc"
  /usr/bin/rustc --edition 2024 -O -o "$parts/bin/order-sections" tests/order-sections.rs
  upper=$(printf '%s' "$musl" | tr 'a-z-' 'A-Z_')
  # A panic names file and line, in a library neither; a library's derived Debug prints the name of a variant, not its fields. That of
  # `core` has an Option, which our own messages may print.
  local profile=profile.static package=profile.static.package
  local details=(--config "$profile.rustflags = [\"-Zlocation-detail=file,line\"]"
    --config "$package.'*'.rustflags = [\"-Zlocation-detail=none\", \"-Zfmt-debug=shallow\"]"
    --config "$package.core.rustflags = [\"-Zlocation-detail=none\"]")
  # Building the standard library is not stable yet; RUSTC_BOOTSTRAP lets this compiler do it.
  env "PATH=$parts/bin:$PATH" RUSTC_BOOTSTRAP=1 RUSTC=/usr/bin/rustc "CARGO_TARGET_${upper}_LINKER=musl-gcc" "CC_${musl//-/_}=musl-gcc" \
    "CFLAGS_${musl//-/_}=-fno-asynchronous-unwind-tables $allocator" \
    RUSTFLAGS="-C link-self-contained=no -C force-unwind-tables=no -C relocation-model=static -C target-feature=+crt-static -L native=$parts -C link-arg=$parts/checked.o -C link-arg=-Wl,--no-dynamic-linker $linker" \
    /usr/bin/cargo --config unstable.profile-rustflags=true "${details[@]}" "${build[@]}" -Z build-std=std,panic_abort -Z build-std-features=optimize_for_size --target "$musl" --target-dir "$parts"
  built=$parts/$musl/static/run-coreos-installer
}

way_glibc() {
  local relocations=
  [ -z "$linker" ] || relocations="-C link-arg=-Wl,--pack-dyn-relocs=relr"
  RUSTFLAGS="-C target-feature=+crt-static $linker $relocations" cargo "${build[@]}" --target "$arch-unknown-linux-gnu"
  built=target/$arch-unknown-linux-gnu/static/run-coreos-installer
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
case $way in
  musl) way_musl ;;
  debian) way_debian ;;
  glibc) way_glibc ;;
  *) say "RCI_STATIC_WAY is \"$way\", expected musl, debian or glibc" && exit 2 ;;
esac

mkdir -p target/static
cp "$built" target/static/run-coreos-installer.new
mv target/static/run-coreos-installer.new target/static/run-coreos-installer
file -b target/static/run-coreos-installer | cut -c1-120
printf '%s, %s: %s bytes, %s with gzip -9\n' target/static/run-coreos-installer "$way" \
  "$(stat -c %s "$built")" "$(gzip -9c "$built" | wc -c)"
