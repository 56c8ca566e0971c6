//! Facts of cards from their drivers: `/sys/class/accel` (`Documentation/accel/introduction.rst`), the `drm`
//! and `mdev_supported_types` directories of the device, `/proc/driver/nvidia`, and the attributes of
//! amdgpu (`Documentation/gpu/amdgpu/driver-misc.rst`), habanalabs
//! (`Documentation/ABI/testing/sysfs-driver-habanalabs`), xe and i915.

use std::collections::BTreeMap;

use super::Card;
use crate::ancestors;
use crate::machine::Machine;

const NVIDIA: &str = "proc/driver/nvidia";

/// Data that is read once for all cards.
#[derive(Debug, Default)]
pub(super) struct Drivers {
    /// Names in `/sys/class/accel` by PCI address.
    accelerators: BTreeMap<String, Vec<String>>,
    /// NVIDIA's cards by the name of their directory, a PCI address.
    nvidia: Vec<String>,
}

impl Drivers {
    pub(super) fn read(machine: &Machine) -> Drivers {
        let mut accelerators: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for name in machine.list("sys/class/accel") {
            let path = machine.device_path(&format!("sys/class/accel/{name}"));
            if let Some(address) = ancestors::pci_address(&path) {
                accelerators.entry(address).or_default().push(name);
            }
        }
        Drivers { accelerators, nvidia: machine.list(&format!("{NVIDIA}/gpus")) }
    }

    pub(super) fn is_accelerator(&self, address: &str) -> bool {
        self.accelerators.contains_key(address)
    }

    /// Fills in the facts that the driver of `card` reports.
    pub(super) fn fill(&self, machine: &Machine, card: &mut Card) {
        if card.driver.is_none() {
            return;
        }
        let path = format!("sys/bus/pci/devices/{}", card.address);
        let is_node = |name: &String| name.starts_with("card") || name.starts_with("renderD");
        card.device_nodes =
            machine.list(&format!("{path}/drm")).into_iter().filter(is_node).collect();
        card.device_nodes
            .extend(self.accelerators.get(&card.address).into_iter().flatten().cloned());
        match card.driver.as_deref() {
            Some("amdgpu") => amdgpu(machine, &path, card),
            Some("nvidia") => self.nvidia(machine, card),
            Some("habanalabs") => habanalabs(machine, &path, card),
            Some("xe") => card.memory_bytes = xe_memory_bytes(machine, &path),
            Some("i915") => card.memory_bytes = i915_memory_bytes(machine, &path, card),
            _ => {}
        }
        // Few drivers offer virtual GPUs; displays of management controllers have none.
        if matches!(card.driver.as_deref(), Some("nvidia" | "i915" | "xe" | "nvidia-vgpu-vfio")) {
            card.mdev_types = machine.list(&format!("{path}/mdev_supported_types"));
        }
    }

    fn nvidia(&self, machine: &Machine, card: &mut Card) {
        let is_ours = |name: &&String| name.eq_ignore_ascii_case(&card.address);
        let Some(name) = self.nvidia.iter().find(is_ours) else { return };
        let text = machine.text(&format!("{NVIDIA}/gpus/{name}/information")).unwrap_or_default();
        let value = |key: &str| {
            let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
            let value = pairs.find(|(name, _)| name.trim() == key)?.1.trim();
            // The driver writes question marks until the card has been used once.
            (!value.is_empty() && !value.contains('?') && value != "N/A").then(|| value.to_owned())
        };
        card.model = value("Model");
        card.uuid = value("GPU UUID");
        card.video_bios = value("Video BIOS");
        card.firmware = value("GPU Firmware");
        if let Some(minor) = value("Device Minor").filter(|minor| minor.parse::<u32>().is_ok()) {
            let dir = format!("{NVIDIA}/capabilities/gpu{minor}/mig");
            let names = machine.list(&dir);
            let n = names.iter().filter(|name| name.starts_with("gi")).count();
            card.n_mig_instances = (!names.is_empty()).then_some(n);
        }
    }
}

fn amdgpu(machine: &Machine, path: &str, card: &mut Card) {
    let text = |name: &str| machine.text(&format!("{path}/{name}"));
    card.model = text("product_name");
    card.serial = text("serial_number");
    card.video_bios = text("vbios_version");
    card.compute_partition = text("current_compute_partition");
    card.memory_partition = text("current_memory_partition");
}

fn habanalabs(machine: &Machine, path: &str, card: &mut Card) {
    let text = |name: &str| machine.text(&format!("{path}/{name}"));
    card.model = text("device_type");
    card.firmware = text("cpucp_ver");
    card.status = text("status").map(|status| status.to_ascii_lowercase());
    card.module_number = machine.number(&format!("{path}/module_id"));
}

/// The memory of all tiles (`drivers/gpu/drm/xe/xe_tile_sysfs.c`); integrated graphics have
/// none. `None` if one tile lacks the file, because a partial sum would be wrong.
fn xe_memory_bytes(machine: &Machine, path: &str) -> Option<u64> {
    const LIMIT_TILES: usize = 16;
    let number = |name: &String| name.strip_prefix("tile")?.parse::<u32>().ok();
    let tiles = machine.names(path).into_iter().filter_map(|name| number(&name)).take(LIMIT_TILES);
    let size = |tile| machine.number(&format!("{path}/tile{tile}/physical_vram_size_bytes"));
    let sizes: Option<Vec<u64>> = tiles.map(size).collect();
    sizes?.into_iter().try_fold(0, u64::checked_add).filter(|bytes| *bytes > 0)
}

