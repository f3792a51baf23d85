import csv
import json
import sys

with open("/desk/ledger.csv") as file:
    rows = {row["name"]: int(row["amount"]) for row in csv.DictReader(file)}
with open("/desk/report.json", "w") as file:
    json.dump(rows, file, sort_keys=True, indent=int(sys.argv[1]))
