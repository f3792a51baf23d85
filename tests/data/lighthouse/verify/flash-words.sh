cd /srv/light || exit 1
while IFS='|' read -r text flashes; do
    printed=$(timeout 10 python3 -c 'import sys, flashes; print(flashes.send(sys.argv[1]))' "$text")
    [ "$printed" = "$flashes" ] || exit 1
done <<'CASES'
J|-
Kb|-. ..
ab 12 c!|. .. / ...
z y|--...... / --.....
|
CASES
