//! Disks, network ports, GPUs, power supplies and other PCI devices.

use super::{NEIGHBOURS, NONE, model, own, required, volatile};
use crate::quantity::Unit::{Bytes, Count, DiskBytes, Flag, GigaTransfers, Mbit, Text, Watts};

kind_table! {
    Disk in "block/disks" if "block/n_disks" {
        skip: &[("transport", "usb"), ("is_live_medium", "true")],
        identities: &[&["nguid"], &["eui64"], &["wwn"], &["serial", "namespace_id"]],
        slots: &[
            &["bay/slot", "bay/enclosure"],
            &["bay/label", "bay/enclosure"],
            &["pci:slot", "namespace_id", "hctl"],
            &["by_path"],
            &["pci_address", "hctl", "namespace_id"],
            &["paths/0/pci_address", "namespace_id"],
        ],
        place: &[("", "name"), ("bay ", "bay/slot"), ("", "bay/label"), ("slot ", "pci:slot")],
        attributes: &[
            required("transport", "transport", Text),
            required("size", "size_bytes", DiskBytes),
            required("rotational", "rotational", Flag),
            model("vendor", "vendor", Text),
            model("model", "model", Text),
            model("firmware", "firmware", Text),
            volatile("name", "name", Text),
            model("by_path", "by_path", Text),
            model("link_speed", "link_mbit_s", Mbit),
            model("logical_block", "logical_block_bytes", Count),
            model("driver", "controller_driver", Text),
            model("raid_level", "raid_level", Text),
            model("read_only", "is_read_only", Flag),
            model("passed", "health/is_passed", Flag),
            volatile("eligible", "eligible", Flag),
            own("serial", "serial"),
            own("wwn", "wwn"),
            volatile("used_percent", "health/used_percent", Count),
            volatile("media_errors", "health/media_errors", Count),
            volatile("reallocated_sectors", "health/reallocated_sectors", Count),
            volatile("pending_sectors", "health/pending_sectors", Count),
            volatile("link_width", "pci:link/current_width", Count),
        ],
    }
    RaidController in "block/raid_controllers" if "block" {
        identities: &[&["serial"]],
        slots: &[&["pci:slot"], &["pci_address"]],
        place: &[("", "pci_address"), ("slot ", "pci:slot")],
        attributes: &[
            required("model", "model", Text),
            model("firmware", "firmware", Text),
            model("driver", "driver", Text),
            own("serial", "serial"),
            volatile("memory_errors", "memory_uncorrectable_errors", Count),
        ],
        ..NONE
    }
    RaidDrive in "block/raid_controllers/*/drives" if "block" {
        identities: &[&["wwn"], &["serial"]],
        slots: &[&["slot", "enclosure"], &["hctl"], &["device_id"]],
        place: &[("enclosure ", "enclosure"), ("slot ", "slot"), ("", "disk")],
        attributes: &[
            required("size", "size_bytes", DiskBytes),
            required("state", "state", Text),
            required("interface", "interface", Text),
            model("vendor", "vendor", Text),
            model("model", "model", Text),
            model("firmware", "firmware", Text),
            own("serial", "serial"),
            volatile("media_errors", "media_errors", Count),
            volatile("predictive_failures", "predictive_failures", Count),
        ],
        ..NONE
    }
    RaidVolume in "block/raid_controllers/*/volumes" if "block" {
        identities: &[&["wwn"]],
        slots: &[&["id"]],
        place: &[("", "id"), ("", "name"), ("", "disk")],
        attributes: &[
            required("size", "size_bytes", DiskBytes),
            required("raid_level", "raid_level", Text),
            required("state", "state", Text),
        ],
        ..NONE
    }
    Interface in "network/interfaces" if "network" {
        // Others are made by software; virtual functions get a random address at each start.
        skip: &[("kind", "!physical"), ("pci:physical_function", "!"), ("bus", "usb")],
        identities: &[&["permanent_mac"], &["current_mac"]],
        slots: &[
            &["pci:slot", "port/number", "port/name"],
            &["pci_address", "port/number", "port/name"],
            &["name"],
        ],
        place: &[("", "name"), ("slot ", "pci:slot")],
        attributes: &[
            required("name", "name", Text),
            required("speed", "speed_mbit_s", Mbit),
            model("max_speed", "max_speed_mbit_s", Mbit),
            model("carrier", "has_carrier", Flag),
            model("duplex", "duplex", Text),
            model("id", "@id", Text),
            model("driver", "driver", Text),
            model("firmware", "firmware", Text),
            model("module_vendor", "module/vendor", Text),
            model("module_part_number", "module/part_number", Text),
            model("link_width", "pci:link/current_width", Count),
            own("mac", "permanent_mac"),
            own("wired_to", NEIGHBOURS),
            own("module_serial", "module/serial"),
        ],
    }
    Infiniband in "network/infiniband" if "network" {
        identities: &[&["node_guid"]],
        slots: &[&["name"]],
        place: &[("", "name")],
        attributes: &[
            required("name", "name", Text),
            model("board", "board_id", Text),
            model("firmware", "firmware", Text),
            required("rate", "ports/0/rate", Text),
            model("state", "ports/0/state", Text),
            own("node_guid", "node_guid"),
        ],
        ..NONE
    }
    // RAID controllers alone make a `block` too.
    FcHost in "block/fc_hosts" if "block/n_disks" {
        identities: &[&["port_name"]],
        slots: &[&["pci:slot", "pci_address"], &["pci_address"], &["name"]],
        place: &[("", "name"), ("slot ", "pci:slot")],
        attributes: &[
            required("speed", "speed", Text),
            required("state", "port_state", Text),
            own("port_name", "port_name"),
        ],
        ..NONE
    }
    Gpu in "gpu/cards" if "gpu" {
        skip: &[("kind", "bmc_display"), ("physical_function", "!")],
        identities: &[&["uuid"], &["serial"]],
        slots: &[&["pci:slot"], &["module_number"], &["address"]],
        place: &[("", "address"), ("slot ", "pci:slot"), ("module ", "module_number")],
        attributes: &[
            required("id", "@id", Text),
            required("link_width", "pci:link/current_width", Count),
            model("name", "name", Text),
            model("memory", "memory_bytes", Bytes),
            model("address", "address", Text),
            model("driver", "driver", Text),
            model("firmware", "firmware", Text),
            model("video_bios", "video_bios", Text),
            own("serial", "serial"),
            volatile("link_speed", "pci:link/current_gt_s_x10", GigaTransfers),
        ],
    }
    PowerSupply in "smbios/power_supplies" if "smbios/version" {
        skip: &[("is_present", "false")],
        identities: &[&["serial"]],
        slots: &[&["location", "group"], &["name"]],
        place: &[("", "location"), ("", "name")],
        attributes: &[
            required("max_power", "max_power_watts", Watts),
            model("manufacturer", "manufacturer", Text),
            model("part_number", "part_number", Text),
            model("revision", "revision", Text),
            model("status", "status", Text),
            model("plugged", "is_plugged", Flag),
            own("serial", "serial"),
        ],
    }
    Fru in "bmc/frus" if "bmc" {
        identities: &[&["product/serial"], &["board/serial"]],
        slots: &[&["id"]],
        place: &[("", "name"), ("", "entity")],
        attributes: &[
            model("product", "product/name", Text),
            model("product_part_number", "product/part_number", Text),
            model("product_version", "product/version", Text),
            model("board", "board/product", Text),
            model("board_part_number", "board/part_number", Text),
            own("serial", "product/serial"),
            own("board_serial", "board/serial"),
        ],
        ..NONE
    }
    Pci in "pci/devices" if "pci/n_devices" {
        skip: &[("physical_function", "!")],
        identities: &[&["vpd/serial"]],
        slots: &[&["address"]],
        place: &[("", "address"), ("slot ", "slot"), ("", "label")],
        attributes: &[
            required("id", "@id", Text),
            model("address", "address", Text),
            model("class", "class", Text),
            model("name", "device_name", Text),
            model("subsystem_vendor", "subsystem_vendor_id", Text),
            model("subsystem_device", "subsystem_device_id", Text),
            model("revision", "revision", Text),
            model("driver", "driver", Text),
            model("link_width", "link/current_width", Count),
            volatile("link_speed", "link/current_gt_s_x10", GigaTransfers),
            volatile("correctable_errors", "aer/n_correctable", Count),
            volatile("nonfatal_errors", "aer/n_nonfatal", Count),
            volatile("fatal_errors", "aer/n_fatal", Count),
        ],
    }
}
