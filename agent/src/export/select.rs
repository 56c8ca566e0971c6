//! The disks and the values that several forms share, picked from the report in one way.

use formats::wwn;
use probes::block::Disk;
use probes::collect::Inventory;
use probes::cpu::Cpu;

/// The disks that a consumer may be shown as storage: each LUN once, with a known size.
///
/// Left out are drives for removable media, virtual media of a BMC, special areas of an eMMC, what the kernel hides,
/// the single paths of a multipath device, the members of a RAID volume, and disks without a capacity. Ironic's matcher of root device hints fails
/// for all disks if one has no size.
pub(crate) fn disks(inventory: &Inventory) -> impl Iterator<Item = &Disk> {
    let all = inventory.block.iter().flat_map(|block| &block.disks);
    all.filter(|disk| {
        disk.is_storage()
            && disk.hidden != Some(true)
            && disk.unit().is_none()
            && disk.size_bytes.is_some_and(|size_bytes| size_bytes > 0)
    })
}

/// The highest frequency of any core in MHz, else its base frequency.
pub(crate) fn max_mhz(cpu: &Cpu) -> Option<u64> {
    let cores = || cpu.packages.iter().flat_map(|package| &package.cores);
    let highest = cores().filter_map(|core| core.max_mhz).max();
    highest.or_else(|| cores().filter_map(|core| core.base_mhz).max())
}

/// The machine type as `uname -m` prints it.
pub(crate) fn architecture(inventory: &Inventory) -> Option<String> {
    let of_cpu = inventory.cpu.as_ref().and_then(|cpu| cpu.architecture.clone());
    of_cpu.or_else(|| inventory.os.as_ref()?.architecture.clone())
}

/// The installed memory in MiB.
pub(crate) fn installed_mib(inventory: &Inventory) -> Option<u64> {
    let bytes = inventory.memory.as_ref()?.installed_bytes?;
    Some(bytes >> 20).filter(|mib| *mib > 0)
}

/// The number of online logical CPUs.
pub(crate) fn n_cpus(cpu: &Cpu) -> Option<usize> {
    cpu.n_logical_cpus_online.filter(|n_cpus| *n_cpus > 0)
}

/// The WWN with its extension, and the extension alone, as udev writes them (`ID_WWN_WITH_EXTENSION`,
/// `ID_WWN_VENDOR_EXTENSION`): only for SCSI and ATA disks, whose WWN begins with `0x`.
pub(crate) fn extended_wwn(disk: &Disk) -> (Option<String>, Option<String>) {
    let Some(full) = disk.wwn.as_ref().filter(|wwn| wwn.starts_with("0x")) else {
        return (None, None);
    };
    let extension = wwn::forms(full).and_then(|forms| forms.extension);
    (Some(full.clone()), extension.map(|extension| format!("0x{extension}")))
}
