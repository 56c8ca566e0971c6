# shellcheck shell=bash
# One tree of packages for both the live system and the installed one, with their initramfs builder (dracut) and the real
# Ignition. A tar keeps owners and modes.
need_root tree
packages=(
  systemd systemd-sysv udev dbus kmod util-linux util-linux-extra e2fsprogs dosfstools xfsprogs fdisk gdisk dmsetup
  lvm2 mdadm multipath-tools
  network-manager iproute2 curl ca-certificates libssl3 busybox
  dracut ignition cpio zstd
)
apt_update
root=$(mktemp -d "$CACHE/build.XXXXXX")
chmod 755 "$root"
# Hooks run between the stages of mmdebstrap.
mmdebstrap --quiet --mode=root --variant=minbase --format=directory \
  --include="$(IFS=,; echo "${packages[*]}")" \
  --setup-hook='echo PROGRESS 3 downloading the base system' --extract-hook='echo PROGRESS 30 installing the base system' \
  --essential-hook='echo PROGRESS 45 installing systemd, NetworkManager, dracut and Ignition' --customize-hook='echo PROGRESS 85 packing' \
  --aptopt='Acquire::Languages "none"' --aptopt='Acquire::Retries "3"' --dpkgopt=force-unsafe-io \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  --dpkgopt='path-exclude=/usr/lib/x86_64-linux-gnu/gconv/*' \
  bookworm "$root" "$(sources_file)"
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/icons
tar -C "$root" --numeric-owner --xattrs -cf - . | zstd -q -3 -T0 -o "$OUT/tree.tar.zst"
chroot "$root" dpkg-query -W >"$OUT/packages"
rm -rf --one-file-system "$root"
