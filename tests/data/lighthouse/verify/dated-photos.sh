passed=1
for case in '1911-07-02=The new lens' '1909-12-24=Ice on the rail' '1911-01-30=The boat'; do
    date=${case%=*}
    printed=$(cat "/srv/light/photos/$date.txt")
    [ "$printed" = "Taken $date
${case#*=}" ] || passed=0
done
[ "$(ls /srv/light/photos | wc -l)" = 3 ] || passed=0
echo $passed >/logs/verifier/reward.txt
