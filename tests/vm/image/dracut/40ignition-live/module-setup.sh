#!/bin/bash
# shellcheck disable=SC2154 # moddir, initdir and systemdsystemunitdir come from dracut
# What a CoreOS live image adds to Ignition's own dracut module: the live root, the config that was appended to the
# initramfs as /config.ign, and what coreos-installer looks for in a live initramfs.

depends() { echo ignition systemd ignition-network; }

install() {
  inst_multiple busybox cat cp dd ln ls mkdir mount sed sleep tail tr umount
  inst_script "$moddir/is-live-image" /usr/bin/is-live-image
  inst_script "$moddir/live-sysroot" /usr/sbin/live-sysroot
  : >"$initdir/etc/coreos-live-initramfs"
  mkdir -p "$initdir/etc/coreos"
  echo '{"live-initrd-network": true}' >"$initdir/etc/coreos/features.json"
  # The live root is no argument of the kernel; dracut would wait for one.
  inst_hook cmdline 10 "$moddir/root-is-ours.sh"
  inst_simple "$moddir/live-setup-user.service" "$systemdsystemunitdir/live-setup-user.service"
  mkdir -p "$initdir/$systemdsystemunitdir/ignition-complete.target.requires"
  ln_r "$systemdsystemunitdir/live-setup-user.service" "$systemdsystemunitdir/ignition-complete.target.requires/live-setup-user.service"
  inst_simple "$moddir/live-sysroot.service" "$systemdsystemunitdir/live-sysroot.service"
  mkdir -p "$initdir/$systemdsystemunitdir/initrd-root-fs.target.requires"
  ln_r "$systemdsystemunitdir/live-sysroot.service" "$systemdsystemunitdir/initrd-root-fs.target.requires/live-sysroot.service"
}
