#!/bin/bash
set -e
awk -F, 'NR > 1 { sum += $2 } END { print sum }' "$LEDGER" > out/total.txt
