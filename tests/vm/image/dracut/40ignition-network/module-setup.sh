#!/bin/bash
# shellcheck disable=SC2154 # moddir, initdir and systemdsystemunitdir come from dracut
# A network where Ignition's config asks for one: static addresses from the keyfiles that were embedded, or DHCP.

depends() { echo ignition systemd; }

install() {
  inst_multiple busybox cat grep head ip ls mkdir rm sed sleep
  inst_script "$moddir/initramfs-network" /usr/sbin/initramfs-network
  inst_script "$moddir/lease" /usr/sbin/initramfs-network-lease
  inst_simple "$moddir/initramfs-network.service" "$systemdsystemunitdir/initramfs-network.service"
  mkdir -p "$initdir/$systemdsystemunitdir/ignition-complete.target.requires"
  ln_r "$systemdsystemunitdir/initramfs-network.service" "$systemdsystemunitdir/ignition-complete.target.requires/initramfs-network.service"
}
