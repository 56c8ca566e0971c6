# shellcheck shell=bash
# The distribution's kernel: `vmlinuz` as packaged, `vmlinux` (the ELF file inside it, which QEMU enters through its PVH note: that
# avoids the decompression, half a minute under TCG), and its modules as a tar.zst.
apt_update
package=$(apt_cache depends linux-image-amd64 | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
[ -n "$package" ] || die "linux-image-amd64 depends on no linux-image"
tree=$(mktemp -d "$CACHE/build.XXXXXX")
step_progress 3 "downloading $package"
fetch_package "$package" "$tree"
step_progress 40 "unpacking the ELF file inside vmlinuz"
cp "$tree"/boot/vmlinuz-* "$OUT/vmlinuz"
python3 - "$OUT/vmlinuz" "$OUT/vmlinux" <<'PY'
"""Unpacks the compressed kernel of a bzImage (Documentation/arch/x86/boot.rst: setup_sects, payload_offset)."""
import struct, subprocess, sys

image = open(sys.argv[1], "rb").read()
setup_sectors = image[0x1F1] or 4
offset, length = struct.unpack_from("<II", image, 0x248)
start = (setup_sectors + 1) * 512 + offset
payload = image[start : start + length]
tools = {b"\xfd7zXZ\0": ["xz", "-dc"], b"\x1f\x8b": ["gzip", "-dc"], b"\x28\xb5\x2f\xfd": ["zstd", "-dc"], b"\x02\x21\x4c\x18": ["lz4", "-dc"]}
tool = next(command for magic, command in tools.items() if payload.startswith(magic))
# The length of the payload follows it. The tools complain about these bytes, but only after they have unpacked everything.
elf = subprocess.run(tool, input=payload, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
if elf[:4] != b"\x7fELF":
    sys.exit("the payload of the kernel is not an ELF file")
open(sys.argv[2], "wb").write(elf)
PY
step_progress 55 "indexing and packing the modules"
basename "$tree"/lib/modules/* >"$OUT/version"
depmod -b "$tree" "$(cat "$OUT/version")"
tar -C "$tree" -cf - lib/modules | zstd -q -3 -T0 -o "$OUT/modules.tar.zst"
rm -rf "$tree"
