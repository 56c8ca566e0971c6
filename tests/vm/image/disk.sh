# shellcheck shell=bash source-path=SCRIPTDIR
# The images that coreos-installer writes, with partitions, BLS entry, stamp and boot loader as on CoreOS.
#   coreos-512.raw.zst   boots; the root file system has systemd
#   coreos-small.raw.gz  the same partitions with an empty root file system and no kernel: an install takes seconds
#   coreos-4096.raw.gz   the same for 4096-byte sectors
need_root disk
. ./modules.sh
. ./system.sh
root=$(mktemp -d "$CACHE/build.XXXXXX")
modules=$(mktemp -d "$CACHE/build.XXXXXX")
work=$(mktemp -d "$CACHE/build.XXXXXX")
trap 'rm -rf --one-file-system "$root" "$modules" "$work"' EXIT
chmod 755 "$root"
step_progress 5 "unpacking the system"
unpack_modules "$modules"
unpack_system "$root" "$modules"
step_progress 30 "building the initramfs"
build_initramfs "$root" ignition-disk "$work/initramfs.img"
slim "$root"
# The installed system only shows what Ignition did, which takes neither a network, a package manager nor volumes.
rm -rf "$root"/usr/sbin/{lvm,mdadm,multipath*} "$root"/usr/lib/udev/rules.d/*{lvm,md-raid,mdadm,multipath}*
rm -rf "$root"/usr/sbin/NetworkManager "$root"/usr/lib/NetworkManager "$root"/etc/systemd/system/{*/NetworkManager*,dbus-org.freedesktop.nm-dispatcher.service} "$root"/usr/lib/systemd/system/NetworkManager* \
  "$root"/usr/bin/nm* "$root"/usr/bin/perl* "$root"/usr/bin/{apt,dpkg}* "$root"/usr/lib/apt "$root"/usr/lib/udev/{hwdb.bin,hwdb.d} "$root"/usr/lib/x86_64-linux-gnu/libapt* \
  "$root"/usr/lib/x86_64-linux-gnu/libicu* "$root"/etc/udev/hwdb.bin
# Distribution units that take time and test nothing of ours, or fail without the programs removed above.
for unit in lvm2-monitor.service multipathd.{service,socket} systemd-logind.service serial-getty@ttyS0.service \
  modprobe@{configfs,dm_mod,drm,efi_pstore,fuse,loop}.service systemd-udev-trigger.service systemd-update-utmp{,-runlevel}.service \
  systemd-random-seed.service dev-{hugepages,mqueue}.mount sys-kernel-{debug,tracing}.mount kmod-static-nodes.service; do
  ln -sfn /dev/null "$root/etc/systemd/system/$unit"
done
install -m644 units/disk/*.service "$root/usr/lib/systemd/system/"
install -m644 units/disk/50-vm.preset "$root/usr/lib/systemd/system-preset/50-vm.preset"
echo LABEL=boot /boot ext4 noauto 0 0 >"$root/etc/fstab"
mkdir -p "$root/boot"
fetch_package systemd-boot-efi "$work/efi"

# boot_tree TO KERNEL INITRAMFS: writes the files of the boot file system.
boot_tree() {
  mkdir -p "$1"/{loader/entries,grub2,coreos,ostree/vm-0,efi}
  install -m644 "$2" "$1/ostree/vm-0/vmlinuz-$KERNEL_VERSION"
  install -m644 "$3" "$1/ostree/vm-0/initramfs-$KERNEL_VERSION.img"
  : >"$1/ignition.firstboot"
  # shellcheck disable=SC2016 # grub's variable
  printf 'set timeout=1\n# CONSOLE-SETTINGS-START\n# CONSOLE-SETTINGS-END\nif [ -f $prefix/user.cfg ]; then\nsource $prefix/user.cfg\nfi\nblscfg\n' >"$1/grub2/grub.cfg"
  cat >"$1/loader/entries/ostree-1-vm.conf" <<BLS
title CoreOS of the VM tests (ostree:0)
version 1
linux /ostree/vm-0/vmlinuz-$KERNEL_VERSION
initrd /ostree/vm-0/initramfs-$KERNEL_VERSION.img
options mitigations=auto,nosmt ignition.platform.id=metal root=LABEL=root rw
BLS
  cat >"$1/coreos/platforms.json" <<'JSON'
{"metal": {"kernel_arguments": []}, "qemu": {"grub_commands": ["serial --speed=115200", "terminal_input serial console", "terminal_output serial console"], "kernel_arguments": ["console=tty0", "console=ttyS0,115200n8"]}}
JSON
}

# disk_image TO SECTOR_BYTES BOOT_TREE BOOT_MIB ROOT_TREE ROOT_MIB GRUB_BOOT BIOS_PARTITION
disk_image() {
  local esp=$work/esp boot=$work/boot-fs root_fs=$work/root-fs
  rm -f "$esp" "$boot" "$root_fs"
  truncate -s 16M "$esp"
  mkfs.vfat -n EFI-SYSTEM -S "$2" "$esp" >/dev/null
  mmd -i "$esp" ::/EFI ::/EFI/BOOT
  mcopy -i "$esp" "$work"/efi/usr/lib/systemd/boot/efi/systemd-bootx64.efi ::/EFI/BOOT/BOOTX64.EFI
  truncate -s "$4M" "$boot"
  mkfs.ext4 -q -b 4096 -L boot -d "$3" "$boot"
  truncate -s "$6M" "$root_fs"
  mkfs.ext4 -q -b 4096 -O ^has_journal -L root -d "$5" "$root_fs"
  GRUB_BOOT=$7 python3 ./gpt.py "$1" "$2" "BIOS-BOOT=21686148-6449-6E6F-744E-656564454649=$8" \
    "EFI-SYSTEM=C12A7328-F81F-11D2-BA4B-00A0C93EC93B=$esp" "boot=0FC63DAF-8483-4772-8E79-3D69D8477DE4=$boot" \
    "root=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709=$root_fs"
}

step_progress 70 "writing the file systems"
boot_tree "$work/boot" "$(part kernel)/vmlinux" "$work/initramfs.img"
disk_image "$work/512.raw" 512 "$work/boot" $(($(du -sm "$work/boot" | cut -f1) + 48)) "$root" $(($(du -sm "$root" | cut -f1) * 5 / 4 + 48)) \
  "$(part loaders)/grub-boot.img" "$(part loaders)/grub-core.img"
zstd -q -3 -T0 "$work/512.raw" -o "$OUT/coreos-512.raw.zst"
stat -c %s "$work/512.raw" >"$OUT/coreos-512.bytes"

mkdir -p "$work/empty"
truncate -s 1M "$work/bios"
head -c 65536 /dev/urandom >"$work/stand-in"
boot_tree "$work/boot-small" "$work/stand-in" "$work/stand-in"
disk_image "$work/small.raw" 512 "$work/boot-small" 32 "$work/empty" 16 "$(part loaders)/grub-boot.img" "$(part loaders)/grub-core.img"
disk_image "$work/4096.raw" 4096 "$work/boot-small" 32 "$work/empty" 16 "" "$work/bios"
for size in small 4096; do
  gzip -6 -c "$work/$size.raw" >"$OUT/coreos-$size.raw.gz"
  stat -c %s "$work/$size.raw" >"$OUT/coreos-$size.bytes"
done
