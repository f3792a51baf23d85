#!/usr/bin/env python3
import json, subprocess, sys

CASES = {
    "rows": ("SELECT count(*) FROM stores", [[5]]),
    "numbers": ("SELECT sum(quantity * pence) FROM stores WHERE typeof(pence) = 'integer'", [[1886]]),
    "a comma in a name": ("SELECT quantity, pence FROM stores WHERE item = 'rope, tarred'", [[2, 310]]),
}
CHILD = """
import json, sqlite3, sys
base = sqlite3.connect("file:/srv/light/stores.db?mode=ro", uri=True)
print(json.dumps(base.execute(sys.argv[1]).fetchall()))
"""
tests = []
for name, (query, rows) in CASES.items():
    child = subprocess.run([sys.executable, "-I", "-c", CHILD, query], capture_output=True, text=True)
    status = "passed" if child.stdout.strip() == json.dumps(rows) else "failed"
    tests.append({"name": name, "status": status, "message": (child.stdout + child.stderr)[-300:]})
with open("/logs/verifier/ctrf.json", "w") as file:
    json.dump({"results": {"tests": tests}}, file)