/// Only Intel's out-of-tree i915 reports it, on the device in `/dev/dri`.
fn i915_memory_bytes(machine: &Machine, path: &str, card: &Card) -> Option<u64> {
    let name = card.device_nodes.iter().find(|name| name.starts_with("card"))?;
    machine.number(&format!("{path}/drm/{name}/lmem_total_bytes")).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::super::{Card, CardKind, gpu};
    use crate::machine::Machine;
    use crate::pci::{Pci, PciDevice};
    use crate::testing::{has, tree};
    use serde_json::json;

    /// The card of a machine that has one device: its address, class and driver.
    fn card_at(machine: &Machine, device: &str) -> Card {
        let [address, class, driver] = device.split(' ').collect::<Vec<_>>()[..] else { panic!() };
        let (class, driver) = (Some(class.to_owned()), Some(driver.to_owned()));
        let device =
            PciDevice { address: address.to_owned(), class, driver, ..PciDevice::default() };
        gpu(machine, &Pci { n_devices: Some(1), devices: vec![device] }).cards.remove(0)
    }

    #[test]
    fn nvidias_driver_reports_model_and_uuid_and_question_marks_are_absent() {
        let gpus = "proc/driver/nvidia/gpus";
        let machine = tree(&[
            (
                &format!("{gpus}/0000:81:00.0/information"),
                "Model: \t\t NVIDIA A100-PCIE-40GB\nGPU UUID: \t GPU-5a1c0f2e\nVideo BIOS: \t ??.??.??\nDevice Minor: \t 3\n",
            ),
            ("proc/driver/nvidia/capabilities/gpu3/mig/gi1/access", "x"),
            ("proc/driver/nvidia/capabilities/gpu3/mig/gi2/access", "x"),
            ("sys/bus/pci/devices/0000:81:00.0/mdev_supported_types/nvidia-474/name", "x"),
        ]);
        let card = card_at(&machine, "0000:81:00.0 0302 nvidia");
        has(&card, &json!({"model": "NVIDIA A100-PCIE-40GB", "uuid": "GPU-5a1c0f2e"}));
        has(&card, &json!({"video_bios": null, "n_mig_instances": 2}));
        has(&card, &json!({"mdev_types": ["nvidia-474"]}));
    }

    fn card(files: &[(&str, &str)], driver: &str) -> Card {
        card_at(&tree(files), &format!("0000:03:00.0 0380 {driver}"))
    }

    #[test]
    fn memory_of_an_intel_card_is_the_sum_of_all_tiles_or_unknown() {
        let tile = |number: u32| {
            format!("sys/bus/pci/devices/0000:03:00.0/tile{number}/physical_vram_size_bytes")
        };
        let (first, second) = (tile(0), tile(1));
        let both = [(first.as_str(), "68719476736\n"), (second.as_str(), "68719476736\n")];
        assert_eq!(card(&both, "xe").memory_bytes, Some(128 << 30));
        let gt = "sys/bus/pci/devices/0000:03:00.0/tile1/gt1/freq0/max_freq";
        assert_eq!(card(&[both[0], (gt, "1")], "xe").memory_bytes, None, "one tile is missing");
        let drm = "sys/bus/pci/devices/0000:03:00.0/drm/card1/lmem_total_bytes";
        assert_eq!(card(&[(drm, "17179869184\n")], "i915").memory_bytes, Some(16 << 30));
        assert_eq!(card(&[(drm, "0\n")], "i915").memory_bytes, None, "integrated graphics");
        assert_eq!(card(&[("proc/version", "x")], "xe").memory_bytes, None);
    }

    #[test]
    fn habana_labs_accelerator_has_model_firmware_state_and_position() {
        let files = [
            ("sys/bus/pci/devices/0000:03:00.0/device_type", "GAUDI2\n"),
            ("sys/bus/pci/devices/0000:03:00.0/cpucp_ver", "hl-gaudi2-1.14.0-fw-48.0.1\n"),
            ("sys/bus/pci/devices/0000:03:00.0/status", "Operational\n"),
            ("sys/bus/pci/devices/0000:03:00.0/module_id", "3\n"),
        ];
        let card = card(&files, "habanalabs");
        has(&card, &json!({"model": "GAUDI2", "module_number": 3, "status": "operational"}));
        has(&card, &json!({"firmware": "hl-gaudi2-1.14.0-fw-48.0.1"}));
    }

    #[test]
    fn device_that_registers_as_an_accelerator_is_one_whatever_its_class() {
        let accel = "sys/devices/pci0000:00/0000:00:0b.0/accel/accel0";
        let machine = tree(&[
            ("sys/class/accel/accel0", "-> ../../devices/pci0000:00/0000:00:0b.0/accel/accel0"),
            (&format!("{accel}/dev"), "261:0"),
            ("sys/bus/pci/devices/0000:00:0b.0/drm/renderD128/dev", "x"),
            ("sys/bus/pci/devices/0000:00:0b.0/drm/version", "x"),
        ]);
        let card = card_at(&machine, "0000:00:0b.0 0880 intel_vpu");
        assert_eq!(card.kind, CardKind::Accelerator);
        assert_eq!(card.device_nodes, ["renderD128", "accel0"]);
    }
}
