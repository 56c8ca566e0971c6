# shellcheck shell=bash source-path=SCRIPTDIR
# The tiny system: an initramfs with busybox, the drivers of the guests' hardware, and an /init that runs the script that a test
# appends. It is not compressed: under TCG, unpacking takes longer than reading.
. ./modules.sh
root=$(mktemp -d "$CACHE/build.XXXXXX")
modules=$(mktemp -d "$CACHE/build.XXXXXX")
trap 'rm -rf --one-file-system "$root" "$modules"' EXIT
chmod 755 "$root"
unpack_modules "$modules"
# Drivers of hardware that only the tests of the report use: virtual functions, persistent memory, CXL memory, a RAID controller.
REPORT_MODULES="igbvf nd_btt nd_e820 dax_pmem cxl_acpi cxl_pci cxl_mem cxl_port megaraid_sas"
# shellcheck disable=SC2086 # lists of names
copy_modules "$modules" "$root" $HARDWARE_MODULES $REPORT_MODULES
find "$root" -name '*.ko' -exec strip --strip-debug {} +
depmod -b "$root" "$KERNEL_VERSION"
apt_update
fetch_package busybox-static "$modules/busybox"
mkdir -p "$root"/{bin,sbin,usr/bin,usr/sbin,usr/local/bin,proc,sys,dev,run,tmp,etc,root}
install -m755 "$modules"/busybox/bin/busybox "$root/bin/busybox"
for applet in $("$root/bin/busybox" --list); do
  [ -e "$root/bin/$applet" ] || ln -s busybox "$root/bin/$applet"
done
install -m755 tiny-init "$root/init"
install -m755 tiny-dhcp "$root/bin/dhcp-lease"
printf 'root:x:0:0:root:/root:/bin/sh\n' >"$root/etc/passwd"
printf 'NAME="tiny system of the VM tests"\nID=tiny\nVERSION_ID=1\n' >"$root/etc/os-release"
printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts"
(cd "$root" && find . -print0 | LC_ALL=C sort -z | cpio --quiet -0 -o -H newc -R 0:0) >"$OUT/tiny.initrd"
