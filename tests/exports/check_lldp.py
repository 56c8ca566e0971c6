"""LLDP: ironic-python-agent's reading of random frames, and Ironic's names for their content, against ours.

The frames are put into captured machines with many ports, so that the whole program reads them.

Usage: check_lldp.py [N] [SEED]
"""

import binascii
import copy
import json
import logging
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import types

from ironic.conf import CONF

CONF([], project="ironic")

from ironic.drivers.modules.inspector import lldp_tlvs  # noqa: E402
from ironic.drivers.modules.inspector.hooks import parse_lldp  # noqa: E402
from ironic_python_agent import netutils  # noqa: E402

import machines  # noqa: E402

HEADER = bytes.fromhex("0180c200000e02000000001188cc")
DOT1, DOT3, MED = b"\x00\x80\xc2", b"\x00\x12\x0f", b"\x00\x12\xbb"
CAPABILITIES = {"Repeater": "repeater", "Bridge": "bridge", "WLAN": "wlan_access_point", "Router": "router",
                "Telephone": "telephone", "DOCSIS cable device": "docsis_cable_device",
                "Station only": "station_only", "C-Vlan": "c_vlan_component", "S-Vlan": "s_vlan_component",
                "TPMR": "two_port_mac_relay"}


def tlv(kind, content):
    return struct.pack("!H", kind << 9 | len(content)) + content


def text(dice):
    return dice.choice([b"Ethernet1/7", b"swp12", b"leaf-3.example", b"Arista DCS-7050", b"x", b"switch \xc3\xa9"])


def identifier(dice, kinds):
    """Chassis or port: a MAC, an address or a name."""
    kind = dice.choice(kinds)
    content = {3: bytes(dice.randbytes(6)), 4: bytes(dice.randbytes(6)), 5: b"\x01" + dice.randbytes(4)}
    is_mac = kind == (4 if 6 in kinds else 3)
    if is_mac:
        return bytes([kind]) + dice.randbytes(6)
    if kind == (5 if 6 in kinds else 4):
        return bytes([kind]) + content[5]
    return bytes([kind]) + text(dice)


def frame(dice):
    """A frame of a switch with some of the parts that Ironic knows."""
    # Kinds of chassis: 4 MAC, 5 address, 6 interface name, 7 local; of ports: 3 MAC, 4 address, 5 name, 7 local.
    parts = [tlv(1, identifier(dice, [4, 4, 5, 6, 7])), tlv(2, identifier(dice, [3, 4, 5, 5, 7])),
             tlv(3, struct.pack("!H", dice.choice([0, 120, 120, 120, 120, 65535])))]
    vlan = lambda: dice.choice([0, 1, 100, 4094, 4095])  # noqa: E731
    optional = [
        tlv(4, text(dice)), tlv(5, text(dice)), tlv(6, text(dice)),
        tlv(7, struct.pack("!HH", dice.randrange(1 << 11), dice.randrange(1 << 11))),
        tlv(8, b"\x05\x01" + dice.randbytes(4) + b"\x02" + struct.pack("!I", 7) + b"\x00"),
        tlv(8, b"\x11\x02" + dice.randbytes(16) + b"\x02" + struct.pack("!I", 7) + b"\x00"),
        tlv(127, DOT1 + b"\x01" + struct.pack("!H", vlan())),
        tlv(127, DOT1 + b"\x02" + bytes([dice.choice([0, 2, 6])]) + struct.pack("!H", vlan())),
        *[tlv(127, DOT1 + b"\x03" + struct.pack("!H", vlan()) + bytes([len(name)]) + name)
          for name in [text(dice) for _ in range(dice.randrange(3))]],
        tlv(127, DOT1 + b"\x04" + b"\x03" + dice.randbytes(3)),
        tlv(127, DOT1 + b"\x06" + struct.pack("!H", vlan())),
        tlv(127, DOT1 + b"\x07" + bytes([dice.randrange(4)]) + struct.pack("!I", dice.choice([0, 12]))),
        tlv(127, DOT3 + b"\x01" + bytes([dice.randrange(4)]) + dice.randbytes(2) + struct.pack("!H", dice.randrange(60))),
        tlv(127, DOT3 + b"\x04" + struct.pack("!H", dice.choice([0, 1518, 9216]))),
        tlv(127, MED + b"\x01" + dice.randbytes(3)),
    ]
    parts += [part for part in optional if dice.random() < 0.6]
    sent = HEADER + b"".join(parts) + b"\x00\x00"
    return sent.ljust(60, b"\x00")


def capture(folder, frames):
    """A machine with a port for each frame."""
    answer = b""
    for index, sent in enumerate(frames):
        name = f"eth{index}".encode()
        place = f"devices/pci0000:00/0000:00:{index >> 3:02x}.{index & 7}"
        port = folder / f"sys/{place}/net/eth{index}"
        port.mkdir(parents=True)
        (port / "device").symlink_to(f"../../../{place.rsplit('/', 1)[1]}")
        (folder / "sys/class/net").mkdir(parents=True, exist_ok=True)
        (folder / f"sys/class/net/eth{index}").symlink_to(f"../../{place}/net/eth{index}")
        (port / "address").write_text(f"52:54:00:00:{index >> 8:02x}:{index & 255:02x}\n")
        (port / "addr_assign_type").write_text("0\n")
        answer += bytes([1, len(name)]) + struct.pack("!H", len(sent)) + name + sent
    (folder / "kernel/lldp").mkdir(parents=True)
    (folder / "kernel/lldp/frames").write_bytes(answer)


