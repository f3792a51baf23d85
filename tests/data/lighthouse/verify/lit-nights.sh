for case in 1912-03=2 1912-04=1 1912-05=0; do
    printed=$(python3 -c "
import json
with open('/srv/light/nights.json') as file:
    print(json.load(file)['${case%=*}'])")
    [ "$printed" = "${case#*=}" ] || exit 1
done
