#!/bin/bash
if python3 - <<'END'
import urllib.request

text = urllib.request.urlopen("http://localhost:8765/ledger.csv", timeout=20).read()
assert text.startswith(b"name,amount"), text
END
then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
