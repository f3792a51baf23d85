"""Says what pip-audit found, from its JSON; ends with status 1 if that is any known fault."""

import json
import sys
from pathlib import Path

packages = json.loads(Path(sys.argv[1]).read_text("utf-8"))["dependencies"]
for package in packages:
    if "skip_reason" in package:
        print(f"== not looked up: {package['name']} ({package['skip_reason']})")
found = [(package, fault["id"]) for package in packages for fault in package.get("vulns", ())]
for package, fault in found:
    print(f"== {package['name']} {package['version']} has the known fault {fault}")
sys.exit(1 if found else 0)
