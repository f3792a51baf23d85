"""The parts of a family of generated tasks: places and questions.

    Family ─┬─► Place, Place, …           a site in a tree, or a database: files, and the facts that
            │                             questions use
            └─► Question, Question, …     phrasings and a gold, each with <parameters>

Questions that are `held_out` occur in the test split alone, and so does one of three or more values
of a choice (`ladder.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePosixPath
from posixpath import join
from typing import Any, Literal

from intercode.generate.draws import Draw as Draw
from intercode.generate.draws import Parameters as Parameters
from intercode.generate.draws import Split as Split
from intercode.generate.draws import Texts, among, read_toml, without
from intercode.generate.ground import Rows, bytes_of, grow_files
from intercode.types import GoldRun


@dataclass
class Place:
    """A site or a database, which can grow.

    `files` are texts, tables, archives and the targets of symbolic links, by path from the data
    folder; `rules` says in words what a task of difficulty 3 has to find in them. Files below the
    folders in `grows` may change, and get others near them, except those that are `fixed`. `tables`
    is the content of a database; those that are `fixed` do not change.
    """

    name: str
    files: dict[str, Any] = field(default_factory=dict)
    facts: Parameters = field(default_factory=dict)
    """Values that questions use; `site` is the place's absolute path, `db` the database's name."""
    rules: str = ""
    data: Any = None
    """Rows, connections and the like from which the family draws parameters."""
    programs: set[str] = field(default_factory=set)
    """The paths of executable files."""
    grows: list[str] = field(default_factory=list)
    fixed: set[str] = field(default_factory=set)
    tables: dict[str, Rows] = field(default_factory=dict)

    def write(self, path: str, content: Any, *, program: bool = False) -> str:
        """Add a file of the tree; `path` is absolute, or below the site. Return its path from the
        data folder."""
        name = f"tree{join(self.facts.get('site', '/'), path)}"
        self.files[name] = content
        if program:
            self.programs.add(name)
        return name

    def link(self, path: str, target: str) -> None:
        """Add a symbolic link of the tree, which may lead nowhere; for `path` see `write`."""
        self.write(path, PurePosixPath(target))

    def explain(self, draw: Draw, family: str, **words: object) -> None:
        """Add the HANDBOOK of a family, in which <NAME> stands for one of the words, for a fact or
        for a choice that is drawn; add the facts that it names. See `handbooks.toml`."""
        entry = read_toml("handbooks")[family]
        words |= self.facts
        for name, values in entry.get("choices", {}).items():
            for ending, part in zip(("", "_code", "_wrong"), draw.choice(values), strict=False):
                words[name + ending] = fill(part, words)
        for name, code in entry.get("facts", {}).items():
            self.facts[name] = fill(code, words)
        self.write_rules(fill(entry["text"], words))

    def write_rules(self, rules: str) -> None:
        """Add the HANDBOOK, which does not change."""
        self.rules = rules
        self.fix("HANDBOOK", rules)

    def fix(self, path: str, content: Any, *, program: bool = False) -> None:
        """Add a file of the tree that does not change when the place grows."""
        self.fixed.add(self.write(path, content, program=program))

    def grown(self, draw: Draw, near: Texts, known: Texts) -> Place:
        """Return a copy with one small change near some words, where the words `known` are."""
        if self.tables:
            return self._with_rows(draw, near, known)
        named = among(self.grows, " ".join(known))
        folder = f"tree{draw.choice(named or self.grows)}/"
        inside = {}
        for path, content in self.files.items():
            if path.startswith(folder) and path not in self.fixed:
                inside[path.removeprefix(folder)] = content
        files = dict(self.files)
        for name, content in grow_files(draw, inside, near, known).items():
            if folder + name not in self.fixed:
                files[folder + name] = content
        return replace(self, files=files)

    def _with_rows(self, draw: Draw, near: Texts, known: Texts) -> Place:
        tables = without(self.tables, self.fixed)
        candidates = among(tables, known) or tables
        named = [name for name in tables if among(self.tables[name].columns, near)]
        if named and draw.random() < 0.6:
            candidates = named
        name = draw.choice(candidates)
        rows = self.tables[name]
        ids, pointed = dict[str, list[Any]](), list[int]()
        for column, table in rows.refers.items():
            whole = self.tables[table]
            ids[column] = whole.column("id")
            marked = {ids[column][place] for place in whole.places(known)}
            for place, value in enumerate(rows.column(column)):
                if value in marked:
                    pointed.append(place)
            if marked and draw.random() < 0.4:
                ids[column] = among(ids[column], marked)
        grown = rows.grown(draw, near, known, ids, pointed)
        return replace(self, tables={**self.tables, name: grown})

    def contents(self) -> dict[str, bytes | PurePosixPath]:
        """Return the content of each file, by path from the data folder."""
        files = dict(self.files)
        if self.tables:
            tables = map(Rows.statements, self.tables.values(), self.tables)
            files[f"databases/{self.facts['db']}.sql"] = "\n".join(tables)
        for path, content in files.items():
            if not isinstance(content, PurePosixPath):
                files[path] = bytes_of(content)
        return files


@dataclass(frozen=True, eq=False)
class Question:
    """A question about a place, with a gold. <NAME> in a text stands for the parameter NAME.

    `query` has several phrasings; `form`, a key of `FORMS`, adds a sentence about the answer.
    `choices` are parameters that are words in the query and code in the gold, each a list of pairs
    `[words, code]`, or `[words, code, mistake]`; `wrong` names the mistake <wrong_NAME>. Those in
    `novel` have a last value, reserved for the test split, with a word that training lacks. A task
    is kept only if the reward refuses each of the solutions `wrong`, and each mutant of the gold
    except those in `equivalents`, which mean what the gold means.
    """

    kind: str
    difficulty: int
    gold: str
    query: Texts
    form: str = ""
    choices: Mapping[str, Sequence[Texts]] = field(default_factory=dict)
    novel: Mapping[str, Sequence[Texts]] = field(default_factory=dict)
    wrong: Texts = ()
    equivalents: Texts = ()
    held_out: bool = False
    examples: Texts = ()
    """The arguments of calls of a Python function, each a tuple in Python with <parameters>."""
    allows: str = "True"
    """An expression in Python that says of the arguments whether the function takes them."""
    answer: Texts = ()
    """Parts of the answer, where they are known before the gold is executed."""
    rung: str = "0"
    """The rung of the ladder, of a question that is made for one place."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of its record."""


