"""Are composed tasks long, and can they be solved only step by step?

    shapes          at least 3,000 over all languages at n = 2,000: golds without words, numbers
                    and paths; none is that of more than 1 % of the tasks
    gold, noop      all golds succeed, and doing nothing never does
    renamed         at most 10 % at four steps: tasks that the gold of another task of the same
                    composition solves in one action, its words replaced by those of the query
    nearest         at most 3 % at four steps: tasks that the agent `nearest` solves
    reader          tasks that a script solves which inverts the phrasings of instructions and
                    looks at nothing but what it has read, and the actions that it takes

`python benchmarks/composed.py [--json] [--n N] [--seed N] [--steps 2,4,6,8] [LANGUAGE …]`; exit
status 1 if a bound is missed. `--shapes N` counts the golds of N more tasks a language.
"""

from __future__ import annotations

import ast
import csv
import json
import re
import resource
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path, PurePosixPath
from statistics import mean
from typing import Any

from generated import shape
from measuring.rows import Row, command, finish

from intercode.agents import nearest, noop
from intercode.agents.base import SUBMIT, Act, Step, StrategySteps
from intercode.agents.baselines import _renamed, gold
from intercode.envs import prepare
from intercode.generate import accepts
from intercode.generate.composed.bash import SEPARATORS, Bash
from intercode.generate.composed.python import Python
from intercode.generate.composed.python import lines_of as lines_of_records
from intercode.generate.composed.sql import Sql, lines_of
from intercode.generate.composition import Digest, Language, Primitive, compose, draw_walk, key_of
from intercode.generate.families import Draw, Parameters, Place, Question, fill
from intercode.generate.judges import write_tests
from intercode.generate.trial import Trial
from intercode.runner.run import evaluate
from intercode.types import Task

NAMES = ("atlas", "orion", "vega", "lyra", "nova", "zephyr", "polar", "delta", "sigma", "omega")
MOST_SHARE, MOST_RENAMED, MOST_NEAREST, MOST_SECONDS = 0.01, 0.10, 0.03, 1.5
LEAST_SHAPES, LEAST_READ = 3000, 0.95
TURNS = 60


# -- tasks -----------------------------------------------------------------------------------------


