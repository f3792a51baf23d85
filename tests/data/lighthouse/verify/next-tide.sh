cd /srv/light || exit 1
while IFS='|' read -r words time; do
    printed=$(timeout 10 python3 -c "from tide import later; print(later($words))")
    [ "$printed" = "$time" ] || exit 1
done <<'CASES'
"3 20:00"|4 08:25
"1 00:00", 2|2 00:50
"9 23:59"|10 12:24
"5 05:05", 0|5 05:05
CASES
