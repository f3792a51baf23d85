"""Places of the family `bash-repair`: something is half done or broken, and has to be put right.

Each place is a folder:

    run/       a script with the old name of a folder; a script with a wrong comparison
    stock/     files of which some have their new ending, some the old one, and some both
    links/     symbolic links, of which some lead nowhere: their files were moved
    data/      files, and lists of their sizes and checksums that do not fit any more
    parts/     what `build.sh` joins, if it finds nothing wrong: it stops at the first fault
    conf/      settings that `check.sh` refuses: it names the first fault
    jobs/      scripts that do not do what they say

and two folders between which a move was interrupted. A gold is one line that leaves the right
state. HANDBOOK, the scripts (`repair.toml`) and their messages say what that is.
"""

from __future__ import annotations

from hashlib import md5

from intercode.generate.draws import read_toml
from intercode.generate.families import Draw, Family, Parameters, Place, fill

_SCRIPTS = read_toml("repair")
_JOBS = _SCRIPTS["jobs"]
_CONFLICTS = {
    "is deleted": "rm $f",
    "overwrites the other one": "mv $f $g",
    "is appended to the other one and then deleted": "cat $f >> $g; rm $f",
    "stays as it is, and so does the other one": ":",
}
"""The code for what happens to a file whose new name is taken."""


def _repair_place(draw: Draw, name: str) -> Place:
    site, (bad, fine) = f"{draw.home('forge')}/{name}", draw.nouns(2)
    place = Place(name, facts={"site": site, "bad": bad, "fine": fine})
    place.facts |= {"limit": draw.randint(3, 9), "sign": draw.choice(("eq", "ne"))}
    place.facts["least"] = draw.randint(3, 5)
    place.grows.append(site)
    for folder in (fine, f"{bad}s", f"{bad}-old"):
        place.fix(f"{site}/{folder}/{fine}.txt", f"{draw.line()}\n")
    for path in ("count.sh.orig", "old-count.sh", "count.sh"):
        place.fix(f"{site}/run/{path}", _script("count", place))
    place.fix(f"{site}/run/list.sh", _script("list", place), program=True)
    place.fix(f"{site}/build.sh", _script("build", place), program=True)
    place.fix(f"{site}/check.sh", _script("check", place), program=True)
    rules = _stock(draw, place, site) + _parts(draw, place, site) + _settings(draw, place, site)
    _move(draw, place, site)
    _links(draw, place, site)
    _data(draw, place, site)
    place.write_rules(rules)
    for job, texts in _JOBS.items():
        about = fill(f"# Writes to out/{job}: {texts['about']}.", place.facts)
        begin = f"{about}\nout={site}/out/{job}\ncd {site}/data || exit 1\n"
        code = fill(texts["code"], place.facts)
        place.fix(f"{site}/jobs/{job}.sh", f"{begin}{code}\n", program=True)
        place.rules += f"\n{job}.sh:\n{about}"
    place.fix(f"{site}/out/README", "What scripts write.\n")
    return place


def _script(name: str, place: Place) -> str:
    return fill(_SCRIPTS[name], place.facts)


def _lines(draw: Draw, count: int) -> str:
    return "".join(f"{draw.line()}\n" for _ in range(count))


def _stock(draw: Draw, place: Place, site: str) -> str:
    old, new = draw.sample(["old", "raw", "tmp", "lst", "dat", "new", "fin", "rec"], 2)
    rule = draw.choice(list(_CONFLICTS))
    place.facts |= {"old": old, "fresh": new, "rule": _CONFLICTS[rule]}
    both, *names = draw.nouns(5)
    for ending, other in ((old, new), (new, old)):
        one, two = names.pop(), names.pop()
        for file in (one, both, f"{one}.{ending}-{draw.randint(2, 9)}", f"later/{two}"):
            place.write(f"{site}/stock/{file}.{ending}", _lines(draw, 2))
        place.write(f"{site}/stock/{two}.x{ending}", _lines(draw, 1))
        place.write(f"{site}/stock/{two}.{ending}.{other}", _lines(draw, 1))
    return (
        "The files in stock get new endings. Where the new name of a file is taken, the file"
        f" that should get it {rule}.\n"
    )


def _move(draw: Draw, place: Place, site: str) -> None:
    here, there = (f"{site}/{town.lower()}" for town in draw.towns(2))
    place.facts |= {"here": here, "there": there}
    text = _lines(draw, 2)
    copies = ("", "", text, text, text.upper(), f"{text}\n", "")
    starts = ("", "", "", "", "", "", "later/")
    for start, noun, copy in zip(starts, draw.nouns(7), copies, strict=True):
        place.write(f"{here}/{start}{noun}.txt", text)
        if copy:
            place.write(f"{there}/{noun}.txt", copy)


