"""Places of the Bash families. `questions/bash-*.toml` contain the questions.

Each place is a folder `/ROOM/SITE`. A gold of difficulty 1 is one command or a short pipe;
difficulty 2 needs several steps or less usual options; at difficulty 3 the rule is only in the
site's file HANDBOOK, or in an index. Beside each thing that a question can ask for, a place has
others that look like it: names that contain each other, other cases and endings, nested files. No
name in a tree contains a space. Golds use coreutils, findutils, diffutils, grep, sed, awk (mawk and
gawk alike), tar and gzip.
"""

from __future__ import annotations

import gzip
import io
import tarfile

from intercode.generate.families import NOUNS, PEOPLE, TOWNS, Draw, Family, Parameters, Place

ENDINGS = [
    "txt",
    "csv",
    "log",
    "dat",
    "cfg",
    "tmp",
    "bak",
    "lst",
    "map",
    "out",
    "raw",
    "tag",
    "ini",
    "rec",
]


def _text(draw: Draw, count: int) -> str:
    """Return lines of a few words. Every third line or so repeats an earlier line."""
    words, lines = draw.part(NOUNS), list[str]()
    for _ in range(count):
        repeat = lines and draw.random() < 0.3
        lines.append(
            draw.choice(lines) if repeat else " ".join(draw.choices(words, k=draw.randint(2, 9)))
        )
    return "".join(f"{line}\n" for line in lines)


# -- bash-files ------------------------------------------------------------------------------------


def _desk(draw: Draw, name: str) -> Place:
    site = f"/desk/{name}"
    texts = {
        f"{site}/notes/{topic}.txt": _text(draw, draw.number(5, 60))
        for topic in draw.words(NOUNS, 6)
    }
    index = dict(zip(draw.words(TOWNS, 4), draw.sample(list(texts), 4), strict=True))
    place = Place(name, facts={"site": site, "texts": texts, "index": index})
    place.facts |= {"void": (void := draw.word(NOUNS)), "least": (least := draw.randint(3, 6))}
    for path, text in texts.items():
        place.write(path, text)
    place.write(
        f"{site}/INDEX",
        "".join(f"{key}: {path.removeprefix(f'{site}/')}\n" for key, path in index.items()),
    )
    place.write(
        f"{site}/HANDBOOK",
        f"A line of a note is void if it has fewer than {least} words.\n"
        f"So is a line with the word {void}.\n",
    )
    return place


def _note(draw: Draw, place: Place) -> Parameters:
    path, text = draw.choice(list(place.facts["texts"].items()))
    return {
        "path": path,
        "line": draw.randint(2, text.count("\n")),
        "word": draw.choice(text.split()),
        "new": draw.word(TOWNS).lower(),
        "key": draw.choice(list(place.facts["index"])),
    }


# -- bash-find -------------------------------------------------------------------------------------


def _yard(draw: Draw, name: str) -> Place:
    site, endings, words = f"/yard/{name}", draw.sample(ENDINGS, 4), draw.words(NOUNS, 12)
    sizes = sorted(draw.sample(range(20, 3000), 26))
    hidden, stale, limit = words[0], draw.choice(endings), draw.choice(sizes[8:18])
    folders = [
        "",
        f"/{hidden}",
        f"/{hidden}/{words[1]}",
        f"/{words[2]}",
        f"/{words[2]}/{words[3]}/{words[4]}",
    ]
    place = Place(name, facts={"site": site, "hidden": hidden, "stale": stale, "limit": limit})
    place.facts |= {"endings": endings, "initials": [word[0] for word in words[5:]]}
    for number, size in enumerate(sizes):
        file = f"{draw.choice(words[5:])}{number}.{draw.choice(endings)}"
        place.write(
            f"{site}{draw.choice(folders)}/{file}", (_text(draw, 40) * 9)[: size - 1] + "\n"
        )
    place.write(
        f"{site}/HANDBOOK",
        f"A file is stale if its name ends in .{stale}, and also if it has more than {limit} "
        f"bytes.\nThe files below the folder {hidden}, at any depth, are private.\n",
    )
    return place


