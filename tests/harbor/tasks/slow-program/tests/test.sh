#!/bin/bash
[ "$(bash /work/last.sh)" = table ]
echo $(($? == 0)) > /logs/verifier/reward.txt
