#!/bin/sh
# Runs once in the sandbox, in /, after the tree has been placed there. Makes what neither git nor a wheel carries:
# modes, links, line ends, archives, empty folders, times. No clock, no randomness.
set -eu
umask 022
find /depot /lab -type d -exec chmod 755 {} +
find /depot /lab -type f -exec chmod 644 {} +
chmod 755 /depot/scripts/label.sh /depot/scripts/nightly.sh /lab/analysis/site-report.sh /lab/analysis/input-notes.txt

# Archives with every name, owner and time fixed.
pack() { # FOLDER NAME TARGET: packs FOLDER/NAME and removes it
    tar -C "$1" --sort=name --mtime='2024-01-02 12:00:00 UTC' --owner=0 --group=0 --numeric-owner --format=ustar -cf - "$2" | gzip -n > "$3"
    rm -r "${1:?}/$2"
}
pack /depot/dropoff wrapped /depot/dropoff/parcel
pack /depot/archive 2023 /depot/archive/2023.tar.gz

# Windows line ends, and one carriage return that is none.
sed -i 's/$/\r/' '/depot/inbox/to abel.TXT' /depot/inbox/plan.txt '/depot/inbox/scan 0095.txt' /depot/inbox/later/MAP.TXT
printf 'old\rbox\n' > /depot/inbox/box.TXT.bak

# Hard links of the ledger, and a mere copy.
ln /depot/orders/ledger.txt /depot/scans/2023/.ledger
ln /depot/orders/ledger.txt '/depot/inbox/later/the ledger'
cp /depot/orders/ledger.txt /depot/archive/.ledger

# Short cuts, some of them broken.
mkdir /lab/links/weekly
ln -s ../readings/2024-05-02.csv /lab/links/second
ln -s /lab/peoples.csv /lab/links/people
ln -s ../samples /lab/links/samples
ln -s ../../plots/cover.csv /lab/links/weekly/cover
ln -s ../plots/cover.csv '/lab/links/weekly/cover, old'
ln -s second /lab/links/latest
ln -s /lab/analysis/means /lab/links/weekly/means

mkdir -p /depot/photos/2024 /lab/samples/frozen
chmod 600 /lab/records/budget.txt

# Times.
find /depot /lab -exec touch -h -d '2024-01-15 12:00:00 UTC' {} +
touch -d '2024-05-12 23:30:00 UTC' /lab/readings/raw/2024-05-12.txt /lab/datasets.tsv
touch -d '2024-06-09 19:00:00 UTC' /lab/mail/0009.txt /lab/protocols/v2/peat.txt /lab/analysis/.prepare
touch -d '2024-04-29 12:00:00 UTC' /lab/readings/raw/2024-04-28.txt /lab/protocols/v1/birds.txt
