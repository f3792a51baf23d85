"""Forms of instructions in a tree: each writer puts instructions under their keys into files of its
own, and returns the parameters of the words that say where they are."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from datetime import date, timedelta
from functools import partial
from operator import itemgetter

from intercode.generate.composition import Entries, Writer, as_lines, text_of
from intercode.generate.draws import as_text, read_toml, word_lists
from intercode.generate.families import Draw, Parameters, Place
from intercode.generate.ground import Archive

_DATA = read_toml("composed/words")
KINDS, WORDS = word_lists(_DATA["kinds"]), word_lists(_DATA)
LEVELS = ["DEBUG", "INFO", "WARN", "ERROR", "FATAL"]


def path_of(draw: Draw, place: Place, *endings: str) -> str:
    """Return the absolute path of a new file or folder of the site."""
    taken = place.facts["taken"]
    while True:
        folder, word = draw.word(WORDS["folders"]), draw.word(WORDS["words"])
        number = draw.choice(("", "", f"-{draw.randint(2, 40)}"))
        path = f"{place.facts['site']}/{folder}/{word}{number}"
        if path not in taken:
            taken.add(path)
            return path + draw.choice(endings or ("",))


def day_of(draw: Draw) -> str:
    return str(date(2025, 1, 1) + timedelta(days=draw.randrange(600)))


def _folder(draw: Draw, place: Place, entries: Entries, *, compress: bool = False) -> Parameters:
    folder, ending = path_of(draw, place), draw.choice(("", ".txt", ".md"))
    for key, instruction in entries.items():
        path, text = f"{folder}/{key}{ending}", text_of(draw, instruction)
        if compress:
            place.write(f"{path}.gz", gzip.compress(text.encode(), mtime=0))
        else:
            place.write(path, text)
    return {"folder": folder}


def _archive(draw: Draw, place: Place, entries: Entries) -> Parameters:
    folder, ending = draw.choice(("", "steps/", "notes/")), draw.choice(("", ".txt", ".md"))
    members = {}
    for key, entry in entries.items():
        members[f"{folder}{key}{ending}"] = text_of(draw, entry)
    path = path_of(draw, place, ".tar.gz", ".tgz")
    place.write(path, Archive(members))
    return {"path": path}


def _notes(draw: Draw, place: Place, entries: Entries) -> dict[str, str]:
    """Write each instruction to a file whose name says nothing, and return the paths by key."""
    folder, numbers = path_of(draw, place), draw.sample(range(100, 999), len(entries))
    paths = {}
    for key, number in zip(entries, numbers, strict=True):
        paths[key] = f"{folder}/note-{number}"
        place.write(paths[key], text_of(draw, entries[key]))
    return paths


def _labels(draw: Draw) -> tuple[str, str, str]:
    """Return names for a key, a task and what follows."""
    code = draw.choice(("code", "key", "ref", "token", "id", "tag", "mark"))
    return code, *draw.choice(
        (("task", "next"), ("do", "then"), ("job", "after"), ("work", "lead"))
    )


def _rows(draw: Draw, place: Place, entries: Entries, *, endings: str) -> Parameters:
    """A row with a header, or a JSON object, for each instruction."""
    labels, path = _labels(draw), path_of(draw, place, *endings.split())
    rows = [dict(zip(labels, labels, strict=True))]
    for key, entry in entries.items():
        rows.append(dict(zip(labels, (key, entry.task, entry.next), strict=True)))
    if "json" in endings:
        text = as_text(map(json.dumps, rows[1:]))
    else:
        order = draw.sample(labels, 3)
        text = as_lines([*map(itemgetter(*order), rows)], draw.choice(",;|\t"))
    place.write(path, text)
    return {"path": path, "column": labels[0]}


def _text(draw: Draw, place: Place, entries: Entries, *, form: str, endings: str) -> Parameters:
    """A text with an entry for each instruction, in a style that is the same in all entries."""
    code, task, lead = _labels(draw)
    style = {
        "code": code,
        "task": task,
        "lead": lead,
        "is": draw.choice((" = ", "=", ": ")),
        "to": draw.choice((" ", "\t", " -> ", ": ")),
        "mark": draw.choice(("#", "##", "==", "**")),
        "day": day_of(draw),
    }
    paths, text = dict[str, str](), ""
    if "{file}" in form:
        paths = _notes(draw, place, entries)
    for key, entry in entries.items():
        text += form.format(
            key=key,
            entry=entry,
            text=text_of(draw, entry),
            file=paths.get(key),
            time=f"{draw.randint(10, 23)}:{draw.randint(10, 59)}",
            level=draw.choice(LEVELS),
            **style,
        )
    path = path_of(draw, place, *endings.split())
    place.write(path, text)
    return {"path": path, "column": code}


WRITERS: Mapping[str, Writer] = {
    "folder": _folder,
    "packed": partial(_folder, compress=True),
    "archive": _archive,
    "table": partial(_rows, endings=".csv .tsv .txt"),
    "records": partial(_rows, endings=".jsonl .ndjson .json"),
    "sections": partial(
        _text,
        form="[{key}]\n{task}{is}{entry.task}\n{lead}{is}{entry.next}\n\n",
        endings=".ini .cfg .conf",
    ),
    "log": partial(
        _text,
        form="{day}T{time} {level} {code}={key} {entry.task} {entry.next}\n",
        endings=".log .out",
    ),
    "headings": partial(_text, form="{mark} {key}\n{text}\n", endings=".md .txt"),
    "index": partial(_text, form="{key}{to}{file}\n", endings=".txt .idx"),
}
