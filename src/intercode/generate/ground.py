"""The contents of places, which can grow: each returns a copy with one small change near some
words.

    Prose     lines of text
    Rows      a table: rows of an SQL table, of a CSV file or of a log
    Archive   members of a tar.gz file, and Compressed, the text of a gz file
    Inputs    the arguments of a function's tests

The changes are those that tell careless solutions from right ones: a name within another, other
cases, ties, empty things, values at a limit, doubles. The words are those of a gold, or the part of
a gold that a mistake changes.
"""

from __future__ import annotations

import gzip
import io
import re
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import itemgetter
from pathlib import PurePosixPath
from posixpath import basename, dirname
from typing import Any

from intercode.generate.draws import (
    Draw,
    Item,
    Texts,
    among,
    as_text,
    of_type,
    read_toml,
    without,
    word_lists,
)

Cell = str | int | None

_GROWTH = read_toml("growth")
_PATTERNS = word_lists(_GROWTH)
_NAME = re.compile(r"[\w./-]+")
_RANGE = re.compile(r"\w-\w")


def numbers_in(near: Texts, low: int = 0, high: int = 1_000_000_000) -> list[int]:
    """Return the numbers among the words, from low to high."""
    numbers = []
    for word in near:
        if word.isdecimal() and len(word) < 10 and low <= int(word) <= high:
            numbers.append(int(word))
    return numbers


def similar(draw: Draw, name: str, hyphen: str = "-") -> str:
    """Return a name that contains this one, or differs from it in case only."""
    if name.startswith("/"):
        return f"/{similar(draw, name[1:], hyphen)}"
    joint = hyphen
    if " " in name or name[:1].isupper():
        joint = " "
    return draw.choice(_PATTERNS["similar"]).format(
        name=name,
        before=draw.choice(("new", "old", "my")) + hyphen,
        Before=draw.choice(("New", "Old", "East")) + joint,
        after=joint + draw.choice(("Old", "North", "II")),
        capital=name.capitalize(),
        upper=name.upper(),
        lower=name.lower(),
    )


def _range_ends(near: Texts) -> list[str]:
    """Return the letters or digits at which ranges among the words, such as `a-m`, differ."""
    ends = "".join(filter(_RANGE.fullmatch, near)).replace("-", "")
    return [end for end in ends if ends.count(end) == 1]


def _usually(draw: Draw, preferred: Sequence[Item], items: Sequence[Item]) -> Item:
    """Return one of the preferred items in four cases of five, and else, or if there are none, one
    of the items."""
    if preferred and draw.random() < 0.8:
        return draw.choice(preferred)
    return draw.choice(items)


def _move(draw: Draw, kind: str) -> str:
    """Return the name of a move of one kind; `growth.toml` has the probability of each."""
    moves = _GROWTH["moves"][kind]
    return str(draw.choices([*moves], [*moves.values()])[0])


def _word_in(text: str, near: Texts, draw: Draw) -> str | None:
    """Return one of the words that the text contains; a short one only as a whole word."""
    whole = set(re.findall(r"\w+", text))
    words = [word for word in near if word in whole or (len(word) > 2 and word in text)]
    return draw.choice(words) if words else None


class Prose(str):
    """Lines of text that can grow."""

    def grown(self, draw: Draw, near: Texts, known: Texts) -> Prose:
        lines = self.splitlines()
        pointed = [line for line in lines if _word_in(line, known, draw)]
        line, spot = _usually(draw, pointed, lines or [""]), 0
        if lines:
            spot = lines.index(line)
        for _ in range(draw.choice((0, 1, 1, 1, 2, 2, 3))):
            line = _line_near(draw, line, near)
        spot = draw.choice((spot, spot + 1, 0, 1, len(lines), draw.randint(0, len(lines))))
        lines[spot:spot] = [line] * draw.choice((1, 1, 2))
        return Prose(as_text(lines))


