//! The machine, its firmware, CPUs and memory.

use formats::part::PartKind;

use super::{Kind, NONE, model, own, required, volatile};
use crate::quantity::Unit::{Bytes, Count, Flag, Mhz, Text, Transfers};

/// The kinds, in the order in which differences are listed.
pub(super) static KINDS: &[Kind] = &[
    Kind {
        part: PartKind::Product,
        list: "product",
        witness: "product",
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
    },
    Kind {
        part: PartKind::Chassis,
        list: "chassis",
        witness: "chassis",
        identities: &[&["serial"]],
        attributes: &[
            model("vendor", "vendor", Text),
            model("kind", "kind", Text),
            own("serial", "serial"),
            own("asset_tag", "asset_tag"),
        ],
        ..NONE
    },
    Kind {
        part: PartKind::Baseboard,
        list: "baseboard",
        witness: "baseboard",
        identities: &[&["serial"]],
        attributes: &[
            model("vendor", "vendor", Text),
            model("product", "product", Text),
            model("version", "version", Text),
            own("serial", "serial"),
        ],
        ..NONE
    },
    Kind {
        part: PartKind::Bios,
        list: "bios",
        witness: "bios",
        attributes: &[
            model("vendor", "vendor", Text),
            required("version", "version", Text),
            model("date", "date", Text),
            model("release", "release", Text),
        ],
        ..NONE
    },
    Kind {
        part: PartKind::Firmware,
        list: "firmware",
        witness: "firmware",
        attributes: &[
            required("boot_mode", "boot_mode", Text),
            required("secure_boot", "secure_boot", Flag),
            model("setup_mode", "setup_mode", Flag),
        ],
        ..NONE
    },
    Kind {
        part: PartKind::FirmwareComponent,
        list: "smbios/firmware_components",
        witness: "smbios/version",
        slots: &[&["name", "id"]],
        place: &[("", "name")],
        attributes: &[
            model("name", "name", Text),
            model("version", "version", Text),
            model("state", "state", Text),
        ],
        ..NONE
    },
    Kind {
        part: PartKind::Bmc,
        list: "bmc",
        witness: "bmc",
        identities: &[&["mac"]],
        attributes: &[
            required("firmware", "firmware", Text),
            model("ipmi_version", "ipmi_version", Text),
            own("mac", "mac"),
        ],
        ..NONE
    },
    Kind {
        part: PartKind::Tpm,
        list: "devices/tpm",
        witness: "devices",
        attributes: &[
            required("version", "version", Text),
            model("manufacturer", "manufacturer", Text),
            model("firmware", "firmware", Text),
        ],
        ..NONE
    },
    Kind {
        part: PartKind::Cpu,
        list: "cpu",
        witness: "cpu",
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
    },
    Kind {
        part: PartKind::Socket,
        list: "cpu/sockets",
        witness: "smbios/version",
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
    },
    Kind {
        part: PartKind::Memory,
        list: "memory",
        witness: "memory",
        attributes: &[
            required("installed", "installed_bytes", Bytes),
            required("error_correction", "error_correction", Text),
            model("slots", "n_slots", Count),
            model("populated_slots", "n_slots_populated", Count),
        ],
        ..NONE
    },
    Kind {
        part: PartKind::Dimm,
        list: "memory/dimms",
        witness: "memory/n_slots",
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
    },
];
