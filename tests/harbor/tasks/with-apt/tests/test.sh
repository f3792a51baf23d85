#!/bin/bash
tree --version >/dev/null && [ "$(cat /desk/digest.txt)" = "$(printf lamp | sha1sum | cut -d' ' -f1)" ]
echo $(($? == 0)) > /logs/verifier/reward.txt
