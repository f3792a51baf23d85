"""Places of the family `bash-repair`: something is half done or broken, and has to be put right.

Each place is a folder `/forge/SITE`:

    run/       a script with the old name of a folder; a script with a wrong comparison
    stock/     files of which some have their new ending, some the old one, and some both
    links/     symbolic links, of which some lead nowhere: their files were moved
    data/      files, and lists of their sizes and checksums that do not fit any more
    parts/     what `build.sh` joins, if it finds nothing wrong: it stops at the first fault
    conf/      settings that `check.sh` refuses: it names the first fault
    jobs/      scripts that do not do what they say

A gold is one line that leaves the right state. HANDBOOK, the scripts and their messages say what
that is.
"""

from __future__ import annotations

from hashlib import md5

from intercode.generate.families import NOUNS, PEOPLE, TOWNS, Draw, Family, Parameters, Place

_CONFLICTS = {
    "is removed": "rm $f",
    "replaces the other one": "mv $f $g",
    "is removed, after its lines were appended to the other one": "cat $f >> $g; rm $f",
    "stays, and so does the other one": ":",
}
"""The code for what a query says about a file whose new name is taken."""
_BUILD = """\
# Joins the parts of a set, without their first lines: sh build.sh SET
cd {site} || exit 1
for n in $(cat sets/$1); do
  [ -f parts/$n.part ] || {{ echo "build: there is no parts/$n.part"; exit 1; }}
done
for n in $(cat sets/$1); do
  [ "$(head -n 1 parts/$n.part)" = "= $n" ] && continue
  echo "build: parts/$n.part begins wrong"
  exit 1
done
for n in $(cat sets/$1); do tail -n +2 parts/$n.part; done > out/$1
"""
_CHECK = """\
# Prints the first fault in a settings file: sh check.sh FILE
awk '
  NR == FNR {{ low[$1] = $2; high[$1] = $3; next }}
  !($1 in low) {{ print "check: unknown key " $1; wrong = 1; exit }}
  $3 > high[$1] || $3 < low[$1] {{ print "check: bad value of " $1; wrong = 1; exit }}
  {{ seen[$1] = 1 }}
  END {{
    if (wrong) exit 1
    for (key in low) if (!(key in seen)) {{ print "check: a key is missing"; exit 1 }}
  }}
' {site}/conf/limits "$1"
"""
_JOBS = {
    "big": (
        "the names of the files directly in data that end in .txt and have at least {least}"
        " lines, without folders, one per line, sorted",
        'for f in *.txt; do\n  [ "$(wc -l < $f)" -gt {least} ] && echo $f\ndone | sort > $out',
        "for f in *.txt; do if [ $(wc -l < $f) -ge {least} ]; then echo $f; fi; done | sort",
        "for f in *.txt; do if [ $(grep -c . $f) -ge {least} ]; then echo $f; fi; done | sort",
    ),
    "total": (
        "the number of lines of all files directly in data that end in .txt, added up",
        "sum=0\nfor f in *.txt; do\n  sum=$(wc -l < $f)\ndone\necho $sum > $out",
        "cat *.txt | wc -l",
        "cat *.txt | grep -c .",
    ),
    "lines": (
        "the distinct lines of the files directly in data that end in .txt, sorted",
        "cat *txt | uniq | sort > $out",
        "sort -u *.txt",
        "cat *.txt | grep . | sort -u",
    ),
    "first": (
        "the first line of each file directly in data that ends in .txt, in the order of the names",
        "for file in *.txt; do\n  head -n 1 $f\ndone > $out",
        "for f in *.txt; do head -n 1 $f; done",
        "for f in *.txt; do grep -m 1 . $f; done",
    ),
    "ends": (
        "how many files directly in data end in .txt",
        "find . -name '*txt' | wc -l > $out",
        "ls | grep -c '[.]txt$'",
        "ls | grep -c '[.]txt'",
    ),
}
"""Name → what a script should write, its wrong commands, and in the folder data right and careless
ones."""


