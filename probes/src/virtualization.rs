//! The hypervisor that runs the machine as a guest, and the container that the system runs in.
//!
//! Evidence, strongest first: `/proc/sysinfo` (s390), device tree and `/proc/ppc64/lparcfg` (POWER),
//! `/sys/hypervisor/type`, SMBIOS strings (`data/hypervisors.txt`), clock sources of a hypervisor,
//! names and the `hypervisor` flag in `/proc/cpuinfo`. Without any, the machine counts as bare metal
//! only if the firmware identifies it.
//!
//! Clouds write the same strings into their bare metal instances. For those the CPU's flag decides
//! (every guest on x86 has it), else the bit of SMBIOS type 0 that marks a virtual machine.

use std::collections::BTreeMap;

use formats::data;

use crate::machine::Machine;
use crate::smbios::{self, types::SMBiosInformation};

/// Strings of SMBIOS by hypervisor; see the file.
const RULES: &str = include_str!("../data/hypervisors.txt");
const DMI_FOLDERS: [&str; 2] = ["sys/class/dmi/id", "sys/devices/virtual/dmi/id"];
const DEVICE_TREES: [&str; 2] = ["sys/firmware/devicetree/base", "proc/device-tree"];
const CLOCKSOURCES: &str = "sys/devices/system/clocksource/clocksource0/available_clocksource";

/// The hypervisor's name, `none` for bare metal, `vm-other` for an unknown hypervisor; `None` without
/// evidence.
pub fn hypervisor(machine: &Machine) -> Option<String> {
    let cpuinfo = machine.text("proc/cpuinfo").unwrap_or_default();
    let dmi = of_dmi(machine);
    let is_cloud = matches!(dmi, Some("amazon" | "google" | "alibaba"));
    let name = of_sysinfo(machine)
        .or_else(|| of_xen(machine))
        .or_else(|| of_device_tree(machine))
        .or_else(|| of_power(machine, &cpuinfo))
        .or_else(|| (is_cloud && is_bare(machine, &cpuinfo)).then_some("none"))
        .or_else(|| dmi.filter(|name| *name != "qemu"))
        .or_else(|| of_clocksource(machine))
        .or(dmi)
        .or_else(|| of_firmware(machine))
        .or_else(|| of_cpuinfo(&cpuinfo))
        .or_else(|| is_described(machine).then_some("none"));
    name.map(str::to_owned)
}

/// z/VM and KVM are named as control program; a bare LPAR is a partition of PR/SM.
fn of_sysinfo(machine: &Machine) -> Option<&'static str> {
    let text = machine.text("proc/sysinfo")?;
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    let program = pairs.find(|(key, _)| key.starts_with("VM") && key.ends_with("Control Program"));
    match program.map(|(_, name)| name.trim()) {
        Some(name) if name.contains("KVM") => Some("kvm"),
        Some(name) if name.contains("z/VM") => Some("zvm"),
        Some(_) => Some("vm-other"),
        None => text.contains("LPAR Number").then_some("lpar"),
    }
}

/// Guests of Xen and its first domain, which is also a guest.
fn of_xen(machine: &Machine) -> Option<&'static str> {
    let is_named = machine.text("sys/hypervisor/type").is_some_and(|kind| kind == "xen");
    let has_files = || machine.names("proc/xen").iter().any(|name| name == "capabilities");
    (is_named || has_files()).then_some("xen")
}

fn of_device_tree(machine: &Machine) -> Option<&'static str> {
    let text =
        |path: &str| DEVICE_TREES.iter().find_map(|tree| machine.text(&format!("{tree}/{path}")));
    let compatible = text("hypervisor/compatible").unwrap_or_default();
    let known = [("kvm", "kvm"), ("xen", "xen"), ("vmware", "vmware"), ("bhyve", "bhyve")];
    let known = known.into_iter().find(|(word, _)| compatible.contains(word));
    let other = (!compatible.is_empty()).then_some("vm-other");
    if let Some(name) = known.map(|(_, name)| name).or(other) {
        return Some(name);
    }
    let board = text("compatible").unwrap_or_default();
    let is_qemu = board.contains("qemu,pseries") || board.contains("linux,dummy-virt");
    if is_qemu || board.contains("qemu,powernv") {
        return Some(if board.contains("pseries") { "kvm" } else { "qemu" });
    }
    text("ibm,partition-name").map(|_| "powervm")
}

