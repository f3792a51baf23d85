"""Says what pip-audit found, from its JSON; ends with status 1 if that is any known fault.

    known_faults.py FAULTS [RECORDS PACKAGES]

An index may answer for its newest versions alone. What pip-audit could not look up is looked up in the newest record of the
package, `RECORDS/NAME/json`, if that is of the version that is installed in the folder PACKAGES.
"""

import json
import re
import sys
import urllib.request
from importlib.metadata import distributions
from pathlib import Path


def in_newest_record(package, records, version):
    """The package with its faults, or with why they could not be had."""
    try:
        with urllib.request.urlopen(f"{records}/{package['name']}/json", timeout=60) as answer:
            record = json.load(answer)
        newest = record["info"]["version"]
        faults = [fault for fault in record["vulnerabilities"] if not fault.get("withdrawn")]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return {**package, "skip_reason": f"its newest record cannot be had: {error}"}
    if newest != version:
        return {**package, "skip_reason": f"{version} is installed, and the newest record is of {newest}"}
    return {"name": package["name"], "version": version, "vulns": faults}


packages = json.loads(Path(sys.argv[1]).read_text("utf-8"))["dependencies"]
if len(sys.argv) > 2:
    versions = {re.sub(r"[-_.]+", "-", found.name).lower(): found.version for found in distributions(path=[sys.argv[3]])}
    packages = [
        in_newest_record(package, sys.argv[2], versions.get(package["name"])) if "skip_reason" in package else package
        for package in packages
    ]
for package in packages:
    if "skip_reason" in package:
        print(f"== not looked up: {package['name']} ({package['skip_reason']})")
found = [(package, fault["id"]) for package in packages for fault in package.get("vulns", ())]
for package, fault in found:
    print(f"== {package['name']} {package['version']} has the known fault {fault}")
print(f"== looked up: {sum('vulns' in package for package in packages)} of {len(packages)} packages")
sys.exit(1 if found else 0)