def _repair_place(draw: Draw, name: str) -> Place:
    site = f"/forge/{name}"
    place = Place(name, facts={"site": site, "least": draw.randint(4, 7)})
    words = draw.words(NOUNS, 12)
    rules = [
        _run(draw, place, site),
        _stock(draw, place, site),
        _links(draw, place, site),
        _data(draw, place, site, words),
        _parts(draw, place, site, words),
        _conf(draw, place, site, words),
    ]
    place.explain(f"{site}/HANDBOOK", "".join(rules))
    for job, (text, wrong, *_) in _JOBS.items():
        about = f"# Writes to out/{job}: {text}."
        code = wrong.format(least=place.facts["least"])
        about = about.format(**place.facts)
        begin = f"{about}\nout={site}/out/{job}\ncd {site}/data || exit 1\n"
        place.write(f"{site}/jobs/{job}.sh", f"{begin}{code}\n", program=True)
        place.rules += f"\n{job}.sh:\n{about}"
    place.write(f"{site}/out/kept.note", "What scripts write.\n")
    return place


def _lines(draw: Draw, count: int) -> str:
    words = draw.part(NOUNS)
    return "".join(f"{' '.join(draw.choices(words, k=3))}\n" for _ in range(count))


def _run(draw: Draw, place: Place, site: str) -> str:
    bad, other, good = draw.words(NOUNS, 3)
    place.facts |= {"bad": bad, "good": good}
    lines = [
        f"cd {site}/{bad} || exit 1",
        f"cp {site}/{bad}/{other}.txt {site}/{bad}s/{other}.txt; ls {site}/{bad}",
        f"wc -l {site}/{bad}/{bad}.txt {site}/{bad}-old/{other}.txt {site}/{bad}/list",
        f"rm -f {site}/old-{bad}/list {site}/{bad}.txt",
    ]
    draw.shuffle(lines)
    place.write(f"{site}/run/list.sh", "".join(f"{line}\n" for line in lines), program=True)
    for folder in (good, f"{bad}s", f"{bad}-old", f"old-{bad}"):
        place.write(f"{site}/{folder}/{other}.txt", _lines(draw, 3))
    number, sign = draw.randint(3, 9), draw.choice(["-eq", "-ne"])
    place.facts["number"] = number
    place.write(
        f"{site}/run/count.sh",
        "# Prints the names of long or short files: sh count.sh FILE…\n"
        f"[ $# -gt {number} ] && echo 'many files' >&2\n"
        'for f in "$@"; do\n'
        f"  [ $(wc -l < $f) {sign} {number} ] && echo $f\n"
        "done\n"
        f"[ $# -lt {number} ] && echo 'few files' >&2\n",
        program=True,
    )
    return ""


