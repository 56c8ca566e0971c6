//! Names of LVM's volume groups and logical volumes, which people choose after hosts and customers (`lvm(8)`).
//!
//! A name may be any word, so it is replaced only in the forms that LVM gives it: the device mapper's
//! (`formats::lvm::Volume`), `<group>/<volume>`, udev's properties and dracut's argument.

use std::collections::BTreeMap;

use formats::lvm::{Volume, grouped, is_volume};

use super::collect::Secrets;
use super::pseudonym::Pseudonyms;
use super::replace::{Edge, Pair};

/// Collects the volumes in sysfs and in udev's database.
pub(super) fn collect(files: &BTreeMap<String, Vec<u8>>, secrets: &mut Secrets) {
    for (path, content) in files {
        let mapping = path.strip_suffix("/dm/uuid").filter(|_| is_volume(content));
        let name = mapping.and_then(|mapping| files.get(&format!("{mapping}/dm/name")));
        let name = name.and_then(|name| std::str::from_utf8(name).ok());
        secrets.volumes.extend(name.and_then(|name| Volume::parse(name.trim())));
        if path.starts_with("run/udev/") {
            secrets.volumes.extend(std::str::from_utf8(content).ok().and_then(of_udev));
        }
    }
}

fn of_udev(text: &str) -> Option<Volume> {
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(key));
        lines.next().filter(|value| !value.is_empty()).map(str::to_owned)
    };
    Some(Volume { group: value("E:DM_VG_NAME=")?, name: value("E:DM_LV_NAME=")?, layer: None })
}

/// The replacement of an identifier, in groups if it is: both forms stay one identifier.
pub(super) fn id(id: &str, names: &mut Pseudonyms) -> String {
    let put = names.text(&id.replace('-', ""));
    if id.contains('-') { grouped(&put) } else { put }
}

/// Every form in which the names of a volume occur.
pub(super) fn pairs(volume: &Volume, names: &mut Pseudonyms) -> Vec<Pair> {
    let put = Volume {
        group: names.text(&volume.group),
        name: names.text(&volume.name),
        layer: volume.layer.clone(),
    };
    let forms: [fn(&Volume) -> String; 5] = [
        Volume::mapping,
        |volume| format!("{}/{}", volume.group, volume.name),
        |volume| format!("DM_VG_NAME={}", volume.group),
        |volume| format!("DM_LV_NAME={}", volume.name),
        |volume| format!("rd.lvm.vg={}", volume.group),
    ];
    let pair = |form: &fn(&Volume) -> String| {
        Pair::new(form(volume).into_bytes(), form(&put).into_bytes(), Edge::Word)
    };
    // A group that is known without a volume has only the forms of a group.
    let is_known = |pair: &Pair| {
        !volume.name.is_empty() || pair.from.starts_with(b"rd.") || pair.from.starts_with(b"DM_VG")
    };
    forms.iter().map(pair).filter(is_known).collect()
}