def _search(draw: Draw, place: Place) -> Parameters:
    return {
        "size": draw.number(60, 2900),
        "ending": draw.choice(place.facts["endings"]),
        "initial": draw.choice(place.facts["initials"]),
    }


# -- bash-tables -----------------------------------------------------------------------------------


def _stock(draw: Draw, name: str) -> Place:
    site, shelves, people = f"/stock/{name}", draw.words(TOWNS, 5), draw.words(PEOPLE, 6)
    codes = draw.sample(range(100, 1000), 6)
    low = draw.randint(20, 60)
    columns = draw.sample("abc", 3)
    place = Place(
        name,
        facts={
            "site": site,
            "path": f"{site}/parts.csv",
            "shelves": shelves,
            "people": people,
            "low": low,
        },
    )
    place.facts["column"] = "abc".index(columns[0]) + 6
    rows = ["id,name,shelf,qty,price,a,b,c,supplier"]
    for number in range(1, draw.randint(40, 70)):
        part = f"{draw.word(NOUNS)}-{draw.randint(10, 99)}"
        values = [draw.randint(1, 999) for _ in range(5)]
        values[0] = draw.randint(1, 400)
        rows.append(
            ",".join(map(str, [number, part, draw.choice(shelves), *values, draw.choice(codes)]))
        )
    place.write(f"{site}/parts.csv", "".join(f"{row}\n" for row in rows))
    people_by_code = zip(["code", *codes], ["person", *people], strict=True)
    place.write(
        f"{site}/suppliers.csv", "".join(f"{code},{person}\n" for code, person in people_by_code)
    )
    meanings = zip(columns, ("weight in grams", "page of the catalogue", "bin"), strict=True)
    explained = "".join(f"Column {letter}: {meaning}.\n" for letter, meaning in meanings)
    place.write(f"{site}/HANDBOOK", f"{explained}A part is scarce if its qty is below {low}.\n")
    return place


def _row(draw: Draw, place: Place) -> Parameters:
    return {
        "shelf": draw.choice(place.facts["shelves"]),
        "person": draw.choice(place.facts["people"]),
        "qty": draw.number(20, 380),
        "price": draw.number(50, 850),
    }


# -- bash-logs -------------------------------------------------------------------------------------

STATUSES = [200, 301, 403, 404, 500, 503]


def _gate(draw: Draw, name: str) -> Place:
    site, slow = f"/gate/{name}", draw.randint(300, 1200)
    clients = [
        f"10.{draw.number(0, 250)}.{draw.randint(0, 99)}.{draw.randint(1, 254)}" for _ in range(12)
    ]
    pages = [
        f"/{first}/{second}"
        for first, second in zip(draw.words(NOUNS, 6), draw.words(NOUNS, 6), strict=True)
    ]
    place = Place(
        name,
        facts={
            "site": site,
            "path": f"{site}/access.log",
            "slow": slow,
            "clients": clients,
            "pages": pages,
        },
    )
    lines = ["time client page status bytes milliseconds"]
    for minute in sorted(draw.sample(range(24 * 60), draw.randint(70, 120))):
        request = draw.choice(clients), draw.choice(pages), draw.choice([200, 404, *STATUSES])
        lines.append(
            f"{minute // 60:02}:{minute % 60:02} {' '.join(map(str, request))} "
            f"{draw.randint(90, 9000)} {draw.randint(3, 2000)}"
        )
    place.write(f"{site}/access.log", "".join(f"{line}\n" for line in lines))
    place.write(f"{site}/robots", "".join(f"{robot}\n" for robot in draw.sample(clients, 4)))
    place.write(
        f"{site}/HANDBOOK",
        "The clients in the file robots are robots.\n"
        f"A request is slow if it took more than {slow} milliseconds.\n"
        "A request failed if its status is 500 or above; 403 and 404 are no failures.\n",
    )
    return place


def _request(draw: Draw, place: Place) -> Parameters:
    return {
        "client": draw.choice(place.facts["clients"]),
        "page": draw.choice(place.facts["pages"]),
        "status": draw.choice(STATUSES),
        "bytes": draw.number(500, 8500),
        "hour": f"{draw.number(6, 21):02}",
    }


