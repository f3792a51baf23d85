#!/bin/bash
echo 'tail -n 1 /work/ledger.csv | cut -d, -f1' > /work/last.sh