def _links(draw: Draw, place: Place, site: str) -> None:
    homes = [f"moved-{town.lower()}" for town in draw.towns(2)]
    nouns = draw.nouns(6)
    place.facts |= {"homes": homes, "relinked": []}
    for number, noun in enumerate(nouns):
        link = f"{nouns[number - 1]}-link"
        place.link(f"{site}/links/{link}", f"../texts/{noun}.txt")
        if number % 3 == 0:
            place.fix(f"{site}/texts/{noun}.txt", _lines(draw, 2))
        for home in homes if number % 3 < 2 else homes[: number // 3]:
            place.fix(f"{site}/{home}/{noun}.txt", _lines(draw, 2))
        if number % 3 == 1:
            place.facts["relinked"].append((link, noun))


def _data(draw: Draw, place: Place, site: str) -> None:
    """Write files, lists of what they were, and a list with a file that is gone."""
    lists: dict[str, list[str]] = {"bytes.list": [], "lines.list": [], "words.list": [], "SUMS": []}
    for number, noun in enumerate(draw.nouns(8)):
        file, before = f"{noun}.txt", _lines(draw, draw.randint(2, 6))
        for unit, count in zip(
            lists, (len(before.encode()), before.count("\n"), len(before.split())), strict=False
        ):
            lists[unit].append(f"{count} {file}\n")
        lists["SUMS"].append(f"{md5(before.encode()).hexdigest()}  {file}\n")
        if number < 3:
            place.write(f"{site}/data/{file}", before + _lines(draw, 2))
        elif number < 6:
            place.write(f"{site}/data/{file}", before)
    place.write(f"{site}/data/{noun}.xtxt", _lines(draw, 9))
    place.write(f"{site}/data/{noun}.txt.old", _lines(draw, 5))
    for file, lines in lists.items():
        place.fix(f"{site}/data/{file}", "".join(draw.shuffled(lines)))


def _parts(draw: Draw, place: Place, site: str) -> str:
    place.facts["mends"] = {}
    for group in draw.people(2):
        mends = []
        parts = draw.nouns(5)
        for part, fault in zip(parts, ("", "name", "none", "other", "name none"), strict=True):
            path = f"{site}/parts/{group.lower()}-{part}"
            title = f"= {group.lower()}-{part}"
            first = {"other": f"{title}s\n"}.get(fault, "" if "none" in fault else f"{title}\n")
            ending = "pat" if "name" in fault else "part"
            place.fix(f"{path}.{ending}", first + _lines(draw, draw.randint(2, 4)))
            if "name" in fault:
                mends.append(f"mv {path}.pat {path}.part")
            if "none" in fault:
                mends.append(f"sed -i '1i {title}' {path}.part")
            if fault == "other":
                mends.append(f"sed -i '1s/.*/{title}/' {path}.part")
        draw.shuffle(parts)
        lines = (f"{group.lower()}-{part}\n" for part in parts)
        place.fix(f"{site}/sets/{group.lower()}", "".join(lines))
        place.facts["mends"][group.lower()] = mends
    return (
        "A part is a file NAME.part in parts, and begins with the line `= NAME`. If the name of a"
        " part ends in .pat instead, rename it. If its first line begins with = but is wrong,"
        " replace this line; if there is no such line, insert it before the others.\n"
    )


def _settings(draw: Draw, place: Place, site: str) -> str:
    keys = draw.nouns(5)
    limits = {key: (draw.randint(5, 50), draw.randint(100, 999)) for key in keys}
    rows = (f"{key} {low} {high}\n" for key, (low, high) in limits.items())
    place.fix(f"{site}/conf/limits", "".join(rows))
    place.facts["corrections"] = {}
    for town in draw.towns(2):
        path = f"{site}/conf/{town.lower()}.conf"
        small, large, right, other, missing = draw.sample(keys, 5)
        values = {small: limits[small][0] - 3, large: limits[large][1] + draw.randint(1, 99)}
        values |= {right: limits[right][1], other: limits[other][0], f"{right}s": 70}
        lines = [f"{key} = {value}\n" for key, value in values.items()]
        place.fix(path, "".join(draw.shuffled(lines)))
        place.facts["corrections"][path] = [
            f"sed -i 's/{small} = .*/{small} = {limits[small][0]}/' {path}",
            f"sed -i 's/{large} = .*/{large} = {limits[large][1]}/' {path}",
            f"sed -i '/{right}s = /d' {path}",
            f"echo '{missing} = {limits[missing][0]}' >> {path}",
        ]
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
        "title": draw.towns(1)[0],
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
        "result": fill(_JOBS[job]["right"], facts),
        "careless": fill(_JOBS[job]["careless"], facts),
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