/// A `pSeries` platform is a partition of `PowerVM` unless the device tree names QEMU; `PowerNV` is bare
/// metal.
fn of_power(machine: &Machine, cpuinfo: &str) -> Option<&'static str> {
    let value = |key: &str| cpuinfo_value(cpuinfo, key).unwrap_or_default();
    let (platform, model) = (value("platform"), value("model"));
    if model.contains("emulated by qemu") {
        return Some("kvm");
    }
    if platform == "PowerNV" {
        return Some("none");
    }
    let is_partition = platform == "pSeries" && value("machine").starts_with("CHRP IBM");
    let has_lparcfg = || machine.names("proc/ppc64").iter().any(|name| name == "lparcfg");
    (is_partition || has_lparcfg()).then_some("powervm")
}

fn of_dmi(machine: &Machine) -> Option<&'static str> {
    let folder = DMI_FOLDERS.iter().find(|folder| machine.is_dir(folder))?;
    let fields = ["product_name", "sys_vendor", "bios_vendor", "board_name", "chassis_asset_tag"];
    let read = |field| Some((field, machine.text(&format!("{folder}/{field}"))?));
    let values: BTreeMap<&str, String> = fields.into_iter().filter_map(read).collect();
    let value = |field: &str| values.get(field).map(String::as_str);
    rule(&value)
}

/// The name of the first matching rule.
fn rule<'v>(value: &dyn Fn(&str) -> Option<&'v str>) -> Option<&'static str> {
    data::rows(RULES).find_map(|row| {
        let [name, field, how, text] = data::cells(row)?;
        let found = value(field)?.trim();
        let fits = match how {
            "is" => found == text,
            "starts" => found.starts_with(text),
            _ => found.contains(text),
        };
        fits.then_some(name)
    })
}

/// True if a flag or bit shows that a cloud's machine is not a guest; `false` without either.
fn is_bare(machine: &Machine, cpuinfo: &str) -> bool {
    let flags = cpuinfo_value(cpuinfo, "flags");
    match flags.filter(|_| cpuinfo_value(cpuinfo, "vendor_id").is_some()) {
        Some(flags) => !flags.split_whitespace().any(|flag| flag == "hypervisor"),
        None => is_virtual_by_smbios(machine) == Some(false),
    }
}

/// SMBIOS type 0, BIOS Characteristics Extension Byte 2, bit 4 (DSP0134 section 7.1.2.2): the table
/// describes a virtual machine. Older tables have no such byte.
fn is_virtual_by_smbios(machine: &Machine) -> Option<bool> {
    let table = smbios::read(machine)?;
    let flags = table.first::<SMBiosInformation>()?.characteristics_extension1()?;
    Some(flags.smbios_table_describes_avirtual_machine())
}

/// Clock sources that only a guest has (`drivers/clocksource`, `arch/x86/kernel/kvmclock.c`).
fn of_clocksource(machine: &Machine) -> Option<&'static str> {
    let text = machine.text(CLOCKSOURCES)?;
    let mut names = text.split_whitespace();
    names.find_map(|name| match name {
        "kvm-clock" => Some("kvm"),
        "xen" => Some("xen"),
        name if name.starts_with("hyperv_clocksource") => Some("microsoft"),
        _ => None,
    })
}

/// The channel through which QEMU's guests read files (`Documentation/ABI/testing/
/// sysfs-firmware-qemu_fw_cfg`); it shows QEMU even if SMBIOS names another vendor.
fn of_firmware(machine: &Machine) -> Option<&'static str> {
    machine.names("sys/firmware").iter().any(|name| name == "qemu_fw_cfg").then_some("qemu")
}

