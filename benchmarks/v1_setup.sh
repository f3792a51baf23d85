# Makes the root v1-bash with an NL2Bash tree look as InterCode v1's containers looked when its runs were recorded.
# Use it with --setup; other dates (RECORDED, BUILT, WRITTEN, ROOT) may be set in front of it, as replay_bash.py does.
set -e
export TZ=UTC0

# Which of the four containers this is: each had a tree of its own, and the fourth none.
if [ -e /index.html ]; then system=1; elif [ -d /system ]; then system=2; elif [ -d /workspace ]; then system=3; else system=4; fi

# When the actions were recorded, the image was built, `/` and the tree's files were written last, and Ubuntu's own image was
# made, as `ls -l` and `stat` in the recordings show (Try Again; the second tree is only in the runs of June). The third's
# reset had written the files anew, not the folders.
if [ -z "${RECORDED:-}" ]; then
    case $system in
        1) RECORDED='2023-05-21 00:50' BUILT='2023-05-20 22:27' ;;
        2) RECORDED='2023-06-18 20:05' BUILT='2023-06-18 19:02' ;;
        3) RECORDED='2023-05-20 23:50' BUILT='2023-05-20 23:44' WRITTEN='2023-05-20 23:48' ;;
        4) RECORDED='2023-05-26 18:00' BUILT='2023-05-26 12:04' ROOT='2023-05-26 12:09' BASE='2023-04-25 14:06' ;;
    esac
fi
: "${WRITTEN:=$BUILT}" "${ROOT:=$BUILT}" "${BASE:=2023-03-08 02:05}"

# Ubuntu 22.04 for amd64 links these in `/`. The fourth container ran on arm64 in May, where there are none.
if [ "$system" != 4 ] || [[ $RECORDED > 2023-06 ]]; then
    for name in lib32 libx32; do mkdir -p "/usr/$name"; ln -sfn "usr/$name" "/$name"; done
fi

# The script that had made the tree was left in `/`. Its text is not known; `ls -l` gave two sizes and the mode.
sizes=([1]=4096 [2]=3055 [3]=3055 [4]=60)
made="/setup_nl2b_fs_$system.sh"
head -c "${sizes[system]}" /dev/zero | tr '\0' '#' > "$made"
chmod 755 "$made"

# The clock shows the time of day of the recording: what `ls -l` and `date` print are words for the reward, and an hour that
# happens to be the day's number as well would count as one. (A zone that is called UTC; of the day before, if it must be.)
now=$(date +%s) recorded=$(date -d "$RECORDED" +%s)
offset=$((recorded % 86400 - now % 86400))
case $(date -d "@$((now + offset))" +%d) in "${BUILT:11:2}" | "${BUILT:14:2}") offset=$((offset - 86400)) ;; esac
printf 'Zone recorded %s%d:%02d:%02d - UTC\n' "$([ $offset -ge 0 ] || echo -)" \
    $((${offset#-} / 3600)) $((${offset#-} / 60 % 60)) $((${offset#-} % 60)) > /dev/shm/zone
zic -d /dev/shm/zones /dev/shm/zone
cp /dev/shm/zones/recorded /etc/localtime

# Ages are as they were when recorded. A file of the tree that carries a date of its own (2023 or earlier; all others have
# that of the archive's packing) keeps its distance from the recording: one lies in the future of May.
age() { touch -d "@$(($(date -d "$1" +%s) + now - recorded))" "${@:2}"; }
trees=(/index.html /testbed /.placeholder /system /backup /workspace)
find_in_tree() { find "${trees[@]}" "$made" "$@" -print0 2>/dev/null || true; }
while IFS= read -r -d '' folder; do age "$BUILT" "$folder"; done < <(find_in_tree -type d)
while IFS= read -r -d '' file; do
    date=$(stat -c %y "$file")
    if [[ $date > 2024 ]]; then age "$WRITTEN" "$file"; else age "${date%.*}" "$file"; fi
done < <(find_in_tree -type f)
age "$BASE" -h /bin /lib* /media /opt /run /sbin /srv /usr /var
age "$BUILT" /etc /root
age "$ROOT" /
