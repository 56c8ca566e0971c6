"""Ironic's own validator and inspection hooks on our inspection data, without a conductor."""

import copy
import types

from ironic.conf import CONF

CONF([], project="ironic")

from ironic.api.controllers.v1 import ramdisk  # noqa: E402
from ironic.common import exception  # noqa: E402
from ironic.drivers.modules.inspector import hooks  # noqa: E402
from ironic.drivers.modules.inspector.hooks import (  # noqa: E402,F401
    accelerators, architecture, boot_mode, cpu_capabilities, cpus, extra_hardware, memory,
    parse_lldp, pci_devices, ramdisk_error, root_device, validate_interfaces)

GIB = 1 << 30
HOOKS = [
    ramdisk_error.RamdiskErrorHook, validate_interfaces.ValidateInterfacesHook,
    architecture.ArchitectureHook, memory.MemoryHook, cpus.CPUSHook,
    cpu_capabilities.CPUCapabilitiesHook, boot_mode.BootModeHook, root_device.RootDeviceHook,
    pci_devices.PciDevicesHook, accelerators.AcceleratorsHook, parse_lldp.ParseLLDPHook,
    extra_hardware.ExtraHardwareHook,
]


class Node(types.SimpleNamespace):
    """As much of a node as the hooks use."""

    def set_property(self, name, value):
        self.properties[name] = value

    def save(self):
        pass


def run_hooks(document, properties=None):
    """The node and its plugin data after all hooks; raises what a hook raises."""
    node = Node(uuid="node", properties=dict(properties or {}), driver_info={},
                driver_internal_info={}, instance_info={}, extra={})
    task = types.SimpleNamespace(node=node, ports=[], context=None)
    data = copy.deepcopy(document)
    inventory = data.pop("inventory")
    made = [hook() for hook in HOOKS]
    for hook in made:
        hook.preprocess(task, inventory, data)
    for hook in made:
        hook(task, inventory, data)
    return node, data


def has_port(documents):
    """Whether Ironic can accept the document as it is."""
    return bool(documents["ironic"]["inventory"].get("interfaces"))


def is_accepted(document):
    """Whether Ironic's synchronous check passes."""
    try:
        ramdisk.DATA_VALIDATOR("data", document)
    except exception.InvalidParameterValue:
        return False
    return True


def check(documents):
    """What is wrong with the Ironic document of a machine."""
    report, document = documents["json"], copy.deepcopy(documents["ironic"])
    if not has_port(documents):
        # Ironic knows a machine by its ports. Most captured machines contain none; the rest of their
        # document is checked together with a port of another machine.
        if is_accepted(document):
            return ["a document without interfaces is accepted"]
        document["inventory"]["interfaces"] = [{"name": "eth0", "mac_address": "52:54:00:00:00:01"}]
    ramdisk.DATA_VALIDATOR("data", document)
    node, data = run_hooks(document)
    wrong = []

    def expect(what, found, expected):
        if found != expected:
            wrong.append(f"{what} is {found!r}, expected {expected!r}")

    cpu = report.get("cpu", {})
    properties = node.properties
    expect("cpu_arch", properties["cpu_arch"], cpu.get("architecture") or report["os"].get("architecture"))
    expect("cpus", properties.get("cpus"), cpu.get("n_logical_cpus_online") or None)
    installed = report["memory"].get("installed_bytes")
    expect("memory_mb", properties["memory_mb"], installed // (1 << 20) if installed else None)
    root = document.get("root_disk")
    expect("local_gb", properties["local_gb"], max(root["size"] // GIB - 1, 0) if root else 0)
    mode = report["firmware"].get("boot_mode")
    expect("boot mode", f"boot_mode:{mode}" in properties.get("capabilities", ""), mode is not None)
    flags = cpu.get("flags", [])
    expect("cpu_aes", "cpu_aes:true" in properties.get("capabilities", ""), "aes" in flags)
    names = {i["name"] for i in document["inventory"]["interfaces"]}
    expect("valid interfaces", set(data["all_interfaces"]), names)
    booted = [i for i in report["network"].get("interfaces", []) if i.get("is_boot_interface")]
    pxe = [i["name"] for i in data["all_interfaces"].values() if i["pxe_enabled"]]
    expect("boot port", pxe, [booted[0]["name"]] if len(booted) == 1 and booted[0]["name"] in names else [])
    # The hooks need both ids of each device.
    known = [d for d in report["pci"].get("devices", []) if "vendor_id" in d and "device_id" in d]
    expect("PCI devices", len(document.get("pci_devices", [])), len(known))
    # The same disk must be found by every identifier that the document gives it.
    for disk in document["inventory"].get("disks", []):
        hints = {k: disk[k] for k in ("name", "serial", "wwn", "hctl", "by_path") if k in disk}
        hints["size"] = f">= {disk['size'] // GIB or 1}"
        if disk["size"] < GIB:
            del hints["size"]
        _, found = run_hooks(document, {"root_device": hints})
        expect(f"disk by {hints}", found["root_disk"]["name"], disk["name"])
    return wrong
