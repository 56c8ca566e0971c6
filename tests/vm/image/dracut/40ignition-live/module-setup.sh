#!/bin/bash
# shellcheck disable=SC2154 # moddir, initdir and systemdsystemunitdir come from dracut
# What a CoreOS live image adds to Ignition's own dracut module: the live root, the config that was appended to the
# initramfs as /config.ign, and a network where the config asks for one.

depends() { echo ignition systemd; }

install() {
  local unit
  inst_multiple busybox cat cp dd ip ln ls mkdir mount sleep umount
  inst_script "$moddir/is-live-image" /usr/bin/is-live-image
  inst_script "$moddir/live-sysroot" /usr/sbin/live-sysroot
  inst_script "$moddir/live-network" /usr/sbin/live-network
  inst_script "$moddir/lease" /usr/sbin/live-network-lease
  # The live root is no argument of the kernel; dracut would wait for one.
  inst_hook cmdline 10 "$moddir/root-is-ours.sh"
  for unit in live-setup-user live-network; do
    inst_simple "$moddir/$unit.service" "$systemdsystemunitdir/$unit.service"
    mkdir -p "$initdir/$systemdsystemunitdir/ignition-complete.target.requires"
    ln_r "$systemdsystemunitdir/$unit.service" "$systemdsystemunitdir/ignition-complete.target.requires/$unit.service"
  done
  inst_simple "$moddir/live-sysroot.service" "$systemdsystemunitdir/live-sysroot.service"
  mkdir -p "$initdir/$systemdsystemunitdir/initrd-root-fs.target.requires"
  ln_r "$systemdsystemunitdir/live-sysroot.service" "$systemdsystemunitdir/initrd-root-fs.target.requires/live-sysroot.service"
}
