//! Rows of network ports and PCI devices.

use super::super::Severity::{Critical, Info, Warning};
use super::row_table;

row_table! {
    NIC_NO_CARRIER = "nic.no_carrier" Info {
        meaning: "A physical port is up but has no link.",
        source: "/sys/class/net/*/carrier.",
        advice: "If a cable should be connected, check it, the module and the switch port.",
        false_alarms: "A port that is down cannot report a link and raises nothing. Virtual functions, \
                       representors and the USB port of a BMC are skipped. A port outside of a bond or bridge is \
                       skipped if it reports that no cable is plugged in, or if another port of its card has a \
                       link. Unused ports are common, so this is only a note.",
    };
    NIC_SPEED = "nic.speed" Info {
        meaning: "The link runs below the highest speed that the port supports.",
        source: "/sys/class/net/*/speed and the supported modes of ethtool (ETHTOOL_MSG_LINKMODES_GET).",
        advice: "Compare with the switch port. A bad cable or module lowers the speed.",
        false_alarms: "A slower switch is a valid choice, so this is only a note. Ports without a link raise \
                       nothing.",
    };
    NIC_HALF_DUPLEX = "nic.half_duplex" Warning {
        meaning: "The link sends and receives in turn instead of at the same time. Both ends lose frames if only \
                  one of them does so.",
        source: "/sys/class/net/*/duplex, or ethtool's link modes (ETHTOOL_MSG_LINKMODES_GET).",
        advice: "Set both ends to negotiate the speed. If they already do, replace the cable.",
        false_alarms: "A port without a link or without a known speed raises nothing. Virtual ports, USB ports of \
                       a BMC and virtual functions are skipped.",
    };
    NIC_LINK_ERRORS = "nic.link_errors" Warning {
        meaning: "Frames arrive damaged, or the link goes down, while the agent watches (check --sample).",
        source: "/sys/class/net/*/statistics/{rx_crc,rx_frame,tx_carrier}_errors and carrier_down_count; \
                 /sys/class/infiniband/*/ports/*/counters, read twice.",
        advice: "Replace the cable or the module, and clean its connector. If the errors go on, try another switch port.",
        false_alarms: "Only what rises between the two readings counts, and never drops or overruns, which a busy \
                       host has. A port that somebody unplugs or sets down meanwhile is one that went down.",
    };
    NIC_MODULE_ALARM = "nic.module_alarm" Warning {
        meaning: "A value of a network module is beyond the alarm thresholds that are stored in it: light, laser \
                  current, temperature or supply voltage.",
        source: "Module EEPROM: SFP with internal calibration (SFF-8472, tables 9-5 and 9-11), QSFP (SFF-8636, page \
                 03h), QSFP-DD and OSFP (CMIS 5.2, pages 02h and 11h).",
        advice: "If it receives too little light, clean the connectors and check the cable and the module at its other \
                 end. Otherwise replace the module.",
        false_alarms: "Ports without a link, values of 0, modules without thresholds and modules in low power raise \
                       nothing. A lane that receives less than 1 µW or sends less than 10 µW is dark, not weak: a port \
                       with a link does not use it, so it belongs to another port of the module. The latched alarm \
                       flags are not used, since they keep what was before the link came up.",
    };
    NIC_DUPLICATE_MAC = "nic.duplicate_mac" Warning {
        meaning: "Network cards have the same permanent MAC address. They disturb each other on one network, and \
                  DHCP confuses them.",
        source: "Permanent address from netlink (IFLA_PERM_ADDRESS).",
        advice: "Set another address with the vendor's tool, or return one of the cards.",
        false_alarms: "Ports of one card, virtual functions, bonds, guests and addresses that software chose are \
                       ignored.",
    };
    NIC_FIRMWARE_LLDP = "nic.firmware_lldp" Info or Warning {
        meaning: "The network card's firmware handles LLDP and hides the switch's frames from the system. It is \
                  a warning if a port with a link received no frame.",
        source: "ethtool private flags disable-fw-lldp (i40e) and fw-lldp-agent (ice); DCBX mode of other drivers.",
        advice: "To see the switch port, disable LLDP and DCBX in the setup of the card.",
        false_alarms: "It is only a note unless the agent listened (--lldp-wait), the port had a link, and no \
                       frame arrived.",
    };
    PCI_LINK_WIDTH = "pci.link.width" Warning {
        meaning: "A PCIe link uses fewer lanes than the card, the port and the slot all support.",
        source: "/sys/bus/pci/devices/*/{current,max}_link_width, and the slot's lanes in SMBIOS type 9.",
        advice: "Reseat the card or riser. If that does not help, try another slot.",
        false_alarms: "Link speed is ignored, since idle links slow down to save power. Suspended devices (power_state \
                       other than D0) are skipped. A slot that is wired for fewer lanes than the port has is known \
                       from SMBIOS.",
    };
    PCI_AER_FATAL = "pci.aer.fatal" Critical {
        meaning: "A PCIe device had fatal errors since boot: its link failed and had to be reset.",
        source: "/sys/bus/pci/devices/*/aer_dev_fatal, and /dev/kmsg: the kernel counts no fatal errors of devices below \
                 a port. Reports of the firmware (ACPI APEI).",
        advice: "Reseat the card or riser. If the errors continue, replace the card.",
        false_alarms: "Errors that the link corrected are ignored.",
    };
    PCI_AER_NONFATAL = "pci.aer.nonfatal" Warning {
        meaning: "A PCIe device had uncorrectable errors since boot: transactions were lost, the link survived.",
        source: "/sys/bus/pci/devices/*/aer_dev_nonfatal, and /dev/kmsg where the counter does not show them.",
        advice: "Reseat the card or riser. If the errors continue, replace the card.",
        false_alarms: "Errors that the link corrected are ignored. A device with fatal errors is reported once, \
                       as pci.aer.fatal.",
    };
    PCI_AER_CORRECTABLE = "pci.aer.correctable" Warning {
        meaning: "A PCIe link corrects ten errors or more in a second while the agent watches (check --sample). No \
                  data is lost, but the link is bad.",
        source: "/sys/bus/pci/devices/*/aer_dev_correctable, read twice.",
        advice: "Reseat the card or riser. If the errors continue, replace the riser or cable, then the card.",
        false_alarms: "A link within its specification has less than one such error in a second. What was counted \
                       earlier is ignored.",
    };
    PCI_NO_RESPONSE = "pci.no_response" Warning {
        meaning: "A PCIe device that was found at boot no longer responds: its registers read as all ones.",
        source: "/sys/bus/pci/devices/*/current_link_width, which is 63 then, and power_state.",
        advice: "Power the machine off and on. If the device fails again, reseat the card or riser, then replace it.",
        false_alarms: "A device without power reads the same, so only devices in D0 count. Virtual functions, and \
                       devices below one that does not respond, are skipped.",
    };
    NIC_KERNEL_ERRORS = "nic.kernel_errors" Warning {
        meaning: "The kernel logged that a network port stopped sending.",
        source: "/dev/kmsg, with the messages of probes/data/kernel-log.txt.",
        advice: "Update the firmware of the card. If it occurs again, replace the card.",
        false_alarms: "Virtual ports are ignored. A driver error can cause this, too.",
    };
    PCI_KERNEL_ERRORS = "pci.kernel_errors" Warning {
        meaning: "The kernel logged uncorrectable PCIe errors, a device that stopped responding, or a hardware error of a GPU.",
        source: "/dev/kmsg, with the messages of probes/data/kernel-log.txt, and reports of the firmware (ACPI APEI).",
        advice: "Reseat the card. If it occurs again, replace it.",
        false_alarms: "Corrected errors and GPU errors that programs cause are ignored. Fatal errors are reported as \
                       pci.aer.fatal.",
    };
}
