# shellcheck shell=bash
# Common to the live system and the installed one: the tree with the kernel's modules, and the initramfs with the real Ignition.

# unpack_system ROOT MODULES_FROM: unpacks the tree and makes it bootable.
unpack_system() {
  local root=$1 unit
  tar -C "$root" --numeric-owner --xattrs -xf "$(part tree)/tree.tar.zst"
  # shellcheck disable=SC2086 # lists of names
  copy_modules "$2" "$root" $HARDWARE_MODULES $SYSTEM_MODULES
  # Debian's Ignition insists on SELinux labels; an empty policy and a setfiles that does nothing satisfy it.
  mkdir -p "$root/etc/selinux/vm/contexts/files"
  printf 'SELINUX=disabled\nSELINUXTYPE=vm\n' >"$root/etc/selinux/config"
  : >"$root/etc/selinux/vm/contexts/files/file_contexts"
  printf '#!/bin/sh\nexit 0\n' >"$root/usr/sbin/setfiles"
  chmod 755 "$root/usr/sbin/setfiles"
  # Units that take time, or would ask questions on the console at a first boot.
  for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer \
    systemd-firstboot.service systemd-pstore.service systemd-binfmt.service proc-sys-fs-binfmt_misc.automount getty@tty1.service wpa_supplicant.service ModemManager.service; do
    ln -sfn /dev/null "$root/etc/systemd/system/$unit"
  done
  ln -sfn /lib/systemd/system/multi-user.target "$root/etc/systemd/system/default.target"
  # Without a machine id systemd assumes a first boot and applies the presets, including Ignition's.
  echo uninitialized >"$root/etc/machine-id"
  : >"$root/etc/fstab"
}

# build_initramfs ROOT GLUE TO: builds an initramfs from that tree with Ignition, its network, and one of our two glue modules.
# Level 3 of zstd instead of dracut's 15 saves a quarter of a minute; the file is used once or twice.
build_initramfs() {
  local root=$1 glue=$2
  # Ignition's module depends on dracut's network; the glue of the live system has a smaller one.
  sed -i 's/echo qemu systemd url-lib network/echo systemd/' "$root/usr/lib/dracut/modules.d/30ignition/module-setup.sh"
  rm -rf "$root"/usr/lib/dracut/modules.d/*{network,ifcfg,url-lib,cms,qemu-net}* "$root"/etc/dracut.conf.d/*ifcfg*
  cp -r "dracut/40$glue" dracut/40ignition-network "$root/usr/lib/dracut/modules.d/"
  for dir in proc sys dev; do mount --rbind --make-rslave "/$dir" "$root/$dir"; done
  # shellcheck disable=SC2086 # a list of names
  chroot "$root" dracut --force --no-hostonly --no-hostonly-cmdline --quiet --strip --compress "zstd -3 -q -T0" --kver "$KERNEL_VERSION" \
    --modules "base systemd systemd-initrd udev-rules rootfs-block fs-lib dracut-systemd shutdown usrmount kernel-modules ignition $glue" \
    --drivers "$HARDWARE_MODULES squashfs overlay loop isofs xfs dm-mod" \
    --no-early-microcode --tmpdir /tmp /tmp/initramfs.img || { umount -lR "$root"/{proc,sys,dev}; return 1; }
  umount -lR "$root"/{proc,sys,dev}
  mv "$root/tmp/initramfs.img" "$3"
  chmod 644 "$3"
  rm -rf "$root"/usr/lib/dracut/modules.d/40ignition-*
}

# slim ROOT: removes everything that neither system needs once its initramfs is built.
slim() {
  rm -rf "$1"/usr/lib/dracut "$1"/usr/lib/systemd/system/{,*.wants/}dracut-* "$1"/usr/lib/x86_64-linux-gnu/perl* "$1"/usr/share/perl* "$1"/usr/lib/python3* "$1"/usr/share/i18n \
    "$1"/var/lib/dpkg/info "$1"/var/cache/* "$1"/var/lib/apt/* "$1"/usr/share/{doc,man,locale,zoneinfo,bash-completion} "$1"/usr/bin/ignition-validate
}
