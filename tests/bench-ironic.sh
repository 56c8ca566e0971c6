#!/usr/bin/env bash
# Compares our agent on an Ironic node with ironic-python-agent, on this machine: times, memory, size.
#
#   tests/bench-ironic.sh [ROUNDS]        medians over ROUNDS runs in turns, 5 by default
#
# The static agent (make static) is measured. Run it as root on a machine whose disks do not matter: ironic-python-agent loads
# kernel modules, assembles arrays and logs in to iSCSI targets when it starts. Neither agent is asked to write anything.
set -euo pipefail
cd "$(dirname "$0")/.."

agent=${RCI_STATIC_AGENT:-target/static/run-coreos-installer}
[ -x "$agent" ] || { echo "$agent is missing; make static builds it" >&2 && exit 1; }
[ "$(id -u)" -eq 0 ] || { echo 'both agents need root to read the hardware' >&2 && exit 1; }
missing=()
for need in udevadm:udev lshw:lshw modprobe:kmod lsblk:util-linux; do
  command -v "${need%%:*}" >/dev/null || missing+=("${need#*:}")
done
if [ ${#missing[@]} -gt 0 ]; then
  command -v apt-get >/dev/null || { echo "install these packages: ${missing[*]}" >&2 && exit 1; }
  apt-get -qq -o DPkg::Lock::Timeout=600 install -y --no-install-recommends "${missing[@]}" >/dev/null
fi
python=$(tests/venv ipa tests/ironic/ipa-requirements.txt)
"$python" tests/ironic/bench.py "$agent" "${python%/bin/python}" "${1:-5}"
