"""Metal3's and assisted-service's schemas, and the assisted client's round trip."""

import json

import jsonschema
from assisted_service_client import ApiClient

import machines

CHECKER = jsonschema.FormatChecker()


def validator(name):
    text = machines.schema(name)
    if text is None:
        return None
    kind = jsonschema.validators.validator_for(text)
    kind.check_schema(text)
    return kind(text, format_checker=CHECKER)


METAL3 = validator("metal3-hardwaredata.schema.json")
HOST = validator("metal3-baremetalhost.schema.json")
ASSISTED = validator("assisted-inventory.schema.json")


def errors(validator, document):
    return [f"{'/'.join(map(str, e.path))}: {e.message:.200}" for e in validator.iter_errors(document)]


def check_metal3(documents):
    """The resource, and the same details as a BareMetalHost's status."""
    resource = documents["metal3"]
    wrong = errors(METAL3, resource)
    details = resource.get("spec", {}).get("hardware", {})
    storage = details.get("storage", [])
    expected = [d["size"] for d in documents["ironic"]["inventory"].get("disks", [])]
    if [disk["sizeBytes"] for disk in storage] != expected:
        wrong.append(f"disks {[d['sizeBytes'] for d in storage]}, expected {expected}")
    macs = {nic["mac"] for nic in details.get("nics", [])}
    expected = {i["mac_address"] for i in documents["ironic"]["inventory"].get("interfaces", [])}
    if macs != expected:
        wrong.append(f"MACs {macs}, expected {expected}")
    return wrong


def check_assisted_schema(documents):
    return errors(ASSISTED, documents["assisted"])


def check_assisted_client(documents):
    """The client's models keep every key and value."""
    document = documents["assisted"]

    class Answer:
        data = json.dumps(document)

    client = ApiClient()
    inventory = client.deserialize(Answer, "Inventory")
    kept = client.sanitize_for_serialization(inventory)
    wrong = []
    if kept != document:
        wrong.append(f"the round trip changes {[k for k in document if kept.get(k) != document[k]]}")
    n_disks = len([d for d in documents["json"]["block"].get("disks", []) if not d.get("hidden")])
    if len(inventory.disks or []) != n_disks:
        wrong.append(f"{len(inventory.disks or [])} disks, expected {n_disks}")
    return wrong