# -- bash-settings ---------------------------------------------------------------------------------

MEANINGS = ["brightness", "delay", "loudness", "warmth"]


def _panel(draw: Draw, name: str) -> Place:
    site, keys, towns = f"/panel/{name}", draw.words(NOUNS, 5), draw.words(TOWNS, 4)
    units = [town.lower() for town in towns]
    units += [f"{units[0]}-east", f"new-{units[1]}"]
    high, low = draw.randint(1300, 1500), draw.randint(92, 98)
    edges = [high - 1, high, high + 1, low - 1, low, low + 1]
    columns = {}
    for key in keys:  # as texts, the highest values come first and the lowest last
        bottom, top = draw.randint(90, 99), draw.randint(2000, 2999)
        middle = [draw.randint(300, 890), bottom * 10 + draw.randint(1000, 1009)]
        columns[key] = [bottom, bottom, top, top, *middle]
        draw.shuffle(columns[key])
    place = Place(name, facts={"site": site, "high": high, "low": low, "keys": keys})
    place.facts |= {"columns": columns, "paths": [f"{site}/{unit}.conf" for unit in units]}
    for number, path in enumerate(place.facts["paths"]):
        place.write(path, _conf(draw, {key: [columns[key][number]] for key in keys}, edges, towns))
    for path in (f"{units[2]}.conf.bak", f"{units[3]}conf", f"old/{units[0]}.conf"):
        place.write(f"{site}/{path}", _conf(draw, columns, edges, towns))
    members = draw.sample(units, 5)
    place.facts["groups"] = dict(
        zip(draw.words(PEOPLE, 2), (members[:3], members[3:]), strict=True)
    )
    explained = "".join(
        f"{key} sets the {meaning}.\n" for key, meaning in zip(keys, MEANINGS, strict=False)
    )
    grouped = "".join(
        f"{group} looks after the units {', '.join(named)}.\n"
        for group, named in place.facts["groups"].items()
    )
    place.explain(
        f"{site}/HANDBOOK",
        f"{explained}{grouped}The settings of a unit are in the file UNIT.conf.\n"
        f"No value may be above {high} or below {low}.\n",
    )
    return place


def _conf(draw: Draw, columns: dict[str, list[int]], edges: list[int], towns: list[str]) -> str:
    """Return a settings file with the values of each key, and with comments and keys that look
    alike."""
    lines = []

    def value() -> int:
        return draw.choice([*edges, draw.randint(10, 89), draw.randint(3000, 3999)])

    for key, values in columns.items():
        lines += [f"{key} = {each} # {draw.choice(towns)}" for each in values]
        others = [f"old-{key}", f"{key}.top", f"{key}-top", f"old-{key}.top", f"{key}s"]
        shares = (0.9, 0.75, 1, 0.75, 0.6)
        lines += [
            f"{other} = {value()}"
            for other, share in zip(others, shares, strict=True)
            if draw.random() < share
        ]
        lines += [f"#{other} = {value()}" for other in (key, *others)]
    lines += [f"# {draw.word(NOUNS)} of {draw.choice(towns)}" for _ in range(draw.randint(1, 12))]
    lines += [""] * draw.randint(3, 6)
    draw.shuffle(lines)
    return "".join(f"{line}\n" for line in lines)


def _setting(draw: Draw, place: Place) -> Parameters:
    keys, meaning = place.facts["keys"], draw.choice(MEANINGS)
    key = draw.choice(keys)
    middle = sorted({*place.facts["columns"][key]})[1:-1]
    path, other = draw.sample(place.facts["paths"], 2)
    group, members = draw.choice(list(place.facts["groups"].items()))
    return {
        "path": path,
        "other": other,
        "key": key,
        "value": draw.number(100, 9000),
        "limit": middle[draw.split == "test"],
        "step": draw.number(3, 80),
        "new": draw.word(PEOPLE).lower(),
        "meaning": meaning,
        "meant": keys[MEANINGS.index(meaning)],
        "group": group,
        "members": " ".join(f"{place.facts['site']}/{member}.conf" for member in members),
    }


# -- bash-filing -----------------------------------------------------------------------------------

CODES = "BDFHJKMP"


