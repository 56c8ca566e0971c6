//! Changes that do not change the machine, or change it in a known way.

use probes::collect::Inventory;
use probes::machine::Archive;

use crate::machines::all;
use crate::memory::alone;
use crate::rename::{in_other_domain, pair, rewritten, swapped};
use crate::replay::report_of;

/// Facts that do not depend on names: counts, and identifiers of each disk and port.
fn counts(inventory: &Inventory) -> Vec<String> {
    let mut counts = Vec::new();
    if let Some(cpu) = &inventory.cpu {
        counts.push(format!("{:?} cores, {:?} packages", cpu.n_cores, cpu.n_packages));
    }
    for disk in inventory.block.iter().flat_map(|block| &block.disks) {
        counts.push(format!("disk {:?} {:?} {:?}", disk.serial, disk.model, disk.size_bytes));
    }
    for port in inventory.network.iter().flat_map(|network| &network.interfaces) {
        counts.push(format!("port {:?} {:?} {:?}", port.kind, port.permanent_mac, port.driver));
    }
    for device in inventory.pci.iter().flat_map(|pci| &pci.devices) {
        counts
            .push(format!("pci {:?} {:?} {:?}", device.vendor_id, device.device_id, device.driver));
    }
    let cards = inventory.gpu.iter().map(|gpu| gpu.cards.len()).sum::<usize>();
    counts.push(format!("{cards} graphics cards"));
    counts.sort();
    counts
}

fn assert_same(name: &str, what: &str, tree: Archive, other: Archive) {
    let (whole, other) = (report_of(tree), report_of(other));
    let (whole, other) = (counts(&whole.inventory), counts(&other.inventory));
    assert!(whole == other, "{name}: {what}\n{whole:#?}\n{other:#?}");
}

#[test]
fn exchanged_names_leave_disks_and_ports_the_same() {
    let _alone = alone();
    let mut n_swapped = 0;
    for machine in all() {
        let tree = machine.tree();
        for (folder, prefix) in [
            ("sys/block", "sd"),
            ("sys/block", "vd"),
            ("sys/class/net", "e"),
            ("sys/class/net", "ib"),
        ] {
            let Some((a, b)) = pair(&tree, folder, prefix) else { continue };
            let other = rewritten(&tree, |bytes| swapped(bytes, &a, &b));
            assert_same(&machine.name, &format!("{a} for {b}"), tree.clone(), other);
            n_swapped += 1;
        }
    }
    eprintln!("{n_swapped} pairs of names swapped");
}

#[test]
fn another_pci_domain_has_the_same_devices() {
    let _alone = alone();
    for machine in all() {
        let tree = machine.tree();
        if !tree.nodes().any(|(path, _)| path.starts_with("sys/bus/pci/devices/0000:")) {
            continue;
        }
        let other = rewritten(&tree, in_other_domain);
        assert_same(&machine.name, "another PCI domain", tree.clone(), other);
    }
}