fn of_cpuinfo(cpuinfo: &str) -> Option<&'static str> {
    let value = |key: &str| cpuinfo_value(cpuinfo, key).unwrap_or_default();
    let (vendor, model) = (value("vendor_id"), value("model name"));
    let known = [
        (vendor == "PowerVM Lx86", "powervm"),
        (vendor == "User Mode Linux", "uml"),
        (model.starts_with("QEMU "), "qemu"),
        (model.contains("KVM processor"), "kvm"),
        (value("flags").split_whitespace().any(|flag| flag == "hypervisor"), "vm-other"),
    ];
    known.into_iter().find(|(is_shown, _)| *is_shown).map(|(_, name)| name)
}

/// The value of a key in the first CPU's block, or in the last block, which on POWER describes the
/// machine (`show_cpuinfo_summary`, `arch/powerpc/kernel/setup-common.c`).
fn cpuinfo_value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let text = text.trim_ascii_end();
    let blocks = text.split("\n\n").next().into_iter().chain(text.rsplit("\n\n").next());
    blocks.flat_map(str::lines).find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim_ascii() == key).then(|| value.trim_ascii())
    })
}

/// True if the firmware identifies the machine, so that a hypervisor would be visible.
fn is_described(machine: &Machine) -> bool {
    let fields =
        |folder: &&str| ["sys_vendor", "product_name"].map(|file| format!("{folder}/{file}"));
    let trees = DEVICE_TREES.iter().map(|tree| format!("{tree}/model"));
    DMI_FOLDERS.iter().flat_map(fields).chain(trees).any(|path| machine.text(&path).is_some())
}

