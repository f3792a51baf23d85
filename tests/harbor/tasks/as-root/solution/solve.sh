#!/bin/bash
echo ledger=/desk/ledger.csv > /etc/ledger.conf
chmod 600 /etc/ledger.conf