def _stock(draw: Draw, place: Place, site: str) -> str:
    old, new = draw.sample(["old", "raw", "tmp", "lst", "dat", "new", "fin", "rec"], 2)
    rule = draw.choice(list(_CONFLICTS))
    place.facts |= {"old": old, "fresh": new, "rule": _CONFLICTS[rule]}
    here, there = draw.words(TOWNS, 2)
    place.facts |= {"here": here.lower(), "there": there.lower()}
    for folder in ("", "later/"):
        for number, noun in enumerate(draw.words(NOUNS, 12)):
            file, text = f"{site}/stock/{folder}{noun}{number}", _lines(draw, 2)
            for tail, share in (
                (old, (0, 3)),
                (new, (0, 2)),
                (f"x{old}", (1, 2)),
                (f"x{new}", (1, 3)),
            ):
                if number % 4 in share:
                    place.write(f"{file}.{tail}", _lines(draw, draw.randint(1, 3)))
            if number % 4 == 3:
                place.write(f"{file}.{old}.{new}", text)
                place.write(f"{file}.{new}.{old}", text)
                place.write(f"{file}.{old}.{new}.{old}", text)
                place.write(f"{file}.{old.upper()}", text)
                place.write(f"{file}.{new.upper()}", text)
                place.write(f"{site}/{here.lower()}/{folder}{noun}{number}.TXT", text)
            if number % 6 == 0:
                place.write(f"{file}.{new}", _lines(draw, 3))
            # an interrupted move, from `here` to `there`
            if number % 4 in (0, 1, 2):
                place.write(f"{site}/{here.lower()}/{folder}{noun}{number}.txt", text)
                place.write(f"{site}/{here.lower()}/{folder}{noun}{number}.xtxt", text)
            if number % 4 in (1, 2, 3):
                almost = (f"{text[:-2]}x\n", text.capitalize(), f"{text}\n")[number // 4]
                change = text if number % 4 == 1 else almost
                place.write(f"{site}/{there.lower()}/{folder}{noun}{number}.txt", change)
    return (
        "The files in stock get new endings. Where the new name of a file is taken, the file"
        f" that should get it {rule}.\n"
    )


def _links(draw: Draw, place: Place, site: str) -> str:
    moved = [f"moved-{town.lower()}" for town in draw.words(TOWNS, 2)]
    place.facts |= {"homes": moved, "relinked": []}
    nouns = draw.words(NOUNS, 12)
    for number, noun in enumerate(nouns):
        name = noun if number % 2 else f"{nouns[number - 1]}-link"
        place.link(f"{site}/links/{name}", f"../texts/{noun}.txt")
        if number % 4 == 0:
            place.write(f"{site}/texts/{noun}.txt", _lines(draw, 2))
        for share, folder in zip(((0, 1, 2), (0, 2, 3)), moved, strict=True):
            if number % 4 in share:
                place.write(f"{site}/{folder}/{noun}.txt", _lines(draw, 2))
        if number % 4 == 2:
            place.facts["relinked"].append((name, noun))
        place.write(f"{site}/{moved[number % 2]}/{name}.old", _lines(draw, 2))
    return ""


def _data(draw: Draw, place: Place, site: str, words: list[str]) -> str:
    mark = draw.choice(["end", "done", "finis", "ready"])
    place.facts["mark"] = mark
    lists: dict[str, list[str]] = {"bytes": [], "lines": [], "words": [], "SUMS": []}
    almost = [f"{mark}ed", f"the {mark}", f"{mark}\ncafé", f"{mark}\n", mark.title(), f" {mark}"]
    ends, before = draw.sample([*almost, *almost, *[mark] * 6], 14), ""
    for number in range(14):
        file = f"{'old-' if number > 6 else ''}{words[number % 7]}{number % 7}.txt"
        text = _lines(draw, number % 5 + 2)
        if draw.random() < 0.3:
            text += text.splitlines()[0] + "\n"
        text = f"{chr(10) if number % 2 else ''}{text}{ends[number]}\n"
        if number % 6 == 1:
            text = before  # its sum is that of another file
        before = text if number % 3 == 0 else _lines(draw, 3) + text[:-2] + "y\n"
        counts = (len(before.encode()), before.count("\n"), len(before.split()))
        for unit, count in zip(("bytes", "lines", "words"), counts, strict=True):
            lists[unit].append(f"{count} {file}")
        lists["SUMS"].append(f"{md5(before.encode()).hexdigest()}  {file}")
        if number % 6 != 4:
            place.write(f"{site}/data/{file}", text)
        place.write(f"{site}/backup/{file}", before if number % 3 else _lines(draw, 4))
    for number in range(draw.randint(2, 9)):
        place.write(f"{site}/data/{words[7]}{number}.xtxt", _lines(draw, 9))
        place.write(f"{site}/data/{words[8]}{number}.txt.old", _lines(draw, 5))
    place.write(f"{site}/data/more/{words[8]}.txt", _lines(draw, 5))
    for file, lines in lists.items():
        draw.shuffle(lines)
        place.write(
            f"{site}/data/{file if file == 'SUMS' else f'{file}.list'}",
            "".join(f"{line}\n" for line in lines),
        )
    return f"A file in data is complete if its last line is `{mark}`, and nothing else.\n"


def _parts(draw: Draw, place: Place, site: str, words: list[str]) -> str:
    place.write(f"{site}/build.sh", _BUILD.format(site=site), program=True)
    place.facts["mends"] = {}
    names = iter([f"{word}{number}" for number in range(3) for word in words])
    for group in draw.words(PEOPLE, 3):
        parts = [next(names) for _ in range(8)]
        faults = dict(
            zip(draw.sample(parts, 4), ("name", "none", "other", "name and none"), strict=True)
        )
        mends = []
        for part in parts:
            fault, path = faults.get(part, ""), f"{site}/parts/{part}.part"
            first = {"": f"= {part}\n", "name": f"= {part}\n", "other": f"= {part}s\n"}.get(
                fault, ""
            )
            text = _lines(draw, draw.randint(2, 4))
            place.write(path if "name" not in fault else path[:-2] + "t", first + text)
            if "name" in fault:
                mends.append(f"mv {path[:-2]}t {path}")
            if "none" in fault:
                mends.append(f"sed -i '1i = {part}' {path}")
            if fault == "other":
                mends.append(f"sed -i '1s/.*/= {part}/' {path}")
        place.write(f"{site}/sets/{group.lower()}", "".join(f"{part}\n" for part in parts))
        place.facts["mends"][group.lower()] = mends
    place.facts["part"] = parts[0]
    return (
        "A part is a file NAME.part in parts, and begins with the line `= NAME`. If the name of a"
        " part ends in .pat instead, rename it. If its first line begins with = but is wrong,"
        " replace this line; if no such line is there, put it before the others.\n"
    )


def _conf(draw: Draw, place: Place, site: str, words: list[str]) -> str:
    place.write(f"{site}/check.sh", _CHECK.format(site=site), program=True)
    keys = [key for word in words[:7] for key in (word, f"old-{word}", f"old-{word}s")]
    limits = {key: (draw.randint(5, 50), draw.randint(100, 999)) for key in keys}
    place.write(
        f"{site}/conf/limits",
        "".join(f"{key} {low} {high}\n" for key, (low, high) in limits.items()),
    )
    place.facts["corrections"] = {}
    for unit in draw.words(TOWNS, 3):
        path, keys = f"{site}/conf/{unit.lower()}.conf", draw.sample(words[:7], 7)
        corrections = []
        lines = [f"{key} = {low + 9}" for key, (low, _) in limits.items() if "-" in key]
        for number, key in enumerate(keys):
            low, high = limits[key]
            value = (low - draw.randint(1, 4), high + draw.randint(1, 999), low, high)
            if number < 6:
                lines.append(f"{key} = {[*value, low + 7, high - 7][number]}")
            if number < 2:
                right = (low, high)[number]
                corrections.append(f"sed -i 's/^{key} = .*/{key} = {right}/' {path}")
        unknown = f"{keys[2]}s"
        corrections.append(f"sed -i '/^{unknown} = /d' {path}")
        corrections.append(f"echo '{keys[6]} = {limits[keys[6]][0]}' >> {path}")
        lines.append(f"{unknown} = {draw.randint(60, 90)}")
        place.write(path, "".join(f"{line}\n" for line in draw.sample(lines, len(lines))))
        place.facts["corrections"][path] = corrections
    return (
        "conf/limits has one line for each key of the settings files: KEY LOWEST HIGHEST. A value"
        " that is too low becomes the lowest, one that is too high the highest. The line of an"
        " unknown key is removed. A missing key gets a line `KEY = LOWEST` at the file's end.\n"
    )


def _fault(draw: Draw, place: Place) -> Parameters:
    facts = place.facts
    link, target = draw.choice(facts["relinked"])
    group, mends = draw.choice(list(facts["mends"].items()))
    conf, corrections = draw.choice(list(facts["corrections"].items()))
    job = draw.choice(list(_JOBS))
    left_out = draw.choice(mends)
    return {
        "link": link,
        "target": target,
        "home": draw.choice(facts["homes"]),
        "title": draw.word(TOWNS),
        "limit": facts["number"],
        "set": group,
        "mend": "; ".join(mends),
        "first": mends[0],
        "fewer": "; ".join(mend for mend in mends if mend != left_out),
        "conf": conf,
        "correct": "; ".join(corrections),
        "correct_less": "; ".join(corrections[:-1]),
        "correct_later": "; ".join(corrections[1:]),
        "correct_known": "; ".join([*corrections[:2], corrections[3]]),
        "job": job,
        "result": _JOBS[job][2].format(least=facts["least"]),
        "careless": _JOBS[job][3].format(least=facts["least"]),
    }


FAMILIES = (
    Family(
        "bash-repair",
        "bash",
        "finish half-done work, fix what is broken",
        _repair_place,
        _fault,
    ),
)
