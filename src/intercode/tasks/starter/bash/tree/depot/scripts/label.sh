#!/bin/bash
# Writes the label of one bike. Called by the people at the counter, so it checks what it is told.
base=/depot
fail() { echo "label.sh: $1" >&2; exit 2; }

bike='' printer='' seal=''
while [ $# -gt 0 ]; do
    case $1 in
        --bike) bike=$2; shift ;;
        --printer) printer=$2; shift ;;
        --seal) seal=$2; shift ;;
        *) fail "unknown word: $1 (known: --bike ID --printer FORMAT --seal WORD)" ;;
    esac
    shift $(($# > 0))
done
[ -n "$bike" ] || fail 'which bike? (--bike ID)'
row=$(grep "^$bike	" $base/fleet/bikes.tsv) || fail "no bike $bike in the fleet"
case $printer in
    plain | wide | strip) ;;
    *) fail "format '$printer'? plain, wide or strip, as config/printers.ini has it for the printer" ;;
esac
[ "$seal" = "$(sed -n 's/^seal: //p' $base/scripts/.seal)" ] || fail 'the seal is wrong; the word of the day stands in scripts/.seal'

IFS='	' read -r id model station km state <<< "$row"
mkdir -p $base/labels
case $printer in
    plain) printf '%s %s\n' "$id" "$model" ;;
    wide) printf '%s | %s | %s\n' "$id" "$model" "$station" ;;
    strip) printf '%s\n%s\n%s km\n' "$id" "$model" "$km" ;;
esac > "$base/labels/$id.$printer"
