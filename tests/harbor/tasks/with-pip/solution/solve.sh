#!/bin/bash
echo 'lamp = 40' > /work/ledger.toml
