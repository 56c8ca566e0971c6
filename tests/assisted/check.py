"""Reads every document that the agent sent in the tests with assisted-service's own Python client.

    check.py DIRECTORY      the files that tests/job/assisted.rs records with RCI_RECORD=DIRECTORY

A document must survive the client's models without a loss, and fit the schema of the service's definition where a
checkout of the schemas is next to the repository. Every path must be one of the client's operations.
"""

import inspect
import json
import pathlib
import re
import sys

import jsonschema
from assisted_service_client import ApiClient
from assisted_service_client.api import installer_api

SCHEMAS = pathlib.Path(__file__).resolve().parents[3] / "shared" / "schemas" / "assisted"
BASE = "/api/assisted-install"
# The end of a path, the client's model and the name of the schema.
BODIES = {
    "/hosts": ("HostCreateParams", "host-create-params"),
    "/instructions": ("StepReply", "step-reply"),
    "/progress": ("HostProgress", "host-progress"),
    "/logs-progress": ("LogsProgressParams", "logs-progress-params"),
}
OUTPUTS = {
    "inventory": ("Inventory", "inventory"),
    "connectivity-check": ("ConnectivityReport", "connectivity-report"),
    "free-network-addresses": ("list[FreeNetworkAddresses]", "free-networks-addresses"),
    "ntp-synchronizer": ("NtpSynchronizationResponse", "ntp-synchronization-response"),
    "installation-disk-speed-check": ("DiskSpeedCheckResponse", "disk-speed-check-response"),
    "domain-resolution": ("DomainResolutionResponse", "domain-resolution-response"),
    "container-image-availability": ("ContainerImageAvailabilityResponse", "container-image-availability-response"),
}
# What the test's own server sends, by the type of the step.
ARGUMENTS = {
    "connectivity-check": ("ConnectivityCheckParams", "connectivity-check-params"),
    "ntp-synchronizer": ("NtpSynchronizationRequest", "ntp-synchronization-request"),
    "installation-disk-speed-check": ("DiskSpeedCheckRequest", "disk-speed-check-request"),
    "domain-resolution": ("DomainResolutionRequest", "domain-resolution-request"),
    "container-image-availability": ("ContainerImageAvailabilityRequest", "container-image-availability-request"),
    "install": ("InstallCmdRequest", "install-cmd-request"),
}
CLIENT = ApiClient()


def operations():
    """The paths of the client's operations as regular expressions."""
    source = inspect.getsource(installer_api)
    paths = set(re.findall(r"'(/v2/[^']*)', '", source))
    return [re.compile(BASE + re.sub(r"\{[^}]*\}", "[0-9a-f-]{36}", path) + r"(\?.*)?$") for path in paths]


def check(document, model, schema):
    """What is wrong with a document."""

    class Answer:
        data = json.dumps(document)

    kept = CLIENT.sanitize_for_serialization(CLIENT.deserialize(Answer, model))
    wrong = [] if kept == document else [f"{model} changes it to {json.dumps(kept):.300}"]
    path = SCHEMAS / f"{schema}.json"
    if path.exists():
        checker = jsonschema.Draft7Validator(json.loads(path.read_text()), format_checker=jsonschema.FormatChecker())
        wrong += [f"{schema}: {error.message:.200}" for error in checker.iter_errors(document)]
    return wrong


def of_line(line, known):
    """The kind of each document in a recorded line, and what is wrong with it."""
    if "steps" in line:
        yield "Steps", check(line["steps"], "Steps", "steps")
        for step in line["steps"]["instructions"]:
            if step["step_type"] in ARGUMENTS and step.get("args"):
                yield step["step_type"] + " request", check(json.loads(step["args"][0]), *ARGUMENTS[step["step_type"]])
        return
    path, body = line["path"], line["body"]
    yield "path", [] if any(pattern.match(path) for pattern in known) else [f"{path} is no operation"]
    end = next((end for end in BODIES if path.endswith(end)), None)
    if body is None or end is None:
        return
    yield BODIES[end][0], check(body, *BODIES[end])
    kind, output = body.get("step_type"), body.get("output")
    if kind in OUTPUTS and output:
        yield kind, check(json.loads(output), *OUTPUTS[kind])


def main():
    known, counts, failures = operations(), {}, []
    files = sorted(pathlib.Path(sys.argv[1]).glob("*.jsonl"))
    for file in files:
        for text in file.read_text().splitlines():
            line = json.loads(text)
            for kind, wrong in of_line(line, known):
                counts[kind] = counts.get(kind, 0) + 1
                failures += [f"{kind}: {what}\n    {text:.500}" for what in wrong]
    for kind, n in sorted(counts.items()):
        print(f"{n:6} {kind}")
    if not SCHEMAS.exists():
        print("the schemas are absent; only the client's models were used")
    print(f"{sum(counts.values())} documents of {len(files)} runs, {len(failures)} failures")
    print("\n".join(failures))
    # Both need what not every machine has: direct reads, and a network with a free address.
    may_fail = {"installation-disk-speed-check", "free-network-addresses"}
    missing = {model for model, _ in BODIES.values()} | set(OUTPUTS)
    missing -= set(counts)
    if missing:
        print("no document of: " + ", ".join(sorted(missing)))
    sys.exit(1 if failures or missing - may_fail or not files else 0)


main()
