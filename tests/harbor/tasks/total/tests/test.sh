#!/bin/bash
if [ "$(cat out/total.txt)" = 235 ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
exit 7 # which Harbor ignores
