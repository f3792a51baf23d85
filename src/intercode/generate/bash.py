"""Places of the Bash families. `questions/bash-*.toml` contain the questions.

Each place is a folder `/ROOM/SITE`. A gold of difficulty 1 is one command or a short pipe;
difficulty 2 needs several steps or less usual options; at difficulty 3 the rule is only in the
site's file HANDBOOK, or in an index. For each thing that a question can ask for, a place has
others that look like it: names that contain each other, other cases and endings, nested files. No
name in a tree contains a space. Golds use coreutils, findutils, diffutils, grep, sed, awk (mawk and
gawk alike), tar and gzip.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from posixpath import basename
from statistics import median_high
from typing import Any

from intercode.generate.draws import WORDS, as_text, middle, of_type, without
from intercode.generate.families import Draw, Family, Parameters, Place
from intercode.generate.ground import Archive, Compressed, Prose, Rows, similar

# -- bash-files ------------------------------------------------------------------------------------


def _files_place(draw: Draw, name: str) -> Place:
    """Return a place of notes. The words `loud` are frequent in them, and each has two blocks that
    begin with the line `top` and end with the line `last`."""
    site, (top, last, *loud) = draw.home("desk", name), draw.nouns(5)
    place = Place(name, grows=[f"{site}/notes"])
    texts, topics = {}, draw.nouns(5)
    for topic in topics:
        count = draw.number(16, 60)
        lines = [draw.line(loud) for _ in range(count)]
        for start in sorted(draw.sample(range(3, count, 5), 2), reverse=True):
            block = [draw.line(loud), draw.line(loud), draw.line(loud)]
            lines[start:start] = [top, *block, last]
        path = f"{site}/notes/{topic}.txt"
        texts[path] = Prose(as_text(lines))
        place.write(path, texts[path])
    owners = draw.people(5)
    place.facts = {"site": site, "texts": texts, "owners": owners, "loud": loud}
    place.facts |= {"top": top, "last": last}
    least, void = draw.randint(3, 6), draw.choice(loud)
    owned = as_text(map("The note of {} is notes/{}.txt.".format, owners, topics))
    place.explain(draw, "bash-files", least=least, word=void, owned=owned)
    return place


def _note(draw: Draw, place: Place) -> Parameters:
    facts, paths = place.facts, list(place.facts["texts"])
    path, owner = draw.choice(paths), draw.randrange(5)
    length = facts["texts"][path].count("\n")
    return {
        "path": path,
        "line": draw.randint(5, length // 2),
        "half": draw.randint(length // 2, length - 4),
        **draw.values("bash-files", facts),
        "new": draw.folders(1)[0],
        "owner": facts["owners"][owner],
        "owned": paths[owner],
        "other": paths[owner - 1],
    }


# -- bash-find -------------------------------------------------------------------------------------


def _find_place(draw: Draw, name: str) -> Place:
    site, endings = draw.home("yard", name), draw.sample(WORDS["endings"], 3)
    names = draw.nouns(6)
    place = Place(name, facts={"site": site, "endings": endings[:2]}, grows=[site])
    texts = [draw.text(count, names[3:]) for count in (1, 2, 3, 5, 8)]
    folders = ",{0}/,{0}/{1}/,{0}/{1}/{2}/,{1}/,{1}/{0}/,{2}/".format(*names).split(",")
    few = draw.randint(2, 3)
    counts = [few + 1, *(draw.randint(1, few + 2) for _ in folders[1:])]
    for number, folder in enumerate(draw.sample(folders, sum(counts), counts=counts)):
        text, ending = draw.choice(texts), draw.choice(endings)
        file = f"{names[number % 6]}-{draw.randint(2, 99)}.{ending}"
        place.write(folder + file, text)
    sizes = [len(text.encode()) for text in place.files.values()]
    for ending in endings[:2]:  # almost names, of large files
        for file in (f"{{}}{ending}", f"{{}}.{ending.upper()}", f".{{}}.{ending}"):
            path = draw.choice(folders) + file.format(draw.choice(names))
            place.write(path, texts[-1] + draw.text(draw.randint(1, 3)))
    limit = draw.limit(middle(sizes, 3))
    words = {"ending": endings[0], "one": names[0], "two": names[1]}
    place.explain(draw, "bash-find", limit=limit, below=limit - 1, **words)
    place.facts |= {"few": few, "many": few + 4}
    place.data = {"sizes": middle(sizes, 3), "names": names, "loud": names[3:], "quiet": names[:3]}
    return place


def _search(draw: Draw, place: Place) -> Parameters:
    ending, second = draw.sample(place.facts["endings"], 2)
    values = draw.values("bash-find", place.data)
    return {"ending": ending, "second": second, **values}


# -- bash-tables -----------------------------------------------------------------------------------

MEASURES = ["weight", "volume", "age"]


def _numbers(draw: Draw, times: int, *lows: int) -> list[int]:
    """Return a number for each of `lows`, which is between it and `times` times it."""
    return [draw.number(low, times * low) for low in lows]


def _tables_place(draw: Draw, name: str) -> Place:
    site, nouns = draw.home("stock", name), draw.nouns(6)
    depots, people = draw.folders(3), draw.people(2)
    quantities = _numbers(draw, 9, 11, 11, 101, 101, 120)
    prices = _numbers(draw, 9, 11, 11, 101, 101, 120)
    measures = draw.sample(range(10, 300), 8)
    codes = draw.sample(range(100, 1000), 6)
    suppliers = [*codes, *draw.choices(codes, (5, 5, 4, 3, 2, 2), k=26)]
    pools: list[Sequence[Any]] = [depots, quantities, prices, measures, measures, measures]
    rows = list[tuple[Any, ...]]()
    for number, supplier in zip(draw.sample(range(10, 400), 32), suppliers, strict=True):
        part = f"{draw.choice(nouns)}-{draw.randint(10, 99)}"
        rows.append((number, part, *map(draw.choice, pools), supplier))
    nearly = []
    for row in draw.sample(rows, 8):
        nearly.append((row[0] + 400, row[1], similar(draw, row[2]), *row[3:]))
    parts = Rows(
        ("id", "name", "depot", "qty", "price", "a", "b", "c", "supplier"),
        (*rows, *nearly),
        key="id",
        closed=["supplier"],
        allows=_positive,
        spaces=False,
    )
    persons = [*people, *people, "-".join(people), "-".join(reversed(people))]
    owners = Rows(("code", "person"), tuple(zip(codes, persons, strict=True)))
    path = f"{site}/parts.csv"
    place = Place(name, facts={"site": site, "path": path}, grows=[site])
    place.write(path, parts)
    place.fix("suppliers.csv", owners)
    columns = dict(zip(MEASURES, draw.sample(range(6, 9), 3), strict=True))
    column = draw.choice((6, 7))
    amount = draw.limit(middle(measures, 3))
    place.facts |= columns
    place.data = {"rows": rows, "people": people}
    for name in ("qty", "price"):
        place.data[name] = middle(parts.column(name), 3)
    meanings = ""
    for measure, number in columns.items():
        meanings += f"In {path}, column {'abc'[number - 6]} is the {measure}.\n"
    place.explain(
        draw,
        "bash-tables",
        meanings=meanings,
        column=column,
        letter="ab"[column - 6],
        amount=amount,
        depot=depots[0],
    )
    return place


def _positive(row: Mapping[str, Any]) -> bool:
    return min(of_type(int, row.values())) > 0


def _row(draw: Draw, place: Place) -> Parameters:
    facts, measure = place.facts, draw.choice(MEASURES)
    return {
        "id": draw.choice(place.data["rows"])[0],
        "depot": draw.choice(place.data["rows"])[2],
        **draw.values("bash-tables", place.data),
        "measure": measure,
        "column": facts[measure],
        "other": facts[draw.choice(without(MEASURES, [measure]))],
    }


# -- bash-logs -------------------------------------------------------------------------------------

STATUSES = [200, 404, 301, 500, 403, 400, 503]


def _logs_place(draw: Draw, name: str) -> Place:
    """Return a log whose clients and pages contain each other, as in a subnet and on a site."""
    site, nouns = draw.home("gate", name), draw.nouns(3)
    net = f"{draw.number(10, 200)}.{draw.randint(10, 99)}"
    usual = [f"10.{net}.{host}" for host in draw.sample(range(2, 24), 3)]
    longer = [f"{client}{draw.randint(0, 9)}" for client in usual]
    clients = [*usual, *longer, *map("1{}".format, usual)]
    pages = "/{0} /{1} /{2} /{0}/{1} /{1}s /{2}/{0} /{1}/{2} /{0}/{2}".format(*nouns).split()
    sizes = _numbers(draw, 10, 9, 9, 90, 90, 900, 900, 1200)
    times = _numbers(draw, 10, 9, 9, 90, 90, 120, 120)
    hours = draw.sample(range(24), 9)

    def skewed(items: Sequence[Any]) -> Any:
        return items[min(draw.randrange(len(items)), draw.randrange(len(items)))]

    minutes = [60 * skewed(hours) + draw.randrange(60) for _ in range(90)]
    rows = []
    for minute in sorted(minutes):
        row = (
            f"{minute // 60:02}:{minute % 60:02}",
            skewed(clients),
            skewed(pages),
            skewed(STATUSES),
            draw.choice(sizes),
            draw.choice([*times, *STATUSES]),
        )
        rows.append(row)
    log = Rows(
        ("time", "client", "page", "status", "bytes", "milliseconds"),
        tuple(rows),
        closed=["time", "client", "status"],
        spaces=False,
        separator=" ",
        allows=_positive,
        sort="time",
    )
    path = f"{site}/access.log"
    place = Place(name, facts={"site": site, "path": path}, grows=[site])
    place.data = {"clients": usual, "pages": pages[:3], "statuses": log.column("status")}
    place.data["sizes"] = middle(log.column("bytes"), 3)
    place.data["times"] = middle(log.column("milliseconds"), 3)
    place.write(path, log)
    robots, decoy = (f"{site}/{folder}.list" for folder in draw.folders(2))
    place.fix(robots, as_text(draw.sample(usual, 2)))
    place.fix(decoy, as_text(clients[3:7]))
    than, sign = draw.choice((("more than", ">"), ("at least", ">=")))
    slow, most = draw.limit(middle(times, 3)), draw.limit(middle(sizes, 3))
    place.facts |= {"robots": robots, "decoy": decoy}
    words = {"list": basename(robots), "than": than, "sign": sign}
    place.explain(draw, "bash-logs", slow=slow, most=most, **words)
    return place


def _request(draw: Draw, place: Place) -> Parameters:
    return draw.values("bash-logs", place.data)


# -- bash-settings ---------------------------------------------------------------------------------

MEANINGS = ["timeout", "size limit", "number of retries"]
_KEY = re.compile(r"# ?[A-Za-z][A-Za-z.-]*|[a-z][a-z.-]*")


def _settings(draw: Draw, keys: list[str], low: int, high: int) -> Rows:
    """Return lines KEY = VALUE, some with a remark, each below a comment with its default."""

    def value() -> int:
        return draw.choice((draw.randint(10, 99), draw.randint(100, 2500), low, high))

    lines = list[tuple[str, str, int | None, str]]()
    for key in draw.shuffled(keys):
        remark = draw.choice(("", f" # {draw.choice(draw.nouns(3))}"))
        lines += [(f"#{key}", " = ", value(), ""), (key, " = ", value(), remark)]
    for person in draw.people(2):
        lines.insert(draw.randrange(len(lines)), (f"# ask {person}", "", None, ""))
    columns = ("key", "equals", "value", "remark")
    closed = ["equals", "remark"]
    return Rows(columns, tuple(lines), "key", closed, separator="", allows=_is_line)


def _is_line(line: Mapping[str, Any]) -> bool:
    key, value = line["key"], line["value"]
    if value is None:
        return key.startswith("# ") and not line["equals"] and not line["remark"]
    return bool(_KEY.fullmatch(key) and line["equals"]) and 9 < value < 4000


def _settings_place(draw: Draw, name: str) -> Place:
    site, nouns = draw.home("panel", name), draw.nouns(3)
    keys = list[str]()
    for noun in nouns:
        keys += (noun, f"{noun}.max", f"default-{noun}")
    units, owners = draw.folders(5), draw.people(2)
    high, low = draw.randint(1300, 1500), draw.randint(92, 98)
    paths = [f"{site}/{unit}.conf" for unit in units]
    place = Place(name, grows=[site])
    place.facts = {"site": site, "high": high, "low": low, "keys": nouns, "paths": paths}
    place.facts["groups"] = {owners[0]: paths[:3], owners[1]: paths[3:]}
    older = [f"{site}/old/{unit}.conf" for unit in units[:3]]
    for path in (*paths, f"{site}/.defaults.conf", *older):
        place.write(path, _settings(draw, keys, low, high))
    meanings = as_text(map("{} sets the {}.".format, nouns, MEANINGS))
    place.explain(
        draw,
        "bash-settings",
        meanings=meanings,
        one=owners[0],
        ones=", ".join(units[:3]),
        other=owners[1],
        others=", ".join(units[3:]),
    )
    return place


def _setting(draw: Draw, place: Place) -> Parameters:
    facts = place.facts
    keys, paths, meaning = facts["keys"], facts["paths"], draw.choice(MEANINGS)
    key, values = draw.choice(keys), []
    for path in paths:
        for row in place.files[f"tree{path}"].rows:
            if row[0] == key:
                values.append(row[2])
    path, other = draw.sample(paths, 2)
    group, members = draw.choice(list(facts["groups"].items()))
    return {
        "path": path,
        "other": other,
        "key": key,
        "limit": median_high(values),
        **draw.values("bash-settings", {}),
        "meaning": meaning,
        "meant": keys[MEANINGS.index(meaning)],
        "group": group,
        "members": " ".join(members),
    }


# -- bash-filing -----------------------------------------------------------------------------------

STATES = ["open", "paid", "sent", "late", "void"]


def _filing_place(draw: Draw, name: str) -> Place:
    site, topics = draw.home("tray", name), draw.nouns(3)
    endings = draw.sample(WORDS["endings"], 2)
    homes = [f"{site}/{folder}" for folder in draw.folders(3)]
    place = Place(name, grows=[f"{site}/inbox"])
    states, paths = draw.sample(STATES, 3), dict[str, None]()
    for topic in topics:
        for folder in ("", "", "later/"):
            file = f"{topic}-{draw.randint(2, 99)}.{draw.choice(endings)}"
            lines = [draw.text(draw.randint(0, 3))]
            lines.insert(draw.randrange(2), f"{draw.choice(states)}\n")
            path = f"{site}/inbox/{folder}{file}"
            place.write(path, "".join(lines), program=draw.random() < 0.5)
            if not folder:
                paths[path] = None
    almost = [f"{states[0]} {draw.line()}", states[0].upper()]
    for folder in ("", "later/"):
        for start, line in zip((".", ".", "", ""), (*states[::2], *almost), strict=True):
            file = f"{start}{draw.choice(topics)}-{draw.randint(100, 999)}.{draw.choice(endings)}"
            place.write(f"{site}/inbox/{folder}{file}", f"{line}\n")
    for home in homes:
        place.write(f"{home}/README", draw.text(1))
    place.facts = {"site": site, "topics": topics, "homes": homes, "endings": endings}
    place.facts |= {"paths": [*paths], "states": states}
    belong = as_text(map("Files whose names start with {}- belong in {}.".format, topics, homes))
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
        "file": basename(path),
        "other": other,
        "second": basename(other),
        "topic": topics[number],
        "home": homes[number],
        "folder": homes[number - 1],
        "third": topics[number - 1],
        **draw.values("bash-filing", {**facts, "sizes": middle(sizes, 3)}),
    }


# -- bash-archives ---------------------------------------------------------------------------------


def _archives_place(draw: Draw, name: str) -> Place:
    site, endings = draw.home("vault", name), draw.sample(WORDS["endings"], 2)
    labels = draw.people(3)
    topics, words, (inner, *nouns) = draw.nouns(3), draw.nouns(3), draw.nouns(4)

    def text() -> Prose:
        return Prose(draw.text(draw.randint(4, 8), words))

    place = Place(name, facts={"site": site, "endings": endings, "labels": labels, "words": words})
    packs = {}
    for topic in topics:
        members = {}
        for folder in (topic, f"{topic}/{inner}"):
            for noun in nouns:
                member = f"{folder}/{noun}-{draw.randint(2, 3)}.{draw.choice(endings)}"
                members[member] = text()
        path = f"{site}/packs/{topic}.tar.gz"
        packs[path] = Archive(members)
        place.write(path, packs[path])
        for member, content in members.items():
            place.write(f"loose/{member}", content)
    place.write(f"packs/.{topics[0]}.tar.gz", packs[f"{site}/packs/{topics[0]}.tar.gz"])
    logs = [f"{site}/logs/{folder}.txt.gz" for folder in draw.folders(2)]
    for path in logs:
        place.write(path, Compressed(text()))
    place.write("out/README", draw.text(1))
    place.grows = [f"{site}/packs", f"{site}/logs"]
    place.facts |= {"packs": packs, "logs": logs, "topics": topics, "inner": inner}
    place.facts["draft"] = endings[0]
    owned = as_text(map("The archive of {} is packs/{}.tar.gz.".format, labels, topics))
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
        **draw.values("bash-archives", facts),
    }


# -- bash-compare ----------------------------------------------------------------------------------


def _compare_place(draw: Draw, name: str) -> Place:
    site, longer = draw.home("mirror", name), draw.choice(WORDS["longer_endings"])
    ending = longer[1:]  # an ending, too
    sides = [f"{site}/{folder}" for folder in draw.folders(2)]
    place = Place(name, facts={"site": site, "ending": ending, "sides": sides}, grows=[site])
    often = draw.nouns(4)
    lines = [f"{draw.line(often)}\n" for _ in range(9)]
    text, blanks = "".join(lines[:5]), lines[1].replace(" ", "  ")
    other = "".join([*lines[3:7], lines[2].upper(), blanks])
    alone, longest = [(lines[-1], ""), ("", lines[-1])], text.replace(" ", "  ")
    usual = [(text, text), (lines[0], text), (text, lines[0]), *alone]
    noun, moved = draw.nouns(2)
    almost = [(text, text.swapcase()), (text, longest), (longest, text)]
    for form, pairs in (
        (f"{noun}.{ending}", usual[:1]),
        (f"old-{noun}.{ending}", usual[:1]),
        (f"{noun}.{ending}.orig", usual[:1]),
        (f"old/{moved}.{ending}", alone[:1]),
        (f"later/{moved}.{ending}", alone[1:]),
        (f"{{}}.{ending}", [*usual[1:], (Prose(text), Prose(other)), *almost]),
        (f"{{}}.{longer}", usual),
        (f"{{}}.{ending.upper()}", usual),
        (f"{{}}.{ending}.bak", [*usual[:1], *alone]),
        (f"{{}}-{ending}", usual[1:3]),
        (f".{{}}.{ending}", usual),
        (f"old/{{}}.{ending}", usual),
        (f"old/new/{{}}.{ending}", [*usual[:1], *alone]),
    ):
        for name, pair in zip(draw.nouns(len(pairs)), pairs, strict=True):
            for side, content in zip(sides, pair, strict=True):
                if content:
                    place.write(f"{side}/{form.format(name)}", content)
    place.facts |= {"original": sides[0], "backup": sides[1]}
    place.explain(draw, "bash-compare", letter=draw.choice("ghijklmno"))
    return place


def _pair(draw: Draw, place: Place) -> Parameters:
    side, other = draw.sample(place.facts["sides"], 2)
    ending = f".{place.facts['ending']}"
    proses, same = [], []
    for path, text in place.files.items():
        file = path.removeprefix(f"tree{side}/")
        twin = place.files.get(path.replace(side, other))
        if twin is None or not file.endswith(ending) or "/" in file or file.startswith("."):
            continue
        if isinstance(text, Prose):
            proses.append(file)
        elif text == twin:
            same.append(file)
    file, path = draw.choice(proses), draw.choice(same)
    return {"one": side, "other": other, "path": f"{side}/{path}", "file": file}


FAMILIES = (
    Family(
        "bash-files", "bash", "one text file: count, print, change, remove", _files_place, _note
    ),
    Family("bash-find", "bash", "files of a tree, by name, size and folder", _find_place, _search),
    Family(
        "bash-tables",
        "bash",
        "CSV tables: filter, add up, group, join",
        _tables_place,
        _row,
        tasks_per_place=2,
    ),
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
