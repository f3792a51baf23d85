number=0 failures=0
while IFS= read -r line; do
    number=$((number + 1))
    printed=$(sed -n "${number}p" /srv/light/ships.txt)
    [ "$printed" = "$line" ] && result= || { result="<failure message=\"line $number\"/>"; failures=$((failures + 1)); }
    cases="$cases<testcase name=\"line $number\">$result</testcase>"
done <<'LINES'
03:55 collier
04:10 brig
09:30 trawler
14:00 cutter
14:00 ketch
21:45 steamer

LINES
echo "<testsuite name=\"ships\" failures=\"$failures\">$cases</testsuite>" >/logs/verifier/junit.xml
