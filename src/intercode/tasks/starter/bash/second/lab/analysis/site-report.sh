#!/bin/bash
# Number of plots per owner, from the table of the plots.
table=/lab/analysis/input/plots.tsv
if [ ! -r $table ]; then
    echo "site-report: cannot read $table" >&2
    exit 2
fi
if [ "$(head -n 1 $table)" != '# plots, edition 2024' ]; then
    echo "site-report: $table is not of the edition 2024 (see its first line)" >&2
    exit 3
fi
grep -v '^#' $table | cut -f 2 | sort | uniq -c | awk '{ n = $1; $1 = ""; print substr($0, 2) ": " n " plots" }' > /lab/analysis/site-report.txt
cat /lab/analysis/site-report.txt