def _line_near(draw: Draw, line: str, near: Texts) -> str:
    """Return a line like this one: other words or numbers, more or fewer spaces, or nothing."""
    words = line.split()
    word = _word_in(line, near, draw) or draw.choice(words or ["x"])
    ends = _range_ends(near)
    if ends and draw.random() < 0.5:
        return draw.choice((f"{draw.choice(ends)}{line[1:]}", f"{line[:-1]}{draw.choice(ends)}"))
    if draw.random() < 0.6:
        other = draw.choice([*filter(_NAME.fullmatch, near), word])
        longer = similar(draw, word, "_")  # by all definitions another word
        return draw.choice(
            (
                line.replace(word, longer, 1),
                line.replace(word, longer),
                line.replace(word, f"{word} {longer}", 1),
                line.replace(word, other),
                f"{line} {word}",
                f"{word} {line}",
                " ".join(draw.shuffled(words)),
                line.replace(word, "", 1).strip(),
                word,
            )
        )
    return draw.choice(
        (
            f" {line}",
            f"{line} ",
            line.replace(" ", "  ", 1),
            line.capitalize(),
            f"{draw.randint(2, 12)} {line}",
            f"{word} café",
            "",
            "  ",
        )
    )


@dataclass(frozen=True)
class Rows:
    """A table that can grow by rows and by other values in them.

    The values of the column `key`, if there is one, are all different. A column in `closed` only
    has values that it has now, and one in `refers` the ids of a table. `allows` says of a row, by
    column, whether the world permits it. As text, values are joined by `separator`, and the first
    line has the names of the columns, unless the separator is empty.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    key: str = ""
    closed: Texts = ()
    refers: Mapping[str, str] = field(default_factory=dict)
    """The table in whose column `id` the values of a column are, by column."""
    separator: str = ","
    allows: Callable[[Mapping[str, Any]], bool] = lambda row: True
    spaces: bool = True
    """False if values have no spaces, as in the columns of a log."""
    sort: str = ""
    """A column by which the rows stay ordered."""

    def __str__(self) -> str:
        rows = self.rows
        if self.separator:
            rows = (self.columns, *rows)
        lines = []
        for row in rows:
            cells = ("" if cell is None else str(cell) for cell in row)
            lines.append(self.separator.join(cells))
        return as_text(lines)

    def definition(self, name: str) -> str:
        """Return the SQL that makes this table; the values of a column decide its type."""
        definitions = []
        for column in self.columns:
            kind = "INTEGER"
            if of_type(str, self.column(column)):
                kind = "VARCHAR(200)"
            if column == self.key:
                kind += " NOT NULL PRIMARY KEY"
            definitions.append(f"{column} {kind}")
        columns_text = ",\n  ".join(definitions)
        return f"CREATE TABLE {name} (\n  {columns_text}\n);\n"

    def statements(self, name: str) -> str:
        """Return the SQL that makes this table and its rows."""
        rows = []
        for row in self.rows:
            cells = ("NULL" if value is None else repr(value) for value in row)
            rows.append(", ".join(cells))
        rows_text = "),\n  (".join(rows)
        return f"{self.definition(name)}INSERT INTO {name} VALUES\n  ({rows_text});\n"

    def column(self, name: str) -> list[Cell]:
        place = self.columns.index(name)
        return [*map(itemgetter(place), self.rows)]

    def grown(
        self,
        draw: Draw,
        near: Texts,
        known: Texts,
        ids: Mapping[str, Sequence[Cell]] = {},
        pointed: Sequence[int] = (),
    ) -> Rows:
        """`ids` are the values that columns in `refers` may have; `pointed` are the numbers of rows
        that belong to rows of other tables which contain known words."""
        if not self.rows:
            return self
        places = [*pointed, *self.places(known)]
        spot = _usually(draw, places, range(len(self.rows)))
        columns = without(self.columns, [self.key])
        touched = without(self._named(near), [self.key])
        columns += without(columns, self.closed) * 3
        move, rows = _move(draw, "row"), list(self.rows)
        if len(rows) > _MOST_ROWS and move.startswith("add"):
            return self
        adds = move in ("add", "add_extreme")
        changes = 1
        if adds:
            changes = draw.choice((0, 0, 1, 1, 2))
        if move == "add_extreme" and places and touched:
            spot = self._extreme(draw, places, draw.choice(self._named(known) or touched))
            changes = draw.choice((0, 1, 1))
        new = list(rows[spot])
        for _ in range(changes):
            column = draw.choice((draw.choice(touched or columns), draw.choice(columns)))
            self._change(draw, new, column, near, ids.get(column, ()))
        unclosed = without(self.columns, [self.key, *self.closed, *self.refers])
        words = [name for name in unclosed if of_type(str, self.column(name))]
        if adds and words and draw.random() < 0.3:  # so that it shows where it is taken
            self._change(draw, new, draw.choice(words))
        if adds:
            if self.key:
                place = self.columns.index(self.key)
                new[place] = self._new_key(draw, new[place], near)
            rows.insert(draw.choice((spot, spot + 1, 0, len(rows))), tuple(new))
        elif move == "change":
            rows[spot] = tuple(new)
        elif move == "change_all":
            rows = self._alike(draw, new, without(touched, [*self.closed, *self.refers]))
        elif move == "remove" and not self.key and len(rows) > 3:
            del rows[spot]
        else:
            other = draw.randrange(len(rows))
            rows[spot], rows[other] = rows[other], rows[spot]
        if not self.allows(dict(zip(self.columns, new, strict=True))):
            return self
        if self.sort:
            rows.sort(key=itemgetter(self.columns.index(self.sort)))
        return replace(self, rows=tuple(rows))

    def _alike(self, draw: Draw, row: Sequence[Cell], columns: Texts) -> list[tuple[Cell, ...]]:
        """Return the rows, where those of the row's group have its value in one of the columns, so
        that a group may have none of a kind."""
        rows, groups = list(self.rows), [*self.closed, *self.refers]
        if not groups or not columns:
            return rows
        group, place = (self.columns.index(draw.choice(names)) for names in (groups, columns))
        for number, old in enumerate(rows):
            if old[group] == row[group]:
                rows[number] = (*old[:place], row[place], *old[place + 1 :])
        return rows

    def _named(self, words: Texts) -> list[str]:
        """Return the columns whose names are among the words; or else, whose numbers are."""
        return among(self.columns, words) or [
            name for n, name in enumerate(self.columns, 1) if str(n) in words
        ]

    def _extreme(self, draw: Draw, places: Sequence[int], column: str) -> int:
        """Return the number of the first or the last of some rows by a column."""
        at = self.columns.index(column)
        present = [n for n in places if self.rows[n][at] is not None] or places
        kind = draw.choice((min, max))
        return kind(present, key=lambda n: (isinstance(self.rows[n][at], str), self.rows[n][at]))

    def places(self, known: Texts) -> list[int]:
        """Return the numbers of the rows that contain one of the words; those with most of them
        occur again, as often as the others together."""
        cells = {*known, *numbers_in(known, 10)}
        counts = [sum(map(cells.__contains__, row)) for row in self.rows]
        most = max(counts, default=0)
        places, best = list[int](), list[int]()
        for place, count in enumerate(counts):
            if count:
                places.append(place)
            if count and count == most:
                best.append(place)
        if best:
            places += best * (len(places) // len(best))
        return places

    def _new_key(self, draw: Draw, old: Any, near: Texts) -> Any:
        """Return a free key: a number, at times with a digit more or less, or a similar name, which
        may begin with the end of a range."""
        used = self.column(self.key)
        numbers = of_type(int, used)
        if len(numbers) == len(used):
            digit, high = draw.randint(1, 9), max(numbers) + len(used) + 2
            low = min(numbers)
            options = [draw.randint(low, high), draw.randint(low, high), draw.randint(low, high)]
            if int(old) < _LARGEST_KEY:
                options += [10 * int(old) + digit, int(f"{digit}{old}")]
            new = draw.choice([*options, int(str(old)[:-1] or digit)])
            while new in numbers:
                new += 1
            return new
        name = similar(draw, str(draw.choice((old, old, draw.choice(used)))))
        ends = [*filter(str.islower, _range_ends(near))]
        if ends and draw.random() < 0.5:
            name = draw.choice(ends) + name.lower()
        if name in used:
            name += str(len(used))
        return name

    def _change(
        self, draw: Draw, row: list[Any], name: str, near: Texts = (), ids: Sequence[Cell] = ()
    ) -> None:
        """Write another value into a column of a row: one that the column has, one near the words,
        or one of the ids."""
        place, column = self.columns.index(name), self.column(name)
        if ids or name in self.closed:
            row[place] = draw.choice(ids or column)
            return
        values: list[Any] = [draw.choice(column)]
        if None in column:
            values.append(None)
        numbers = of_type(int, column)
        if numbers:
            limits = numbers_in(near) or numbers
            for step in (-1, 0, 0, 1):
                values.append(draw.choice(limits) + step)
            low, high = min(numbers), max(numbers)
            values += [low, low - 1, high, high + 1]
            values += [draw.choice(numbers) + draw.choice((-1, 1))]
            values += [draw.choice(numbers) // 10, draw.choice(numbers) * 10]
        else:
            texts = of_type(str, column)
            words = [word for word in near if any(word in text for text in texts)]
            text = str(row[place])
            if row[place] is None:
                text = draw.choice(texts)
            named = draw.choice([*filter(_NAME.fullmatch, words), text])
            values += [similar(draw, named), similar(draw, text), similar(draw, text)]
            if _ANY_CASE & {*near}:
                values += [named.capitalize(), named.upper(), named.lower()] * 2
        value = draw.choice(values)
        if isinstance(value, str) and not self.spaces:
            value = value.replace(" ", "-")
        row[place] = value


_ANY_CASE = frozenset(("tolower", "LIKE"))
"""Words of mistakes that ignore case."""
_MOST_ROWS = 500
"""A table with more rows gets no more of them."""
_LARGEST_KEY = 1_000
"""Larger keys do not get another digit."""


@dataclass(frozen=True)
class Archive:
    """A tar.gz file; equal members give equal bytes."""

    members: Mapping[str, Any]

    def packed(self) -> bytes:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for name, text in self.members.items():
                (member := tarfile.TarInfo(name)).size = len(str(text).encode())
                tar.addfile(member, io.BytesIO(str(text).encode()))
        return gzip.compress(packed.getvalue(), mtime=0)

    def grown(self, draw: Draw, near: Texts, known: Texts) -> Archive:
        """No folder gets a name like that of a file, since tar's patterns select it whole."""
        members = grow_files(draw, self.members, near, known)
        return self if any(re.search(r"\w\.\w+/", name) for name in members) else Archive(members)


