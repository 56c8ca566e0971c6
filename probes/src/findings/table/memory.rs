//! Rows of memory.

use super::super::Severity::{Critical, Info, Warning};
use super::row_table;

row_table! {
    MEMORY_ECC_UNCORRECTABLE = "memory.ecc.uncorrectable" Critical {
        meaning: "The memory controller detected errors that ECC could not correct. Data was lost since boot.",
        source: "EDAC counters /sys/devices/system/edac/mc/mcN/{dimmN,rankN}/dimm_ue_count, or mcN/ue_noinfo_count \
                 and ue_count for errors without a known DIMM.",
        advice: "Replace the DIMM, then check that the count stays at 0. If no DIMM is named, find it in the \
                 kernel log or the BMC's event log.",
        false_alarms: "Only a count above 0 since boot matters. A slot is named only where the driver's label \
                       matches exactly one SMBIOS slot that holds a module; otherwise the evidence gives \
                       controller, channel and slot as the driver counts them.",
    };
    MEMORY_ECC_CORRECTABLE = "memory.ecc.correctable" Warning {
        meaning: "The memory controller corrected errors since boot. No data was lost, but the DIMM may be failing.",
        source: "EDAC counters /sys/devices/system/edac/mc/mcN/{dimmN,rankN}/dimm_ce_count, or mcN/ce_noinfo_count \
                 and ce_count for errors without a known DIMM.",
        advice: "Watch the count. If it grows, replace the DIMM; if no DIMM is named, find it in the kernel log or \
                 the BMC's event log.",
        false_alarms: "A counter at 0 raises nothing. A row with uncorrectable errors is reported once, as \
                       memory.ecc.uncorrectable.",
    };
    MEMORY_EVENT_LOG = "memory.event_log" Warning {
        meaning: "The BMC's event log contains memory errors. They may date from before a repair.",
        source: "IPMI system event log, events of memory sensors (IPMI 2.0, table 42-3, sensor type 0Ch).",
        advice: "Replace the DIMM that the log means. If that has been done, clear the log.",
        false_alarms: "Presence events, and events that say a condition has ended, are ignored.",
    };
    MEMORY_FIRMWARE_ERROR = "memory.firmware_error" Warning {
        meaning: "The firmware recorded an error of a memory module.",
        source: "SMBIOS type 17, offset 06h, with type 18 or 33 (DSP0134, sections 7.18, 7.19 and 7.34).",
        advice: "Check the firmware log. Replace the DIMM if the error occurs again.",
        false_alarms: "The handles FFFEh (errors are not recorded) and FFFFh (no error), the error types OK and \
                       unknown, and empty slots raise nothing.",
    };
    MEMORY_WRONG_CONTENT = "memory.wrong_content" Critical {
        meaning: "Memory that was written under load was read back differently. Data in it is not safe.",
        source: "`check --load`: patterns over free memory; physical addresses from /proc/self/pagemap.",
        advice: "Find the DIMM in the log of the BMC or by its physical address, and replace it.",
        false_alarms: "Words that a CPU with wrong results wrote or read are not counted. A CPU or a memory \
                       controller can also cause this: if the address differs each time, suspect these.",
    };
    MEMORY_NVDIMM_FAILED = "memory.nvdimm.failed" Critical {
        meaning: "An NVDIMM lost data, or cannot save its data at the next power failure.",
        source: "/sys/bus/nd/devices/nmemN/nfit/flags (ACPI 6.5, section 5.2.25.3): save_fail, restore_fail, \
                 flush_fail, not_armed, map_fail.",
        advice: "Do not trust its content. Check its backup power source; if that is good, replace the module.",
        false_alarms: "The flags smart_event and smart_notify announce a health notice, not a failure, and are \
                       ignored.",
    };
    MEMORY_DIMM_MISMATCH = "memory.dimm.mismatch" Warning {
        meaning: "A DIMM differs in size or configured speed from most of the others. Channels may be unbalanced.",
        source: "SMBIOS type 17 (DSP0134, section 7.18).",
        advice: "Fit matching DIMMs (see the board manual).",
        false_alarms: "Modules of different kinds (DDR4 and HBM, plain and persistent memory) are not compared, \
                       nor are unknown speeds. If no size has a majority, nothing is odd. In a virtual machine, \
                       DIMMs without serial numbers are the hypervisor's invention and are ignored.",
    };
    MEMORY_LOST = "memory.lost" Warning {
        meaning: "The kernel has less memory than is installed, by at least one DIMM.",
        source: "SMBIOS type 17 compared with the present pages in /proc/zoneinfo, or MemTotal in /proc/meminfo.",
        advice: "Check the firmware log for a DIMM that failed its test, then the settings for mirroring and sparing.",
        false_alarms: "Memory that firmware and kernel reserve is always less than a DIMM. Machines with \
                       persistent memory or HBM are skipped, since these need not become system memory. So are \
                       guests of Xen, other guests whose DIMMs have no serial numbers or are each larger than \
                       the memory of the guest, firmware that lists a serial number twice, and kernels that were started with mem= or memmap=.",
    };
    MEMORY_UNBALANCED = "memory.unbalanced" Warning or Info {
        meaning: "A socket has less memory than another one, by about a DIMM or more. It is only a note if the \
                  channels of one memory controller differ.",
        source: "Present pages of the NUMA nodes of each socket (/proc/zoneinfo); size and dimm_location in \
                 /sys/devices/system/edac/mc.",
        advice: "Check whether the firmware disabled a DIMM or does not detect it. Otherwise spread the DIMMs evenly \
                 (see the board manual).",
        false_alarms: "Nodes without CPUs (CXL), nodes that span sockets, machines with persistent memory or HBM, \
                       guests, and kernels that were started with mem= or memmap= are ignored.",
    };
    MEMORY_KERNEL_ERRORS = "memory.kernel_errors" Warning {
        meaning: "The kernel logged memory errors since boot.",
        source: "/dev/kmsg, with the messages of probes/data/kernel-log.txt, and reports of the firmware (ACPI APEI).",
        advice: "Find the DIMM in the message or in the log of the BMC, and replace it if errors occur again.",
        false_alarms: "Only reports of errors match, not messages that announce a driver. A slot is named only if the message names it.",
    };
}
