# shellcheck shell=bash source-path=SCRIPTDIR
# The live system: a squashfs with systemd, NetworkManager, udev and the real coreos-installer, and an initramfs in which the
# real Ignition applies the config that a test appends to it. The agent is not part of it: Ignition adds it, as on CoreOS.
need_root live
. ./modules.sh
. ./system.sh
root=$(mktemp -d "$CACHE/build.XXXXXX")
modules=$(mktemp -d "$CACHE/build.XXXXXX")
trap 'rm -rf --one-file-system "$root" "$modules"' EXIT
chmod 755 "$root"
step_progress 5 "unpacking the system"
unpack_modules "$modules"
unpack_system "$root" "$modules"
install -m644 units/live/50-vm.preset "$root/usr/lib/systemd/system-preset/50-vm.preset"
printf '[main]\nplugins=keyfile\n[logging]\nlevel=WARN\n' >"$root/etc/NetworkManager/conf.d/10-vm.conf"
echo live >"$root/etc/hostname"
step_progress 30 "building the initramfs"
build_initramfs "$root" ignition-live "$OUT/live.initrd"
install -m755 "$(part installer)/coreos-installer" "$root/usr/bin/coreos-installer"
chroot "$root" /usr/bin/coreos-installer --version
slim "$root"
step_progress 75 "packing the squashfs"
mksquashfs "$root" "$OUT/live.squashfs" -noappend -quiet -no-progress -comp zstd -Xcompression-level 3