@dataclass(frozen=True)
class Compressed:
    """A text as a gz file."""

    text: Prose

    def packed(self) -> bytes:
        return gzip.compress(self.text.encode(), mtime=0)

    def grown(self, draw: Draw, near: Texts, known: Texts) -> Compressed:
        return Compressed(self.text.grown(draw, near, known))


@dataclass(frozen=True)
class Inputs:
    """The arguments of each call in a function's tests. `allows` says whether the function takes
    them."""

    arguments: tuple[tuple[Any, ...], ...]
    allows: Callable[..., bool] = lambda *arguments: True

    def grown(self, draw: Draw, near: Texts, known: Texts) -> Inputs:
        for _ in range(_DRAWS):
            new = list(draw.choice(self.arguments))
            for _ in range(draw.choice((1, 1, 1, 2, 3))):
                place = draw.randrange(len(new))
                pool = [*map(itemgetter(place), self.arguments)]
                new[place] = value_near(draw, new[place], pool, near)
            arguments = tuple(new)
            if arguments not in self.arguments and self._allowed(arguments):
                return replace(self, arguments=(*self.arguments, arguments))
        return self

    def _allowed(self, arguments: tuple[Any, ...]) -> bool:
        try:
            return len(repr(arguments)) < _LONGEST and bool(self.allows(*arguments))
        except Exception:
            return False