@dataclass(frozen=True)
class Omission:
    """A clause that queries leave out for a user to be asked about: in place of the words of
    `choice` they have those of `hidden`. It holds for the `kinds` of questions, or else for all
    that no earlier omission holds for; see `asks.toml`."""

    choice: str
    hidden: str
    asks: Texts
    reply: str
    kinds: Texts = ()


Ask = Callable[[Draw, Place, int, int], Question | str]
"""Returns a question of so many hops or steps about a place, whose query leaves out so many
clauses, or the reason why there is none."""


@dataclass(frozen=True)
class Family:
    """Questions about places of one kind, in the file `questions/NAME.toml`.

    `place` makes a place from a name; `draw` returns the parameters of one task that are not facts
    of the place. A data folder has one place for every `tasks_per_place` tasks, of which at most
    one has difficulty 3. A family with `ask` has no such file: it draws questions for a place,
    with so many hops or steps, as `length` says; see `hops` and `composed.py`. Solutions use
    `programs` that not every machine has.
    """

    name: str
    env: Literal["bash", "sql", "python"]
    about: str
    place: Callable[[Draw, str], Place] = lambda draw, name: Place(name)
    draw: Callable[[Draw, Place], Parameters] = lambda draw, place: {}
    tasks_per_place: int = 4
    ask: Ask | None = None
    length: Literal["", "hops", "steps"] = ""
    programs: Texts = ()

    @cached_property
    def questions(self) -> Sequence[Question]:
        if self.ask:
            return []
        questions = []
        for kind, fields in read_toml(f"questions/{self.name}").items():
            choices = fields.get("choices", {}) | fields.get("novel", {})
            questions.append(Question(kind, **{**fields, "choices": choices}))
        return questions

    def answer(self, gold: str, run: GoldRun) -> str:
        """Return the answer of a gold that was executed, "" if there is none: what a Bash gold
        printed and changed, the rows of an SQL gold, and the text of a Python gold itself."""
        if self.env == "python":
            return gold
        if self.env == "sql":
            return "" if run.summary == "[]" else run.summary
        if not isinstance(run.evidence, list) or not run.evidence:
            return run.summary  # of several rounds
        (outcome,) = run.evidence
        if outcome and (outcome.output.strip() or outcome.changes):
            return repr(outcome)
        return ""

    def omissions(self, question: Question) -> list[Omission]:
        """Return the clauses that a question can leave out: those with so many values that a guess
        fails more often than not."""
        first = {}
        for fields in read_toml("asks").get(self.name, ()):
            omission = Omission(**fields)
            values = question.choices.get(omission.choice, ())
            if len(values) < FEWEST_VALUES or omission.choice in first:
                continue
            if not omission.kinds or question.kind in omission.kinds:
                first[omission.choice] = omission
        return list(first.values())


FEWEST_VALUES = 3
FORMS: Mapping[str, Texts] = {
    "": ("",),
    "number": ("Print the number only.", "Print only the number."),
    "text": ("Print nothing else.", "Print no other text."),
    "paths": (
        "Print only absolute paths, one per line, in any order.",
        "Print absolute paths only, one per line, in any order.",
    ),
    "names": ("Print the names only, without folders, one per line, in any order.",),
}
"""The sentences that say what the answer looks like."""


def fill(text: str, parameters: Parameters) -> str:
    """Return the text with each <NAME> replaced. Raises `KeyError` for a name without a value."""
    return re.sub(r"<([a-z]\w*)>", lambda match: str(parameters[match[1]]), text)


def with_placeholders(text: str, parameters: Parameters) -> str:
    """Replace longer values of parameters by <NAME>, so that texts that differ only in values count
    as equal."""
    values = {str(value): name for name, value in parameters.items() if len(str(value)) > 1}
    longest_first = "|".join(map(re.escape, sorted(values, key=len, reverse=True)))
    return re.sub(
        rf"(?:\b|(?<![\w/]))(?:{longest_first})\b", lambda match: f"<{values[match[0]]}>", text
    )
