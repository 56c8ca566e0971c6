#!/usr/bin/env bash
# Runs `systemd-analyze verify` on the units, with stand-ins for the programs that they start.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/usr/local/bin" "$root/usr/bin" "$root/etc/systemd/system"
cp systemd/*.{service,timer} "$root/etc/systemd/system/"
for program in usr/local/bin/run-coreos-installer usr/bin/systemctl; do
  install -m755 /bin/true "$root/$program"
done
# The units of this machine's systemd stand in for the live image's.
mkdir -p "$root/usr/lib"
cp -a /usr/lib/systemd "$root/usr/lib/systemd" 2>/dev/null || cp -a /lib/systemd "$root/usr/lib/systemd"
found=$(systemd-analyze --root="$root" --man=no --recursive-errors=no verify systemd/*.{service,timer} 2>&1) || {
  printf '%s\n' "$found" >&2
  exit 1
}
[ -z "$found" ] || { printf '%s\n' "$found" >&2; exit 1; }
