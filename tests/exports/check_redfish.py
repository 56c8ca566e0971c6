"""sushy, and Ironic's own Redfish inspection, on our documents served from files."""

import functools
import http.server
import json
import logging
import pathlib
import tempfile
import threading
import types
from unittest import mock

from ironic.conf import CONF

CONF([], project="ironic")

import sushy  # noqa: E402
from ironic.drivers.modules.inspector.hooks import architecture, validate_interfaces  # noqa: E402
from ironic.drivers.modules.redfish import inspect as redfish_inspect  # noqa: E402

GIB = 1 << 30
logging.getLogger("sushy").setLevel(logging.CRITICAL)


class Handler(http.server.SimpleHTTPRequestHandler):
    """Folders are documents. HTTP/1.0 on purpose: sushy pools connections that it asks to close."""

    def translate_path(self, path):
        found = pathlib.Path(super().translate_path(path))
        return str(found / "index.json" if found.is_dir() else found)

    def do_POST(self):
        self.send_error(501)

    def log_message(self, *_):
        pass


class Served:
    """The documents as a service: `with Served(documents) as system`."""

    def __init__(self, documents):
        self.folder = tempfile.TemporaryDirectory()
        for path, document in documents.items():
            folder = pathlib.Path(self.folder.name + path)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "index.json").write_text(json.dumps(document))

    def __enter__(self):
        handler = functools.partial(Handler, directory=self.folder.name)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{self.server.server_address[1]}"
        root = sushy.Sushy(url, server_side_retries=0)
        (system,) = root.get_system_collection().get_members()
        return system

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.folder.cleanup()


def inspect(system):
    """The inventory that Ironic's Redfish inspection stores, and the node's properties."""
    stored = []
    node = types.SimpleNamespace(uuid="node", properties={}, driver_info={}, save=lambda: None)
    node.set_property = node.properties.__setitem__
    task = types.SimpleNamespace(node=node, context=None, ports=[])
    made = redfish_inspect.RedfishInspect.__new__(redfish_inspect.RedfishInspect)
    made.hooks = []

    def run_hooks(task, inventory, plugin_data, *_):
        for hook in (validate_interfaces.ValidateInterfacesHook(), architecture.ArchitectureHook()):
            hook.preprocess(task, inventory, plugin_data)
            hook(task, inventory, plugin_data)

    module = "ironic.drivers.modules.redfish.inspect"
    with mock.patch(f"{module}.redfish_utils.get_system", return_value=system), \
            mock.patch(f"{module}.inspect_utils.store_inspection_data",
                       side_effect=lambda node, inventory, *_: stored.append(inventory)), \
            mock.patch(f"{module}.inspect_utils.run_inspection_hooks", side_effect=run_hooks), \
            mock.patch(f"{module}.engine.apply_rules"):
        made.inspect_hardware(task)
    return stored[0], node.properties


def check(documents):
    """What is wrong with the Redfish documents of a machine."""
    report, ironic = documents["json"], documents["ironic"]["inventory"]
    wrong = []

    def expect(what, found, expected):
        if found != expected:
            wrong.append(f"{what}: {found!r}, expected {expected!r}")

    product, memory = report.get("product", {}), report["memory"]
    installed = memory.get("installed_bytes")
    cpu = report.get("cpu", {})
    with Served(documents["redfish"]) as system:
        expect("power", system.power_state, sushy.PowerState.ON)
        expect("serial number", system.serial_number, product.get("serial"))
        expect("UUID", system.uuid, product.get("uuid"))
        expect("memory", system.memory_summary and system.memory_summary.size_gib,
               installed // GIB if installed else None)
        n_packages = len(cpu.get("packages", [])) or 1
        expect("processors", len(system.processors.get_members()), n_packages)
        if cpu.get("packages") and cpu.get("architecture") in ("x86_64", "aarch64"):
            n_threads = sum(count(core["logical_cpus"]) for p in cpu["packages"] for core in p.get("cores", []))
            summary = system.processors.summary
            expect("threads", summary.count, n_threads)
            expect("instruction set", {p.instruction_set for p in system.processors.get_members()},
                   {sushy.InstructionSet.X86_64 if cpu["architecture"] == "x86_64" else sushy.InstructionSet.ARM_A64})
        disks = ironic.get("disks", [])
        drives = [d for s in system.storage.get_members() for d in s.drives]
        expect("drives", sorted((d.name, d.capacity_bytes) for d in drives),
               sorted((d["name"], d["size"]) for d in disks))
        for drive in drives:
            for identifier in drive.identifiers or []:
                expect(f"format of the name of {drive.name}", identifier.durable_name_format is None, False)
        by_name = {d.name: d for d in drives}
        for disk in disks:
            known = disk.get("tran") in ("sata", "sas", "nvme", "fc", "iscsi", "usb")
            expect(f"protocol of {disk['name']}", by_name[disk["name"]].protocol is not None, known)
        ports = system.ethernet_interfaces.get_members()
        expect("ports", {p.identity for p in ports} >= {i["name"] for i in ironic.get("interfaces", [])}, True)
        n_devices = len({d["address"].rsplit(".", 1)[0] for d in report["pci"].get("devices", [])})
        expect("PCI devices", len(system.pcie_devices.get_members()), n_devices)
        if not installed or installed < GIB or not ironic.get("interfaces"):
            # Ironic fails the inspection of a machine of unknown or less than 1 GiB, or without a port.
            return wrong
        inventory, properties = inspect(system)
        expect("memory_mb", properties["memory_mb"], installed // GIB * 1024)
        expect("disks of the inventory", len(inventory.get("disks", [])), len(disks))
        expect("PCI functions", len(inventory.get("pci_devices", [])), len(report["pci"].get("devices", [])))
        expect("MACs", {i["mac_address"] for i in inventory["interfaces"]} >=
               {i["mac_address"] for i in ironic.get("interfaces", [])}, True)
        if cpu.get("architecture") == "x86_64":
            expect("architecture", inventory["cpu"]["architecture"], "x86_64")
    return wrong


def count(cpus):
    """The size of a set such as 0-3,8."""
    parts = [part.split("-") for part in cpus.split(",") if part]
    return sum(int(part[-1]) - int(part[0]) + 1 for part in parts)
