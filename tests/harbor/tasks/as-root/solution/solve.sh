#!/bin/bash
echo ledger=/work/ledger.csv > /etc/ledger.conf
chmod 600 /etc/ledger.conf