_DRAWS = 12
"""The number of times that arguments are drawn until the function takes them."""
_LONGEST = 400
"""The number of characters of the longest arguments."""


def value_near(draw: Draw, value: Any, pool: Sequence[Any], near: Texts) -> Any:
    """Return a value like this one: another of the pool, one at its edges, or one near the words.
    The items of lists and tuples keep their types."""
    match value:
        case bool():
            return not value
        case int():
            limits = [*numbers_in(near), value]
            other = draw.choice(pool)
            return draw.choice(
                (
                    draw.choice(limits) - 1,
                    draw.choice(limits),
                    draw.choice(limits) + 1,
                    other + draw.choice(limits),
                    other - draw.choice(limits),
                    0,
                    1,
                    -value,
                    value * 10,
                    value // 2,
                    other,
                )
            )
        case str():
            return _text_near(draw, value, pool, near)
        case list() if value:
            return _list_near(draw, value, near)
        case tuple() if value:
            items = list(value)
            place = draw.randrange(len(items))
            values = [*map(itemgetter(place), pool)]
            if isinstance(items[place], int):
                values = of_type(int, chain(*pool))
            items[place] = value_near(draw, items[place], values, near)
            return tuple(items)
        case _:
            return draw.choice(pool)


def _list_near(draw: Draw, items: list[Any], near: Texts) -> list[Any]:
    """Return a list with an item less, one more, another order or another item."""
    new, place = list(items), draw.randrange(len(items))
    item = items[place]
    match draw.randrange(9):
        case 0:
            del new[place]
        case 1:
            new.insert(draw.randint(0, len(new)), item)
        case 2:
            draw.shuffle(new)
        case 3:
            if draw.random() < 0.3:
                del new[place:]
        case 4 | 5:
            new.insert(draw.randint(0, len(new)), value_near(draw, item, items, near))
        case 6:
            new[place : place + 1] = _parts(draw, item, near)
        case _:
            new[place] = value_near(draw, item, items, near)
    return new


