# shellcheck shell=bash
# Installs the distribution packages that build the images and run the virtual machines.

declare -A package_of=(
  [mmdebstrap]=mmdebstrap [mksquashfs]=squashfs-tools [mcopy]=mtools [mkfs.vfat]=dosfstools [mkfs.ext4]=e2fsprogs
  [cpio]=cpio [xorriso]=xorriso [zstd]=zstd [xz]=xz-utils [modprobe]=kmod [swtpm]=swtpm [python3]=python3 [gzip]=gzip [curl]=curl
)

missing=()
for command in "${!package_of[@]}"; do
  PATH=$PATH:/usr/sbin:/sbin command -v "$command" >/dev/null || missing+=("${package_of[$command]}")
done
if ! is_whole installer; then
  for package in pkg-config libzstd-dev liblzma-dev libssl-dev gcc; do
    dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
  done
fi
# The network ROMs of the virtual machines.
[ -e /usr/lib/ipxe/qemu/pxe-virtio.rom ] || missing+=(ipxe-qemu)

# igb and the NVMe subsystem need QEMU 8; bookworm has that only in backports.
qemu_major() { qemu-system-x86_64 --version 2>/dev/null | sed -n 's/^QEMU emulator version \([0-9]*\).*/\1/p'; }
major=$(qemu_major || true)
qemu=()
[ "${major:-0}" -ge 8 ] || qemu=(qemu-system-x86)

if [ ${#missing[@]} -gt 0 ] || [ ${#qemu[@]} -gt 0 ]; then
  [ "$(id -u)" = 0 ] || die "these packages are missing; as root: apt-get install --no-install-recommends ${missing[*]} ${qemu[*]:+&& apt-get install --no-install-recommends -t bookworm-backports ${qemu[*]}}"
  # Without package lists (as in a container image) apt does not know the suites of its own sources.
  [ -n "$(debian_uris)" ] || apt-get -q -o DPkg::Lock::Timeout=400 update >&2
  apt_update
  export DEBIAN_FRONTEND=noninteractive
  [ ${#missing[@]} -eq 0 ] || { say "installing ${missing[*]}"; apt_get install -y --no-install-recommends "${missing[@]}" >&2; }
  [ ${#qemu[@]} -eq 0 ] || { say "installing ${qemu[*]} from backports"; apt_get install -y --no-install-recommends -t bookworm-backports "${qemu[@]}" >&2; }
fi
