"""Places of the Bash families. `questions/bash-*.toml` contain the questions.

Each place is a folder `/ROOM/SITE`. A gold of difficulty 1 is one command or a short pipe;
difficulty 2 needs several steps or less usual options; at difficulty 3 the rule is only in the
site's file HANDBOOK, or in an index. No name in a tree contains a space. Golds use coreutils,
findutils, diffutils, grep, sed, awk (mawk and gawk alike), tar and gzip.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from collections import Counter
from typing import Any

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


def _prose(draw: Draw, count: int, loud: list[str], marks: tuple[str, str]) -> str:
    """Return the lines of a note, in which the words `loud` are frequent.

    There are words within words, capital letters, numbers, blank lines, needless spaces, repeated
    lines, and ties for the longest and the shortest line. `marks` are the top and the last line of
    two blocks; they also occur outside and as parts of lines.
    """
    words, lines = draw.part(NOUNS), list[str]()

    def word() -> str:
        noun = draw.choice(loud if draw.random() < 0.4 else words)
        return draw.choice((noun, noun, noun, noun, noun.capitalize(), f"{noun}s", f"sea{noun}"))

    while len(lines) < count:
        old = draw.choice(lines) if len(lines) > 3 else ""
        new = " ".join(word() for _ in range(draw.randint(1, 9)))
        kind = draw.random()
        if kind < 0.6:
            lines.append(new)
        elif kind < 0.7:
            lines.append(f"{draw.randint(2, 40)} {new}")
        elif kind < 0.8:
            lines.append(draw.choice((f" {new}", f"  {new}", new.replace(" ", "  ", 1))))
        elif kind < 0.9:
            lines.append("")
        else:
            lines += [old] * draw.randint(1, 2)
    for extreme in (max(lines, key=len), min(filter(str.split, lines), key=len)):
        lines.insert(draw.randint(0, count - 1), " ".join(extreme.split()[::-1]))
    old = draw.choice(list(filter(str.islower, lines)))
    for repeated in ([old], [old, old], [""], [f" {old}"], [old.capitalize()]):
        place = draw.randrange(len(lines))
        lines[place:place] = repeated
    top, last = marks
    for place in sorted(draw.sample(range(3, count, 5), 2), reverse=True):
        inside = [f"{last} {word()}", f"{word()} {last}", f" {top}s", word(), word()]
        lines[place:place] = [top, *draw.sample(inside, 5), last]
    lines[1:1] = [f"{top} {word()}", f"{word()} {top}", last]
    for place in (0, len(lines) + 1):
        often = [*loud, *loud, f"{loud[0]}s", f"sea{loud[1]}"]
        lines.insert(place, " ".join(draw.sample(often, 8)))
    return "".join(f"{line}\n" for line in lines)


def _desk(draw: Draw, name: str) -> Place:
    site, (top, last, *loud) = f"/desk/{name}", draw.words(NOUNS, 5)
    texts = {
        f"{site}/notes/{topic}.txt": _prose(draw, draw.number(16, 60), loud, (top, last))
        for topic in draw.words(NOUNS, 5)
    }
    owners = draw.words(TOWNS, 5)
    place = Place(name, facts={"site": site, "texts": texts, "owners": owners, "loud": loud})
    place.facts |= {"top": top, "last": last}
    for path, text in texts.items():
        place.write(path, text)
        place.write(f"{path}.old", _prose(draw, 16, loud, (top, last)))
    least, void = draw.randint(3, 6), draw.choice(loud)
    few, few_code = draw.choice((("fewer", f"NF < {least}"), ("more", f"NF > {least}")))
    named, named_code = draw.choice(
        (
            ("contains the whole word", f"/(^| ){void}( |$)/"),
            ("begins with the whole word", f'$1 == "{void}"'),
            ("ends with the whole word", f'$NF == "{void}"'),
        )
    )
    begin, entry = draw.choice(
        (
            ("a capital letter", "^[A-Z]"),
            ("a digit", "^[0-9]"),
            ("a small letter from a to k", "^[a-k]"),
            ("a small letter from l to z", "^[l-z]"),
            ("a letter, small or capital", "^[A-Za-z]"),
        )
    )
    place.facts |= {"void": f"{few_code} || {named_code}", "entry": entry}
    place.explain(
        f"{site}/HANDBOOK",
        f"A line of a note is void if it has {few} than {least} words; so is a line that {named} "
        f"{void}, in small letters.\n"
        f"An entry of a note is a line whose first character is {begin}.\n"
        + "".join(
            f"The note of {owner} is notes/{path.rpartition('/')[2]}.\n"
            for owner, path in zip(owners, texts, strict=True)
        ),
    )
    return place


def _note(draw: Draw, place: Place) -> Parameters:
    path, text = draw.choice(list(place.facts["texts"].items()))
    owner = draw.randrange(5)
    return {
        "path": path,
        "line": draw.randint(3, text.count("\n") // 2),
        "half": draw.randint(text.count("\n") // 2, text.count("\n") - 4),
        "rank": draw.randint(1, 6),
        "word": draw.choice(place.facts["loud"]),
        "new": draw.word(TOWNS).lower(),
        "owner": place.facts["owners"][owner],
        "owned": list(place.facts["texts"])[owner],
        "other": list(place.facts["texts"])[owner - 1],
    }


# -- bash-find -------------------------------------------------------------------------------------


def _yard(draw: Draw, name: str) -> Place:
    """Return a tree in which names, endings and sizes come close to those of the questions."""
    site, endings, words = f"/yard/{name}", draw.sample(ENDINGS, 3), draw.words(NOUNS, 8)
    hidden, other, deep, *topics = words
    folders = [
        "",
        f"/{hidden}",
        f"/{hidden}/{topics[0]}",
        f"/{hidden}s/{other}",
        f"/{other}",
        f"/{other}/{hidden}",
        f"/{other}/{deep}/{topics[1]}",
        f"/{topics[2]}s",
        f"/{deep.capitalize()}",
        f"/{other.capitalize()}/{hidden.capitalize()}",
        f"/old-{hidden}",
        f"/{other}/old-{deep}/old-{other}",
    ]
    middles = sorted(draw.number(12, 1150) for _ in range(4))
    sizes = [middle + step for middle in middles for step in (-1, 0, 1)]
    limits = [middle for middle in middles if (middle > 923) is (draw.split == "test")] or middles
    limit, most = draw.choice(limits), draw.randint(1200, 1400)
    files = dict[str, str]()

    def add(path: str, size: int, folder: str | None = None) -> None:
        folder = draw.choice(folders) if folder is None else folder
        text = (_text(draw, 40) * 9)[: size - 1] + "\n" if size else ""
        files[f"{site}{folder}/{path}"] = text

    for number, size in enumerate([*sizes, sizes[-1]]):
        add(f"{draw.choice(topics)}{number}.{draw.choice(endings)}", size)
    for ending in endings[:2]:  # a folder named like a file, ties, and names that are almost right
        one, two, three = draw.sample(topics, 3)
        add(f"{one}.{ending}/{two}.{ending}", most, f"/{hidden}")
        add(f"{three}.{ending}", most, folders[4])
        files[f"{site}{draw.choice(folders)}/.{one}.{ending}"] = files[
            f"{site}{folders[4]}/{three}.{ending}"
        ]
        add(f"{two}.{ending}", most)
        add(f"{two}-{limit}.{ending}", limit)
        add(f"{one}-{limit + 1}.{ending}", limit + 1)
        add(f"{two}.{ending}.old", most + 1)
        add(f"{one}{ending}", draw.randint(2, 9), "")
        add(f"{three}{ending}", most + 2, folders[2])
        files[f"{site}{folders[3]}/{two}{ending}"] = files[f"{site}{folders[2]}/{three}{ending}"]
        add(f"{two}.{ending.upper()}", most)
    begun = [f"{folder}-list" for folder in (hidden, other, deep)]
    begun += [name for topic in topics[:3] for name in (topic.capitalize(), f"old-{topic}")]
    for name in begun:  # names that begin or go on in another way
        add(f"{name}.{draw.choice(endings)}", draw.choice((0, 0, *sizes)))
    for path in draw.sample(sorted(files), 5):  # copies under other names
        copy = f"{site}{draw.choice(folders)}/{draw.choice(topics)}-{draw.randint(2, 99)}"
        files[f"{copy}.{draw.choice(endings)}"] = files[path]
        files[f"{copy}.{draw.choice(endings)}.old"] = files[path][::-1].strip() + "\n"
    counts, totals = Counter[str](), Counter[str]()
    for path, text in files.items():
        counts[path.rpartition("/")[0]] += 1
        totals[path.rpartition("/")[0]] += len(text)
    stale = endings[draw.randrange(2)]
    place = Place(name, facts={"site": site, "endings": endings, "limits": limits})
    place.facts |= {"topics": topics[:3], "folders": [hidden, other, deep]}
    place.facts |= {"counts": list(counts.values()), "totals": list(totals.values())}
    for path, text in files.items():
        place.write(path, text)
    old, old_code = draw.choice(
        (
            (f"more than {limit} bytes", f"-size +{limit}c"),
            (f"{limit} bytes or more", f"-size +{limit - 1}c"),
            (f"at most {limit} bytes", f"-size -{limit + 1}c"),
        )
    )
    both, both_code = draw.choice((("or", "-o "), ("and", "")))
    bulky, bulky_code = draw.choice((("more than ", limit), ("at least ", limit - 1)))
    private, private_code = draw.choice(
        (
            (f"below the folder {site}/{hidden}, at any depth,", f"-path '{site}/{hidden}/*'"),
            (f"below any folder named {hidden}, at any depth,", f"-path '*/{hidden}/*'"),
            (f"below {site}/{other}, at any depth,", f"-path '{site}/{other}/*'"),
            ("whose names begin with a dot", "-name '.*'"),
        )
    )
    place.facts |= {
        "stale": f"-name '*.{stale}' {both_code}{old_code}",
        "bulky": f"-size +{bulky_code}c",
        "private": private_code,
    }
    place.explain(
        f"{site}/HANDBOOK",
        f"A file is stale if its name ends in .{stale} {both} it has {old}.\n"
        f"A file is bulky if it has {bulky}{limit} bytes.\nThe files {private} are private.\n",
    )
    return place


def _search(draw: Draw, place: Place) -> Parameters:
    ending, second = draw.sample(place.facts["endings"][:2], 2)
    return {
        "size": draw.choice(place.facts["limits"]) - draw.randint(0, 1),
        "ending": ending,
        "second": second,
        "prefix": draw.choice(place.facts["topics"])[: draw.randint(1, 4)],
        "start": draw.choice(place.facts["topics"] + place.facts["folders"])[: draw.randint(1, 3)],
        "letters": draw.choice(place.facts["folders"])[: draw.randint(1, 4)],
        "rank": draw.randint(1, 3),
        "few": draw.choice(place.facts["counts"]),
        "total": draw.choice(place.facts["totals"]),
    }


# -- bash-tables -----------------------------------------------------------------------------------

MEASURES = ["weight", "volume", "age"]


def _stock(draw: Draw, name: str) -> Place:
    """Return two tables with few different values, so that many are at a limit or tied, and with
    names and numbers that contain each other or are in several columns."""
    site = f"/stock/{name}"
    first, second, third = draw.words(TOWNS, 3)
    asked, shelves = [first, second], [first, second, f"{first}-{second}", f"{second}-{first}"]
    one, two, three = draw.words(PEOPLE, 3)
    codes = draw.sample(range(100, 1000), 7)
    quantities, prices = (  # as text, 92 is more than 734
        [draw.number(70, 100), draw.number(70, 100), *(draw.number(116, 1150) for _ in range(6))]
        for _ in range(2)
    )
    place = Place(name, facts={"site": site, "path": f"{site}/parts.csv", "people": [one, two]})
    columns = draw.sample(range(6, 9), 3)
    place.facts |= dict(zip(MEASURES, columns, strict=True))
    ids = [draw.sample(range(*ends), 40) for ends in ((30, 100), (100, 300))]
    ids += [draw.sample(range(10, 30), 4), draw.sample(range(300, 400), 4)]
    starts: list[tuple[str, int | None, int | None]]
    starts = [(draw.choice((*asked, *shelves, third)), None, None) for _ in range(26)]
    extremes: list[tuple[int | None, int | None]]
    extremes = [(min(quantities), None), (max(quantities), None)]
    extremes += [(None, min(prices)), (None, max(prices))]
    for extreme in extremes:  # ties, of ids whose order as text is another
        starts += [(shelf, *extreme) for shelf in asked for _ in range(4)]
    pools = [number % 2 for number in range(len(starts))] + [2, 3] * 4
    starts += [(shelves[2], *extreme) for extreme in extremes for _ in range(2)]
    rows = list[list[Any]]()
    for (shelf, quantity, price), pool in zip(starts, pools, strict=True):
        part = f"{draw.choice((*shelves, *draw.words(NOUNS, 3)))}-{draw.randint(10, 99)}"
        amounts = quantity or draw.choice(quantities), price or draw.choice(prices)
        others = draw.sample(ids[0] + ids[1], 3)
        rows.append([ids[pool].pop(), part, shelf, *amounts, *others, draw.choice(codes)])
    draw.shuffle(rows)
    numbers = [row[0] for row in rows]
    place.facts["rows"] = [row for row in rows if row[2] in asked]
    place.facts["ids"] = [
        number for number in numbers if any(each // 10 == number for each in numbers)
    ] or numbers
    place.write(
        f"{site}/parts.csv",
        "".join(
            f"{','.join(map(str, row))}\n"
            for row in [["id", "name", "shelf", "qty", "price", *"abc", "supplier"], *rows]
        ),
    )
    people = [f"{one}-{two}", f"{two}-{one}", one, two, three, one, two]
    pairs = [("code", "person"), *zip(codes, people, strict=True)]
    place.write(f"{site}/suppliers.csv", "".join(f"{code},{who}\n" for code, who in pairs))
    column, words = draw.choice(((4, "qty"), (5, "price")))
    amount = draw.choice(quantities if column == 4 else prices)
    than, sign = draw.choice(
        (("below", "<"), ("above", ">"), ("not above", "<="), ("not below", ">="))
    )
    joint, code = draw.choice((("and", "&&"), ("or", "||")))
    shelf = draw.choice(asked)
    place.facts["scarce"] = f'${column} {sign} {amount} {code} $3 == "{shelf}"'
    meanings = [(letter, MEASURES[columns.index(6 + n)]) for n, letter in enumerate("abc")]
    place.explain(
        f"{site}/HANDBOOK",
        "".join(
            f"In {site}/parts.csv, column {letter} is the {word}.\n" for letter, word in meanings
        )
        + f"A part is scarce if its {words} is {than} {amount} {joint} its shelf is {shelf}.\n",
    )
    return place


def _row(draw: Draw, place: Place) -> Parameters:
    row = draw.choice(place.facts["rows"])
    measure = draw.choice(MEASURES)
    return {
        "id": draw.choice(place.facts["ids"]),
        "shelf": row[2],
        "qty": row[3],
        "price": row[4],
        "person": draw.choice(place.facts["people"]),
        "measure": measure,
        "column": place.facts[measure],
        "other": draw.choice([place.facts[each] for each in MEASURES if each != measure]),
    }


# -- bash-logs -------------------------------------------------------------------------------------

STATUSES = [200, 301, 400, 403, 404, 500, 503]


def _gate(draw: Draw, name: str) -> Place:
    """Return a log with few different values, so that many are at a limit or tied, and with clients
    and pages that contain each other."""
    site = f"/gate/{name}"
    clients, others = list[str](), list[str]()
    for _ in range(4):
        tail = f"{draw.number(10, 200)}.{draw.randint(10, 99)}.{draw.randint(2, 24)}"
        clients.append(f"10.{tail}")
        others += [f"10.{tail}{draw.randint(0, 9)}", f"110.{tail}"]
    one, two, three, four = draw.words(NOUNS, 4)
    pages = [f"/{one}/{two}", f"/{three}/{four}"]
    other_pages = [f"{page}s" for page in pages] + [f"/old{page}" for page in pages]
    other_pages += [f"/trace/{client}" for client in clients]
    sizes = [draw.number(90, 11500) for _ in range(12)]
    times = [draw.number(3, 1150) for _ in range(9)]
    place = Place(name, facts={"site": site, "path": f"{site}/access.log"})
    minutes = [draw.randrange(24 * 60) for _ in range(draw.randint(100, 150))]
    minutes += [60 * hour for hour in draw.sample(range(5, 22), 12) for _ in range(3)]
    requests = list[list[str]]()
    for minute in sorted(minutes):
        client = draw.choice(clients if draw.random() < 0.45 else others)
        page = draw.choice(pages if draw.random() < 0.45 else other_pages)
        milliseconds = draw.choice(times if draw.random() < 0.7 else STATUSES)
        request = client, page, draw.choice(STATUSES), draw.choice(sizes), milliseconds
        requests.append([f"{minute // 60:02}:{minute % 60:02}", *map(str, request)])
    place.facts["requests"] = [
        row
        for row in requests
        if row[1] in clients and row[2] in pages and int(row[5]) not in STATUSES
    ]
    heading = ["time", "client", "page", "status", "bytes", "milliseconds"]
    place.write(f"{site}/access.log", "".join(f"{' '.join(row)}\n" for row in [heading, *requests]))
    robots, *decoys = draw.words(TOWNS, 3)
    for file in (robots, *decoys):
        listed = draw.sample(clients + others, 4)
        place.write(f"{site}/{file.lower()}.list", "".join(f"{client}\n" for client in listed))
    than, sign = draw.choice((("more than", ">"), ("at least", ">=")))
    slow, most = draw.choice(times), draw.choice(sizes)
    joint, joint_code = draw.choice(
        (
            (f"and has at most {most} bytes", f"&& $5 <= {most}"),
            (f"or has fewer than {most} bytes", f"|| $5 < {most}"),
            ("and its status is 400 or above", "&& $4 >= 400"),
        )
    )
    failures = (
        ("500 or above", "$4 >= 500"),
        ("400 or above, but not 404", "$4 >= 400 && $4 != 404"),
        ("from 400 to 499", "$4 >= 400 && $4 < 500"),
        ("403, 500 or 503", "($4 + 0 == 403 || $4 >= 500)"),
        ("neither 200 nor 404", "$4 != 200 && $4 != 404"),
    )
    failed, failed_code = draw.choice(failures)
    place.facts |= {
        "robots": f"{site}/{robots.lower()}.list",
        "decoy": f"{site}/{decoys[0].lower()}.list",
        "slow": f"$6 {sign} {slow} {joint_code}",
        "failed": failed_code,
    }
    place.explain(
        f"{site}/HANDBOOK",
        f"The clients in the file {robots.lower()}.list are robots.\n"
        f"A request is slow if it took {than} {slow} milliseconds {joint}.\n"
        f"A request failed if its status is {failed}.\n",
    )
    return place


def _request(draw: Draw, place: Place) -> Parameters:
    _, client, page, status, size, milliseconds = draw.choice(place.facts["requests"])
    return {
        "client": client,
        "page": page,
        "status": status,
        "bytes": size,
        "milliseconds": milliseconds,
        "count": draw.number(3, 40),
        "rank": draw.randint(2, 7),
        "few": draw.randint(2, 5),
    }


# -- bash-settings ---------------------------------------------------------------------------------

MEANINGS = ["brightness", "delay", "loudness", "warmth"]


def _panel(draw: Draw, name: str) -> Place:
    site, limit = f"/panel/{name}", draw.randint(5000, 8000)
    keys = draw.words(NOUNS, 10)
    place = Place(name, facts={"site": site, "limit": limit, "keys": keys, "paths": []})
    for unit in draw.words(TOWNS, 4):
        lines = [f"{key} = {draw.randint(10, 9999)}" for key in draw.sample(keys, 10)]
        for _ in range(draw.randint(2, 6)):
            lines.insert(
                draw.randint(0, len(lines)),
                draw.choice(["", f"# {draw.word(NOUNS)} of {draw.word(TOWNS)}"]),
            )
        place.facts["paths"].append(path := f"{site}/{unit.lower()}.conf")
        place.write(path, "".join(f"{line}\n" for line in lines))
    explained = "".join(
        f"{key} sets the {meaning}.\n" for key, meaning in zip(keys, MEANINGS, strict=False)
    )
    place.write(f"{site}/HANDBOOK", f"{explained}No value may be above {limit}.\n")
    return place


def _setting(draw: Draw, place: Place) -> Parameters:
    keys, meaning = place.facts["keys"], draw.choice(MEANINGS)
    return {
        "path": draw.choice(place.facts["paths"]),
        "key": draw.choice(keys),
        "value": draw.number(100, 9000),
        "new": draw.word(PEOPLE).lower(),
        "meaning": meaning,
        "meant": keys[MEANINGS.index(meaning)],
    }


# -- bash-filing -----------------------------------------------------------------------------------

CODES = "BDFHJKMP"


def _tray(draw: Draw, name: str) -> Place:
    site, endings = f"/tray/{name}", draw.sample(ENDINGS, 3)
    folders = [f"{site}/{town.lower()}" for town in draw.words(TOWNS, 4)]
    codes, old = draw.sample(CODES, 4), draw.randint(40, 60)
    place = Place(
        name,
        facts={
            "site": site,
            "endings": endings,
            "folders": folders,
            "codes": codes,
            "old": old,
            "paths": [],
        },
    )
    for number in draw.sample(range(10, 100), 22):
        file = f"{site}/in/{draw.choice(codes)}-{draw.word(NOUNS)}-{number}.{draw.choice(endings)}"
        place.facts["paths"].append(file)
        place.write(file, _text(draw, draw.randint(1, 4)))
    for folder in folders:
        place.write(f"{folder}/kept.note", f"This is {folder}.\n")
    rows = "".join(
        f"Files of code {code} belong into {folder}.\n"
        for code, folder in zip(codes, folders, strict=True)
    )
    place.write(
        f"{site}/HANDBOOK",
        "The first letter of a name is its code.\n"
        f"{rows}A file is old if its number is below {old}.\n",
    )
    return place


def _document(draw: Draw, place: Place) -> Parameters:
    code, folders = draw.choice(place.facts["codes"]), place.facts["folders"]
    return {
        "path": draw.choice(place.facts["paths"]),
        "folder": draw.choice(folders),
        "code": code,
        "home": folders[place.facts["codes"].index(code)],
        "ending": draw.choice(place.facts["endings"]),
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


def _vault(draw: Draw, name: str) -> Place:
    site, endings, labels = f"/vault/{name}", draw.sample(ENDINGS, 3), draw.words(PEOPLE, 4)
    topics = draw.words(NOUNS, 9)
    place = Place(
        name, facts={"site": site, "endings": endings, "draft": endings[0], "labels": labels}
    )
    place.facts |= {
        "packs": {},
        "zipped": [f"{site}/logs/{topic}.txt.gz" for topic in topics[4:6]],
        "topics": topics[6:],
    }
    for topic in topics[:4]:
        names = [
            f"{topic}/{draw.word(NOUNS)}{number}.{draw.choice(endings)}"
            for number in range(draw.randint(5, 9))
        ]
        place.facts["packs"][f"{site}/packs/{topic}.tar.gz"] = names
        place.write(
            f"{site}/packs/{topic}.tar.gz",
            _pack({member: _text(draw, draw.randint(3, 30)) for member in names}),
        )
    for path in place.facts["zipped"]:
        place.write(path, gzip.compress(_text(draw, draw.number(10, 90)).encode(), mtime=0))
    for topic in place.facts["topics"]:
        for number in range(3):
            place.write(
                f"{site}/loose/{topic}/{draw.word(NOUNS)}{number}.txt",
                _text(draw, draw.randint(2, 9)),
            )
    place.write(f"{site}/out/kept.note", "Members that someone extracted.\n")
    rows = "".join(
        f"{label}: packs/{topic}.tar.gz\n" for label, topic in zip(labels, topics, strict=False)
    )
    place.write(
        f"{site}/HANDBOOK", f"{rows}A member is a draft if its name ends in .{endings[0]}.\n"
    )
    return place


def _member(draw: Draw, place: Place) -> Parameters:
    packs, label = place.facts["packs"], draw.choice(place.facts["labels"])
    pack = draw.choice(list(packs))
    return {
        "pack": pack,
        "member": draw.choice(packs[pack]),
        "ending": draw.choice(place.facts["endings"]),
        "label": label,
        "labelled": list(packs)[place.facts["labels"].index(label)],
        "zipped": draw.choice(place.facts["zipped"]),
        "topic": draw.choice(place.facts["topics"]),
        "word": draw.word(NOUNS),
    }


# -- bash-compare ----------------------------------------------------------------------------------


def _mirror(draw: Draw, name: str) -> Place:
    site, endings = f"/mirror/{name}", draw.sample(ENDINGS, 3)
    sides = [f"{site}/{town.lower()}" for town in draw.words(TOWNS, 2)]
    place = Place(
        name,
        facts={
            "site": site,
            "endings": endings,
            "skipped": endings[2],
            "sides": sides,
            "master": sides[0],
        },
    )
    place.facts |= {"copy": sides[1], "changed": []}
    texts = [_text(draw, draw.randint(4, 12)) for _ in range(14)]
    for number in range(24):
        file, fate = f"{draw.word(NOUNS)}{number}.{draw.choice(endings)}", draw.random()
        text = draw.choice(texts)
        if fate < 0.75:
            place.write(f"{sides[0]}/{file}", text)
        if fate < 0.25:
            place.write(
                f"{sides[1]}/{file}", draw.choice(texts[:3]) + text + draw.choice(texts[:3])
            )
            place.facts["changed"].append(file)
        elif fate < 0.5 or fate >= 0.75:
            place.write(f"{sides[1]}/{file}", text)
    place.write(
        f"{site}/HANDBOOK",
        f"{sides[0]} is the master, {sides[1]} the copy.\n"
        f"Files that end in .{endings[2]} are not compared.\n",
    )
    return place


def _pair(draw: Draw, place: Place) -> Parameters:
    one, other = draw.sample(place.facts["sides"], 2)
    files = [path.removeprefix("tree") for path in place.files if path.startswith(f"tree{one}/")]
    return {
        "one": one,
        "other": other,
        "path": draw.choice(files),
        "ending": draw.choice(place.facts["endings"]),
        "file": draw.choice(place.facts["changed"] or ["none"]),
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
