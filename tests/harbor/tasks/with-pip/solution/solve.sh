#!/bin/bash
echo 'lamp = 40' > /desk/ledger.toml
