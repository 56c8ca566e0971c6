# shellcheck shell=bash
# UEFI firmware for virtual machines (OVMF): the code, and a store of variables that each guest copies. iPXE as a UEFI program, which
# the firmware loads from the network: the one that uses the firmware's driver, because ipxe.efi of this release does not return.
apt_update
tree=$(mktemp -d "$CACHE/build.XXXXXX")
fetch_package ovmf "$tree"
install -m644 "$tree/usr/share/OVMF/OVMF_CODE_4M.fd" "$OUT/code.fd"
install -m644 "$tree/usr/share/OVMF/OVMF_VARS_4M.fd" "$OUT/variables.fd"
fetch_package ipxe "$tree"
install -m644 "$tree/usr/lib/ipxe/snponly.efi" "$OUT/snponly.efi"
rm -rf "$tree"
