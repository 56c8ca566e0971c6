//! The parts of a captured machine that can break.

use std::collections::BTreeMap;

use probes::collect::Inventory;
use probes::machine::{Archive, Node};
use probes::pci::PciDevice;

/// The SMBIOS table.
pub(crate) const DMI: &str = "sys/firmware/dmi/tables/DMI";
/// Kernel names of whole disks begin with one of these.
const DISKS: [&str; 6] = ["sd", "hd", "vd", "xvd", "nvme", "mmcblk"];

/// A captured machine and what was collected from it.
pub(crate) struct Machine {
    pub(crate) tree: Archive,
    pub(crate) inventory: Inventory,
}

/// A part of a machine.
#[derive(Default)]
pub(crate) struct Part {
    /// What names it in a finding.
    pub(crate) name: String,
    /// What templates refer to.
    pub(crate) values: BTreeMap<&'static str, String>,
    /// Where its SMBIOS structure is in the table.
    pub(crate) structure: Option<usize>,
}

impl Machine {
    /// The parts that `on` and `class` of a fault mean.
    pub(crate) fn parts(&self, on: &str, class: &str) -> Vec<Part> {
        match on {
            "silent_bmc"
                if self.inventory.bmc.as_ref().is_some_and(|bmc| bmc.firmware.is_some()) =>
            {
                Vec::new()
            }
            "bmc" if self.tree.directories().any(|path| path == "kernel/ipmi") => Vec::new(),
            "bare" | "bare_dimm" if self.is_guest() => Vec::new(),
            "machine" | "bare" | "bmc" | "silent_bmc" => vec![Part::default()],
            "boot" => self.boot_status(),
            "only_disk" => self.only_disk().into_iter().collect(),
            "cpu" => self.cpu().into_iter().collect(),
            "dimm" | "bare_dimm" => self.dimms(),
            "processor" => self.processors(),
            "disk" => self.disks().into_iter().map(|name| self.disk(&name)).collect(),
            "scsi" => {
                let disks = self.disks().into_iter().filter(|name| name.starts_with("sd"));
                disks.map(|name| self.disk(&name)).collect()
            }
            "disks" => self.pair_of_disks().into_iter().collect(),
            "nvme" => self.namespaces(),
            "pci" => self.functions(class).map(|device| self.function(device)).collect(),
            "link" => self.functions(class).filter_map(|device| self.link(device)).collect(),
            "port" => self.ports(),
            other => panic!("no part is called {other}"),
        }
    }

    fn directory(&self, path: &str) -> String {
        resolved(&self.tree, path)
    }

    /// The last logical CPU, if all are online and it is not the only one.
    fn cpu(&self) -> Option<Part> {
        let Some(Node::File(online)) = self.tree.get("sys/devices/system/cpu/online") else {
            return None;
        };
        let online = std::str::from_utf8(online).ok()?.trim();
        let last: usize = online.strip_prefix("0-")?.parse().ok()?;
        let topology = format!("sys/devices/system/cpu/cpu{last}/topology");
        let is_known = self.tree.directories().any(|path| path == topology);
        let others = format!("0-{}", last.checked_sub(1)?);
        let values = BTreeMap::from([("others", others)]);
        is_known.then(|| Part { name: last.to_string(), values, structure: None })
    }

    fn table(&self) -> &[u8] {
        match self.tree.get(DMI) {
            Some(Node::File(table)) => table,
            _ => &[],
        }
    }

