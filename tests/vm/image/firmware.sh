# shellcheck shell=bash
# UEFI firmware for virtual machines (OVMF): the code, and a store of variables that each guest copies.
apt_update
tree=$(mktemp -d "$CACHE/build.XXXXXX")
fetch_package ovmf "$tree"
install -m644 "$tree/usr/share/OVMF/OVMF_CODE_4M.fd" "$OUT/code.fd"
install -m644 "$tree/usr/share/OVMF/OVMF_VARS_4M.fd" "$OUT/variables.fd"
rm -rf "$tree"