/// Name of the container manager if the system runs in a container; otherwise `None`.
pub fn container(machine: &Machine) -> Option<String> {
    // systemd writes it if it is the first process of the container.
    let named = machine.text("run/systemd/container");
    if let Some(name) = named.and_then(|name| name.split_whitespace().next().map(str::to_owned)) {
        return Some(name);
    }
    if let Some(text) = machine.text("run/.containerenv") {
        let engine = text.lines().find_map(|line| line.strip_prefix("engine=\"podman"));
        return Some(if engine.is_some() { "podman" } else { "other" }.to_owned());
    }
    if machine.names("").iter().any(|name| name == ".dockerenv") {
        return Some("docker".to_owned());
    }
    let environment = machine.bytes("proc/1/environ").unwrap_or_default();
    let mut variables = environment.split(|byte| *byte == 0);
    let name = variables.find_map(|variable| variable.strip_prefix(b"container="))?;
    let name = crate::machine::escape_non_utf8(name);
    (!name.is_empty() && name.len() < 64).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{tree, tree_of_bytes};

    fn found(files: &[(&str, &str)]) -> Option<String> {
        hypervisor(&tree(files))
    }

    #[test]
    fn every_rule_has_a_name_a_field_an_operator_and_a_text() {
        for row in data::rows(RULES) {
            let [_, _, how, text] = data::cells(row).expect(row);
            assert!(["is", "starts", "has"].contains(&how) && !text.is_empty(), "{row}");
        }
    }

    #[test]
    fn smbios_strings_distinguish_guests_from_machines_of_the_same_vendor() {
        let dmi = |vendor: &str, product: &str| {
            found(&[
                ("sys/class/dmi/id/sys_vendor", vendor),
                ("sys/class/dmi/id/product_name", product),
                ("proc/cpuinfo", "flags : fpu hypervisor\n"),
            ])
            .unwrap_or_default()
        };
        assert_eq!(dmi("VMware, Inc.\n", "VMware Virtual Platform\n"), "vmware");
        assert_eq!(dmi("Microsoft Corporation\n", "Virtual Machine\n"), "microsoft");
        assert_eq!(dmi("Amazon EC2\n", "m5.metal\n"), "none");
        assert_eq!(dmi("Amazon EC2\n", "m5.large\n"), "amazon");
        assert_eq!(dmi("QEMU\n", "Standard PC (Q35 + ICH9, 2009)\n"), "qemu");
        assert_eq!(dmi("Dell Inc.\n", "PowerEdge R740\n"), "vm-other");
        let machine = [("sys/class/dmi/id/sys_vendor", "Oracle Corporation\n")];
        assert_eq!(found(&machine).as_deref(), Some("none"));
    }

    #[test]
    fn bare_metal_instance_of_a_cloud_is_no_guest() {
        let of = |name: &str, flags: &str| {
            let cpuinfo = format!("vendor_id : GenuineIntel\nflags : {flags}\n");
            found(&[("sys/class/dmi/id/product_name", name), ("proc/cpuinfo", &cpuinfo)])
                .unwrap_or_default()
        };
        assert_eq!(of("Google Compute Engine\n", "fpu lm"), "none");
        assert_eq!(of("Google Compute Engine\n", "fpu lm hypervisor"), "google");
        assert_eq!(of("Alibaba Cloud ECS\n", "fpu lm"), "none");
        assert_eq!(of("Alibaba Cloud ECS\n", "fpu lm hypervisor"), "alibaba");
        assert_eq!(of("KVM\n", "fpu lm"), "kvm", "QEMU can hide the flag");
    }

    #[test]
    fn without_cpu_flags_the_smbios_bit_shows_a_guest_of_a_cloud() {
        use crate::smbios::tests::structure;
        let machine = |extension: u8| {
            let mut fields = vec![0; 0x14 - 4];
            fields[0x13 - 4] = extension;
            let table = [structure(0, &fields, &[b"BIOS"]), structure(127, &[], &[])].concat();
            let name: &[u8] = b"Google Compute Engine\n";
            let files = [
                ("sys/class/dmi/id/product_name", name),
                ("proc/cpuinfo", &b"CPU implementer : 0x41\n"[..]),
                ("sys/firmware/dmi/tables/DMI", &table),
            ];
            hypervisor(&tree_of_bytes(&files)).unwrap_or_default()
        };
        assert_eq!((machine(0x0c).as_str(), machine(0x1c).as_str()), ("none", "google"));
    }

    #[test]
    fn qemu_with_kvm_clock_is_kvm() {
        let machine =
            [("sys/class/dmi/id/sys_vendor", "QEMU\n"), (CLOCKSOURCES, "kvm-clock tsc acpi_pm\n")];
        assert_eq!(found(&machine).as_deref(), Some("kvm"));
    }

    #[test]
    fn other_architectures_have_their_own_sources() {
        let sysinfo = "LPAR Number: 47\nVM00 Control Program: z/VM    6.4.0\n";
        assert_eq!(found(&[("proc/sysinfo", sysinfo)]).as_deref(), Some("zvm"));
        assert_eq!(found(&[("proc/sysinfo", "LPAR Number: 47\n")]).as_deref(), Some("lpar"));
        let tree = [("proc/device-tree/hypervisor/compatible", "xen,xen-4.3\0xen,xen")];
        assert_eq!(found(&tree).as_deref(), Some("xen"));
        let power = "platform : pSeries\nmodel : IBM,8286-42A\nmachine : CHRP IBM,8286-42A\n";
        assert_eq!(found(&[("proc/cpuinfo", power)]).as_deref(), Some("powervm"));
        let bare = "platform : PowerNV\nmodel : 8247-22L\n";
        assert_eq!(found(&[("proc/cpuinfo", bare)]).as_deref(), Some("none"));
    }

    #[test]
    fn without_evidence_the_hypervisor_is_unknown() {
        assert_eq!(found(&[("proc/cpuinfo", "flags : fpu lm\n")]), None);
    }

    #[test]
    fn container_is_recognised_by_the_files_of_its_manager() {
        let environ: &[u8] = b"PATH=/bin\0container=lxc\0";
        let machine = tree_of_bytes(&[("proc/1/environ", environ)]);
        assert_eq!(container(&machine).as_deref(), Some("lxc"));
        let podman = tree(&[("run/.containerenv", "engine=\"podman-5.2\"\nname=\"x\"\n")]);
        assert_eq!(container(&podman).as_deref(), Some("podman"));
        assert_eq!(container(&tree(&[("proc/1/comm", "systemd\n")])), None);
    }
}
