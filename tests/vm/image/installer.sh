# shellcheck shell=bash
# The real coreos-installer, from its published crate. Built without optimisation, which takes a fifth of the time: its slow
# parts (decompression, TLS) are libraries from the distribution.
VERSION=0.27.0
work=$(mktemp -d "$CACHE/build.XXXXXX")
trap 'rm -rf "$work"' EXIT
# The caller's flags, such as those for a static build, would reach a program that links the distribution's OpenSSL.
unset RUSTFLAGS
CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
  CARGO_PROFILE_RELEASE_PANIC=abort CARGO_PROFILE_RELEASE_STRIP=true CARGO_TARGET_DIR=$work/target \
  CARGO_TERM_PROGRESS_WHEN=always CARGO_TERM_PROGRESS_WIDTH=100 \
  cargo install coreos-installer --version "$VERSION" --locked --bin coreos-installer --root "$work"
cp "$work/bin/coreos-installer" "$OUT/coreos-installer"
"$OUT/coreos-installer" --version >"$OUT/version"
