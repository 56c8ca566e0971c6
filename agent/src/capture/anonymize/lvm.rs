//! Names of LVM's volume groups and logical volumes, which people choose after hosts and customers (`lvm(8)`).
//!
//! The device mapper calls a volume `<group>-<volume>`, with each hyphen of a name doubled, and `-<layer>` behind
//! parts of one (`build_dm_name` of libdevmapper); elsewhere they are `<group>/<volume>`. A name may be any
//! word, so it is replaced only where it stands in one of these forms.

use std::collections::BTreeMap;

use super::collect::Secrets;
use super::pseudonym::Pseudonyms;
use super::replace::{Edge, Pair};

/// The names of one volume: of its group, of itself, and of a layer of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Volume {
    group: String,
    name: String,
    layer: Option<String>,
}

/// Collects the volumes that sysfs and udev tell of.
pub(super) fn collect(files: &BTreeMap<String, Vec<u8>>, secrets: &mut Secrets) {
    for (path, content) in files {
        let mapping = path.strip_suffix("/dm/uuid").filter(|_| content.starts_with(b"LVM-"));
        let name = mapping.and_then(|mapping| files.get(&format!("{mapping}/dm/name")));
        let name = name.and_then(|name| std::str::from_utf8(name).ok());
        secrets.volumes.extend(name.and_then(|name| volume(name.trim())));
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

/// The names that a mapping's name is made of.
fn volume(name: &str) -> Option<Volume> {
    // No name of LVM's holds a space, so that it can stand for a doubled hyphen.
    let parts: Vec<String> =
        name.replace("--", " ").split('-').map(|part| part.replace(' ', "-")).collect();
    match &parts[..] {
        [group, name] if !group.is_empty() && !name.is_empty() => {
            Some(Volume { group: group.clone(), name: name.clone(), layer: None })
        }
        [group, name, layer] if !group.is_empty() && !name.is_empty() => {
            Some(Volume { group: group.clone(), name: name.clone(), layer: Some(layer.clone()) })
        }
        _ => None,
    }
}

impl Volume {
    /// The name of its mapping.
    fn mapping(&self) -> String {
        let double = |name: &str| name.replace('-', "--");
        let layer = self.layer.as_ref().map(|layer| format!("-{layer}")).unwrap_or_default();
        format!("{}-{}{layer}", double(&self.group), double(&self.name))
    }

    /// Every form in which its names stand.
    pub(super) fn pairs(&self, names: &mut Pseudonyms) -> Vec<Pair> {
        let put = Volume {
            group: names.text(&self.group),
            name: names.text(&self.name),
            layer: self.layer.clone(),
        };
        let forms: [fn(&Volume) -> String; 5] = [
            Volume::mapping,
            |volume| format!("{}/{}", volume.group, volume.name),
            |volume| format!("DM_VG_NAME={}", volume.group),
            |volume| format!("DM_LV_NAME={}", volume.name),
            |volume| format!("rd.lvm.vg={}", volume.group),
        ];
        let pair = |form: &fn(&Volume) -> String| {
            Pair::new(form(self).into_bytes(), form(&put).into_bytes(), Edge::Word)
        };
        forms.iter().map(pair).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mappings_name_is_taken_apart_and_put_together_again() {
        for (name, group, own) in [
            ("rhel-root", "rhel", "root"),
            ("vg--acme-data--1", "vg-acme", "data-1"),
            ("vg-pool00-tpool", "vg", "pool00"),
        ] {
            let volume = volume(name).unwrap();
            assert_eq!((volume.group.as_str(), volume.name.as_str()), (group, own));
            assert_eq!(volume.mapping(), name);
        }
        for name in ["", "-", "vg", "vg--root", "a-b-c-d", "-x"] {
            assert_eq!(volume(name), None, "{name:?}");
        }
    }
}
