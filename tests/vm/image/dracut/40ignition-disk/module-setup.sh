#!/bin/bash
# shellcheck disable=SC2154 # moddir, initdir and systemdsystemunitdir come from dracut
# What an installed CoreOS adds to Ignition's own dracut module: the config that coreos-installer left on the boot file system.

depends() { echo ignition systemd ignition-network; }

install() {
  inst_multiple cp mkdir mount umount
  inst_script "$moddir/setup-user" /usr/sbin/ignition-setup-user
  inst_simple "$moddir/ignition-setup-user.service" "$systemdsystemunitdir/ignition-setup-user.service"
  mkdir -p "$initdir/$systemdsystemunitdir/ignition-complete.target.requires"
  ln_r "$systemdsystemunitdir/ignition-setup-user.service" "$systemdsystemunitdir/ignition-complete.target.requires/ignition-setup-user.service"
}
