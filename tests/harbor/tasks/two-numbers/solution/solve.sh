#!/bin/bash
tail -n +2 /work/ledger.csv | sort -t, -k2 -rn | cut -d, -f1 > /work/names.txt