def inspect(folder, form):
    command = [machines.PROGRAM, "inspect", "--root", str(folder), "--format", form, "--log-level", "error"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def by_ironic(document):
    """Ironic's names and values by port."""
    document = copy.deepcopy(document)
    inventory = document.pop("inventory")
    task = types.SimpleNamespace(node=types.SimpleNamespace(uuid="node"))
    # The hook reads no more than 64 ports.
    every = inventory["interfaces"]
    for at in range(0, len(every), 64):
        parse_lldp.ParseLLDPHook()(task, {"interfaces": every[at:at + 64]}, document)
    return document.get("parsed_lldp", {})


def known(capabilities):
    """The capabilities that Ironic has a name for: all but "other"."""
    return sorted(set(capabilities or []) & set(CAPABILITIES.values()))


def compare(port, theirs, ours):
    """Differences between Ironic's values and those of the report."""
    vlan = lambda number: number if number in range(1, 4095) else None  # noqa: E731
    wrong = []

    def expect(name, found):
        # Ironic keeps 0, which means none or unknown.
        value = theirs.get(name) or None
        if value != (found or None):
            wrong.append(f"{port}: {name}: Ironic reads {value!r}, the report has {found!r}")

    theirs = dict(theirs)
    for name in ("switch_port_untagged_vlan_id", "switch_port_management_vlan_id"):
        theirs[name] = vlan(theirs.get(name))
    if "switch_port_protocol_vlan_ids" in theirs:
        theirs["switch_port_protocol_vlan_ids"] = [v for v in theirs["switch_port_protocol_vlan_ids"] if vlan(v)]
    if "switch_port_vlans" in theirs:
        vlans = {(v["id"], v["name"]) for v in theirs["switch_port_vlans"] if vlan(v["id"])}
        theirs["switch_port_vlans"] = sorted(vlans)
    for name in ("switch_capabilities_support", "switch_capabilities_enabled"):
        theirs[name] = sorted(CAPABILITIES[c] for c in theirs.get(name, []))
    theirs["switch_mgmt_addresses"] = sorted(theirs.get("switch_mgmt_addresses", []))
    for name, key in {"switch_chassis_id": "chassis_id", "switch_port_id": "port_id",
                      "switch_port_description": "port_description", "switch_system_name": "system_name",
                      "switch_system_description": "system_description",
                      "switch_port_untagged_vlan_id": "port_vlan_id",
                      "switch_port_management_vlan_id": "management_vlan_id", "switch_port_mtu": "max_frame_bytes",
                      "switch_port_protocol_vlan_ids": "protocol_vlan_ids"}.items():
        expect(name, ours.get(key))
    expect("switch_capabilities_support", known(ours.get("capabilities")))
    expect("switch_capabilities_enabled", known(ours.get("enabled_capabilities")))
    expect("switch_mgmt_addresses", sorted(a["address"] for a in ours.get("management_addresses", [])))
    expect("switch_port_vlans", sorted((v["id"], v.get("name")) for v in ours.get("vlans", [])))
    bundle = ours.get("link_aggregation", {})
    expect("switch_port_link_aggregation_support", bundle.get("is_capable"))
    expect("switch_port_link_aggregation_enabled", bundle.get("is_enabled"))
    expect("switch_port_link_aggregation_id", bundle.get("port_number"))
    mac = ours.get("mac_phy", {})
    # Ironic drops the whole part if it does not know the number of the mode.
    if mac.get("mau_type") in lldp_tlvs.OPER_MAU_TYPES or not mac:
        expect("switch_port_autonegotiation_support", mac.get("is_autonegotiation_supported"))
        expect("switch_port_autonegotiation_enabled", mac.get("is_autonegotiation_enabled"))
        expect("switch_port_mau_type", lldp_tlvs.OPER_MAU_TYPES.get(mac.get("mau_type")))
    return wrong


def main(n, seed):
    dice = random.Random(seed)
    logging.disable(logging.CRITICAL)
    frames = [frame(dice) for _ in range(n)]
    wrong = []
    for at in range(0, n, 100):
        part = frames[at:at + 100]
        with tempfile.TemporaryDirectory() as folder:
            capture(pathlib.Path(folder), part)
            report, document = inspect(folder, "json"), inspect(folder, "ironic")
        neighbours = {i["name"]: i.get("lldp", []) for i in report["network"]["interfaces"]}
        parsed = by_ironic(document)
        for index, sent in enumerate(part):
            port = f"eth{index}"
            # The agent also lists the end mark and the padding.
            raw = [[kind, binascii.hexlify(data).decode()] for kind, data in netutils._parse_tlv(sent[14:]) if kind]
            if [3, "0000"] in raw:
                # The neighbour takes its information back (IEEE 802.1AB, 8.5.4), which Ironic does not know.
                if neighbours[port] or port in document["lldp_raw"]:
                    wrong.append(f"{port}: a neighbour with a time to live of 0 is listed")
                continue
            if document["lldp_raw"].get(port) != raw:
                wrong.append(f"{port}: lldp_raw is not what ironic-python-agent reads")
            wrong += compare(port, parsed.get(port, {}), neighbours[port][0])
    for line in wrong[:20]:
        print(line)
    print(f"\nLLDP: {n} random frames, seed {seed}: {len(wrong)} differences from ironic-python-agent 13.0.0 and Ironic 39.0.0")
    return bool(wrong)


if __name__ == "__main__":
    words = [int(word) for word in sys.argv[1:]]
    sys.exit(main(*(words + [1000, 1][len(words):])))
