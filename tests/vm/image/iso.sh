# shellcheck shell=bash source-path=SCRIPTDIR
# The live system as an ISO with the places that coreos-installer knows of a CoreOS ISO: the initramfs for an Ignition config and
# network profiles, and kernel arguments in the configuration of both boot loaders.
AREA_BYTES=262144
KARGS_BYTES=2048
KARGS="coreos.liveiso=vm-live console=ttyS0 panic=-1 mitigations=off no_timer_check quiet systemd.show_status=1 ignition.firstboot ignition.platform.id=metal"
work=$(mktemp -d "$CACHE/build.XXXXXX")
trap 'rm -rf "$work"' EXIT
loaders=$(part loaders)
iso=$work/iso
mkdir -p "$iso"/{images/pxeboot,coreos,isolinux,EFI/fedora}
cp "$(part kernel)/vmlinuz" "$iso/images/pxeboot/vmlinuz"
cp "$(part live)/live.initrd" "$iso/images/pxeboot/initrd.img"
cp "$(part live)/live.squashfs" "$iso/images/pxeboot/rootfs.img"
truncate -s "$AREA_BYTES" "$iso/images/ignition.img"

# The area for kernel arguments: a comment fills the unused end.
area=$(printf '%s\n' "$KARGS" && head -c $((KARGS_BYTES - ${#KARGS} - 1)) /dev/zero | tr '\0' '#')
cat >"$iso/isolinux/isolinux.cfg" <<CFG
serial 0 115200
default linux
prompt 0
label linux
  kernel /images/pxeboot/vmlinuz
  initrd /images/pxeboot/initrd.img,/images/ignition.img
  append $area
CFG
cat >"$iso/EFI/fedora/grub.cfg" <<CFG
set timeout=0
menuentry 'CoreOS of the VM tests (Live)' {
  linux /images/pxeboot/vmlinuz $area
  initrd /images/pxeboot/initrd.img /images/ignition.img
}
CFG
offset_of() { grep -abo "coreos.liveiso=" "$iso/$1" | cut -d: -f1; }
echo '{"file": "images/ignition.img"}' >"$iso/coreos/igninfo.json"
echo '{"live-initrd-network": true}' >"$iso/coreos/features.json"
cat >"$iso/coreos/kargs.json" <<JSON
{"default": "$KARGS", "size": $KARGS_BYTES, "files": [
  {"path": "isolinux/isolinux.cfg", "offset": $(offset_of isolinux/isolinux.cfg)},
  {"path": "EFI/fedora/grub.cfg", "offset": $(offset_of EFI/fedora/grub.cfg)}]}
JSON

truncate -s 4M "$iso/images/efiboot.img"
mkfs.vfat -n EFI "$iso/images/efiboot.img" >/dev/null
mmd -i "$iso/images/efiboot.img" ::/EFI ::/EFI/BOOT
mcopy -i "$iso/images/efiboot.img" "$loaders/bootx64.efi" ::/EFI/BOOT/BOOTX64.EFI
cp "$loaders"/{isolinux.bin,ldlinux.c32} "$iso/isolinux/"
# coreos-installer searches for level 1 names (KARGS.JSO).
xorriso -as mkisofs -quiet -iso-level 1 -rational-rock -J -V vm-live -o "$OUT/live.iso" \
  -b isolinux/isolinux.bin -c isolinux/boot.cat -no-emul-boot -boot-load-size 4 -boot-info-table \
  -eltorito-alt-boot -e images/efiboot.img -no-emul-boot "$iso"
