#!/bin/bash
names=$(sort /desk/names.txt | paste -sd ' ')
order=$(paste -sd ' ' /desk/names.txt)
[ "$names" = "chair lamp table" ] && complete=1 || complete=0
[ "$order" = "table chair lamp" ] && ordered=1 || ordered=0
echo "{\"complete\": $complete, \"ordered\": $ordered}" > /logs/verifier/reward.json