    /// The populated DIMMs with a locator of their own, if most are alike.
    fn dimms(&self) -> Vec<Part> {
        let table = self.table();
        let found = structures(table).filter(|found| found.kind == 17 && found.length >= 0x22);
        let mut parts: Vec<Part> = found
            .filter_map(|found| {
                let number = |offset: usize| {
                    u16::from_le_bytes([table[found.at + offset], table[found.at + offset + 1]])
                };
                let size = number(0x0c);
                let name = found.text(table, table[found.at + 0x10])?;
                let mut values = BTreeMap::new();
                if (2..0x7fff).contains(&size) {
                    values.insert("half_size", hexadecimal(size / 2));
                }
                if (2..0xffff).contains(&number(0x20)) {
                    values.insert("slower", hexadecimal(number(0x20) / 2));
                }
                (size != 0 && size != 0xffff).then_some(Part {
                    name,
                    values,
                    structure: Some(found.at),
                })
            })
            .collect();
        let names: Vec<String> = parts.iter().map(|part| part.name.clone()).collect();
        parts.retain(|part| names.iter().filter(|name| **name == part.name).count() == 1);
        if names.len() < 3 { Vec::new() } else { parts }
    }

    /// The populated sockets.
    fn processors(&self) -> Vec<Part> {
        let table = self.table();
        let found = structures(table).filter(|found| found.kind == 4 && found.length > 0x18);
        found
            .filter(|found| table[found.at + 0x18] & 0x40 != 0)
            .filter_map(|found| {
                let name = found.text(table, table[found.at + 4])?;
                Some(Part { name, structure: Some(found.at), ..Part::default() })
            })
            .collect()
    }

    /// Whether a hypervisor runs the machine.
    fn is_guest(&self) -> bool {
        let os = self.inventory.os.as_ref();
        os.and_then(|os| os.virtualization.as_ref()).is_some_and(|name| name != "none")
    }

    /// Where the firmware reports how the last boot went.
    fn boot_status(&self) -> Vec<Part> {
        let found = structures(self.table()).find(|found| found.kind == 32 && found.length > 0x0a);
        let part = found.map(|found| Part { structure: Some(found.at), ..Part::default() });
        part.into_iter().collect()
    }

    /// The only disk of any kind, if its size is known.
    fn only_disk(&self) -> Option<Part> {
        let names = self.disks();
        let [disk] = self.inventory.block.as_ref()?.disks.as_slice() else { return None };
        let [name] = names.as_slice() else { return None };
        disk.size_bytes.is_some().then(|| self.disk(name))
    }

    /// The names of the physical disks.
    fn disks(&self) -> Vec<String> {
        let disks = self.inventory.block.iter().flat_map(|block| &block.disks);
        disks
            .map(|disk| disk.name.clone())
            .filter(|name| DISKS.iter().any(|start| name.starts_with(start)))
            .collect()
    }

    fn disk(&self, name: &str) -> Part {
        let base = self.directory(&format!("sys/block/{name}"));
        Part { name: name.to_owned(), values: BTreeMap::from([("base", base)]), structure: None }
    }

    fn pair_of_disks(&self) -> Option<Part> {
        let names = self.disks();
        let [first, second, ..] = names.as_slice() else { return None };
        let mut part = self.disk(first);
        part.values.insert("other_base", self.directory(&format!("sys/block/{second}")));
        Some(part)
    }

    fn namespaces(&self) -> Vec<Part> {
        let namespaces = self.disks().into_iter().filter(|name| name.starts_with("nvme"));
        namespaces
            .filter_map(|name| {
                let (controller, _) = name.rsplit_once('n')?;
                let mut part = self.disk(&name);
                part.values.insert("controller", controller.to_owned());
                Some(part)
            })
            .collect()
    }

    /// The first functions of PCI devices whose class begins with `class`.
    fn functions(&self, class: &str) -> impl Iterator<Item = &PciDevice> {
        let devices = self.inventory.pci.iter().flat_map(|pci| &pci.devices);
        devices.filter(move |device| {
            let own = device.class.as_deref().unwrap_or_default();
            own.starts_with(class) && device.address.ends_with(".0")
        })
    }

    fn function(&self, device: &PciDevice) -> Part {
        let base = self.directory(&format!("sys/bus/pci/devices/{}", device.address));
        let values = BTreeMap::from([("base", base)]);
        Part { name: device.address.clone(), values, structure: None }
    }