def _tray(draw: Draw, name: str) -> Place:
    site, codes, ends = f"/tray/{name}", draw.sample(CODES, 4), draw.sample(ENDINGS, 3)
    folders = [f"{site}/{town.lower()}" for town in draw.words(TOWNS, 3)]
    folders.append(f"{folders[0]}-old")
    old, pairs = draw.randint(100, 140), [(codes[n], ends[n // 2]) for n in range(3)]
    place = Place(
        name, facts={"site": site, "folders": folders, "codes": codes, "old": old, "pairs": pairs}
    )
    place.facts["paths"] = []
    for code, end in pairs:
        numbers = [old, old + draw.randint(1, 99), draw.randint(5, 9), draw.randint(20, 99)]
        sizes = [draw.randint(5, 9), draw.randint(15, 99), draw.randint(200, 900)]
        sizes.append(draw.randint(1000, 1300))  # as texts, in another order than as numbers
        nouns = draw.words(NOUNS, 8)
        stems = [f"{code}-{noun}" for noun in nouns[:4]]
        draw.shuffle(sizes)
        for stem, number, size in zip(stems, numbers, sizes, strict=True):
            place.facts["paths"].append(path := f"{site}/in/{stem}-{number}.{end}")
            place.write(path, _sized(draw, size))
        for start, tail in (
            (code + codes[3], f".{end}"),
            (codes[3] + code, f".{end}"),
            (code.lower(), f".{end}"),
            (code, f".{ends[2]}"),
            (code, f".{ends[2]}{end}"),
            (code, f".{end.upper()}"),
            (code, f".{end}/kept.note"),
            (f"later/{code}", f".{end}"),
            (f"later/still/{code}", f".{end}"),
        ):
            for number in (draw.randint(10, old - 1), draw.randint(old, 299)):
                file = f"{start}-{draw.choice(nouns[4:])}-{number}{tail}"
                place.write(f"{site}/in/{file}", _sized(draw, draw.randint(5, 1300)))
        place.write(f"{place.facts['paths'][-1]}.{ends[2]}", _sized(draw, draw.randint(5, 1300)))
    for folder in folders:
        place.write(f"{folder}/kept.note", f"This is {folder}.\n")
    homes = {codes[3] + code: folders[number - 1] for number, code in enumerate(codes[:3])}
    homes |= dict(zip(codes, folders, strict=True))
    rows = "".join(f"{code} {folder}\n" for code, folder in homes.items())
    place.explain(
        f"{site}/HANDBOOK",
        "The code of a file is what stands in its name before the first -.\n"
        f"Codes, and the folders where their files belong:\n{rows}"
        f"A file is old if the number in its name is below {old}.\n",
    )
    return place


def _sized(draw: Draw, size: int) -> str:
    """Return a line of so many bytes."""
    return " ".join(draw.choices(draw.part(NOUNS), k=size // 4 + 1))[: size - 1] + "\n"


def _document(draw: Draw, place: Place) -> Parameters:
    (code, ending), folders = draw.choice(place.facts["pairs"]), place.facts["folders"]
    home = folders[place.facts["codes"].index(code)]
    folder = draw.choice([folder for folder in folders if folder != home])
    path, other = draw.sample(place.facts["paths"], 2)
    return {
        "path": path,
        "file": path.rpartition("/")[2],
        "other": other,
        "second": other.rpartition("/")[2],
        "folder": folder,
        "town": folder.rpartition("/")[2],
        "code": code,
        "home": home,
        "ending": ending,
        "new": draw.word(PEOPLE).lower(),
        "mode": draw.choice(["600", "640", "400", "755"]),
    }


# -- bash-archives ---------------------------------------------------------------------------------


def _pack(files: dict[str, str]) -> bytes:
    """Return a tar.gz file; equal files give equal bytes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, text in files.items():
            (member := tarfile.TarInfo(name)).size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return gzip.compress(packed.getvalue(), mtime=0)


def _prose(draw: Draw, words: list[str], count: int) -> str:
    """Return lines of the words, and of others that contain them, at times twice on a line."""
    alike = [*words, *words, *words]
    alike += [other for word in words for other in (f"{word}s", word.title(), f"sub{word}")]
    lines = [" ".join(draw.choices(alike, k=draw.randint(1, 5))) for _ in range(count)]
    return "".join(f"{line}\n" for line in lines)


def _vault(draw: Draw, name: str) -> Place:
    site, endings, labels = f"/vault/{name}", draw.sample(ENDINGS, 3), draw.words(PEOPLE, 4)
    nouns = draw.words(NOUNS, 12)
    topics, words, shared = nouns[:4], nouns[4:8], nouns[8:]
    place = Place(
        name, facts={"site": site, "endings": endings, "draft": endings[0], "labels": labels}
    )
    place.facts |= {
        "packs": {},
        "zipped": [f"{site}/logs/{topic}.txt.gz" for topic in shared],
        "topics": topics,
        "words": words,
    }
    bases = [f"{noun}{number}.{end}" for noun in shared for number in "01" for end in endings]
    for topic in topics:
        folder, own = f"{topic}/{draw.choice(words)}", draw.sample(bases, draw.randint(5, 9))
        nested = {*draw.sample(own, draw.randint(2, 4)), *draw.sample(bases, draw.randint(2, 4))}
        members = [f"{topic}/{base}" for base in own]
        members += [f"{folder}/{base}" for base in sorted(nested)]
        members += [f"{topic}/{base}.{draw.choice(endings)}" for base in draw.sample(bases, 6)]
        for end in endings:
            stem = f"{draw.choice(shared)}{draw.randint(2, 4)}"
            members += [f"{topic}/{stem}.x{end}", f"{folder}/{stem}.{end.upper()}"]
        draw.shuffle(members)
        texts = {
            member: _prose(draw, words, draw.randint(4, 9))
            for member in (*members, f"{folder}/read.me")
        }
        place.facts["packs"][f"{site}/packs/{topic}.tar.gz"] = texts
        place.write(f"{site}/packs/{topic}.tar.gz", _pack(texts))
        for member, text in texts.items():
            place.write(f"{site}/loose/{member}", text)
    for path in place.facts["zipped"]:
        text = _prose(draw, words, draw.number(10, 90))
        place.write(path, gzip.compress(text.encode(), mtime=0))
    for path in (f"packs/{words[0]}-tar.gz", f"packs/old/{words[1]}.tar.gz"):
        place.write(f"{site}/{path}", _pack(texts))
    place.write(f"{site}/out/kept.note", "Members that someone extracted.\n")
    rows = "".join(
        f"{label}: packs/{topic}.tar.gz\n" for label, topic in zip(labels, topics, strict=True)
    )
    place.explain(
        f"{site}/HANDBOOK",
        f"Whose archive is where:\n{rows}A member is a draft if its name ends in .{endings[0]}.\n",
    )
    return place


def _member(draw: Draw, place: Place) -> Parameters:
    packs, label = place.facts["packs"], draw.choice(place.facts["labels"])
    pack, other = draw.sample(list(packs), 2)
    ending = draw.choice(place.facts["endings"])
    return {
        "pack": pack,
        "other": other,
        "member": (
            member := draw.choice([name for name in packs[pack] if name.endswith(f".{ending}")])
        ),
        "base": member.rpartition("/")[2],
        "ending": ending,
        "label": label,
        "labelled": list(packs)[place.facts["labels"].index(label)],
        "zipped": draw.choice(place.facts["zipped"]),
        "topic": draw.choice(place.facts["topics"]),
        "word": draw.choice(place.facts["words"]),
        "new": draw.word(TOWNS).lower(),
        "few": draw.randint(2, 3),
        "sub": next(name for name in packs[pack] if name.endswith("/read.me")).rpartition("/")[0],
    }


# -- bash-compare ----------------------------------------------------------------------------------


def _mirror(draw: Draw, name: str) -> Place:
    site, endings = f"/mirror/{name}", draw.sample(ENDINGS, 3)
    sides = [f"{site}/{town.lower()}" for town in draw.words(TOWNS, 2)]
    nouns = [f"{noun}{number}" for noun in draw.words(NOUNS, 12) for number in range(30)]
    names = iter(draw.sample(nouns, len(nouns)))
    place = Place(name, facts={"site": site, "endings": endings, "skipped": endings[2]})
    place.facts |= {"sides": sides, "master": sides[0], "copy": sides[1], "changed": []}
    place.facts["doubled"] = []

    def put(file: str, *texts: str) -> None:
        for side, text in zip(sides, texts, strict=True):
            if text:
                place.write(f"{side}/{file}", text)

    for ending in endings:
        same, double = _text(draw, 5), _text(draw, 6)
        for folder in ("", "sub/"):
            text, moved, lone, alone = (_text(draw, draw.randint(4, 12)) for _ in range(4))

            def new(tail: str, folder: str = folder) -> str:
                return f"{folder}{next(names)}{tail}"

            for tail in (f".{ending}", f".x{ending}", f".{ending}.old", f".{ending.upper()}"):
                if folder and tail not in (f".{ending}", f".x{ending}"):
                    continue
                put(new(tail), _changed(draw, text), text)
                put(new(tail), text, _changed(draw, text))
                put(new(tail), same, same)
                put(one := new(tail), double, "")
                put(other := new(tail), "", double)
                if tail == f".x{ending}":
                    put(new(tail), "", lone)
                    put(new(tail), alone, "")
                    put(new(tail), moved, "")
                elif tail == f".{ending}":
                    put(f"{folder}sub-{one.removeprefix(folder)}", "", same)  # contains a name
                    put(f"{folder}sub-{other.removeprefix(folder)}", same, "")
                    put(new(tail), moved, moved)
                    put(new(tail), moved, "")
                    put(new(tail), "", moved)
                    put(new(tail), lone, "")
                    put(new(tail), "", alone)
                    put(new(tail), "", lone[:-2] + "x\n")
                    for _ in range(draw.randint(0, 3)):
                        put(new(tail), _text(draw, 4), "")
                    for _ in range(draw.randint(0, 3)):
                        put(new(tail), "", _text(draw, 4))
                    if not folder:
                        place.facts["doubled"].append(f"{sides[0]}/{one}")
                        for _ in range(3):
                            put(file := new(tail), _changed(draw, text), _changed(draw, text))
                            place.facts["changed"].append(file)
    place.explain(
        f"{site}/HANDBOOK",
        f"{sides[0]} is the master, {sides[1]} the copy.\n"
        f"Files whose names end in .{endings[2]} are not compared.\n",
    )
    return place


def _changed(draw: Draw, text: str) -> str:
    """Return the text in another order, with lines that contain lines of it, and repeated lines."""
    lines = text.splitlines()
    lines += [f"{lines[0]} {draw.word(NOUNS)}", f"{draw.word(NOUNS)} {lines[-1]}"]
    lines += [*draw.choices(lines, k=draw.randint(1, 9)), lines[-1]]
    lines.append(f"{draw.word(TOWNS)} {draw.word(PEOPLE)}")
    return "".join(f"{line}\n" for line in draw.sample(lines, len(lines)))


def _pair(draw: Draw, place: Place) -> Parameters:
    one, other = draw.sample(place.facts["sides"], 2)
    return {
        "one": one,
        "left": one.rpartition("/")[2],
        "other": other,
        "right": other.rpartition("/")[2],
        "path": draw.choice(place.facts["doubled"]),
        "ending": draw.choice(place.facts["endings"]),
        "file": draw.choice(place.facts["changed"]),
    }


FAMILIES = (
    Family("bash-files", "bash", "one text file: count, print, change, remove", _desk, _note),
    Family("bash-find", "bash", "files of a tree, by name, size and folder", _yard, _search),
    Family("bash-tables", "bash", "CSV tables: filter, add up, group, join", _stock, _row),
    Family("bash-logs", "bash", "access logs: select, count, rank", _gate, _request),
    Family("bash-settings", "bash", "settings files: read, set, insert, clean", _panel, _setting),
    Family("bash-filing", "bash", "move, rename, link and protect files", _tray, _document),
    Family("bash-archives", "bash", "tar and gzip: list, read, extract, pack", _vault, _member),
    Family("bash-compare", "bash", "two folders: missing, equal and changed files", _mirror, _pair),
)
