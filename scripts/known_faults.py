"""Says what pip-audit found, from its JSON; ends with status 1 if that is any known fault.

    known_faults.py FAULTS [RECORDS PACKAGES]

An index may answer for its newest versions alone. What pip-audit could not look up is looked up in
the newest record of the package, `RECORDS/NAME/json`, if that is of the version that is installed
in the folder PACKAGES.
"""

import json
import re
import sys
import urllib.request
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

Package = dict[str, Any]


def in_newest_record(package: Package, records: str, version: str | None) -> Package:
    """The package with its faults, or with why they could not be had."""
    try:
        with urllib.request.urlopen(f"{records}/{package['name']}/json", timeout=60) as answer:
            record = json.load(answer)
        newest = record["info"]["version"]
        faults = [fault for fault in record["vulnerabilities"] if not fault.get("withdrawn")]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return {**package, "skip_reason": f"its newest record cannot be had: {error}"}
    if newest != version:
        return {
            **package,
            "skip_reason": f"{version} is installed, and the newest record is of {newest}",
        }
    return {"name": package["name"], "version": version, "vulns": faults}


def main(faults: str, records: str = "", folder: str = "") -> int:
    packages: list[Package] = json.loads(Path(faults).read_text("utf-8"))["dependencies"]
    if records:
        versions = {
            re.sub(r"[-_.]+", "-", each.name).lower(): each.version
            for each in distributions(path=[folder])
        }
        packages = [
            (
                in_newest_record(package, records, versions.get(package["name"]))
                if "skip_reason" in package
                else package
            )
            for package in packages
        ]
    for package in packages:
        if "skip_reason" in package:
            print(f"== not looked up: {package['name']} ({package['skip_reason']})")
    found = [(package, fault["id"]) for package in packages for fault in package.get("vulns", ())]
    for package, fault in found:
        print(f"== {package['name']} {package['version']} has the known fault {fault}")
    print(
        f"== looked up: {sum('vulns' in package for package in packages)} of {len(packages)}"
        " packages"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
