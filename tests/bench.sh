#!/usr/bin/env bash
# Compares a report's cost with other tools, on this machine and on the available captured trees.
#
#   tests/bench.sh [ROUNDS]        medians over ROUNDS runs, 11 by default
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${1:-11}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

needed=()
need() { command -v "$1" >/dev/null || needed+=("$2"); }
need strace strace
need lspci pciutils
need dmidecode dmidecode
need lstopo-no-graphics hwloc-nox
need lshw lshw
need hwinfo hwinfo
if [ ${#needed[@]} -gt 0 ]; then
  if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    apt-get -qq -o DPkg::Lock::Timeout=600 install -y --no-install-recommends "${needed[@]}" >/dev/null
  else
    printf 'skipped, not installed: %s\n' "${needed[*]}" >&2
  fi
fi

# A captured machine from this repository, and large foreign ones if they are next to the repository.
trees=()
unpack() {
  mkdir -p "$work/$2/root"
  tar --zstd -xf "$1/root.tar.zst" -C "$work/$2/root"
  [ ! -d "$work/$2/root/root/sys" ] || { mv "$work/$2/root" "$work/$2/outer" && mv "$work/$2/outer/root" "$work/$2/root"; }
  [ ! -e "$1/smbios.dump.bin" ] || cp "$1/smbios.dump.bin" "$work/$2/"
  trees+=("$work/$2")
}
unpack fixtures/two-socket-server two-socket-server
large=(openshift-kni__dell_2_numa hwloc__memorysidecaches hwloc__128arm-2pa2n8cluster4co hwloc__64amd64-4p2n4ca2co checkbox__DELL_POWEREDGE_R820_NVME)
for name in "${large[@]}"; do
  [ ! -e "../shared/fixtures/$name/root.tar.zst" ] || unpack "../shared/fixtures/$name" "$name"
done

cargo build -q --release --locked -p rci-bench
agent=${RCI_STATIC_AGENT:-target/static/run-coreos-installer}
# The agent refuses RCI_* variables that are not options.
env -u RCI_CACHE -u RCI_STATIC_AGENT -u RCI_STATIC_WAY "target/$(rustc --print host-tuple)/release/rci-bench" "$agent" "$rounds" "${trees[@]}"
