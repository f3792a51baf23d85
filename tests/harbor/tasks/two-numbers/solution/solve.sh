#!/bin/bash
tail -n +2 /desk/ledger.csv | sort -t, -k2 -rn | cut -d, -f1 > /desk/names.txt
