"""Bash tasks of several steps: their places and materials.

    /srv/NAME/START            the first instruction
    /srv/NAME/inbox/…          materials and further instructions, each in a file or folder of its
                               own: tables, logs, trees, repositories, archives, scripts, …

The result of a step is a text, and the gold a pipeline. A material has names that occur in the
result before, names that look like them, and others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any

from intercode.generate.composed.forms import KINDS, LEVELS, WORDS, WRITERS, day_of, path_of
from intercode.generate.composed.git import Commit, repository
from intercode.generate.composition import Chain, Language, Primitive, Result, as_lines
from intercode.generate.draws import Texts, as_text
from intercode.generate.families import Draw, Parameters, Place
from intercode.generate.ground import Archive
from intercode.generate.trial import Trial

SEPARATORS = {",": "-F,", ";": "-F';'", "|": "-F'|'", "\t": "-F'\\t'", ":": "-F:"}
LARGEST = 1_000_000
NAME = re.compile(r"[\w.-]+( |$)")


def _near(draw: Draw, name: str) -> str:
    """Return a name that looks like this one."""
    return draw.choice((f"{name}2", f"{name}-old", f"old-{name}", f"{name}x", name[:-1] or "x"))


def _names(
    draw: Draw, place: Place, primitive: Primitive, before: str, count: int = 8
) -> list[str]:
    """Return names in random order: those of the result before, others that look like them, and
    `count` more, of services or of people."""
    known, near = list[str](), list[str]()
    if primitive.takes in ("lines", "pairs", "word"):
        known = [*dict.fromkeys(line.split()[0] for line in before.splitlines())]
    for name in draw.sample(known, min(5, len(known))):
        near.append(_near(draw, name))
    if known:
        mistaken = set[str]()
        for text in place.facts["mistaken"]:
            mistaken.update(line.split()[0] for line in text.splitlines() if NAME.match(line))
        unknown = sorted(mistaken - {*known})
        near += draw.sample(unknown, min(6, len(unknown)))
    pool = draw.part(WORDS[draw.choice(("names", "names", "people"))])
    names = [*known, *near, *draw.sample(pool, min(count, len(pool)))]
    return draw.shuffled(dict.fromkeys(names))


def _number(draw: Draw) -> int:
    return draw.choice((draw.randint(1, 30), draw.randint(10, 400)))


def _around(draw: Draw, number: int) -> int:
    return draw.choice(
        (number, draw.randint(number // 2, number), draw.randint(number, number * 2))
    )


def _columns(draw: Draw) -> Parameters:
    """Return names of columns, and the values of the column `kind`."""
    kind, kind2 = draw.sample(list(KINDS), 2)
    much, much2 = draw.sample(WORDS["numbers"], 2)
    return {
        "who": draw.choice(("name", "service", "account", "project", "login", "host", "component")),
        "ref": draw.choice(("owner", "parent", "source", "contact", "backup", "origin")),
        "when": draw.choice(WORDS["dates"]),
        "kind": kind,
        "kind2": kind2,
        "much": much,
        "much2": much2,
        "value": KINDS[kind],
    }


# -- materials -------------------------------------------------------------------------------------


def _rows(
    draw: Draw, columns: Parameters, names: Texts, numbers: Callable[[], int]
) -> list[dict[str, Any]]:
    """Return rows with a kind, two numbers and a date for each name."""
    rows = []
    for name in names:
        row: dict[str, Any] = {columns["who"]: name}
        for column in ("kind", "kind2"):
            row[columns[column]] = draw.choice(KINDS[columns[column]])
        row |= {columns["much"]: numbers(), columns["much2"]: numbers()}
        rows.append(row | {columns["when"]: day_of(draw)})
    return rows


def _table(
    draw: Draw, place: Place, primitive: Primitive, before: str, *, repeats: bool = False
) -> Parameters | str:
    """A delimited file with a header. With `repeats`, it has several rows per name."""
    columns, numbers = _columns(draw), partial(_number, draw)
    if primitive.takes == "number":
        number = int(before)
        if not 1 < number < LARGEST:
            return "the number is too small or large"
        numbers = partial(draw.randint, 1, max(2, number // 5))
        if primitive.name != "reached":
            numbers = partial(_around, draw, number)
    names = _names(draw, place, primitive, before, 24)
    if primitive.takes != "number" and len(names) > 30:
        names = [name for name in names if draw.random() < 0.9]
    if repeats:
        names = draw.choices(names[:12], k=draw.randint(20, 40))
    rows = _rows(draw, columns, names, numbers)
    if primitive.takes == "word":
        word = before.strip()
        refs = [*map(str.strip, place.facts["mistaken"]), *names[:2]]
        for row in rows:
            row[columns["ref"]] = draw.choice((word, word, _near(draw, word), *refs))
    header = draw.shuffled(rows[0])
    separator, ending = draw.choice(list(SEPARATORS)), ".txt"
    if separator in ",;":
        ending = ".csv"
    path = path_of(draw, place, ending, ".dat")
    lines = [header, *map(itemgetter(*header), rows)]
    place.write(path, as_lines(lines, separator))
    days = sorted(map(itemgetter(columns["when"]), rows))
    middle = len(days) // 2
    parameters = dict(columns)
    for column in ("who", "kind", "kind2", "ref", "much", "much2", "when"):
        if columns[column] in header:
            parameters[f"{column}_at"] = header.index(columns[column]) + 1
    parameters |= {"day": days[1 : middle - 2], "day2": days[middle + 2 : -1]}
    return {**parameters, "table": path, "sep": SEPARATORS[separator]}


def _log(draw: Draw, place: Place, primitive: Primitive, before: str) -> Parameters:
    names, lines = _names(draw, place, primitive, before)[:24], list[str]()
    day, times = day_of(draw), list[int]()
    for second in sorted(draw.sample(range(86400), draw.randint(50, 90))):
        clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
        times.append(_number(draw))
        end = draw.choice(("", "", f" after {draw.choice(LEVELS)}", f" for {draw.choice(names)}"))
        lines.append(
            f"{day} {clock} {draw.choice(LEVELS)} {draw.choice(names)} took={times[-1]} ms{end}\n"
        )
    path = path_of(draw, place, ".log", ".out")
    place.write(path, "".join(lines))
    return {"log": path, "level": LEVELS, "least": sorted(times)[len(times) * 2 // 3 :]}


def _tree(draw: Draw, place: Place, primitive: Primitive, before: str) -> Parameters:
    """Files in folders, in lines of which are `kind: value`, names, and what looks like them."""
    folder, names = path_of(draw, place), _names(draw, place, primitive, before, 14)
    kind, much = place.facts["kind"], place.facts["much"]
    endings, words = draw.words(WORDS["endings"], 3), draw.words(WORDS["words"], 4)
    groups = [word for word in words if not folder.endswith(word)][:3]
    folders = [folder, *(f"{folder}/{group}" for group in groups), f"{folder}/{groups[0]}/old"]
    texts = []
    for name in names[:40]:
        candidates = [
            f"last {kind}: {draw.choice(KINDS[kind])}",
            f"max {much}: {_number(draw)}",
            f"{much}: {_number(draw)}",
            *draw.sample(names, min(3, len(names))),
            _near(draw, draw.choice(names)),
            f"see {draw.choice(names)}",
        ]
        lines = [f"{kind}: {draw.choice(KINDS[kind])}"]
        for line in draw.sample(candidates, draw.randint(4, 8)):
            if not line.startswith(f"{much}: "):
                lines.append(line)
        texts.append(as_text([*draw.shuffled(lines), f"{much}: {_number(draw)}"]))
        if len(texts) > 3 and draw.random() < 0.3:
            texts[-1] = draw.choice(texts)
        ending = draw.choice((*endings, *endings, f"{endings[0]}.{endings[1]}", f"{endings[1]}2"))
        path = f"{draw.choice(folders)}/{name}.{ending}"
        place.write(path, texts[-1], program=draw.random() < 0.3)
    return {"folder": folder, "ext": endings, "kind": kind, "value": KINDS[kind]}


def _links(draw: Draw, place: Place, primitive: Primitive, before: str) -> Parameters:
    folder, target = path_of(draw, place), path_of(draw, place)
    names = _names(draw, place, primitive, before, 16)
    for name in names:
        place.write(f"{target}/{name}", f"{draw.choice(names)}\n")
        if draw.random() < 0.2:
            place.write(f"{folder}/{name}", "")
        else:
            place.link(f"{folder}/{name}", f"{target}/{name}" + draw.choice(("", ".1")))
    return {"folder": folder}


def _scripts(draw: Draw, place: Place, primitive: Primitive, before: str) -> Parameters:
    """Scripts that exit with a status, which their text does not always show."""
    folder = path_of(draw, place)
    for name in _names(draw, place, primitive, before, 12):
        status, other = draw.randrange(5), draw.randint(1, 5)
        end = draw.choice(
            (
                f"exit {status}",
                f"# exit {other}\nexit {status}",
                f"code={status + other}\nexit $((code - {other}))",
                f"sh -c 'exit {status}'\nexit $?",
            )
        )
        text = f'#!/bin/sh\n# Checks {name}.\necho "{draw.randint(1, 90)} checked"\n{end}\n'
        place.write(f"{folder}/{name}.sh", text, program=True)
    return {"folder": folder, "status": ["0", "1", "2", "3", "4"]}


def _repo(draw: Draw, place: Place, primitive: Primitive, before: str) -> Parameters | str:
    """A bare repository of files NAME.conf. Subjects end with numbers; one is the result before."""
    word, number = before.strip(), 0
    if primitive.takes == "number":
        number = int(word)
        if not 0 < number < LARGEST:
            return "the number is too small or large"
    people, names = draw.words(WORDS["people"], 5), _names(draw, place, primitive, before, 7)
    files = [f"{name}.conf" for name in names]
    numbers = draw.sample(range(10, 999), 24)
    if number:
        numbers[4:8] = [int(f"1{word}"), number, 10 * number, number + 1]
    commits, now = list[Commit](), dict.fromkeys(files, "enabled = yes\n")
    for number in dict.fromkeys(numbers[: draw.randint(14, 22)]):
        changed = draw.sample(files, draw.randint(1, 4))
        if word and primitive.takes == "word" and draw.random() < 0.4:
            changed.append(f"{word}.conf")
        for file in changed:
            now[file] = f"{now.get(file, '')}{draw.choice(WORDS['numbers'])} = {_number(draw)}\n"
        if commits and draw.random() < 0.4 and len(now) > 3:
            del now[draw.choice(sorted(now))]
        verb = draw.choice(("Update", "Tune", "Fix", "Adjust", "Review"))
        subject = f"{verb} {changed[0].removesuffix('.conf')} (#{number})"
        commits.append(Commit(draw.choice(people), subject, dict(now)))
    tag = f"v{draw.randint(1, 4)}.{draw.randint(0, 9)}"
    repo = path_of(draw, place, ".git")
    for path, content in repository(commits, {tag: draw.randint(5, 9)}).items():
        place.write(f"{repo}/{path}", content)
    return {"repo": repo, "tag": tag, "file": sorted(files)}


def _archive(draw: Draw, place: Place, primitive: Primitive, before: str) -> Parameters:
    """An archive of files in folders; if it takes a word, of lists with names like the word."""
    names, endings = _names(draw, place, primitive, before, 20), draw.words(WORDS["endings"], 3)
    members = {}
    if primitive.takes == "word":
        for name in (*names[:12], before.strip()):
            for folder in ("lists", "old"):
                lines = draw.choices(names, k=draw.randint(6, 14))
                members[f"{folder}/{name}.txt"] = as_text(lines)
    else:
        folders = draw.words(WORDS["words"], 3)
        for name in names:
            ending = draw.choice((*endings, *endings, f"{endings[0]}.{endings[1]}"))
            members[f"{draw.choice(folders)}/{name}.{ending}"] = f"{draw.choice(names)}\n"
    path = path_of(draw, place, ".tar.gz", ".tgz")
    place.write(path, Archive(members))
    return {"archive": path, "ext": endings}


def _objects(draw: Draw, place: Place, primitive: Primitive, before: str) -> Parameters:
    """JSON lines or an INI file with entries for names; with old values among them."""
    columns, names = _columns(draw), _names(draw, place, primitive, before, 12)
    kind, lines, sections = columns["kind"], list[str](), list[str]()
    for row in _rows(draw, columns, names, partial(_number, draw)):
        old, noted = draw.choice(KINDS[kind]), dict(row)
        if draw.random() < 0.4:
            noted["note"] = f"was {old} on {day_of(draw)}"
        lines += [json.dumps(noted), json.dumps({**row, kind: old})]
        settings = {**row, f"old_{kind}": old}
        if primitive.takes == "word":
            settings = {}
            for name in draw.sample(WORDS["numbers"], draw.randint(4, 9)):
                settings[name] = _number(draw)
        section = [f"[{row[columns['who']]}]"]
        for name, value in draw.shuffled(settings.items()):
            section.append(f"{name} = {value}")
        sections.append(as_text(section))
    if primitive.material == "jsonl":
        path, text = path_of(draw, place, ".jsonl", ".json"), as_text(lines)
    else:
        path, text = path_of(draw, place, ".ini", ".conf", ".cfg"), "\n".join(sections)
    place.write(path, text)
    return {**columns, "json": path, "ini": path}


def _list(draw: Draw, place: Place, primitive: Primitive, before: str) -> Parameters:
    """A list with most of the names, or with a number for each of them."""
    names = _names(draw, place, primitive, before, 10)
    names = [name for name in names if draw.random() < 0.7]
    if primitive.takes == "pairs":
        names = [f"{name} {_number(draw)}" for name in names]
    path = path_of(draw, place, ".txt", ".lst", "")
    place.write(path, as_text(names))
    return {"list": path, "amounts": path}


def _copies(draw: Draw, place: Place, primitive: Primitive, before: str) -> Parameters | str:
    folder = path_of(draw, place)
    for path in before.splitlines():
        content = place.files.get(f"tree{path}")
        if not isinstance(content, str):
            return "a file has been moved"
        changed = draw.choice((content, content.upper(), content + "\n"))
        place.write(f"{folder}/{path.rpartition('/')[2]}", changed)
    return {"folder": folder}


def _facts(draw: Draw, place: Place, primitive: Primitive, before: str) -> Parameters | str:
    """The keys of the lines in files, days, a folder with one file, and the numbers of pairs."""
    folder = path_of(draw, place)
    place.write(f"{folder}/README", "Links to the files of this week.\n")
    numbers = sorted({line.split()[-1] for line in before.splitlines()})
    if primitive.takes == "pairs" and len(numbers) < 2:
        return "too few numbers"
    return {
        "kind": place.facts["kind"],
        "much": place.facts["much"],
        "day": [day_of(draw) for _ in range(4)],
        "folder": folder,
        "limit": numbers,
    }


MATERIALS: Mapping[str, Callable[[Draw, Place, Primitive, str], Parameters | str]] = {
    "table": _table,
    "records": partial(_table, repeats=True),
    "log": _log,
    "tree": _tree,
    "links": _links,
    "scripts": _scripts,
    "repo": _repo,
    "archive": _archive,
    "jsonl": _objects,
    "ini": _objects,
    "list": _list,
    "copies": _copies,
    "facts": _facts,
}


class Bash(Language):
    env = "bash"
    writers = WRITERS

    def __init__(self, trial: Trial) -> None:
        super().__init__()
        self.trial = trial
        self.results = dict[Chain, Result]()

    def place(self, draw: Draw, name: str) -> Place:
        self.results.clear()
        site = f"/{draw.choice(WORDS['roots'])}/{name}"
        facts = {
            "site": site,
            "start": f"{site}/{draw.choice(WORDS['starts'])}",
            "result": f"{site}/{draw.choice(WORDS['results'])}",
            "kind": draw.choice(list(KINDS)),
            "much": draw.choice(WORDS["numbers"]),
            "taken": set(),
        }
        return Place(name, facts=facts)

    def material(
        self, draw: Draw, place: Place, primitive: Primitive, before: str
    ) -> Parameters | str:
        if not primitive.material:
            return {}
        place.facts["mistaken"] = self.mistaken
        return MATERIALS[primitive.material](draw, place, primitive, before)

    def run(self, place: Place, chains: Sequence[Chain]) -> Sequence[Result | None]:
        """Run the chains, and of those whose results so far are known only the last command."""
        copy, commands = replace(place, files=dict(place.files)), list[str]()
        for number, chain in enumerate(chains):
            before = self.results.get(chain[:-1])
            if before is None or before.effects:
                commands.append(" | ".join(chain))
            else:
                copy.write(f"/tmp/before/{number}", before.text)
                commands.append(f"{{ {chain[-1]}; }} < /tmp/before/{number}")
        results = list[Result | None]()
        for chain, outcome in zip(chains, self.trial.outcomes(copy, commands), strict=True):
            if outcome.failed:
                results.append(None)
                continue
            self.results[chain] = Result(outcome.output, outcome.changes)
            results.append(self.results[chain])
        return results

    def gold(self, place: Place, chain: Chain) -> str:
        return f"{' | '.join(chain)} > {place.facts['result']}"