@dataclass
class Composer:
    """Composes tasks of one language, and counts the walks that have none."""

    language: Language
    draw: Draw
    steps: int
    number: int = 0
    failed: int = 0

    def task(self, walk: Sequence[Primitive] = ()) -> tuple[Place, Question]:
        """Return a task of this composition, or of any; give up after 8 tries."""
        for _ in range(8):
            self.number += 1
            name = f"{NAMES[self.number % len(NAMES)]}-{self.number}"
            composed = compose(self.draw, name, self.steps, self.language, walk)
            if not isinstance(composed, str):
                return composed
            self.failed += 1
        raise RuntimeError(f"no task of {'+'.join(one.name for one in walk)}")

    def pairs(self, count: int) -> Iterator[tuple[Place, Question]]:
        """Yield two tasks of each of `count // 2` compositions."""
        for _ in range(count // 2):
            while True:
                walk = draw_walk(
                    self.draw, self.language.primitives, self.steps, self.language.begin
                )
                try:
                    pair = [self.task(walk), self.task(walk)]
                except RuntimeError:
                    continue
                break
            yield from pair


def write(folder: Path, env: str, tasks: Sequence[tuple[Place, Question]]) -> None:
    """Write a data folder."""
    folder.mkdir(parents=True, exist_ok=True)
    records = list[Mapping[str, Any]]()
    for place, question in tasks:
        for name, content in place.contents().items():
            (path := folder / name).parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, PurePosixPath):
                path.symlink_to(content)
            else:
                path.write_bytes(content)
                path.chmod(0o755 if name in place.programs else 0o644)
        record = {
            "query": question.query[0],
            "gold": question.gold,
            "difficulty": question.difficulty,
            "kind": question.kind,
            "place": place.name,
        }
        if env == "sql":
            record["db"] = place.facts["db"]
        if env == "python":
            tests = write_tests(question.gold, place.data["inputs"])
            if isinstance(tests, str):
                raise RuntimeError(tests)
            record |= {"tests": tests[:3], "hidden": tests[3:]}
        records.append(record)
    (folder / "tasks.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))


# -- a solver that reads ---------------------------------------------------------------------------


def _pattern(text: str, options: Mapping[str, Sequence[str]], known: Mapping[str, str] = {}) -> str:
    """Return a regular expression that matches a phrasing, with groups NAME__NUMBER for each
    parameter."""
    numbers = count()

    def group(match: re.Match[str]) -> str:
        name = match[1]
        if name in known:
            return re.escape(known[name])
        own = f"{name}__{next(numbers)}"
        if name not in options:
            return rf"(?P<{own}>[^\s='\"]+?)"
        values = "|".join(
            re.sub(r"<([a-z]\w*)>", group, re.escape(value))
            for value in sorted(options[name], key=len, reverse=True)
        )
        return f"(?P<{own}>{values})"

    return re.sub(r"<([a-z]\w*)>", group, re.escape(text).replace(r"\<", "<").replace(r"\>", ">"))


def _values(match: re.Match[str]) -> Parameters:
    """Return the parameters that a phrasing has."""
    values = {name: text for name, text in match.groupdict().items() if text is not None}
    return {name.partition("__")[0]: text for name, text in values.items()}


@dataclass(repr=False)
class Reader:
    """Inverts the phrasings of a language, some of whose parameters are known."""

    language: Language
    known: Mapping[str, str] = field(default_factory=dict)
    patterns: list[tuple[re.Pattern[str], Primitive]] = field(default_factory=list)
    leads: list[tuple[re.Pattern[str], str]] = field(default_factory=list)
    digests: Mapping[str, Digest] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for primitive in self.language.primitives:
            options = {
                name: [pair[0] for pair in pairs] for name, pairs in primitive.options.items()
            }
            self.patterns += [
                (re.compile(_pattern(text, options, self.known) + r"(?=\W|$)"), primitive)
                for text in primitive.says
            ]
        self.digests = {
            fill(text, dict(self.known)): digest
            for digest in self.language.digests
            for text in digest.says
            if "<" not in text or self.known
        }
        for form in self.language.forms:
            self.leads += [
                (re.compile(_pattern(text, {"key": list(self.digests)}, self.known)), form.write)
                for text in form.says
            ]

    def task(self, text: str) -> tuple[Primitive, Parameters]:
        """Return the primitive of an instruction and its parameters, with the codes of options."""
        matches = [
            (match, primitive)
            for pattern, primitive in self.patterns
            if (match := pattern.search(text))
        ]
        match, primitive = max(matches, key=lambda pair: len(pair[0][0]))
        values, texts = _values(match), _values(match)
        for name, pairs in primitive.options.items():
            for words, code, *_ in pairs:
                if name in texts and re.fullmatch(_pattern(words, {}, self.known), texts[name]):
                    values[name] = code
                    break
        return primitive, values

    def lead(self, text: str, result: str) -> tuple[str, Parameters] | None:
        """Return the form of the next instruction, and its parameters with the key; None for the
        last instruction."""
        matches = [(match, form) for pattern, form in self.leads if (match := pattern.search(text))]
        if not matches:
            return None
        match, form = max(matches, key=lambda pair: len(pair[0][0]))
        values = _values(match)
        return form, {**values, "key": key_of(self.digests[values["key"]], result)}


def _read_bash(reader: Reader, task: Task) -> StrategySteps:
    queries = [re.compile(_pattern(query, {})) for query in reader.language.queries]
    (query,) = (_values(match) for one in queries if (match := one.fullmatch(task.query)))
    text, before = (yield Act(f"cat {query['start']}")).observation, "/dev/null"
    for number in range(1, TURNS):
        primitive, values = reader.task(_plain(text))
        if "table" in values:
            header = (yield Act(f"head -n 1 {values['table']}")).observation.strip("\n")
            separator = max(SEPARATORS, key=header.count)
            columns = header.split(separator)
            values |= {
                f"{name}_at": columns.index(value) + 1
                for name, value in values.items()
                if value in columns
            }
            values["sep"] = SEPARATORS[separator]
        path = f"/tmp/result{number}"
        gold_step = fill(fill(primitive.gold, values), values)
        code = f"{{ {gold_step}; }} < {before} > {path}; cat {path}"
        step: Step = yield Act(code)
        result = step.observation.strip("\n") + "\n"
        if (lead := reader.lead(_plain(text), result)) is None:
            yield Act(f"cp {path} {query['result']}")
            break
        text, before = (yield from _follow(*lead)), path


def _first(pattern: str, text: str) -> re.Match[str]:
    """Return the first match. Raises `LookupError` if there is none."""
    if (match := re.search(pattern, text)) is None:
        raise LookupError(pattern)
    return match


def _plain(text: str) -> str:
    """Return an instruction in one line."""
    return " ".join(text.split())


def _follow(form: str, values: Parameters) -> Generator[Act, Step, str]:
    """Read the next instruction, and return its text."""
    key, at = values["key"], {name: value for name, value in values.items() if name != "key"}
    (where,) = (value for name, value in at.items() if name != "column")
    commands = {
        "folder": f"cat {where}/{key}*",
        "packed": f"zcat {where}/{key}*",
        "link": f"cat {where}/{key}",
        "script": f"{where} {key}",
        "commits": f"git -C {where} log --format='@%s%n%b'",
        "archive": f"tar -tzf {where}",
    }
    if form in ("folder", "packed"):
        endings = ".gz" if form == "packed" else ""
        files = " ".join(f"{where}/{key}{end}{endings}" for end in ("", ".txt", ".md"))
        commands[form] = f"{'zcat' if form == 'packed' else 'cat'} {files} 2> /dev/null"
    text = (yield Act(commands.get(form, f"cat {where}"))).observation
    if form == "archive":
        (member,) = (
            name
            for name in text.split()
            if re.sub(r"\.(txt|md)$", "", name.rpartition("/")[2]) == key
        )
        text = (yield Act(f"tar -xOzf {where} {member}")).observation
    elif form in ("script", "index"):
        pattern = r"\S*/note-\d+" if form == "script" else rf"(?m)^{re.escape(key)}\W+?(/.*)$"
        match = _first(pattern, text)
        text = (yield Act(f"cat {match[match.lastindex or 0]}")).observation
    return _entry(form, text, key, values.get("column", ""))


def _entry(form: str, text: str, key: str, column: str) -> str:
    """Return the part of a file with instructions that is for a key."""
    if form == "table":
        header = text.split("\n")[0]
        separator = max(",;|\t", key=header.count)
        table = csv.DictReader(text.splitlines(), delimiter=separator)
        return " ".join(*(row.values() for row in table if row[column] == key))
    if form == "records":
        rows = (json.loads(line) for line in text.splitlines())
        return " ".join(*(map(str, row.values()) for row in rows if str(row[column]) == key))
    patterns = {
        "sections": rf"(?ms)^\[{re.escape(key)}\]$(.*?)(?=^\[|\Z)",
        "headings": rf"(?ms)^[#=*]+ {re.escape(key)}$(.*?)(?=^[#=*]+ \S+$|\Z)",
        "log": rf"(?m)^.*{column}={re.escape(key)} (.*)$",
        "commits": rf"(?ms)^@[^\n]* {re.escape(key)}$(.*?)(?=^@|\Z)",
    }
    match = re.search(patterns[form], text) if form in patterns else None
    return match[1] if match else text


SQL_FORMS = {
    "row": "SELECT * FROM <table> WHERE <code> = '<key>'",
    "tables": "SELECT * FROM <prefix>_<key>",
    "document": 'SELECT * FROM <table> WHERE document LIKE \'%"<code>": "<key>"%\'',
    "log": "SELECT message FROM <table> WHERE message LIKE '[<key>]%'",
    "parts": "SELECT <text> FROM <table> WHERE <code> = '<key>' ORDER BY <number>",
    "reference": "SELECT * FROM <table> WHERE <ref> = "
    "(SELECT <ref> FROM <index> WHERE <code> = '<key>')",
    "fields": "SELECT content FROM <table> WHERE <code> = '<key>' ORDER BY field DESC",
    "columns": "SELECT <prefix>_<key> FROM <table>",
    "mail": "SELECT body FROM <table> WHERE subject = '<subject> <key>'",
}


def _read_sql(reader: Reader, task: Task) -> StrategySteps:
    queries = [re.compile(_pattern(query, {})) for query in reader.language.queries]
    (query,) = (_values(match) for one in queries if (match := one.fullmatch(task.query)))
    text = _cells((yield Act(f"SELECT * FROM {query['start']}")).observation)
    base = _first(r"(?:all rows of|the table) (\w+)\.", text)
    schema = (yield Act(f"SELECT sql FROM sqlite_master WHERE name = '{base[1]}'")).observation
    names = re.findall(r"(\w+) (?:INTEGER|VARCHAR)", schema)
    columns = dict(zip(("id", "day", "who", "kind", "amount"), names, strict=True))
    reader = Reader(reader.language, columns)
    place, chain = Place("", data={"base": base[1]}), list[str]()
    for _ in range(TURNS):
        primitive, values = reader.task(_plain(text))
        values |= columns
        chain.append(fill(fill(primitive.gold, values), values))
        step = yield Act(reader.language.gold(place, tuple(chain)))
        result = lines_of(ast.literal_eval(step.observation))
        if (lead := reader.lead(_plain(text), result)) is None:
            break
        form, values = lead
        text = _cells((yield Act(fill(SQL_FORMS[form], values))).observation)


def _cells(observation: str) -> str:
    return " ".join(str(cell) for row in ast.literal_eval(observation) for cell in row)


PYTHON_FORMS = {
    "folder": "import os\nfor path in ('<folder>/<key>' + end for end in ('', '.txt', '.md')):\n"
    "    if os.path.exists(path):\n        print(open(path).read())",
    "packed": "import glob, gzip\nfor path in glob.glob('<folder>/*'):\n"
    "    if path.rpartition('/')[2].partition('.')[0] == '<key>':\n"
    "        print(gzip.open(path).read().decode())",
    "archive": "import tarfile\nwith tarfile.open('<path>') as tar:\n    for member in tar:\n"
    "        if member.name.rpartition('/')[2].partition('.')[0] == '<key>':\n"
    "            print(tar.extractfile(member).read().decode())",
    "dict": "import runpy\nprint(runpy.run_path('<path>')['<name>']['<key>'])",
    "docstring": "import runpy\nprint(runpy.run_path('<path>')['<name>_<key>'].__doc__)",
    "call": "import runpy\nprint(runpy.run_path('<path>')['<name>']('<key>'))",
}


def _read_python(reader: Reader, task: Task) -> StrategySteps:
    queries = [re.compile(_pattern(query, {})) for query in reader.language.queries]
    (query,) = (_values(match) for one in queries if (match := one.fullmatch(task.query)))
    text = (yield _show(query["start"])).observation
    sample = json.loads((yield _show(query["sample"])).observation)
    columns = dict(zip(("day", "who", "kind", "amount"), sample[0], strict=True))
    reader = Reader(reader.language, columns)
    place, chain = Place("", facts={**query, **columns}), list[str]()
    call = f"print(__import__('json').dumps({query['function']}({sample!r})))"
    for _ in range(TURNS):
        primitive, values = reader.task(_plain(text))
        if "path" in values:
            values["numbers"] = (yield _show(values["path"])).observation.strip()
            values["names"] = values["numbers"]
        values |= columns
        chain.append(fill(fill(primitive.gold, values), values))
        yield Act(reader.language.gold(place, tuple(chain)))
        result = json.loads((yield Act(call)).observation)
        if (lead := reader.lead(_plain(text), lines_of_records(place, result))) is None:
            break
        form, values = lead
        if form in PYTHON_FORMS:
            text = (yield Act(fill(PYTHON_FORMS[form], values))).observation
            continue
        text = (yield _show(values["path"])).observation.strip()
        if form == "index":
            (path,) = re.findall(rf"(?m)^{values['key']}\W+?(/.*)$", text)
            text = (yield _show(path)).observation
        text = _entry(form, text, values["key"], values.get("column", ""))
    yield Act(f"{SUBMIT} {query['function']}")


def _show(path: str) -> Act:
    return Act(f"print(open('{path}').read())")


READERS = {"bash": _read_bash, "sql": _read_sql, "python": _read_python}


def read(reader: Reader, task: Task, protocol: str) -> StrategySteps:
    """Solve a task by reading one instruction after another; give up where none is found."""
    try:
        yield from READERS[reader.language.env](reader, task)
    except (LookupError, SyntaxError, TypeError, ValueError) as error:
        print(f"task {task.id}: {error!r}", file=sys.stderr)
    yield Act(SUBMIT)


# -- figures ---------------------------------------------------------------------------------------


def _cpu() -> float:
    """Return the CPU seconds of this process and its ended children."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _language(env: str, stack: ExitStack) -> Language:
    if env == "bash":
        return Bash(stack.enter_context(Trial()))
    return Sql() if env == "sql" else Python()


def rows(env: str, steps: int, n: int, seed: int, shapes: Counter[str], more: int) -> Iterator[Row]:
    """Yield the figures of a language at a number of steps, and count the shapes."""
    label, four, begin = f"{env}, {steps} steps", steps == 4, _cpu()
    with ExitStack() as stack:
        language = _language(env, stack)
        composer = Composer(language, Draw(f"{env} {seed}", "train"), steps)
        tasks = list(composer.pairs(n))
        others = [composer.task() for _ in range(more)]
    seconds = (_cpu() - begin) / (len(tasks) + more)
    yield Row(f"{label}: CPU seconds a task", seconds, 1 if four else None, MOST_SECONDS)
    yield Row(f"{label}: walks without a task", composer.failed, len(tasks) + more, unit="")
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), env, tasks)
        factory = prepare(env, data=folder, max_turns=TURNS)
        golds = [Task("", question.query[0], question.gold) for _, question in others]
        shapes.update(map(shape, [*factory.tasks, *golds]))
        count = len(factory.tasks)
        play = partial(evaluate, factory, tasks=factory.tasks, workers=2)
        failures = sum(not episode.success for episode in play(gold))
        yield Row(f"{label}: golds that fail", failures, count, 0, unit="")
        solved = sum(episode.success for episode in play(noop))
        yield Row(f"{label}: noop", solved, count, 0, unit="")
        solved = sum(episode.success for episode in play(nearest(factory.tasks)))
        yield Row(f"{label}: nearest", solved, count, MOST_NEAREST if four else None, unit="")
        with closing(factory()) as player:
            firsts, seconds_of = factory.tasks[::2], factory.tasks[1::2]
            twins = [*zip(firsts, seconds_of, strict=True), *zip(seconds_of, firsts, strict=True)]
            solved = sum(accepts(player, task, _renamed(other, task)) for other, task in twins)
        yield Row(f"{label}: renamed", solved, count, MOST_RENAMED if four else None, unit="")
        episodes = play(partial(read, Reader(language)))
        solved = sum(episode.success for episode in episodes)
        yield Row(f"{label}: reader", solved, count, LEAST_READ, floor=True, unit="")
        actions = mean(len(episode.turns) - 1 for episode in episodes)
        yield Row(f"{label}: actions of the reader", actions, unit="")


def main() -> int:
    parser = command(__doc__)
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help="these [all]")
    parser.add_argument("--n", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", default="2,4,6,8")
    parser.add_argument("--shapes", type=int, default=0, metavar="N")
    options = parser.parse_args()
    measured, shapes = list[Row](), Counter[str]()
    for env in options.languages or READERS:
        for steps in map(int, options.steps.split(",")):
            more = options.shapes if steps == 4 else 0
            measured += rows(env, steps, options.n, options.seed, shapes, more)
    count = shapes.total()
    enough = LEAST_SHAPES if count >= 2 * LEAST_SHAPES else None
    measured.append(Row("shapes", len(shapes), enough, 1, floor=True, unit=""))
    if count >= 1000:
        most = max(shapes.values())
        measured.append(Row("most frequent shape", most, count, MOST_SHARE, unit=""))
    return finish(options, measured)


if __name__ == "__main__":
    sys.exit(main())
