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
sed -i 's/$/\r/' '/depot/inbox/reply to velomat.TXT' '/depot/inbox/scan 0092.txt' '/depot/inbox/later/route map.txt'
printf 'IMG_1\rIMG_2\nIMG_3\n' > /depot/inbox/photo.list

# Hard links of the ledger, and a mere copy.
ln /depot/orders/ledger.txt /depot/archive/.ledger
ln /depot/orders/ledger.txt '/depot/notes/old papers/ledger, same.txt'
cp /depot/orders/ledger.txt /depot/archive/ledger.bak

# Short cuts, some of them broken.
mkdir /lab/links/daily
ln -s ../readings/2024-05-01.csv /lab/links/first
ln -s /lab/people.csv /lab/links/people
ln -s ../samples /lab/links/samples
ln -s ../reading/2024-05-01.csv /lab/links/typo
ln -s typo '/lab/links/first of may'
ln -s ../mail/0003.txt /lab/links/daily/mail
ln -s ../../plots/cover.csv /lab/links/daily/cover
ln -s /lab/analysis/means.awk /lab/links/daily/means
ln -s /lab/archive/2021 /lab/links/daily/2021

mkdir -p /depot/photos/2024 /lab/samples/frozen
chmod 600 /lab/records/keys.txt /lab/records/pump.sh

# Times.
find /depot /lab -exec touch -h -d '2024-01-15 12:00:00 UTC' {} +
touch -d '2024-05-06 09:30:00 UTC' /lab/readings/raw/2024-05-06.txt /lab/readings/2024-05-05.csv
touch -d '2024-05-21 19:00:00 UTC' /lab/mail/0005.txt /lab/analysis/.defaults '/lab/store/2023/plots by owner (signed).tsv'
touch -d '2024-04-29 12:00:00 UTC' /lab/readings/raw/2024-04-28.txt /lab/people.csv
