//! The volumes and disks that arguments name: `root=/dev/mapper/<volume>`, `rd.lvm.lv=<group>/<volume>`,
//! `rd.lvm.vg=<group>` (`dracut.cmdline(7)`), `/dev/disk/by-id/<identity>` (systemd's `60-persistent-storage.rules`).

use super::arguments;
use crate::lvm::Volume;

/// Folders of `/dev` that are not groups of volumes.
const FOLDERS: [&str; 6] = ["block", "cciss", "disk", "mapper", "md", "zvol"];

/// LVM's volumes in the line, and groups as volumes without a name.
pub fn volumes(line: &str) -> Vec<Volume> {
    values(line).filter_map(|(name, value)| volume(name, value)).collect()
}

/// The identities in `/dev/disk/by-id/<identity>`, without the number of a partition.
pub fn identities(line: &str) -> impl Iterator<Item = &str> {
    values(line).filter_map(|(_, value)| {
        let id = value.strip_prefix("/dev/disk/by-id/")?.split([':', ',']).next()?;
        let partition = id.rsplit_once("-part");
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        Some(partition.filter(|(_, number)| is_number(number)).map_or(id, |(id, _)| id))
    })
}

/// Names and values; of a value without a name the name is empty.
fn values(line: &str) -> impl Iterator<Item = (&str, &str)> {
    arguments(line).filter_map(|argument| {
        let value = argument.value?;
        // root=live:/dev/…, root=block:/dev/…
        Some((argument.name, value.find("/dev/").map_or(value, |at| &value[at..])))
    })
}

fn volume(name: &str, value: &str) -> Option<Volume> {
    let of = |group: &str, name: &str| {
        let volume = Volume { group: group.to_owned(), name: name.to_owned(), layer: None };
        (!group.is_empty()).then_some(volume)
    };
    if name == "rd.lvm.vg" {
        return of(value, "");
    }
    if name == "rd.lvm.lv" {
        return value.split_once('/').and_then(|(group, name)| of(group, name));
    }
    let device = value.strip_prefix("/dev/")?.split([':', ',']).next()?;
    match device.split_once('/')? {
        ("mapper", mapping) => {
            let is_own = ["live-", "luks-", "mpath"].iter().any(|start| mapping.starts_with(start));
            Volume::parse(mapping).filter(|_| !is_own)
        }
        ("disk", rest) => Volume::parse(rest.strip_prefix("by-id/dm-name-")?),
        (folder, _) if FOLDERS.contains(&folder) => None,
        (group, name) => of(group, name).filter(|_| !name.contains('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_known_in_every_argument() {
        let line = "rd.lvm.lv=customervg/rootvol rd.lvm.vg=secretvg root=/dev/mapper/acmevg-acmeroot \
                    resume=/dev/acme/swap x=/dev/mapper/mpatha-part1 y=/dev/md/0 z=/dev/mapper/live-rw";
        let found: Vec<(String, String)> =
            volumes(line).into_iter().map(|volume| (volume.group, volume.name)).collect();
        let expected =
            [("customervg", "rootvol"), ("secretvg", ""), ("acmevg", "acmeroot"), ("acme", "swap")];
        assert_eq!(found, expected.map(|(group, name)| (group.to_owned(), name.to_owned())));
    }

    #[test]
    fn identities_are_known_without_their_partition() {
        let line = "root=/dev/disk/by-id/ata-ST4000_Z1Z0ABCD9-part3 x=/dev/disk/by-uuid/1";
        assert_eq!(identities(line).collect::<Vec<&str>>(), ["ata-ST4000_Z1Z0ABCD9"]);
    }
}
