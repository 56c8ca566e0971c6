"""Checks the exports of every captured machine with the code of their consumers, and prints a table.

Usage: run.py [NAME...]     only the machines whose name contains one of the words
"""

import collections
import logging
import multiprocessing
import sys
import traceback

import check_ironic
import check_others
import machines

CHECKS = {
    "Ironic 39.0.0: validator and 12 inspection hooks": check_ironic.check,
    "Metal3: schema of HardwareData": check_others.check_metal3 if check_others.METAL3 else None,
    "assisted-service: schema of the inventory":
        check_others.check_assisted_schema if check_others.ASSISTED else None,
    "assisted-service-client 2.56.0: round trip": check_others.check_assisted_client,
}


def check_machine(named):
    """The result of each check of one machine."""
    name, archive = named
    logging.disable(logging.CRITICAL)
    try:
        documents = machines.documents(archive)
    except Exception as error:  # noqa: BLE001
        return name, False, {title: [f"no document: {error}"] for title in CHECKS}
    found = {}
    for title, check in CHECKS.items():
        if check is None:
            continue
        try:
            found[title] = check(documents)
        except Exception:  # noqa: BLE001
            found[title] = [traceback.format_exc(limit=-3)]
    return name, check_ironic.has_port(documents), found


def main(words):
    chosen = [(n, a) for n, a in machines.machines().items() if not words or any(w in n for w in words)]
    counts = collections.defaultdict(collections.Counter)
    with multiprocessing.Pool(2) as pool:
        for name, has_port, results in pool.imap_unordered(check_machine, chosen):
            for title, wrong in results.items():
                counts[title]["failed" if wrong else "passed"] += 1
                counts[title]["with a port"] += has_port
                for line in wrong or []:
                    print(f"{name}: {title}: {line}", flush=True)
    print(f"\n{'checker':55}{'machines':>10}{'with port':>10}{'passed':>8}{'failed':>8}")
    for title, check in CHECKS.items():
        count = counts[title]
        n_machines = count["passed"] + count["failed"]
        row = f"{n_machines:>10}{count['with a port']:>10}{count['passed']:>8}{count['failed']:>8}"
        print(f"{title:55}" + (row if check else "  the schema is not next to the repository"))
    return any(count["failed"] for count in counts.values()) or not chosen


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
