//! The machine, its firmware, CPUs and memory.

use super::{NONE, model, own, required, volatile};
use crate::quantity::Unit::{Bytes, Count, Flag, Mhz, Text, Transfers};

kind_table! {
    Product in "product" if "product" {
        identities: &[&["serial"], &["uuid"]],
        attributes: &[
            required("vendor", "vendor", Text),
            required("name", "name", Text),
            model("version", "version", Text),
            model("sku", "sku", Text),
            own("serial", "serial"),
            own("uuid", "uuid"),
        ],
        ..NONE
    }
    Chassis in "chassis" if "chassis" {
        identities: &[&["serial"]],
        attributes: &[
            model("vendor", "vendor", Text),
            model("kind", "kind", Text),
            own("serial", "serial"),
            own("asset_tag", "asset_tag"),
        ],
        ..NONE
    }
    Baseboard in "baseboard" if "baseboard" {
        identities: &[&["serial"]],
        attributes: &[
            model("vendor", "vendor", Text),
            model("product", "product", Text),
            model("version", "version", Text),
            own("serial", "serial"),
        ],
        ..NONE
    }
    Bios in "bios" if "bios" {
        attributes: &[
            model("vendor", "vendor", Text),
            required("version", "version", Text),
            model("date", "date", Text),
            model("release", "release", Text),
        ],
        ..NONE
    }
    Firmware in "firmware" if "firmware" {
        attributes: &[
            required("boot_mode", "boot_mode", Text),
            required("secure_boot", "secure_boot", Flag),
            model("setup_mode", "setup_mode", Flag),
        ],
        ..NONE
    }
    FirmwareComponent in "smbios/firmware_components" if "smbios/version" {
        slots: &[&["name", "id"]],
        place: &[("", "name")],
        attributes: &[
            model("name", "name", Text),
            model("version", "version", Text),
            model("state", "state", Text),
        ],
        ..NONE
    }
    Bmc in "bmc" if "bmc" {
        identities: &[&["mac"]],
        attributes: &[
            required("firmware", "firmware", Text),
            model("ipmi_version", "ipmi_version", Text),
            own("mac", "mac"),
        ],
        ..NONE
    }
    Tpm in "devices/tpm" if "devices" {
        attributes: &[
            required("version", "version", Text),
            model("manufacturer", "manufacturer", Text),
            model("firmware", "firmware", Text),
        ],
        ..NONE
    }
    Cpu in "cpu" if "cpu" {
        attributes: &[
            required("model", "model_name", Text),
            required("packages", "n_packages", Count),
            required("cores", "n_cores", Count),
            required("logical_cpus", "n_logical_cpus_online", Count),
            required("threads_per_core", "threads_per_core", Count),
            model("stepping", "stepping", Count),
            model("microcode", "microcode", Text),
            model("smt_control", "smt_control", Text),
        ],
        ..NONE
    }
    Socket in "cpu/sockets" if "smbios/version" {
        skip: &[("is_populated", "false")],
        identities: &[&["serial"]],
        slots: &[&["locator"]],
        place: &[("", "locator")],
        attributes: &[
            required("locator", "locator", Text),
            model("model", "version", Text),
            model("status", "status", Text),
            model("cores", "n_cores", Count),
            model("cores_enabled", "n_cores_enabled", Count),
            model("max_speed", "max_mhz", Mhz),
            own("serial", "serial"),
        ],
    }
    Memory in "memory" if "memory" {
        attributes: &[
            required("installed", "installed_bytes", Bytes),
            required("error_correction", "error_correction", Text),
            model("slots", "n_slots", Count),
            model("populated_slots", "n_slots_populated", Count),
        ],
        ..NONE
    }
    Dimm in "memory/dimms" if "memory/n_slots" {
        skip: &[("is_populated", "false")],
        identities: &[&["serial", "manufacturer"]],
        slots: &[&["locator"], &["bank_locator", "locator"]],
        place: &[("", "locator")],
        attributes: &[
            required("size", "size_bytes", Bytes),
            required("kind", "kind", Text),
            required("configured_speed", "configured_speed_mt_s", Transfers),
            model("speed", "speed_mt_s", Transfers),
            model("locator", "locator", Text),
            model("manufacturer", "manufacturer", Text),
            model("part_number", "part_number", Text),
            model("rank", "rank", Count),
            model("firmware", "firmware", Text),
            own("serial", "serial"),
            volatile("correctable_errors", "ecc_correctable", Count),
            volatile("uncorrectable_errors", "ecc_uncorrectable", Count),
        ],
    }
}
