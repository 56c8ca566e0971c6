"""Our root device hints against Ironic's matcher, on random disks and hints in both syntaxes.

A difference is either expected, of a kind that docs/hints.md names, or a failure.

Usage: check_hints.py [N] [SEED]
"""

import collections
import json
import logging
import pathlib
import random
import re
import subprocess
import sys
import urllib.parse

from ironic.conf import CONF

CONF([], project="ironic")

from ironic.common import utils  # noqa: E402
from ironic_python_agent import device_hints  # noqa: E402

import machines  # noqa: E402

GIB = 1 << 30
PROGRAM = pathlib.Path(machines.PROGRAM).parent / "examples/match-hints"
MODELS = ["SAMSUNG MZ7LH960", "MZ7LH960", "INTEL SSDPE2KX010T8", "PERC H730P Mini", "ST4000NM0023", "none",
          "Micron_5300 100%", "a=b", "QEMU HARDDISK", "x'y"]
VENDORS = ["ATA", "SEAGATE", "Dell", "samsung", "0x1af4"]
SERIALS = ["S4EVNX0R", " S4EVNX0R ", "s4evnx0r", "PHLJ912300", "0001", "12", "none"]
WWNS = ["0x5000c500a1b2c3d4", "0x600508b1001c4d41aabbccddeeff0011", "0x600508b1001c4d41", "eui.0025385b11b2c3d4",
        "nvme.1b36-64656164-51454d55-00000001"]
PATHS = ["/dev/disk/by-path/pci-0000:00:1f.2-ata-1", "/dev/disk/by-path/pci-0000:3b:00.0-nvme-1"]
HCTLS = ["0:0:0:0", "0:2:1:0", "6:0:1:0"]
TRANSPORTS = ["sata", "sas", "nvme", "usb", "raid"]
SIZES = [0, 1, GIB - 1, GIB, 10 * GIB, 465 * GIB, 500_107_862_016, 931 * GIB + 7, 10**12, 10 * 10**12]
TEXTS = {"model": MODELS, "vendor": VENDORS, "serial": SERIALS, "wwn": WWNS, "wwn_with_extension": WWNS,
         "wwn_vendor_extension": ["0xaabbccddeeff0011", "0x1"], "name": ["/dev/sda", "/dev/sdb", "/dev/nvme0n1"],
         "hctl": HCTLS, "by_path": PATHS, "tran": TRANSPORTS}
TEXT_OPERATORS = ["", "", "", "s==", "s!=", "s<", "s<=", "s>", "s>=", "<in>", "<or>", "<all-in>", "==", ">="]
NUMBER_OPERATORS = ["", "=", "==", "!=", "<", "<=", ">", ">=", "<or>", "<range-in>", "s==", "<in>"]
METAL3 = {"deviceName": "name", "hctl": "hctl", "serialNumber": "serial", "wwn": "wwn",
          "wwnWithExtension": "wwn_with_extension", "wwnVendorExtension": "wwn_vendor_extension",
          "model": "model", "vendor": "vendor", "minSizeGigabytes": "size", "rotational": "rotational"}


def disk(dice, name):
    """A disk as the report has it; each fact may be unknown."""
    facts = {"name": name, "device": f"/dev/{name}"}
    choices = {"model": MODELS, "vendor": VENDORS, "serial": SERIALS, "wwn": WWNS, "by_path": PATHS, "hctl": HCTLS,
               "transport": TRANSPORTS, "rotational": [True, False]}
    for key, values in choices.items():
        if dice.random() < 0.8:
            facts[key] = dice.choice(values)
    # Ironic cannot compare any disk if one has no size, so such disks are not exported.
    facts["size_bytes"] = dice.choice(SIZES)
    return facts


def changed(dice, text):
    """The text, or what people make of it."""
    kind = dice.random()
    if kind < 0.15:
        return text.upper()
    if kind < 0.25:
        return text.lower()
    if kind < 0.3:
        return f" {text} "
    if kind < 0.4 and len(text) > 4:
        return text[1:-2]
    return text