    /// A device below a port, with all lanes of both.
    fn link(&self, device: &PciDevice) -> Option<Part> {
        let link = device.link.as_ref()?;
        let (current, possible) = (link.current_width?, link.possible_width?);
        let is_bridge = device.class.as_deref().is_some_and(|class| class.starts_with("0604"));
        if current != possible || current < 2 || is_bridge {
            return None;
        }
        let mut part = self.function(device);
        let above = part.values.get("base")?.rsplit_once('/')?.0.to_owned();
        part.values.insert("port", above);
        part.values.insert("half", (current / 2).to_string());
        Some(part)
    }

    /// The physical ports of PCI cards.
    fn ports(&self) -> Vec<Part> {
        let all = self.inventory.network.iter().flat_map(|network| &network.interfaces);
        let physical = all.filter(|nic| {
            nic.kind.as_deref() == Some("physical")
                && nic.pci_address.is_some()
                && nic.vf_of.is_none()
                && !nic.is_representor
                && !nic.is_bmc_usb
        });
        physical
            .map(|nic| {
                let base = self.directory(&format!("sys/class/net/{}", nic.name));
                let linkmodes = linkmodes(&nic.name);
                let mut values = BTreeMap::from([("base", base), ("linkmodes", linkmodes)]);
                if let Some(speed) = nic.max_speed_mbit_s.filter(|speed| *speed >= 100) {
                    values.insert("slower", (speed / 10).to_string());
                }
                Part { name: nic.name.clone(), values, structure: None }
            })
            .collect()
    }
}

/// A dump of ethtool's link modes that contains the port and nothing about it, in the notation of trees.
fn linkmodes(port: &str) -> String {
    let name_bytes = 4 + port.len() + 1;
    let padded = name_bytes.next_multiple_of(4);
    let hex = |number: usize| hexadecimal(u16::try_from(number).unwrap());
    let (total, header, name) = (hex(24 + padded), hex(4 + padded), hex(name_bytes));
    let n_zeros = padded - 4 - port.len();
    format!(
        "bytes: {total}0000 1400 0000 00*8 04010000 {header} 0180 {name} 0200 \"{port}\" 00*{n_zeros}"
    )
}

fn hexadecimal(number: u16) -> String {
    let [low, high] = number.to_le_bytes();
    format!("{low:02x}{high:02x}")
}

/// A structure in an SMBIOS table.
pub(crate) struct Structure {
    pub(crate) at: usize,
    pub(crate) kind: u8,
    length: usize,
}

impl Structure {
    /// The text with this number.
    fn text(&self, table: &[u8], number: u8) -> Option<String> {
        let texts = table.get(self.at + self.length..)?;
        let text = texts.split(|byte| *byte == 0).nth(usize::from(number).checked_sub(1)?)?;
        let text = std::str::from_utf8(text).ok()?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }
}

/// The structures of an SMBIOS table.
pub(crate) fn structures(table: &[u8]) -> impl Iterator<Item = Structure> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let [kind, length, ..] = *table.get(at..)? else { return None };
        let found = Structure { at, kind, length: length.into() };
        let texts = table.get(at + found.length..)?;
        at += found.length + texts.windows(2).position(|pair| pair == [0, 0])? + 2;
        Some(found)
    })
}

/// A path without links; the last part may be new.
pub(crate) fn resolved(tree: &Archive, path: &str) -> String {
    let mut rest: Vec<String> = path.split('/').rev().map(str::to_owned).collect();
    let mut done: Vec<String> = Vec::new();
    let mut n_links = 0;
    while let Some(name) = rest.pop() {
        match name.as_str() {
            "" | "." => continue,
            ".." => {
                done.pop();
                continue;
            }
            _ => done.push(name),
        }
        if let Some(Node::Link(target)) = tree.get(&done.join("/"))
            && n_links < 40
        {
            n_links += 1;
            done.pop();
            if target.starts_with('/') {
                done.clear();
            }
            rest.extend(target.split('/').rev().map(str::to_owned));
        }
    }
    done.join("/")
}
