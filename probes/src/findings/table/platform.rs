//! Rows of identity, firmware, power, BMC, CPU and operating system.

use super::super::Severity::{Critical, Info, Warning};
use super::row_table;

row_table! {
    IDENTITY_PLACEHOLDER = "identity.placeholder" Info {
        meaning: "A serial number or UUID holds the text that the vendor's firmware template came with, such as \
                  \"To be filled by O.E.M.\". Many machines report the same text.",
        source: "SMBIOS types 1, 2 and 3 (/sys/class/dmi/id), permanent MAC addresses and the MAC of the BMC, \
                 compared with probes/data/placeholders.txt.",
        advice: "Identify this machine by another value, or set this one with the vendor's tool.",
        false_alarms: "Only whole values from the list match, or one character repeated. A real serial number such \
                       as 00000001 does not.",
    };
    IDENTITY_ZERO = "identity.zero" Info {
        meaning: "A serial number, UUID or MAC address is all zeros: it was never set.",
        source: "SMBIOS types 1, 2 and 3 (/sys/class/dmi/id, and the raw UUID in the table), permanent MAC \
                 addresses and the MAC of the BMC.",
        advice: "Identify this machine by another value, or set this one with the vendor's tool.",
        false_alarms: "The USB network port that a BMC provides has the same address on every machine and is not \
                       reported. Virtual functions have no permanent address and are skipped.",
    };
    IDENTITY_KNOWN_DUPLICATE = "identity.known_duplicate" Info {
        meaning: "The value is known to occur on many machines because a board vendor shipped it unchanged.",
        source: "SMBIOS types 1, 2 and 3 (/sys/class/dmi/id), compared with probes/data/known-duplicates.txt.",
        advice: "Identify this machine by another value, or set this one with the vendor's tool.",
        false_alarms: "Only exact values from the list match, each of them seen on unrelated machines.",
    };
    FIRMWARE_PLACEHOLDER = "firmware.placeholder" Info {
        meaning: "Strings that name the vendor, the model or a part were never set by the vendor.",
        source: "SMBIOS types 0 to 3 (/sys/class/dmi/id) and the FRU inventory of the BMC, compared with \
                 probes/data/placeholders.txt.",
        advice: "Do not use these fields to distinguish machines; set them with the vendor's tool.",
        false_alarms: "One finding lists all such fields. Serial numbers and the UUID are reported under identity \
                       instead. Asset tags are for the owner to set and are ignored.",
    };
    FIRMWARE_BOOT_STATUS = "firmware.boot_status" Warning {
        meaning: "The firmware reports that the last boot followed a hardware failure or an expired watchdog.",
        source: "SMBIOS type 32 (DSP0134, section 7.33), offset 0Ah.",
        advice: "Check the event logs of the firmware and the BMC for the cause.",
        false_alarms: "Boots that a user requested, a missing boot medium and a failed operating system are not \
                       hardware faults and are ignored.",
    };
    FIRMWARE_BOOT_ERROR = "firmware.boot_error" Warning or Info {
        meaning: "The firmware recorded an error of the hardware before this boot. Corrected errors are info.",
        source: "ACPI table BERT, /sys/firmware/acpi/tables/data/BERT, with sections of UEFI 2.10, appendix N.",
        advice: "Look for errors of the same part in this report and in the event log of the BMC. If it occurs again, \
                 replace the part.",
        false_alarms: "Some firmware keeps the record for several boots, and a reset by the power button can leave one.",
    };
    OS_EARLIER_CRASH = "os.earlier_crash" Warning {
        meaning: "The kernel of an earlier boot crashed and stored its last messages.",
        source: "/sys/fs/pstore, on a live system also /var/lib/systemd/pstore, where systemd moves them.",
        advice: "Read the message: a machine check or an I/O error points at hardware. Delete the records afterwards.",
        false_alarms: "Logs of a normal shutdown and of the console are ignored. A bug of the kernel can be the cause.",
    };
    FIRMWARE_WATCHDOG_RESET = "firmware.watchdog_reset" Warning {
        meaning: "A watchdog timer reset the machine before this boot: the system had stopped responding.",
        source: "/sys/class/watchdog/watchdogN/bootstatus, flag WDIOF_CARDRESET (0x20).",
        advice: "Check the event logs of the firmware and the BMC, and the previous system's journal, for the cause.",
        false_alarms: "Only that flag counts; the other flags of bootstatus (overheating, fan, power) do not mean \
                       a reset.",
    };
    FIRMWARE_CLOCK = "firmware.clock" Info {
        meaning: "The battery-backed clock differs from the correct time by a minute or more. Certificates may be \
                  rejected early in the next boot.",
        source: "/sys/class/rtc/rtc0/since_epoch compared with the kernel's clock (adjtimex).",
        advice: "Set it with hwclock --systohc. If it drifts again, replace the battery.",
        false_alarms: "The comparison is made only while a time server keeps the kernel's clock synchronised. A \
                       difference of whole hours may mean that the clock keeps local time.",
    };
    POWER_SUPPLY = "power.supply" Warning {
        meaning: "A power supply has failed, has no input power, or reports a critical reading. The machine may \
                  run without redundancy.",
        source: "SMBIOS type 39 (state at power on) and the BMC's power supply sensors (IPMI 2.0, section 42).",
        advice: "Check this power supply, its cable and its feed.",
        false_alarms: "SMBIOS entries with placeholder names are ignored, since nobody filled in their flags \
                       either. Empty bays are ignored.",
    };
    BMC_SENSOR = "bmc.sensor" Warning {
        meaning: "A sensor of the BMC is beyond a critical threshold or reports a fault now.",
        source: "IPMI sensor records and readings (IPMI 2.0, sections 35, 42 and 43).",
        advice: "Check the part that this sensor monitors.",
        false_alarms: "Non-critical thresholds are ignored, and so are sensors that the BMC marks as unavailable \
                       or as not scanned.",
    };
    BMC_EVENT_LOG = "bmc.event_log" Info {
        meaning: "The BMC's event log contains entries that called for attention. They may be long past.",
        source: "IPMI system event log (IPMI 2.0, sections 31 and 32), grouped by sensor and event.",
        advice: "Check whether this persists; if not, clear the log.",
        false_alarms: "Only asserted events count, not those that say a condition has ended. Because the log \
                       keeps old entries, the finding never fails a check.",
    };
    BMC_EVENT_LOG_FULL = "bmc.event_log.full" Warning {
        meaning: "The BMC's event log has no free space or has lost entries. New faults are not recorded.",
        source: "IPMI Get SEL Info (IPMI 2.0, section 31.2): free bytes and the overflow flag.",
        advice: "Save the event log and clear it.",
        false_alarms: "A BMC that reports no free space for an empty log does not report its space, and raises \
                       nothing.",
    };
    BMC_SILENT = "bmc.silent" Info {
        meaning: "The firmware describes a BMC, but none responded. Its address, sensors and event log are missing \
                  from the report.",
        source: "SMBIOS type 38 (DSP0134, section 7.39) compared with the answer to IPMI Get Device ID.",
        advice: "Run as root with the kernel modules ipmi_si (or ipmi_ssif) and ipmi_devintf loaded. If they are, \
                 the BMC does not respond: reset it.",
        false_alarms: "Missing modules and missing root rights look the same, so this is only a note. A machine \
                       whose firmware describes no BMC raises nothing.",
    };
    CPU_OFFLINE = "cpu.offline" Warning or Info {
        meaning: "Some installed logical CPUs are not running. It is only a note if SMT is off and each core \
                  runs one thread.",
        source: "/sys/devices/system/cpu/{present,online} and smt/control.",
        advice: "Check the kernel command line for nosmt, maxcpus or nr_cpus, then the firmware log.",
        false_alarms: "CPUs that could be plugged in later (possible, not present) and CPUs in standby on IBM Z \
                       are not counted. The live image itself may switch SMT off with mitigations=auto,nosmt.",
    };
    CPU_SELF_TEST = "cpu.self_test" Critical {
        meaning: "The firmware disabled a processor because it failed its self-test.",
        source: "SMBIOS type 4 (DSP0134, section 7.5), offset 18h, CPU status 3.",
        advice: "Reseat the processor and inspect the socket's pins. If it fails again, replace it.",
        false_alarms: "A processor that the user disabled in the firmware setup (status 2) and an empty socket \
                       raise nothing.",
    };
    CPU_WRONG_RESULT = "cpu.wrong_result" Critical {
        meaning: "A CPU computed a wrong result under load, or the test process on it crashed or got stuck while the \
                  same program ran well on other CPUs. Whatever this CPU computes may be wrong.",
        source: "`check --load`: integer and floating-point arithmetic and memory copies with known results, in one \
                 process for each logical CPU.",
        advice: "Take the machine out of service. Update its firmware, check cooling and voltage settings, and \
                 replace the processor if the test fails again.",
        false_alarms: "A CPU is named for its own wrong result only, never because it differs from others. A process \
                       that another one ended, that ran out of memory, or that may not run on the CPU makes the CPU \
                       untested. The test finds what fails often; silence proves nothing.",
    };
    CPU_MACHINE_CHECK = "cpu.machine_check" Warning {
        meaning: "The kernel handled a machine check exception since boot: the hardware reported an error.",
        source: "/proc/sys/kernel/tainted, bit 4 (Documentation/admin-guide/tainted-kernels.rst).",
        advice: "Search the kernel log for \"Hardware Error\"; it names the CPU, memory or bus.",
        false_alarms: "The other taint bits, such as those of unsigned or third-party modules, are ignored.",
    };
    OS_CLOCK_SKEW = "os.clock_skew" Warning {
        meaning: "The machine's clock differs from the VIM's by five minutes or more. Certificates may be rejected as \
                  expired or not yet valid, and the times in reports and logs are wrong.",
        source: "The header Date of the VIM's responses, compared with the machine's clock. Only the result of a job \
                 contains this finding.",
        advice: "Configure a time server and check the battery of the board. If many nodes have this finding, check \
                 the VIM's clock.",
        false_alarms: "The wrong clock may be the VIM's, so it is never critical. The VIM's last response counts: once \
                       a time server has set the clock, the finding is gone. Dates of other servers are ignored.",
    };
    OS_CONTAINER = "os.container" Info {
        meaning: "The agent runs in a container. Parts of the machine may be invisible, and mounts are the \
                  container's.",
        source: "/run/systemd/container, /.dockerenv, /run/.containerenv and the environment of process 1.",
        advice: "Run the agent on the host to see the whole machine.",
        false_alarms: "Virtual machines are not containers and raise nothing.",
    };
    CPU_KERNEL_ERRORS = "cpu.kernel_errors" Warning {
        meaning: "The kernel logged machine checks since boot.",
        source: "/dev/kmsg, with the messages of probes/data/kernel-log.txt, and reports of the firmware (ACPI APEI).",
        advice: "Decode the message with the tools of the CPU vendor. Replace the part that it names.",
        false_alarms: "Only records of uncorrected errors match, not the messages that announce machine checks at boot.",
    };
    CPU_THROTTLED = "cpu.throttled" Warning {
        meaning: "Heat slowed a processor or one of its cores down for 1 % of the time or more while the agent \
                  watches (check --sample, check --load).",
        source: "core_throttle_total_time_ms and package_throttle_total_time_ms in \
                 /sys/devices/system/cpu/cpu*/thermal_throttle, read twice (Intel, since Linux 5.6).",
        advice: "Check fans, heat sink, dust and the temperature of the air.",
        false_alarms: "Time before the first reading is ignored, and so are shorter moments: healthy notebooks \
                       have both.",
    };
    CPU_THERMAL = "cpu.thermal" Warning {
        meaning: "A processor was slowed down because it was too hot.",
        source: "/dev/kmsg, with the messages of probes/data/kernel-log.txt.",
        advice: "Check fans, air flow and the heat sink.",
        false_alarms: "Only the messages about heat match. A processor that slows down to save power logs none.",
    };
    OS_LOCKUP = "os.lockup" Warning {
        meaning: "A CPU or a task made no progress for a long time.",
        source: "/dev/kmsg, with the messages of probes/data/kernel-log.txt.",
        advice: "Look for disk, memory or PCIe errors at the same time. If there are none, update the kernel.",
        false_alarms: "Virtual machines are ignored: their host can stop their CPUs. A very slow disk can delay tasks without a fault.",
    };
    FIRMWARE_BUG = "firmware.bug" Info {
        meaning: "The kernel found errors in the tables or settings of the firmware and works around them.",
        source: "/dev/kmsg, with the messages of probes/data/kernel-log.txt.",
        advice: "Update the firmware if a fault could be related.",
        false_alarms: "Many healthy machines have such messages, so this is only a note.",
    };
}
