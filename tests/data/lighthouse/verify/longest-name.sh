#!/usr/bin/env python3
import subprocess, sys

CASES = [
    ("Ida\nMarguerite\nOlga\n", "Marguerite"),
    ("Thea\nAlma\nVega", "Alma"),
    ("   Bo      \nIngrid\n\n", "Ingrid"),
    ("\n", ""),
]
for names, longest in CASES:
    child = subprocess.run(
        ["python3", "/srv/light/longest.py"], input=names, capture_output=True, text=True, timeout=10
    )
    if child.returncode or child.stdout.strip() != longest:
        sys.exit(1)
