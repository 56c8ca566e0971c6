# shellcheck shell=bash
# Boot loaders: GRUB for the disk's BIOS boot partition and for the ISO on UEFI, isolinux for the ISO on BIOS, iPXE as a kernel.
apt_update
tree=$(mktemp -d "$CACHE/build.XXXXXX")
trap 'rm -rf "$tree"' EXIT
# grub-mkimage is run from its package, with the library that not every machine has.
for package in grub-common libdevmapper1.02.1 grub-pc-bin grub-efi-amd64-bin isolinux syslinux-common ipxe; do
  fetch_package "$package" "$tree"
done
mkimage() { LD_LIBRARY_PATH=$tree/lib/x86_64-linux-gnu "$tree/usr/bin/grub-mkimage" "$@"; }
grub=$tree/usr/lib/grub
common="normal linux configfile echo serial terminal test sleep minicmd reboot"
# shellcheck disable=SC2086 # a list of names
mkimage -d "$grub/i386-pc" -O i386-pc -p '(,gpt3)/grub2' -o "$OUT/grub-core.img" biosdisk part_gpt ext2 linux16 $common
install -m644 "$grub/i386-pc/boot.img" "$OUT/grub-boot.img"
cat >"$tree/embedded.cfg" <<'CFG'
search --no-floppy --file --set=root /coreos/kargs.json
set prefix=($root)/EFI/fedora
configfile $prefix/grub.cfg
CFG
# shellcheck disable=SC2086 # a list of names
mkimage -d "$grub/x86_64-efi" -O x86_64-efi -p /EFI/fedora -c "$tree/embedded.cfg" -o "$OUT/bootx64.efi" \
  part_gpt part_msdos fat iso9660 search search_fs_file $common
install -m644 "$tree/usr/lib/ISOLINUX/isolinux.bin" "$tree/usr/lib/syslinux/modules/bios/ldlinux.c32" "$OUT/"
install -m644 "$tree/boot/ipxe.lkrn" "$OUT/"
