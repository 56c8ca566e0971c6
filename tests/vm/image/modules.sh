# shellcheck shell=bash
# Selects kernel modules. A missing module is skipped with a message, because kernels rename and merge modules.

# shellcheck disable=SC2034 # the recipes use both lists
# Drivers of the guests' hardware (see machine.rs), for every kind of system.
HARDWARE_MODULES="virtio_pci virtio_blk virtio_scsi virtio_net virtio_console virtio_rng ahci ata_piix sd_mod sr_mod cdrom nvme e1000 e1000e igb
  ipmi_si ipmi_devintf ipmi_msghandler tpm_tis tpm_crb dmi-sysfs qemu_fw_cfg i6300esb xhci_pci usb_storage uas usbhid hid_generic
  nfit nd_pmem bochs virtio-gpu sdhci_pci mmc_block edac_core i2c-i801 ext4 vfat nls_cp437 nls_iso8859-1 nls_ascii nls_utf8"
# Also needed by a live or installed system with systemd.
# shellcheck disable=SC2034
SYSTEM_MODULES="squashfs overlay loop isofs xfs efivarfs autofs4 configfs fuse dm-mod dm-multipath dm-service-time dm-round-robin raid1 dm-snapshot bonding 8021q msr scsi_debug"

# unpack_modules DIR: the kernel's whole module tree; sets KERNEL_VERSION.
unpack_modules() {
  local kernel
  kernel=$(part kernel)
  KERNEL_VERSION=$(cat "$kernel/version")
  tar -C "$1" -xf "$kernel/modules.tar.zst"
}

# copy_modules FROM TO NAME...: those modules and their dependencies, with a new index.
copy_modules() {
  local from=$1 to=$2 name file
  shift 2
  mkdir -p "$to/lib/modules/$KERNEL_VERSION"
  cp "$from/lib/modules/$KERNEL_VERSION"/modules.{order,builtin,builtin.modinfo} "$to/lib/modules/$KERNEL_VERSION/"
  for name in "$@"; do
    modprobe -d "$from" -S "$KERNEL_VERSION" --show-depends "$name" 2>/dev/null || say "module $name is not in this kernel"
  done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | sort -u | while read -r file; do
    install -D -m644 "$file" "$to/${file#"$from"/}"
  done
  depmod -b "$to" "$KERNEL_VERSION"
}