def ironic_hints(dice):
    """Hints in Ironic's syntax."""
    hints = {}
    for _ in range(dice.choice([1, 1, 1, 2, 3])):
        key = dice.choice(list(TEXTS) + ["size", "size", "rotational"])
        blank = dice.choice([" ", " ", " ", ""])
        if key == "rotational":
            hints[key] = dice.choice([True, False, "true", "False", "yes", "0", 1, "maybe"])
        elif key == "size":
            numbers = [str(dice.choice([1, 10, 465, 466, 500, 931, 9313, 0, -1, "x"])) for _ in range(2)]
            operator = dice.choice(NUMBER_OPERATORS)
            hints[key] = {"": numbers[0], "<or>": f"<or>{blank}{numbers[0]} <or> {numbers[1]}",
                          "<range-in>": f"<range-in> [ {numbers[0]} {numbers[1]} ]"}.get(
                              operator, f"{operator}{blank}{numbers[0]}")
            if operator == "" and numbers[0].isdigit() and dice.random() < 0.5:
                hints[key] = int(numbers[0])
        else:
            values = [changed(dice, dice.choice(TEXTS[key])) for _ in range(2)]
            operator = dice.choice(TEXT_OPERATORS)
            hints[key] = {"": values[0], "<or>": f"<or>{blank}{values[0]} <or> {values[1]}",
                          "<all-in>": f"<all-in> {values[0]} {values[1]}"}.get(
                              operator, f"{operator}{blank}{values[0]}")
    return hints


def metal3_hints(dice):
    """Hints of a BareMetalHost, and what the baremetal-operator makes of them for Ironic (devicehints.go)."""
    hints, translated = {}, {}
    for key in dice.sample(list(METAL3), dice.choice([1, 1, 2, 3])):
        to = METAL3[key]
        if key == "rotational":
            value = dice.choice([True, False])
            hints[key], translated[to] = value, value
        elif key == "minSizeGigabytes":
            value = dice.choice([1, 10, 465, 466, 931, 9313])
            hints[key], translated[to] = value, f">= {value}"
        elif key in ("model", "vendor"):
            value = changed(dice, dice.choice(TEXTS[to]))
            hints[key], translated[to] = value, f"<in> {value}"
        else:
            value = dice.choice(TEXTS[to] + (PATHS if key == "deviceName" else []))
            if value.startswith("/dev/disk/by-path/"):
                to = "by_path"
            hints[key], translated[to] = value, f"s== {value}"
    # In Metal3 all keys without a capital are the same words as Ironic's: such hints are Ironic's to us.
    return hints, translated if any(c.isupper() for c in "".join(hints)) else None


def by_ironic(disks, hints):
    """The paths that fit, or an error as text."""
    try:
        found = [d["name"] for d in device_hints.find_devices_by_hints(disks, hints)]
        if "tran" not in hints:
            # The server's own copy, which lacks this one hint, must agree.
            server = [d["name"] for d in utils.find_devices_by_hints(disks, hints)]
            assert found == server, (found, server)
        return found
    except AssertionError:
        raise
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}"


def explained(disks, hints, ours, theirs):
    """The kind of an expected difference, as docs/hints.md names it; None for any other."""
    texts = {k: v for k, v in hints.items() if k not in ("size", "rotational")}
    size = str(hints.get("size", "")).strip()
    if isinstance(theirs, str) and isinstance(ours, str):
        return None
    if isinstance(theirs, list) and isinstance(ours, str):
        if any(str(v).strip().startswith(("=", "!", ">")) or str(v).strip().startswith("<") for v in texts.values()):
            return "refused: an operator of numbers for a text"
        if size.startswith(("s", "<in>")):
            return "refused: an operator of texts for the size"
        return None
    if isinstance(theirs, str):
        if any("<all-in>" in str(v) for v in texts.values()):
            return "works: <all-in> fails in Ironic"
        if "<range-in>" in size:
            return "works: <range-in> fails in Ironic"
        return None
    if size.startswith("<or>") and set(theirs) <= set(ours):
        return "works: <or> of sizes matches nothing in Ironic"
    extra, lost = set(ours) - set(theirs), set(theirs) - set(ours)
    by_name = {d["name"]: d for d in disks}
    lacks = [k for k in texts for name in lost if k not in by_name[name]]
    if lost and lacks and not extra:
        return "safer: a disk that lacks the attribute does not match"
    rotates = "rotational" in hints and any("rotational" not in by_name[n] for n in lost)
    if rotates and not extra:
        return "safer: a disk that lacks the attribute does not match"
    changed_disks = [by_name[name] for name in extra | lost]
    if extra and not lost and "tran" in texts and all("tran" not in d for d in changed_disks):
        return "wider: transports that lsblk does not know, such as raid"
    # What is compared by order is, in Ironic, the text as in a URL: `:` is `%3A` and less than any digit.
    orders = {k for k, v in texts.items() if str(v).strip().lower().startswith(("s<", "s>"))}
    if any(urllib.parse.quote(str(d.get(k, v)) + str(v)) != str(d.get(k, v)) + str(v)
           for k, v in texts.items() if k in orders for d in changed_disks):
        return "different: the order of texts is that of the texts, not of their URL form"
    if all(any(same_wwn(d, k, str(v)) for k, v in texts.items()) for d in changed_disks):
        return "wider: spellings of one WWN are equal"
    if extra and not lost and all(is_named(d, str(texts.get("name", texts.get("deviceName", "")))) for d in changed_disks):
        return "wider: a name may be any path of the disk"
    return None


