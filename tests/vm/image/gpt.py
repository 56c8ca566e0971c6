#!/usr/bin/env python3
"""Puts partition images together to a disk image with a GPT, for any sector size (the usual tools do 512 on a file only).

gpt.py OUT SECTOR_BYTES NAME=TYPE_UUID=FILE ...    each partition starts at a whole MiB

With $GRUB_BOOT, GRUB's boot.img, the machine's BIOS starts GRUB from the first partition, which holds its core.img.
"""
import os
import struct
import sys
import uuid
import zlib

MIB = 1 << 20
N_ENTRIES, ENTRY_BYTES = 128, 128


def main() -> None:
    """Writes the image; holes stay holes."""
    out, sector, specs = sys.argv[1], int(sys.argv[2]), [spec.split("=") for spec in sys.argv[3:]]
    start, partitions = MIB, []
    for name, kind, path in specs:
        size = -(-os.path.getsize(path) // MIB) * MIB
        partitions.append((name, kind, path, start, size))
        start += size
    n_sectors = (start + MIB) // sector
    table_sectors = N_ENTRIES * ENTRY_BYTES // sector
    disk_id = uuid.uuid5(uuid.NAMESPACE_URL, "run-coreos-installer/vm-disk")

    entries = b""
    for name, kind, _, first, size in partitions:
        entries += uuid.UUID(kind).bytes_le + uuid.uuid5(disk_id, name).bytes_le
        entries += struct.pack("<QQQ", first // sector, (first + size) // sector - 1, 0)
        entries += name.encode("utf-16le").ljust(72, b"\0")
    entries = entries.ljust(N_ENTRIES * ENTRY_BYTES, b"\0")

    def header(at: int, other: int, table: int) -> bytes:
        """UEFI 2.10, table 5.5: the GPT header with its own checksum in place."""
        fields = struct.pack("<8s4sII", b"EFI PART", b"\0\0\1\0", 92, 0), struct.pack(
            "<IQQQQ16sQIII", 0, at, other, 2 + table_sectors, n_sectors - table_sectors - 2, disk_id.bytes_le,
            table, N_ENTRIES, ENTRY_BYTES, zlib.crc32(entries))
        checksum = zlib.crc32(b"".join(fields))
        return (fields[0][:16] + struct.pack("<I", checksum) + fields[1]).ljust(sector, b"\0")

    protective = struct.pack("<446xB3sB3sII48x2s", 0, b"\0\2\0", 0xEE, b"\xff\xff\xff", 1, min(n_sectors - 1, 0xFFFFFFFF), b"\x55\xaa")
    with open(out, "wb") as disk:
        disk.truncate(n_sectors * sector)
        disk.write(protective)
        disk.seek(sector)
        disk.write(header(1, n_sectors - 1, 2))
        disk.seek(2 * sector)
        disk.write(entries)
        disk.seek((n_sectors - 1 - table_sectors) * sector)
        disk.write(entries + header(n_sectors - 1, 1, n_sectors - 1 - table_sectors))
        for _, _, path, first, _ in partitions:
            copy(path, disk, first)
        if boot := os.environ.get("GRUB_BOOT"):
            install_grub(boot, disk, MIB // sector)


def install_grub(boot: str, disk, core: int) -> None:
    """What grub-bios-setup does: the boot sector learns where core.img is, and its first sector where the rest is
    (GRUB, include/grub/i386/pc/boot.h: GRUB_BOOT_MACHINE_KERNEL_SECTOR, GRUB_BOOT_MACHINE_LIST_SIZE)."""
    with open(boot, "rb") as file:
        code = bytearray(file.read(440))
    code[0x5C:0x64] = struct.pack("<Q", core)
    disk.seek(0)
    disk.write(code)
    disk.seek(core * 512 + 0x1F4)
    disk.write(struct.pack("<Q", core + 1))


def copy(path: str, disk, at: int) -> None:
    """Copies a file to a place of the disk, leaving out blocks of zeros."""
    with open(path, "rb") as part:
        while block := part.read(MIB):
            if block.strip(b"\0"):
                disk.seek(at)
                disk.write(block)
            at += len(block)


main()
