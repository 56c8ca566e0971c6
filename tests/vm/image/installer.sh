# shellcheck shell=bash
# The real coreos-installer, from its published crate, stripped.
VERSION=0.27.0
build=$CACHE/build/ci-root
if ! "$build/bin/coreos-installer" --version 2>/dev/null | grep -qF "$VERSION"; then
  cargo install coreos-installer --version "$VERSION" --locked --root "$build"
fi
strip -o "$OUT/coreos-installer" "$build/bin/coreos-installer"
"$OUT/coreos-installer" --version >"$OUT/version"
