#!/usr/bin/env bash
# Installs the distribution packages that `make` needs. Without root, prints the command that does. It only checks Rust:
# the choice between rustup and the distribution is yours.
#
#   tests/setup.sh [GROUP...]      groups: rust demo build check fuzz ironic pictures (default: build check)
#
# tests/vm/setup installs the packages for the virtual machine tests.
set -euo pipefail

CARGO_DENY_VERSION=0.20.2
cache=${RCI_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/run-coreos-installer}

say() { printf '%s\n' "$*" >&2; }

# Ends the script if Rust is missing or older than Cargo.toml requires.
check_rust() {
  local required found
  required=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$(dirname "$0")/../Cargo.toml")
  found=$(cargo --version >/dev/null 2>&1 && rustc --version 2>/dev/null | cut -d ' ' -f 2) || true
  [ -n "$found" ] && printf '%s\n' "$required" "$found" | sort -CV && return
  say "Rust ${found:-is not installed}${found:+ is too old}: this project needs Rust $required or newer, with cargo"
  say "install it with rustup (https://rustup.rs); on Debian 12 also with: apt install cargo-web rustc-web"
  exit 1
}

# need THING DEBIAN FEDORA: notes the package that contains the program or file THING, if it is missing.
needed=()
need() {
  local thing=$1 debian=$2 fedora=$3
  case $thing in
    /*) compgen -G "$thing" >/dev/null && return ;;
    *) command -v "$thing" >/dev/null && return ;;
  esac
  if command -v apt-get >/dev/null; then needed+=("$debian"); else needed+=("$fedora"); fi
}

install_needed() {
  [ ${#needed[@]} -gt 0 ] || return 0
  local line
  if command -v apt-get >/dev/null; then
    line="apt-get update && apt-get -o DPkg::Lock::Timeout=600 install -y --no-install-recommends ${needed[*]}"
  elif command -v dnf >/dev/null; then
    line="dnf install -y ${needed[*]}"
  else
    say "install these packages; neither apt-get nor dnf was found: ${needed[*]}"
    exit 1
  fi
  if [ "$(id -u)" -ne 0 ]; then
    say "not root; run this once, then try again:"
    say "  sudo sh -c '$line'"
    exit 1
  fi
  say "installing ${needed[*]}"
  DEBIAN_FRONTEND=noninteractive sh -c "$line" >&2
}

# Nothing to install.
group_rust() { :; }

# Everything that compiles the project: a C compiler for ring and SQLite, and the static C library.
group_demo() {
  need cc gcc gcc
  need make make make
  need '/usr/lib*/*/libc.a' libc6-dev glibc-static
}

# Packages for the tests with a real Ironic.
group_ironic() {
  group_build
  need setpriv util-linux util-linux
  # Only Debian has it in a separate package.
  python3 -c 'import ensurepip, venv' 2>/dev/null || needed+=(python3-venv)
}

# Packages for the build and the tests without virtual machines.
group_build() {
  group_demo
  need file file file
  need zstd zstd zstd
  need python3 python3 python3
  need mkfs.ext4 e2fsprogs e2fsprogs
  need mkfs.vfat dosfstools dosfstools
  need mcopy mtools mtools
  need strace strace strace
  need curl curl curl
  need ignition-validate ignition ignition-validate
  unpack promtool prometheus golang-github-prometheus
  unpack docker-registry docker-registry docker-distribution
}

# Tools that `make check` runs in addition to cargo. It also checks the fuzz targets, which need libFuzzer.
group_check() {
  group_fuzz
  need shellcheck shellcheck ShellCheck
  need systemd-analyze systemd systemd
}

# The browser that photographs the lab VIM's pages.
group_pictures() {
  need chromium chromium chromium
  need pngquant pngquant pngquant
  # Debian's Chromium package comes without a font.
  need '/usr/share/fonts/*/dejavu*' fonts-dejavu-core dejavu-sans-fonts
}

# libFuzzer is C++.
group_fuzz() {
  need c++ g++ gcc-c++
}

# unpack PROGRAM DEBIAN FEDORA: keeps the program alone, where Debian's package also starts a server.
unpack() {
  local program=$1 debian=$2 where=$cache/$1
  command -v "$program" >/dev/null && return
  [ -x "$where/bin/$program" ] && return
  if ! command -v apt-get >/dev/null; then
    needed+=("$3")
    return
  fi
  say "unpacking $program (once; kept in $where)"
  mkdir -p "$where/bin"
  local work
  work=$(mktemp -d)
  (cd "$work" && apt-get download "$debian" && dpkg-deb --fsys-tarfile "$debian"_*.deb | tar -x "./usr/bin/$program") >&2 || {
    rm -rf "$work"
    say "$program could not be downloaded; refresh the lists of packages (as root: apt-get update), then try again"
    exit 1
  }
  mv "$work/usr/bin/$program" "$where/bin/$program"
  rm -rf "$work"
}

deny() {
  local where=$cache/cargo-deny-$CARGO_DENY_VERSION
  command -v cargo-deny >/dev/null && return
  [ -x "$where/bin/cargo-deny" ] && return
  say "building cargo-deny $CARGO_DENY_VERSION (once; kept in $where)"
  # It runs for seconds, so that a build without optimization ends sooner.
  CARGO_PROFILE_DEV_DEBUG=0 cargo install --debug cargo-deny --version "$CARGO_DENY_VERSION" --locked --root "$where" >&2
}

check_rust
groups=("$@")
[ ${#groups[@]} -gt 0 ] || groups=(build check)
for group in "${groups[@]}"; do
  case $group in
    rust | demo | build | check | fuzz | ironic | pictures) "group_$group" ;;
    *) say "unknown group \"$group\", expected rust, demo, build, check, fuzz, ironic or pictures" && exit 2 ;;
  esac
done
install_needed
case " ${groups[*]} " in *' check '*) deny ;; esac
