//! Devices that the kernel builds on others or on memory: device-mapper, md, loop, zram, bcache, …
//! (`/sys/block/*/{dm,md,loop,bcache,slaves}`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

use super::filesystem;
use super::graph::DeviceGraph;
use super::listing::BlockDevice;
use formats::signature::Filesystem;

/// One such device.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct VirtualDevice {
    /// Kernel name, e.g. `dm-0`.
    pub name: String,
    /// Path of the device, e.g. `/dev/dm-0`.
    pub device: String,
    /// `lvm`, `crypt`, `mpath`, `part` (of a multipath device), `dm` (another mapping), the level of
    /// an array such as `raid1`, `loop`, `zram`, `ram`, `nbd`, `rbd`, `bcache`, …
    pub kind: Option<String>,
    /// Size in bytes.
    pub size_bytes: Option<u64>,
    /// Its device-mapper name, e.g. `mpatha` or `vg-root`.
    pub mapper_name: Option<String>,
    /// UUID in device-mapper or md; for multipath it ends in the WWID of the LUN.
    pub uuid: Option<String>,
    /// World-wide name of the LUN of a multipath device.
    pub wwn: Option<String>,
    /// State of an array, e.g. `clean`, or `suspended` for a suspended mapping.
    pub state: Option<String>,
    /// Metadata format of an array, e.g. `1.2` or `external:imsm` (`md/metadata_version`).
    pub metadata: Option<String>,
    /// Number of members that an array lacks (`md/degraded`).
    pub n_missing_members: Option<u32>,
    /// The devices that it is built on.
    pub members: Vec<String>,
    /// The backing file of a loop device.
    pub backing_file: Option<String>,
    /// Its content, as far as udev knows.
    pub filesystem: Option<Filesystem>,
    /// Names of its partitions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<String>,
    /// Mount points of the device and its partitions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mounted_at: Vec<String>,
    /// True if it or a partition of it is swap in use; `None` if the list of swap areas (`/proc/swaps`) is unknown.
    pub is_swap: Option<bool>,
}

/// Reads one of the devices.
pub(super) fn read(machine: &Machine, device: &BlockDevice, graph: &DeviceGraph) -> VirtualDevice {
    let text = |attribute: &str| device.text(machine, attribute);
    let udev = |name: &str| device.udev.property(name).map(str::to_owned);
    let uuid = Some(device.mapping_uuid()).filter(|uuid| !uuid.is_empty()).map(str::to_owned);
    let uuid = uuid.or_else(|| text("md/uuid")).or_else(|| udev("MD_UUID"));
    let partitions: Vec<String> = device.partitions.iter().map(|node| node.name.clone()).collect();
    let (node, usage) = (graph.node(&device.name), &graph.usage);
    let names: Vec<&String> = partitions.iter().chain([&device.name]).collect();
    let mounted_at = names.iter().flat_map(|name| usage.mounts_of(name)).collect();
    let is_swap = usage.swaps.as_ref();
    let is_swap = is_swap.map(|swaps| names.iter().any(|name| swaps.contains(*name)));
    let is_suspended = device.flag(machine, "dm/suspended") == Some(true);
    VirtualDevice {
        device: format!("/dev/{}", device.node()),
        kind: kind(machine, device, uuid.as_deref()),
        size_bytes: device.size_bytes,
        mapper_name: node.and_then(|node| node.mapper_name.clone()).or_else(|| udev("DM_NAME")),
        wwn: udev("DM_WWN"),
        state: text("md/array_state").or_else(|| is_suspended.then(|| "suspended".to_owned())),
        metadata: text("md/metadata_version").filter(|version| version != "none"),
        n_missing_members: device.at("md/degraded").and_then(|path| machine.count(&path)),
        members: node.map(|node| node.slaves.clone()).unwrap_or_default(),
        backing_file: text("loop/backing_file"),
        filesystem: filesystem::of_udev(&device.udev),
        mounted_at,
        is_swap,
        partitions,
        uuid,
        name: device.name.clone(),
    }
}

fn kind(machine: &Machine, device: &BlockDevice, uuid: Option<&str>) -> Option<String> {
    let name = device.name.as_str();
    if name.starts_with("dm-") {
        return Some(mapping_kind(uuid.unwrap_or_default()));
    }
    let level = device.text(machine, "md/level");
    let level = level.or_else(|| device.udev.property("MD_LEVEL").map(str::to_owned));
    if level.is_some() || name.starts_with("md") {
        return Some(level.unwrap_or_else(|| "md".to_owned()));
    }
    let end = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    (end > 0).then(|| name[..end].to_owned())
}

/// The part of a mapping's UUID before the first `-` names its creator: `LVM-…`, `CRYPT-LUKS2-…`,
/// `mpath-…`, `part1-mpath-…`.
fn mapping_kind(uuid: &str) -> String {
    let maker = uuid.split('-').next().unwrap_or_default().to_ascii_lowercase();
    let is_part = maker.strip_prefix("part").is_some_and(|rest| rest.parse::<u32>().is_ok());
    match maker.as_str() {
        _ if is_part => "part".to_owned(),
        "lvm" | "crypt" | "mpath" | "dmraid" | "stratis" | "vdo" => maker,
        _ => "dm".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree_in;

    #[test]
    fn mappings_arrays_and_loops_have_kind_and_members() {
        let machine = tree_in(&[
            ("sys/block/dm-0/dm", &[("uuid", "mpath-36001405aabbccdd1"), ("name", "mpatha")]),
            ("sys/block/dm-0/slaves", &[("sda/x", ""), ("sdb/x", "")]),
            ("sys/block/dm-1/dm", &[("uuid", "part2-mpath-36001405aabbccdd1")]),
            ("sys/block/md0/md", &[("level", "raid1"), ("array_state", "clean")]),
            ("sys/block/md0/md", &[("dev-sdc1/x", ""), ("metadata_version", "external:imsm")]),
            ("sys/block", &[("md0/md/degraded", "1"), ("loop0/loop/backing_file", "/a.img")]),
            ("sys/block", &[("zram0/size", "8"), ("ram0/size", "0")]),
        ]);
        let devices = super::super::block(&machine).r#virtual;
        let kinds: Vec<(&str, Option<&str>)> =
            devices.iter().map(|d| (d.name.as_str(), d.kind.as_deref())).collect();
        assert_eq!(
            kinds,
            [
                ("dm-0", Some("mpath")),
                ("dm-1", Some("part")),
                ("loop0", Some("loop")),
                ("md0", Some("raid1")),
                ("zram0", Some("zram"))
            ]
        );
        assert_eq!(devices[0].members, ["sda", "sdb"]);
        assert_eq!(devices[3].members, ["sdc1"]);
        assert_eq!(devices[3].metadata.as_deref(), Some("external:imsm"));
        assert_eq!(devices[3].n_missing_members, Some(1));
        assert_eq!(mapping_kind(""), "dm");
    }

    #[test]
    fn empty_count_of_missing_members_is_a_problem() {
        let machine = crate::testing::tree_of_bytes(&[
            ("sys/block/md0/md/level", b"raid1\n"),
            ("sys/block/md0/md/degraded", b""),
        ]);
        assert_eq!(super::super::block(&machine).r#virtual[0].n_missing_members, None);
        assert_eq!(machine.problems().len(), 1);
    }
}
