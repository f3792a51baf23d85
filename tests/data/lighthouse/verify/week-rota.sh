for case in 1=Anna 4=Dan 9=Anna 10=inspector 11=Bo 20=inspector 21=Cleo 30=inspector 32=Anna; do
    [ "$(timeout 10 python3 /srv/light/rota.py ${case%=*})" = "${case#*=}" ] || exit 1
done
