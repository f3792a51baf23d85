#!/bin/bash
echo 0 > /logs/verifier/reward.txt
[ "$(stat -c %U:%a /etc/ledger.conf)" = root:600 ] || exit 1
[ "$(cat /etc/ledger.conf)" = ledger=/desk/ledger.csv ] || exit 1
echo 1 > /logs/verifier/reward.txt
