//! Facts that the kernel's name of a block device reveals.

use formats::text::is_number;

/// The head of the hidden path `name`: `nvme0n1` for `nvme0c3n1`.
pub(super) fn head_of_path(name: &str) -> Option<String> {
    let (subsystem, rest) = name.strip_prefix("nvme")?.split_once('c')?;
    let (controller, namespace) = rest.split_once('n')?;
    [subsystem, controller, namespace]
        .iter()
        .all(|part| is_number(part))
        .then(|| format!("nvme{subsystem}n{namespace}"))
}

/// True if `name` belongs to an NVMe controller, e.g. `nvme0`.
pub(super) fn is_nvme_controller(name: &str) -> bool {
    name.strip_prefix("nvme").is_some_and(is_number)
}

/// True if `name` belongs to an NVMe namespace, e.g. `nvme0n1`.
pub(super) fn is_nvme_namespace(name: &str) -> bool {
    let parts = name.strip_prefix("nvme").and_then(|rest| rest.split_once('n'));
    parts.is_some_and(|(controller, namespace)| is_number(controller) && is_number(namespace))
}

/// True if `name` belongs to an optical drive.
pub(super) fn is_optical(name: &str) -> bool {
    is_numbered(name, "sr") || is_numbered(name, "scd")
}

/// True if `name` belongs to a floppy drive.
pub(super) fn is_floppy(name: &str) -> bool {
    is_numbered(name, "fd")
}

fn is_numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(is_number)
}

/// The eMMC that the boot, replay-protected or general purpose area `name` is a part of: `mmcblk0`
/// for `mmcblk0boot1`.
pub(super) fn emmc_parent(name: &str) -> Option<String> {
    let rest = name.strip_prefix("mmcblk")?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).filter(|end| *end > 0)?;
    let (number, area) = rest.split_at(end);
    let is_area = area == "rpmb" || is_numbered(area, "boot") || is_numbered(area, "gp");
    is_area.then(|| format!("mmcblk{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_paths_and_other_nvme_names_are_distinguished() {
        assert_eq!(head_of_path("nvme10c2n3").as_deref(), Some("nvme10n3"));
        for name in ["nvme0n1", "nvme0", "nvmec0n1", "nvme0cn1", "nvme-fabrics"] {
            assert_eq!(head_of_path(name), None);
        }
        assert!(
            is_nvme_namespace("nvme0n1")
                && !is_nvme_namespace("nvme0n1p1")
                && !is_nvme_namespace("ng0n1")
        );
    }
}
