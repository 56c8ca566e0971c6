//! Byte and text formats, each parsed in one place: bytes in, values and spans out.
//!
//! Nothing here does I/O. Probes read the values; `capture --anonymize` replaces the [`Field`]s, so
//! each format declares its secrets next to its parser; install and proof use the same types.

#![forbid(unsafe_code)]

pub mod allocation;
pub mod ata_identify;
pub mod bytes;
pub mod command_line;
pub mod cper;
pub mod data;
pub mod device_path;
pub mod dhcp;
pub mod digest;
pub mod disk_security;
pub mod efi;
pub mod executable;
pub mod ext4;
pub mod fib_trie;
pub mod field;
pub mod fru;
pub mod gpt;
pub mod guid;
pub mod health;
pub mod hest;
pub mod hex;
pub mod icmp;
pub mod iort;
pub mod ipmi;
pub mod labelled;
pub mod lldp;
pub mod lvm;
pub mod mac;
pub mod major_numbers;
pub mod mbr;
pub mod megaraid;
pub mod module;
pub mod mountinfo;
pub mod netlink;
pub mod ntp;
pub mod octal;
pub mod osmet;
pub mod part;
pub mod partition_filter;
pub mod pattern;
pub mod pci;
pub mod raid;
pub mod route_table;
pub mod signature;
pub mod smbios;
pub mod superblock;
pub mod swaps;
pub mod tcg;
pub mod text;
pub mod time;
pub mod tpm;
pub mod utf16;
pub mod vpd;
pub mod wwn;
pub mod xz;
pub mod zfs;

pub use field::{Edit, Encoding, Field, Kind, splice};

#[cfg(test)]
mod testing;