def _parts(draw: Draw, item: Any, near: Texts) -> list[Any]:
    """Return two items whose numbers add up to that of an item, or to a number near the words."""
    match item:
        case int():
            whole = draw.choice([item, *numbers_in(near)])
            part = draw.choice((whole // 2, 1, 0))
            return [part, whole - part]
        case (*parts, int() as number):
            return [(*parts, part) for part in _parts(draw, number, near)]
        case _:
            return [item]


_EDITS: Mapping[str, Callable[[str], str]] = {
    "lower": str.swapcase,
    "upper": str.swapcase,
    "title": str.swapcase,
    "strip": " {} ".format,
}
"""Changes to a text that show whether a solution calls the method."""
_SEPARATORS = ("\n", ",", " ")


def _text_near(draw: Draw, text: str, pool: Texts, near: Texts) -> str:
    """Return a text with another part, number or character, a piece of it, or one whose length is
    near a number."""
    methods = among(near, _EDITS)
    if methods and draw.random() < 0.3:
        return _EDITS[draw.choice(methods)](text)
    names = [*filter(_NAME.fullmatch, near), text]
    move = _move(draw, "text")
    separators = among(_SEPARATORS, text)
    numbers = [*re.finditer(r"\d+", text)]
    if move == "part" and separators:
        sign = draw.choice(separators)
        return sign.join(_list_near(draw, text.split(sign), near))
    if move in ("part", "number") and numbers:
        old = draw.choice(numbers)
        new = value_near(draw, int(old[0][:9]), [int(number[0][:9]) for number in numbers], near)
        return f"{text[: old.start()]}{new}{text[old.end() :]}"
    if move in ("part", "number", "resize"):
        return _sized(draw, text, near)
    other = draw.choice(pool)
    if move == "piece":
        return _with_another_piece(draw, text, near)
    return draw.choice(
        (
            f" {text}",
            f"{text} ",
            similar(draw, text),
            similar(draw, draw.choice(names)),
            draw.choice(names),
            text[: draw.randint(0, len(text))],
            text[draw.randint(0, len(text)) :],
            text + other,
            other,
            text.swapcase(),
        )
    )


def _sized(draw: Draw, text: str, near: Texts) -> str:
    """Return a text of so many characters or words as a number near the words, or one more or
    less."""
    sizes = numbers_in(near, high=99) or [len(text)]
    size = max(0, draw.choice(sizes) + draw.choice((-1, 0, 0, 1)))
    if draw.random() < 0.6:
        return (text * (size // max(1, len(text)) + 1))[:size]
    words = text.split() or ["a"]
    return " ".join((words * (size // len(words) + 1))[:size])


def _with_another_piece(draw: Draw, text: str, near: Texts) -> str:
    """Return a text with a few characters replaced, repeated or added."""
    word = draw.choice([*near, *text.split(), "a"])
    start = draw.randint(0, len(text))
    stop = draw.randint(start, min(len(text), start + 3))
    piece = text[start:stop]
    times = draw.choice([*numbers_in(near, high=99), 2])
    middle = draw.choice(
        (
            "",
            piece * 2,
            piece[::-1],
            piece.swapcase(),
            word,
            similar(draw, word),
            " ",
            "  ",
            "0",
            "é",
            (piece[:1] or "a") * (times + draw.choice((-1, 0, 1))),
        )
    )
    return text[:start] + middle + text[draw.choice((start, stop, stop)) :]


_LONG = 2000
"""The number of characters of a text that does not get longer by repetition."""


def bytes_of(content: Any) -> bytes:
    """Return what a file with this content consists of."""
    match content:
        case bytes():
            return content
        case Archive() | Compressed():
            return content.packed()
        case _:
            return str(content).encode()


_LONGEST_PATH = 60
_EXTREME, _EXTREME_FIRST = 0.2, 0.6
"""The probability that the largest or the smallest file grows, if the gold names no file; the
second if the gold prints the first ones."""
_COPY, _COPY_NAMED = 0.2, 0.05
"""The probability that a file is copied to another folder; the second if the gold names it."""
_CHANGE, _CHANGE_NAMED, _CHANGE_PARTS = 0.3, 0.7, 0.9
"""The probability that a file which is not copied changes; else another file is added near it. The
second is for a file that the gold names, the third for tables and archives."""
_TWINS = 0.6
"""The probability that files of the same name get a new file in their folder as well."""
_ALMOST_TWIN = 0.25
"""The probability that a file gets almost the content of one of the same name elsewhere."""
_AT_ONCE = (1, 1, 2)
"""Numbers of files with one content that are added at once near a file."""
_MOST_CHANGES = {Rows: 6, Prose: 10, Compressed: 10}
"""The largest number of changes that a content gets at once, by its type."""


def grow_files(draw: Draw, files: Mapping[str, Any], near: Texts, known: Texts) -> dict[str, Any]:
    """Return the files with another one near one of them, often the largest or the smallest, or
    with a change in one."""
    paths = [path for path in files if not isinstance(files[path], PurePosixPath)]
    if not paths:
        return dict(files)
    words = {*known}
    named = [path for path in paths if basename(path) in words]
    path = _usually(draw, named or _with_most(paths, words), paths)
    extreme = _EXTREME
    if "head" in known:
        extreme = _EXTREME_FIRST
    is_extreme = not named and draw.random() < extreme
    if is_extreme:
        ends = [max] if "head" in known else [min, max]
        path = draw.choice(ends)(paths, key=lambda path: len(bytes_of(files[path])))
    folder, _, file = path.rpartition("/")
    twins = [other for other in paths if other.endswith(f"/{file}") and other != path]
    content, copy, change = files[path], _COPY, _CHANGE
    if twins and isinstance(content, str) and draw.random() < _ALMOST_TWIN:
        return {**files, path: _content_near(draw, files[draw.choice(twins)], near, known)}
    if named:
        copy, change = _COPY_NAMED, _CHANGE_NAMED
    if isinstance(content, (Rows, Archive)):
        change = _CHANGE_PARTS
    if draw.random() < copy:
        names = [_path_of_copy(draw, path, paths)]
    elif hasattr(content, "grown") and draw.random() < change:
        most = _MOST_CHANGES.get(type(content), 1)
        for _ in range(draw.choice((1, max(1, most // 3), most))):
            content = content.grown(draw, near, known)
        return {**files, path: content}
    else:
        if not is_extreme or draw.random() < 0.2:
            content = _content_near(draw, content, near, known)
        names = []
        for _ in range(draw.choice(_AT_ONCE)):
            names.append(_path_near(draw, path, near, known, paths))
    new = dict.fromkeys(names, content)
    for name in names:
        if name.startswith(f"{folder}/") and draw.random() < _TWINS:
            for twin in twins:
                new[twin.removesuffix(file) + name.removeprefix(f"{folder}/")] = files[twin]
    changed = dict(files)
    for name, content in new.items():
        nested = any(f"{name}/" in other or f"{other}/" in name for other in changed)
        if name not in changed and not nested and len(name) <= _LONGEST_PATH:
            changed[name] = content
    return changed


def _with_most(paths: Texts, words: set[str]) -> list[str]:
    """Return the paths that contain most of the words, if any contains one."""
    counts = {path: len(words & {*re.findall(r"\w+", path)}) for path in paths}
    most = max(counts.values())
    return [path for path in paths if counts[path] == most > 0]


def _path_of_copy(draw: Draw, path: str, paths: Texts) -> str:
    """Return a path in another folder, whose name is the same or has the same ending."""
    folder, _, name = path.rpartition("/")
    stem, dot, ending = name.rpartition(".")
    other = dirname(draw.choice(paths))
    where = draw.choice(("", dirname(folder), f"{folder}/old", other, other))
    new = draw.choice((name, f"{stem or 'new'}-{draw.randint(2, 99)}{dot}{ending}"))
    return f"{where}/{new}".lstrip("/")


def _name_near(draw: Draw, name: str, near: Texts, paths: Texts) -> str:
    """Return a name like this one: hidden, longer, with another ending, number or case."""
    stem, dot, ending = name.rpartition(".")
    used = {*re.findall(r"[a-z]+", " ".join(paths))}
    word = _word_in(name, near, draw) or name
    return draw.choice(_PATTERNS["file"]).format(
        name=name,
        stem=stem or name,
        dot=dot,
        ending=ending,
        upper=ending.upper(),
        number=draw.randint(2, 99),
        old=draw.choice(("bak", "old", "orig")),
        version=draw.choice(("old", "new")),
        other=draw.choice(among(near, used) or [name]),
        similar=name.replace(word, similar(draw, word)),
        capital=name.capitalize(),
        lower=name.lower(),
    )


def _path_near(draw: Draw, path: str, near: Texts, known: Texts, paths: Texts) -> str:
    """Return a path in the same folder, in one below or above it or with a similar name, whose
    name is similar. The folder below may be called like a file if the gold asks for types. The
    words of mistakes that ignore case, hidden files or types call for such names."""
    folder, _, name = path.rpartition("/")
    stem, dot, ending = name.rpartition(".")
    stem = stem or name
    near_words = [word for word in near if len(word) > 1]
    new = _name_near(draw, name, near_words, paths)
    above, part = dirname(folder), _word_in(folder, near_words, draw)
    usual = ["old", "archive", ".cache", "tmp", f"{name}.d", "later"]
    if "type" in known:
        usual[5] = new
    below = f"{folder}/{draw.choice(usual)}"
    folders: Sequence[str] = (folder, folder, folder, below, above, "")
    ends = _range_ends(near)
    if ends and draw.random() < 0.7:
        end = draw.choice(ends)
        folders, new = (folder,), f"{end}{name}"
        if end.isdigit():
            new = f"{stem}-{end}{dot}{ending}"
    where = draw.choice(folders)
    swapped = name.swapcase()
    shown = {"f": name.capitalize(), ".*": f".{name}", "iname": swapped, "i": swapped}
    words = among(shown, near)
    if part and "prune" in near:
        where = f"{folder}/{part}"
    elif part and "iname" in near and draw.random() < 0.3:
        where = folder.replace(part, part.swapcase())
    elif words and draw.random() < 0.5:
        where, new = draw.choice((folder, "")), shown[draw.choice(words)]
    elif "type" in near and draw.random() < 0.5:
        where = f"{folder}/{stem}-{draw.randint(2, 99)}{dot}{ending}"
    elif part and draw.random() < 0.5:
        where = folder.replace(part, similar(draw, part))
    return f"{where}/{new}".lstrip("/").replace(" ", "-")


def _content_near(draw: Draw, content: Any, near: Texts, known: Texts) -> Any:
    """Return the content for a file near another: the same, none, four times it, one of the same
    size, with a similar word for a word, of a size near a number, or with another change."""
    move = _move(draw, "content")
    if not isinstance(content, str) or (move == "same" and not {"qi", "qb"} & {*near}):
        return content
    new, hyphen = content, "-"
    if isinstance(content, Prose):
        hyphen = "_"
    numbers = numbers_in(near, 10)
    if {"lt", "le", "gt", "ge", "eq"} & {*near} and draw.random() < 0.4:
        move = "as_long"
    if "qi" in near:  # what options of diff ignore
        new = content.swapcase()
    elif "qb" in near:
        new = content.replace(" ", "  ")
    elif move == "line" and near:
        lines = content.splitlines() or [""]
        lines[draw.randrange(len(lines))] = draw.choice(near)
        new = as_text(lines)
    elif move == "resize" and numbers:
        size = max(1, draw.choice(numbers) + draw.choice((-1, 0, 1)))
        new = (content + "x") * (size // (len(content.encode()) + 1) + 1)
        new = new.encode()[: size - 1].decode(errors="ignore") + "\n"
    elif move == "repeat":
        longer = content
        if len(content) < _LONG:
            longer *= 4
        new = draw.choice(("", longer))
    elif move == "as_long":
        new = draw.choice((content.swapcase(), content.replace(" ", "x", 1)))
    elif word := _word_in(content, near, draw):
        new = content.replace(word, similar(draw, word, hyphen))
    elif isinstance(content, Prose):
        return content.grown(draw, near, known)
    return type(content)(new)