def bare(text):
    """The digits of a WWN, and their first half if it has an extension."""
    digits = re.sub(r"^(wwn|naa|eui|0x|[-.])*", "", text.strip().lower())
    return {digits, digits[:16] if len(digits) == 32 else digits}


def wanted(text):
    """The values of a hint without operators."""
    return [v.strip() for v in re.split(r"<or>|<in>|<all-in>|s[!=<>]=?=?", text, flags=re.IGNORECASE) if v.strip()]


def same_wwn(disk, key, text):
    """Whether a WWN of the disk is the wanted one in another spelling."""
    if not key.startswith("wwn"):
        return False
    return any(bare(v) & bare(disk.get("wwn", "")) or bare(v) & bare(disk.get("wwn_vendor_extension", ""))
               for v in wanted(text))


def is_named(disk, text):
    """Whether the disk has the name as another path."""
    path = disk.get("by_path", "").lower()
    if text.strip().lower().startswith(("s<", "s>", "<in>", "<all-in>")):
        return bool(path)
    return any(v.lower() == path for v in wanted(text))


def main(n, seed):
    dice = random.Random(seed)
    logging.disable(logging.CRITICAL)
    ours_process = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    counts, failures = collections.Counter(), []
    for _ in range(n // 10):
        disks = [disk(dice, name) for name in ("sda", "sdb", "nvme0n1", "sdc")]
        asked = []
        for _ in range(10):
            if dice.random() < 0.3:
                hints, translated = metal3_hints(dice)
                asked.append((hints, translated or hints))
            else:
                hints = ironic_hints(dice)
                asked.append((hints, hints))
        print(json.dumps({"disks": disks, "hints": [hints for hints, _ in asked]}),
              file=ours_process.stdin, flush=True)
        answer = json.loads(ours_process.stdout.readline())
        names = {d["name"] for d in answer["disks"]}
        for (hints, translated), ours in zip(asked, answer["matches"]):
            if isinstance(ours, list):
                ours = [name for name in ours if name in names]
            theirs = by_ironic(answer["disks"], translated)
            if ours == theirs:
                counts["the same disks"] += 1
            elif isinstance(ours, str) and isinstance(theirs, str):
                counts["refused by both"] += 1
            elif kind := explained(answer["disks"], hints, ours, theirs):
                counts[kind] += 1
            else:
                counts["DIFFERENT"] += 1
                failures.append((hints, ours, theirs, answer["disks"]))
    ours_process.stdin.close()
    ours_process.wait()
    for hints, ours, theirs, disks in failures[:10]:
        print(f"{json.dumps(hints)}\n  ours {ours}\n  Ironic's {theirs}\n  disks {json.dumps(disks)}")
    print(f"\nroot device hints against ironic 39.0.0 and ironic-python-agent 13.0.0, seed {seed}")
    for kind, count in sorted(counts.items(), key=lambda item: -item[1]):
        print(f"{count:>8}  {kind}")
    return bool(failures) or not counts["the same disks"]


if __name__ == "__main__":
    words = [int(word) for word in sys.argv[1:]]
    sys.exit(main(*(words + [10_000, 1][len(words):])))
