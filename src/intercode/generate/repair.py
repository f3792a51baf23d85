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

from collections import defaultdict
from hashlib import md5
from posixpath import basename

from intercode.generate.draws import as_text, read_toml, without
from intercode.generate.families import Draw, Family, Parameters, Place, fill

_SCRIPTS = read_toml("repair")
_JOBS = _SCRIPTS["jobs"]
_CONFLICTS = [
    ("is deleted", "rm $f"),
    ("overwrites the other one", "mv $f $g"),
    ("is appended to the other one and then deleted", "cat $f >> $g; rm $f"),
    ("stays as it is, and so does the other one", ":"),
]
"""Rules for a file whose new name is taken, each with its code."""


def _repair_place(draw: Draw, name: str) -> Place:
    site, (bad, fine) = draw.home("forge", name), draw.nouns(2)
    place = Place(name, facts={"site": site, "bad": bad, "fine": fine}, grows=[site])
    place.facts |= {"limit": draw.randint(3, 9), "sign": draw.choice(("eq", "ne"))}
    place.facts["least"] = draw.randint(3, 5)
    for folder in (fine, f"{bad}s", f"{bad}-old"):
        place.fix(f"{folder}/{fine}.txt", draw.text(1))
    for path in ("count.sh.orig", "old-count.sh", "count.sh"):
        place.fix(f"run/{path}", fill(_SCRIPTS["count"], place.facts))
    for path in ("run/list", "build", "check"):
        place.fix(f"{path}.sh", fill(_SCRIPTS[basename(path)], place.facts), program=True)
    rules = _stock(draw, place) + _parts(draw, place) + _settings(draw, place)
    _move(draw, place)
    _links(draw, place)
    _data(draw, place)
    place.write_rules(rules)
    for job, texts in _JOBS.items():
        about = fill(f"# Writes to out/{job}: {texts['about']}.", place.facts)
        begin = f"{about}\nout={site}/out/{job}\ncd {site}/data || exit 1\n"
        code = fill(texts["code"], place.facts)
        place.fix(f"jobs/{job}.sh", f"{begin}{code}\n", program=True)
        place.rules += f"\n{job}.sh:\n{about}"
    place.fix("out/README", "What scripts write.\n")
    return place


def _stock(draw: Draw, place: Place) -> str:
    old, new = draw.sample(["old", "raw", "tmp", "lst", "dat", "new", "fin", "rec"], 2)
    rule, code = draw.choice(_CONFLICTS)
    place.facts |= {"old": old, "fresh": new, "rule": code}
    both, *names = draw.nouns(5)
    for ending, other in ((old, new), (new, old)):
        single, twice = names.pop(), names.pop()
        for file in (single, both, f"{single}.{ending}-{draw.randint(2, 9)}", f"later/{twice}"):
            place.write(f"stock/{file}.{ending}", draw.text(2))
        place.write(f"stock/{twice}.x{ending}", draw.text(1))
        place.write(f"stock/{twice}.{ending}.{other}", draw.text(1))
    return (
        "The files in stock get new endings. If the new name of a file is taken, the file with the"
        f" old name {rule}.\n"
    )


def _move(draw: Draw, place: Place) -> None:
    here, goal = (f"{place.facts['site']}/{folder}" for folder in draw.folders(2))
    place.facts |= {"here": here, "there": goal}
    text = draw.text(2)
    copies = ("", "", text, text, text.upper(), f"{text}\n", "")
    *nouns, later = draw.nouns(7)
    for noun, copy in zip((*nouns, f"later/{later}"), copies, strict=True):
        place.write(f"{here}/{noun}.txt", text)
        if copy:
            place.write(f"{goal}/{noun}.txt", copy)


def _links(draw: Draw, place: Place) -> None:
    homes = [f"moved-{folder}" for folder in draw.folders(2)]
    nouns, relinked = draw.nouns(6), list[tuple[str, str]]()
    place.facts |= {"homes": homes, "relinked": relinked}
    for number, noun in enumerate(nouns):
        link = f"{nouns[number - 1]}-link"
        place.link(f"links/{link}", f"../texts/{noun}.txt")
        folders = homes
        if number % 3 == 0:
            place.fix(f"texts/{noun}.txt", draw.text(2))
        elif number % 3 == 1:
            relinked.append((link, noun))
        else:
            folders = homes[: number // 3]
        for folder in folders:
            place.fix(f"{folder}/{noun}.txt", draw.text(2))


def _data(draw: Draw, place: Place) -> None:
    """Write files, lists of what they were, and a list with a file that is gone."""
    lists = defaultdict[str, list[str]](list)
    for number, noun in enumerate(draw.nouns(8)):
        file, before = f"{noun}.txt", draw.text(draw.randint(2, 6))
        facts = {
            "bytes.list": len(before.encode()),
            "lines.list": len(before.splitlines()),
            "words.list": len(before.split()),
            "SUMS": f"{md5(before.encode()).hexdigest()} ",
        }
        for name, fact in facts.items():
            lists[name].append(f"{fact} {file}")
        if number < 3:
            place.write(f"data/{file}", before + draw.text(2))
        elif number < 6:
            place.write(f"data/{file}", before)
    place.write(f"data/{noun}.xtxt", draw.text(9))
    place.write(f"data/{noun}.txt.old", draw.text(5))
    for file, lines in lists.items():
        place.fix(f"data/{file}", as_text(draw.shuffled(lines)))


def _parts(draw: Draw, place: Place) -> str:
    place.facts["mends"] = {}
    for person in draw.people(2):
        group, mends, parts = person.lower(), [], draw.nouns(5)
        for part, fault in zip(parts, ("", "name", "none", "other", "name none"), strict=True):
            path, title = f"{place.facts['site']}/parts/{group}-{part}", f"= {group}-{part}"
            first, ending = f"{title}\n", "part"
            if "name" in fault:
                ending = "pat"
                mends.append(f"mv {path}.pat {path}.part")
            if "none" in fault:
                first = ""
                mends.append(f"sed -i '1i {title}' {path}.part")
            if fault == "other":
                first = f"{title}s\n"
                mends.append(f"sed -i '1s/.*/{title}/' {path}.part")
            place.fix(f"{path}.{ending}", first + draw.text(draw.randint(2, 4)))
        draw.shuffle(parts)
        place.fix(f"sets/{group}", as_text(map(f"{group}-{{}}".format, parts)))
        place.facts["mends"][group] = mends
    return (
        "A part is a file NAME.part in parts, and begins with the line `= NAME`. If the name of a"
        " part ends in .pat instead, rename it. If its first line begins with = but is wrong,"
        " replace this line; if there is no such line, insert it before the others.\n"
    )


def _settings(draw: Draw, place: Place) -> str:
    keys = draw.nouns(5)
    limits, lines = {}, []
    for key in keys:
        low, high = draw.randint(5, 50), draw.randint(100, 999)
        limits[key] = (low, high)
        lines.append(f"{key} {low} {high}")
    place.fix("conf/limits", as_text(lines))
    place.facts["corrections"] = {}
    for folder in draw.folders(2):
        path = f"{place.facts['site']}/conf/{folder}.conf"
        small, large, right, other, missing = draw.sample(keys, 5)
        values = {small: limits[small][0] - 3, large: limits[large][1] + draw.randint(1, 99)}
        values |= {right: limits[right][1], other: limits[other][0], f"{right}s": 70}
        lines = [f"{key} = {value}" for key, value in values.items()]
        place.fix(path, as_text(draw.shuffled(lines)))
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
        "fewer": "; ".join(without(mends, [left_out])),
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
