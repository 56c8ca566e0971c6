"""The captured machines and the documents that the program makes of them."""

import json
import os
import pathlib
import subprocess

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
# `make exports` sets it.
PROGRAM = os.environ["AGENT"]
FORMATS = ("json", "ironic", "metal3", "assisted")
# Machines and schemas next to the repository, which are not part of it.
SHARED = REPOSITORY.parent / "shared"


def machines():
    """Every captured machine, as name and archive, and this one, which has none."""
    found = {"this machine": None}
    for folder in (REPOSITORY / "fixtures", SHARED / "fixtures"):
        for archive in sorted(folder.glob("*/root.tar.zst")):
            found[archive.parent.name] = archive
    return found


def schema(name):
    """A schema next to the repository; None where it is absent."""
    path = SHARED / "schemas" / name
    return json.loads(path.read_text()) if path.exists() else None


def documents(archive):
    """The report of a machine and its other forms, by format."""
    made = {}
    for form in FORMATS:
        command = [PROGRAM, "inspect", "--format", form, "--log-level", "error"]
        command += ["--root", str(archive)] if archive else []
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"inspect --format {form} exits with {done.returncode}: {done.stderr}")
        made[form] = json.loads(done.stdout)
    return made
