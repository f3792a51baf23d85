"""Places of the Bash families. `questions/bash-*.toml` contain the questions.

Each place is a folder `/ROOM/SITE`. A gold of difficulty 1 is one command or a short pipe;
difficulty 2 needs several steps or less usual options; at difficulty 3 the rule is only in the
site's file HANDBOOK, or in an index. Beside each thing that a question can ask for, a place has
others that look like it: names that contain each other, other cases and endings, nested files. No
name in a tree contains a space. Golds use coreutils, findutils, diffutils, grep, sed, awk (mawk and
gawk alike), tar and gzip.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from intercode.generate.families import Draw, Family, Parameters, Place
from intercode.generate.ground import Archive, Compressed, Prose, Rows

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


def _middle(values: Iterable[int]) -> list[int]:
    """Return the values without the lowest and the highest third."""
    ordered = sorted(values)
    return ordered[len(ordered) // 3 : -(len(ordered) // 3)]


# -- bash-files ------------------------------------------------------------------------------------


def _prose(draw: Draw, count: int, loud: list[str], marks: tuple[str, str]) -> Prose:
    """Return the lines of a note, in which the words `loud` are frequent, and two blocks that begin
    and end with a line that is one of the `marks`."""
    top, last = marks
    lines = [draw.line(loud) for _ in range(count)]
    for place in sorted(draw.sample(range(3, count, 5), 2), reverse=True):
        lines[place:place] = [top, *(draw.line(loud) for _ in range(3)), last]
    return Prose("".join(f"{line}\n" for line in lines))


def _files_place(draw: Draw, name: str) -> Place:
    site, (top, last, *loud) = f"{draw.home('desk')}/{name}", draw.nouns(5)
    texts = {
        f"{site}/notes/{topic}.txt": _prose(draw, draw.number(16, 60), loud, (top, last))
        for topic in draw.nouns(5)
    }
    owners = draw.people(5)
    place = Place(name, facts={"site": site, "texts": texts, "owners": owners, "loud": loud})
    place.facts |= {"top": top, "last": last}
    for path, text in texts.items():
        place.write(path, text)
    place.grows.append(f"{site}/notes")
    least, void = draw.randint(3, 6), draw.choice(loud)
    owned = "".join(
        f"The note of {owner} is notes/{path.rpartition('/')[2]}.\n"
        for owner, path in zip(owners, texts, strict=True)
    )
    place.explain(draw, "bash-files", least=least, word=void, owned=owned)
    return place


def _note(draw: Draw, place: Place) -> Parameters:
    path, text = draw.choice(list(place.facts["texts"].items()))
    owner = draw.randrange(5)
    return {
        "path": path,
        "line": draw.randint(5, text.count("\n") // 2),
        "half": draw.randint(text.count("\n") // 2, text.count("\n") - 4),
        "rank": draw.randint(3, 9),
        "word": draw.choice(place.facts["loud"]),
        "new": draw.towns(1)[0].lower(),
        "owner": place.facts["owners"][owner],
        "owned": list(place.facts["texts"])[owner],
        "other": list(place.facts["texts"])[owner - 1],
    }


# -- bash-find -------------------------------------------------------------------------------------


def _find_place(draw: Draw, name: str) -> Place:
    site, endings = f"{draw.home('yard')}/{name}", draw.sample(ENDINGS, 3)
    names = draw.nouns(6)
    one, two, three = names[:3]
    place = Place(name, facts={"site": site, "endings": endings[:2], "names": names})
    texts = ["".join(f"{draw.line(names[3:])}\n" for _ in range(n)) for n in (1, 2, 3, 5, 8)]
    folders = ["", one, f"{one}/{two}", f"{one}/{two}/{three}", two, f"{two}/{one}", three]
    few = draw.randint(2, 3)
    counts = [few + 1, *(draw.randint(1, few + 2) for _ in folders[1:])]
    for number, folder in enumerate(draw.sample(folders, sum(counts), counts=counts)):
        text, ending = draw.choice(texts), draw.choice(endings)
        file = f"{names[number % 6]}-{draw.randint(2, 99)}.{ending}"
        place.write("/".join(filter(None, (site, folder, file))), text)
    place.grows.append(site)
    sizes = [len(text.encode()) for text in place.files.values()]
    limit = draw.limit(_middle(sizes))
    words = {"ending": endings[0], "one": one, "two": two}
    place.explain(draw, "bash-find", limit=limit, below=limit - 1, **words)
    place.facts |= {"sizes": sizes, "few": few + draw.randint(0, 1)}
    return place


def _search(draw: Draw, place: Place) -> Parameters:
    ending, second = draw.sample(place.facts["endings"], 2)
    return {
        "size": draw.limit(_middle(place.facts["sizes"])),
        "ending": ending,
        "second": second,
        "start": draw.choice(place.facts["names"]),
        "word": draw.choice(place.facts["names"][3:]),
        "letters": draw.choice(place.facts["names"][:3]),
        "rank": draw.randint(2, 4),
    }


# -- bash-tables -----------------------------------------------------------------------------------

MEASURES = ["weight", "volume", "age"]


def _tables_place(draw: Draw, name: str) -> Place:
    site, nouns = f"{draw.home('stock')}/{name}", draw.nouns(6)
    shelves, people = [town.lower() for town in draw.towns(3)], draw.people(2)
    quantities, prices = (
        [draw.number(low, 9 * low) for low in (11, 11, 101, 101, 120)] for _ in "12"
    )
    measures = draw.sample(range(10, 300), 8)
    codes, ids = draw.sample(range(100, 1000), 6), draw.sample(range(10, 400), 32)
    rows: tuple[tuple[Any, ...], ...] = tuple(
        (
            number,
            f"{draw.choice(nouns)}-{draw.randint(10, 99)}",
            draw.choice(shelves),
            draw.choice(quantities),
            draw.choice(prices),
            *(draw.choice(measures) for _ in MEASURES),
            draw.choices(codes, (5, 5, 4, 3, 2, 2))[0],
        )
        for number in ids
    )
    names = ("id", "name", "shelf", "qty", "price", "a", "b", "c", "supplier")
    parts = Rows(
        names, rows, key="id", closed=frozenset({"supplier"}), allows=_positive, spaces=False
    )
    both = [f"{people[0]}-{people[1]}", f"{people[1]}-{people[0]}"]
    persons = zip(codes, [*people, *people, *both], strict=True)
    suppliers = Rows(("code", "person"), tuple(persons))
    place = Place(name, facts={"site": site, "path": f"{site}/parts.csv", "people": people})
    place.write(f"{site}/parts.csv", parts)
    place.fix(f"{site}/suppliers.csv", suppliers)
    place.grows.append(site)
    columns = draw.sample(range(6, 9), 3)
    place.facts |= dict(zip(MEASURES, columns, strict=True))
    column = draw.choice((6, 7))
    amount = draw.limit(_middle(measures))
    place.facts["rows"] = rows
    meanings = "".join(
        f"In {site}/parts.csv, column {'abc'[column - 6]} is the {measure}.\n"
        for measure, column in zip(MEASURES, columns, strict=True)
    )
    place.explain(
        draw,
        "bash-tables",
        meanings=meanings,
        column=column,
        letter="ab"[column - 6],
        amount=amount,
        shelf=shelves[0],
    )
    return place


def _positive(row: Mapping[str, Any]) -> bool:
    return all(value > 0 for value in row.values() if isinstance(value, int))


def _row(draw: Draw, place: Place) -> Parameters:
    rows, measure = place.facts["rows"], draw.choice(MEASURES)
    return {
        "id": draw.choice(rows)[0],
        "shelf": draw.choice(rows)[2],
        "qty": draw.limit(_middle(row[3] for row in rows)),
        "price": draw.limit(_middle(row[4] for row in rows)),
        "few": draw.randint(2, 4),
        "person": draw.choice(place.facts["people"]),
        "measure": measure,
        "column": place.facts[measure],
        "other": draw.choice([place.facts[name] for name in MEASURES if name != measure]),
    }


# -- bash-logs -------------------------------------------------------------------------------------

STATUSES = [200, 404, 301, 500, 403, 400, 503]


def _logs_place(draw: Draw, name: str) -> Place:
    """Return a log whose clients and pages contain each other, as in a subnet and on a site."""
    site, (one, two, three) = f"{draw.home('gate')}/{name}", draw.nouns(3)
    net = f"{draw.number(10, 200)}.{draw.randint(10, 99)}"
    clients = [f"10.{net}.{host}" for host in draw.sample(range(2, 24), 3)]
    clients += [f"{client}{draw.randint(0, 9)}" for client in clients]
    clients += [f"1{client}" for client in clients[:3]]
    pages = [f"/{one}", f"/{two}", f"/{three}", f"/{one}/{two}", f"/{two}s", f"/{three}/{one}"]
    pages += [f"/{two}/{three}", f"/{one}/{three}"]
    sizes, times = (
        [draw.number(low, 10 * low) for low in lows]
        for lows in ((9, 9, 90, 90, 900, 900, 1200), (9, 9, 90, 90, 120, 120))
    )
    hours = draw.sample(range(24), 9)

    def skewed(items: Sequence[Any]) -> Any:
        return items[min(draw.randrange(len(items)), draw.randrange(len(items)))]

    minutes = sorted(60 * skewed(hours) + draw.randrange(60) for _ in range(90))
    rows = tuple(
        (
            f"{minute // 60:02}:{minute % 60:02}",
            skewed(clients),
            skewed(pages),
            skewed(STATUSES),
            draw.choice(sizes),
            draw.choice([*times, *STATUSES]),
        )
        for minute in minutes
    )
    log = Rows(
        ("time", "client", "page", "status", "bytes", "milliseconds"),
        rows,
        closed=frozenset({"time", "client", "status"}),
        spaces=False,
        separator=" ",
        allows=_positive,
        sort="time",
    )
    place = Place(name, facts={"site": site, "path": f"{site}/access.log", "requests": rows})
    place.facts |= {"clients": clients[:3], "pages": pages[:3]}
    place.write(f"{site}/access.log", log)
    place.grows.append(site)
    lists = [f"{site}/{town.lower()}.list" for town in draw.towns(2)]
    for path, listed in zip(lists, (draw.sample(clients[:3], 2), clients[3:7]), strict=True):
        place.fix(path, "".join(f"{client}\n" for client in listed))
    than, sign = draw.choice((("more than", ">"), ("at least", ">=")))
    slow, most = draw.limit(_middle(times)), draw.limit(_middle(sizes))
    place.facts |= {"robots": lists[0], "decoy": lists[1]}
    words = {"list": lists[0].rpartition("/")[2], "than": than, "sign": sign}
    place.explain(draw, "bash-logs", slow=slow, most=most, **words)
    return place


def _request(draw: Draw, place: Place) -> Parameters:
    requests = place.facts["requests"]
    return {
        "client": draw.choice(place.facts["clients"]),
        "page": draw.choice(place.facts["pages"]),
        "status": draw.choice(requests)[3],
        "bytes": draw.limit(_middle(row[4] for row in requests)),
        "milliseconds": draw.limit(_middle(row[5] for row in requests)),
        "count": draw.number(3, 30),
    }


# -- bash-settings ---------------------------------------------------------------------------------

MEANINGS = ["timeout", "size limit", "number of retries"]
_KEY = re.compile(r"(# ?)?[a-z][a-z.-]*")


def _settings(draw: Draw, keys: list[str], low: int, high: int) -> Rows:
    """Return lines KEY = VALUE, some with a remark, each below a comment with its default."""

    def value() -> int:
        return draw.choice((draw.randint(10, 99), draw.randint(100, 2500), low, high))

    lines = list[tuple[str, str, int | None, str]]()
    for key in draw.sample(keys, len(keys)):
        remark = draw.choice(("", f" # {draw.choice(draw.nouns(3))}"))
        lines += [(f"#{key}", " = ", value(), ""), (key, " = ", value(), remark)]
    for person in draw.people(2):
        lines.insert(draw.randrange(len(lines)), (f"# ask {person}", "", None, ""))
    columns = ("key", "equals", "value", "remark")
    closed = frozenset({"equals", "remark"})
    return Rows(columns, tuple(lines), "key", closed, separator="", heading=False, allows=_is_line)


def _is_line(line: Mapping[str, Any]) -> bool:
    key, value = line["key"], line["value"]
    if value is None:
        return key.startswith("# ") and not line["equals"] and not line["remark"]
    return bool(_KEY.fullmatch(key) and line["equals"]) and 9 < value < 4000


def _settings_place(draw: Draw, name: str) -> Place:
    site, nouns = f"{draw.home('panel')}/{name}", draw.nouns(3)
    keys = [key for noun in nouns for key in (noun, f"{noun}.max", f"default-{noun}")]
    units, owners = [town.lower() for town in draw.towns(5)], draw.people(2)
    high, low = draw.randint(1300, 1500), draw.randint(92, 98)
    paths = [f"{site}/{unit}.conf" for unit in units]
    place = Place(name, facts={"site": site, "high": high, "low": low, "keys": nouns})
    place.facts |= {"paths": paths, "groups": {owners[0]: paths[:3], owners[1]: paths[3:]}}
    for path in (
        *paths,
        f"{site}/.defaults.conf",
        *(f"{site}/old/{unit}.conf" for unit in units[:3]),
    ):
        place.write(path, _settings(draw, keys, low, high))
    place.grows.append(site)
    explained = zip(nouns, MEANINGS, strict=True)
    place.explain(
        draw,
        "bash-settings",
        meanings="".join(f"{key} sets the {meaning}.\n" for key, meaning in explained),
        one=owners[0],
        ones=", ".join(units[:3]),
        other=owners[1],
        others=", ".join(units[3:]),
    )
    return place


def _setting(draw: Draw, place: Place) -> Parameters:
    keys, meaning = place.facts["keys"], draw.choice(MEANINGS)
    key = draw.choice(keys)
    tables = [place.files[f"tree{path}"] for path in place.facts["paths"]]
    values = [row[2] for rows in tables for row in rows.rows if row[0] == key]
    path, other = draw.sample(place.facts["paths"], 2)
    group, members = draw.choice(list(place.facts["groups"].items()))
    return {
        "path": path,
        "other": other,
        "key": key,
        "value": draw.number(100, 9000),
        "limit": sorted(values)[len(values) // 2],
        "step": draw.number(3, 80),
        "new": draw.people(1)[0].lower(),
        "meaning": meaning,
        "meant": keys[MEANINGS.index(meaning)],
        "group": group,
        "members": " ".join(members),
    }


# -- bash-filing -----------------------------------------------------------------------------------

STATES = ["open", "paid", "sent", "late", "void"]


def _filing_place(draw: Draw, name: str) -> Place:
    site, topics, endings = f"{draw.home('tray')}/{name}", draw.nouns(3), draw.sample(ENDINGS, 2)
    homes = [f"{site}/{town.lower()}" for town in draw.towns(3)]
    place = Place(name, facts={"site": site, "topics": topics, "homes": homes, "endings": endings})
    states, paths = draw.sample(STATES, 3), list[str]()
    for topic in topics:
        for folder in ("", "", "later/"):
            file = f"{topic}-{draw.randint(2, 99)}.{draw.choice(endings)}"
            lines = ["".join(f"{draw.line()}\n" for _ in range(draw.randint(0, 3)))]
            lines.insert(draw.randrange(2), f"{draw.choice(states)}\n")
            path = f"{site}/inbox/{folder}{file}"
            place.write(path, "".join(lines), program=draw.random() < 0.5)
            paths += [] if folder else [path]
    for home in homes:
        place.write(f"{home}/README", f"{draw.line()}\n")
    place.grows.append(f"{site}/inbox")
    place.facts |= {"paths": [*dict.fromkeys(paths)], "states": states}
    belong = "".join(
        f"Files whose names start with {topic}- belong in {home}.\n"
        for topic, home in zip(topics, homes, strict=True)
    )
    place.explain(draw, "bash-filing", belong=belong, state=states[0], second=states[1])
    return place


def _document(draw: Draw, place: Place) -> Parameters:
    facts = place.facts
    sizes = [len(str(content)) for path, content in place.files.items() if "/inbox/" in path]
    topics, homes = facts["topics"], facts["homes"]
    path, other = draw.sample(facts["paths"], 2)
    number = draw.randrange(3)
    return {
        "path": path,
        "file": path.rpartition("/")[2],
        "other": other,
        "second": other.rpartition("/")[2],
        "topic": topics[number],
        "home": homes[number],
        "folder": homes[number - 1],
        "third": topics[number - 1],
        "ending": draw.choice(facts["endings"]),
        "state": draw.choice(facts["states"]),
        "size": draw.limit(_middle(sizes)),
        "new": draw.people(1)[0].lower(),
    }


# -- bash-archives ---------------------------------------------------------------------------------


def _archives_place(draw: Draw, name: str) -> Place:
    site, endings, labels = f"{draw.home('vault')}/{name}", draw.sample(ENDINGS, 2), draw.people(3)
    topics, words, (inner, *nouns) = draw.nouns(3), draw.nouns(3), draw.nouns(4)

    def text() -> Prose:
        return Prose("".join(f"{draw.line(words)}\n" for _ in range(draw.randint(4, 8))))

    place = Place(name, facts={"site": site, "endings": endings, "labels": labels, "words": words})
    packs = dict[str, Archive]()
    for topic in topics:
        members = {
            f"{folder}/{noun}-{draw.randint(2, 3)}.{draw.choice(endings)}": text()
            for folder in (topic, f"{topic}/{inner}")
            for noun in nouns
        }
        path = f"{site}/packs/{topic}.tar.gz"
        packs[path] = Archive(members)
        place.write(path, packs[path])
        for member, content in members.items():
            place.write(f"{site}/loose/{member}", content)
    place.write(f"{site}/packs/.{topics[0]}.tar.gz", packs[f"{site}/packs/{topics[0]}.tar.gz"])
    logs = [f"{site}/logs/{town.lower()}.txt.gz" for town in draw.towns(2)]
    for path in logs:
        place.write(path, Compressed(text()))
    place.write(f"{site}/out/README", f"{draw.line()}\n")
    place.grows += [f"{site}/packs", f"{site}/logs"]
    place.facts |= {"packs": packs, "logs": logs, "topics": topics, "inner": inner}
    place.facts["draft"] = endings[0]
    owned = "".join(
        f"The archive of {label} is packs/{topic}.tar.gz.\n"
        for label, topic in zip(labels, topics, strict=True)
    )
    place.explain(draw, "bash-archives", owned=owned)
    return place


def _member(draw: Draw, place: Place) -> Parameters:
    facts = place.facts
    packs, number = list(facts["packs"]), draw.randrange(3)
    member = draw.choice(list(facts["packs"][packs[number]].members)[1:5])
    topic = facts["topics"][number]
    return {
        "pack": packs[number],
        "other": packs[number - 1],
        "label": facts["labels"][number],
        "topic": topic,
        "sub": f"{topic}/{facts['inner']}",
        "member": member,
        "ending": member.rpartition(".")[2],
        "zipped": draw.choice(facts["logs"]),
        "word": draw.choice(facts["words"]),
        "new": draw.people(1)[0].lower(),
        "few": draw.randint(2, 3),
    }


# -- bash-compare ----------------------------------------------------------------------------------


_LONGER = ["mjs", "mts", "zsh", "qmd", "tpl", "yml", "erb", "slog", "ipy", "xcsv", "xtxt", "rdat"]
"""Endings of files that are endings without their first letter, too."""


def _compare_place(draw: Draw, name: str) -> Place:
    site, longer = f"{draw.home('mirror')}/{name}", draw.choice(_LONGER)
    ending = longer[1:]
    sides = [f"{site}/{town.lower()}" for town in draw.towns(2)]
    place = Place(name, facts={"site": site, "ending": ending, "sides": sides})
    often = draw.nouns(4)
    lines = [f"{draw.line(often)}\n" for _ in range(9)]
    text, other = "".join(lines[:5]), "".join([*lines[3:7], lines[2].upper()])
    pairs = [(text, text), (Prose(text), Prose(other)), (lines[-1], ""), ("", lines[-1])]
    more = [(lines[0], text), (text, lines[0]), (lines[1], ""), ("", lines[1])]
    visible = [("", end) for end in (ending, longer, ending.upper(), f"{ending}.bak")]
    for start, end in (*visible, (".", ending), ("old/", ending)):
        some = [*pairs, *more] if end in (ending, longer) and not start else pairs
        for noun, pair in zip(draw.nouns(len(some)), some, strict=True):
            for side, content in zip(sides, pair, strict=True):
                if content:
                    place.write(f"{side}/{start}{noun}.{end}", content)
    place.grows.append(site)
    place.facts |= {"original": sides[0], "backup": sides[1]}
    place.explain(draw, "bash-compare", letter=draw.choice("ghijklmno"))
    return place


def _pair(draw: Draw, place: Place) -> Parameters:
    one, other = draw.sample(place.facts["sides"], 2)
    ending = f".{place.facts['ending']}"
    shared = {
        path.removeprefix(f"tree{one}/"): text
        for path, text in place.files.items()
        if path.endswith(ending) and path.replace(one, other) in place.files
    }
    visible = [file for file in shared if "/" not in file and not file.startswith(".")]
    file = draw.choice([file for file in visible if isinstance(shared[file], Prose)])
    same = [file for file in visible if place.files[f"tree{other}/{file}"] == shared[file]]
    path = draw.choice([file for file in same if not isinstance(shared[file], Prose)])
    return {"one": one, "other": other, "path": f"{one}/{path}", "file": file}


FAMILIES = (
    Family(
        "bash-files", "bash", "one text file: count, print, change, remove", _files_place, _note
    ),
    Family("bash-find", "bash", "files of a tree, by name, size and folder", _find_place, _search),
    Family("bash-tables", "bash", "CSV tables: filter, add up, group, join", _tables_place, _row),
    Family("bash-logs", "bash", "access logs: select, count, rank", _logs_place, _request),
    Family(
        "bash-settings",
        "bash",
        "settings files: read, set, insert, clean",
        _settings_place,
        _setting,
    ),
    Family(
        "bash-filing",
        "bash",
        "move, rename, link and protect files",
        _filing_place,
        _document,
        tasks_per_place=2,
    ),
    Family(
        "bash-archives", "bash", "tar and gzip: list, read, extract, pack", _archives_place, _member
    ),
    Family(
        "bash-compare",
        "bash",
        "two folders: missing, equal and changed files",
        _compare_place,
        _pair,
    ),
)
