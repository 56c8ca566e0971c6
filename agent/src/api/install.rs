//! `Install` of VIM API v1: what to write, where, and with which checks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

pub use crate::act::{
    Again, BlockOn, BootOrder, ExistingDataPolicy, IfSeveral, OnUnproved, Override, ProtectMissing,
    Verify,
};

/// What to write and where.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Install {
    /// The Ignition config that the installed system applies at its first boot.
    pub ignition: IgnitionSource,
    /// Whether the configs that the Ignition config names by their addresses are fetched and checked too; absent for `true`.
    pub check_pointers: Option<bool>,
    /// The operating system image; absent for the one in the live image.
    pub image: Option<ImageSource>,
    /// Which disk to write; absent for the only one, which then must be blank or contain an earlier `CoreOS`.
    pub disk: Option<DiskChoice>,
    /// What the chosen disk must be; otherwise nothing is installed.
    pub expect: Option<Expect>,
    /// Kernel arguments to add to the installed system.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub append_kargs: Vec<String>,
    /// Kernel arguments to remove from the installed system.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delete_kargs: Vec<String>,
    /// Ignition platform id of the installed system, e.g. `metal`; absent for the image's own.
    pub platform: Option<String>,
    /// Consoles of the installed system, e.g. `ttyS0,115200n8`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub console: Vec<String>,
    /// Whether to copy the live system's network profiles to the installed system.
    pub copy_network: Option<bool>,
    /// Kernel arguments for the first boot only; absent for coreos-installer's choice.
    pub firstboot_args: Option<String>,
    /// Partitions to keep, by label (shell pattern).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub save_partlabel: Vec<String>,
    /// Partitions to keep, by number or range: `5`, `5-7`, `5-`, `-7`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub save_partindex: Vec<String>,
    /// The least severity of findings that prevents the install; absent for the node's configuration, which says `critical` unless it is changed.
    pub block_on: Option<BlockOn>,
    /// Findings that prevent the install too, whatever their severity: `CODE` or `CODE@PART`, with `*` for any characters,
    /// e.g. `memory.ecc.*` or `disk.health.worn@sda`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub block_also: Vec<String>,
    /// Findings that never prevent the install, in the same form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub block_except: Vec<String>,
    /// What to do if the chosen disk contains data; absent for `wipe` if the instruction identifies the disk by serial,
    /// WWN, `/dev/disk/by-id/…` or `/dev/disk/by-path/…`, otherwise for `coreos`.
    pub existing_data: Option<ExistingDataPolicy>,
    /// What is allowed on a disk that the instruction identifies by serial, WWN, `/dev/disk/by-id/…` or
    /// `/dev/disk/by-path/…`, and whose `existing_data` is `wipe`.
    #[serde(rename = "override", default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<Override>,
    /// Disks that are never written, by serial, WWN, any path below `/dev`, or the name, label or UUID of a partition, file
    /// system, volume group, mapping or array on them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protect: Vec<String>,
    /// What follows if an entry of `protect` names no disk; absent for `warn`, unless the node's configuration says `refuse`.
    pub protect_missing: Option<ProtectMissing>,
    /// How much of the written disk is compared with the image; absent for `full`.
    pub verify: Option<Verify>,
    /// What happens to a disk that fails its verification; absent for `erase`.
    pub on_unproved: Option<OnUnproved>,
    /// Where the disk is in the boot order of UEFI firmware; absent for `disk`.
    pub boot_order: Option<BootOrder>,
    /// What follows if a disk of the node carries the installed system of this request; absent for `boot`.
    pub again: Option<Again>,
    /// True to install even then, and after three rounds of the request that led to no system.
    pub reinstall: Option<bool>,
    /// Whether the installed system confirms its first two boots, with `PUT /v1/nodes/{id}/boots/{n}`. A unit is added to its
    /// Ignition config for that, which removes itself.
    pub confirm: Option<bool>,
}

/// Where the Ignition config is: exactly one of `url` and `inline`.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["url"]}, {"required": ["inline"]}]))]
pub struct IgnitionSource {
    /// `http` or `https` address of the config.
    pub url: Option<String>,
    /// The config itself, as exact JSON text.
    pub inline: Option<String>,
    /// Digest of the config's bytes: `sha512-` and 128, or `sha256-` and 64 hexadecimal digits.
    #[schemars(regex(pattern = "^(sha512-[0-9A-Fa-f]{128}|sha256-[0-9A-Fa-f]{64})$"))]
    pub hash: Option<String>,
}

/// The operating system image: exactly one of `url`, `file` and `stream`.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["url"]}, {"required": ["file"]}, {"required": ["stream"]}]))]
pub struct ImageSource {
    /// `http` or `https` address of a raw disk image; xz, gzip and zstd are recognised.
    pub url: Option<String>,
    /// Path of a raw disk image on the live system.
    pub file: Option<String>,
    /// Stream metadata that names the image and its digest.
    pub stream: Option<StreamSource>,
    /// Whether to install without a signature; absent if `URL.sig` must exist and be valid. Refused unless the
    /// node's configuration allows it (`allow-insecure-image`).
    pub insecure: Option<bool>,
    /// Digest of the image as downloaded, as in `ignition.hash`.
    #[schemars(regex(pattern = "^(sha512-[0-9A-Fa-f]{128}|sha256-[0-9A-Fa-f]{64})$"))]
    pub hash: Option<String>,
    /// Size of the uncompressed image in bytes; a smaller disk is refused.
    pub uncompressed_bytes: Option<u64>,
    /// Sector size that the image requires in bytes, 512 or 4096; other disks are refused.
    #[schemars(extend("enum" = [512, 4096, null]))]
    pub sector_bytes: Option<u64>,
}

/// `CoreOS` stream metadata, which lists the images of a release by architecture and artifact.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamSource {
    /// `http` or `https` address of the stream metadata JSON.
    pub url: String,
    /// Architecture of the image, e.g. `x86_64`; absent for the machine's own.
    pub architecture: Option<String>,
    /// Artifact of the image, e.g. `metal` or `metal4k`; absent for the one that fits the disk's sectors.
    pub artifact: Option<String>,
}

/// Which disk to write: at most one of `device` and `hints`; without both, the only one.
///
/// The choice is made over all disks. If the disk that is meant cannot be written, no other one takes its place; only
/// disks that nobody can mean are left out, such as optical drives, the live medium, and disks too small for the image.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("not" = {"required": ["device", "hints"]}))]
pub struct DiskChoice {
    /// A path below `/dev`: preferably `/dev/disk/by-id/…` or `/dev/disk/by-path/…`. A kernel name such as `/dev/sda` may
    /// mean another disk after the next boot, so it identifies none.
    pub device: Option<String>,
    /// Root device hints with the keys of Ironic (`size`, `wwn`, `by_path`, …, operators allowed)
    /// or of Metal3 (`deviceName`, `minSizeGigabytes`, …); all must match.
    pub hints: Option<Map<String, Value>>,
    /// What to do if several disks match; absent for `refuse`.
    pub if_several: Option<IfSeveral>,
}

/// What the chosen disk must be.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Serial number.
    pub serial: Option<String>,
    /// World wide name.
    pub wwn: Option<String>,
    /// Size in bytes.
    pub size_bytes: Option<u64>,
}
