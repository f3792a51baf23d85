#!/bin/bash
python3 -c 'import toml; assert toml.load("/desk/ledger.toml") == {"lamp": 40}'
echo $(($? == 0)) > /logs/verifier/reward.txt
