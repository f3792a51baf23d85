"""Public task sets, read where they lie: what can be played is read and asked as written, the rest
is left out or refused for a true reason, and golds earn 1. What is right is decided by the rules in
raw.py, from the raw files."""

from __future__ import annotations

import csv
import functools
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import raw
from faults import FILES, wrong_today
from kept import needs_bwrap

import intercode
from intercode.agents import gold, noop
from intercode.errors import IntercodeError
from intercode.runner.run import evaluate
from intercode.types import Episode, Task
from intercode.validate.check import check_texts

pytestmark = [
    pytest.mark.world,
    pytest.mark.filterwarnings("ignore::intercode.errors.EntryLeftOut"),
]

ADVICE = "--gold-fields"


@dataclass(frozen=True)
class Set:
    """`rule` reads a record, `folder` all tasks of a folder. `lacks` and `says` are for a set of
    which nothing can be played. `wrong` tells what is wrong today: `counts`, `asks`, `static`, or
    the kinds whose reasons are."""

    env: str
    rule: raw.Rule | None = None
    folder: Callable[[Path], Iterable[raw.Entry]] | None = None
    lacks: str = ""
    says: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()

    def read(self, record: Any) -> raw.Entry:
        if self.rule:
            return self.rule(record)
        return raw.Entry(record, lacks=frozenset({self.lacks}), says=self.says)


def bench(*wrong: str) -> Set:
    return Set("harbor", folder=raw.terminal_bench, wrong=wrong)


def no_tasks(env: str, lacks: str, *says: str) -> Set:
    return Set(env, lacks=lacks, says=says, kinds=(lacks,))


def challenges(*wrong: str) -> Set:
    return Set("ctf", folder=raw.challenges, kinds=tuple(STATED), wrong=wrong)


STATED = {
    "files": "which is not in its folder",
    "containers": "containers, not one",
    "command": "does not say its command",
    "port": "does not say its port",
    "volumes": "has volumes",
    "network": "needs the network",
}
"""How a challenge's reason of each kind is told."""
SETS = {
    "nyu-ctf-test": challenges(),
    "nyu-ctf-development": challenges(),
    "tb-aider": bench(),
    "tb-evoeval": bench(),
    "tb-deveval": bench(),
    "tb-swebench": bench(),
    "tb-lcbpro": bench("asks"),  # the word "base", which names one of the descriptions
    "multimedia": Set("harbor", folder=raw.harbor),
    "agentbench-dbbench": Set("sql", raw.asking("description")),
    "agentbench-os": Set("bash", raw.agentbench_os, kinds=("files",)),
    "spider2": no_tasks("sql", "gold", "gold"),
    "kaggledbqa": Set("sql", raw.kaggledbqa, kinds=("databases", "question")),
    "classeval": Set("python", raw.asking("skeleton")),
    "mxeval": Set(
        "python",
        raw.completion,
        kinds=("language", "question"),
    ),
    "odex": Set("python", raw.asking("intent")),
    "quixbugs": no_tasks("python", "question"),
    "debugbench": no_tasks("python", "tests", "tests"),
    "cruxeval": no_tasks("python", "question"),
    "defog-sql-eval": no_tasks("sql", "columns", ADVICE, "--query-field"),
    "infiagent-dabench": no_tasks("python", "gold", "gold"),
    "humaneval": Set("python", raw.completion),
    "humaneval-x": Set("python", raw.completion, kinds=("language",)),
    "nl2bash": Set("bash", raw.line),
    "livesqlbench-samples": no_tasks("sql", "question"),
    "bird-interact-samples": no_tasks("sql", "question"),
    "bird-mini-dev-answers": no_tasks("sql", "question"),
}
FOLDERS = [name for name, row in SETS.items() if row.folder]
CHALLENGES = [name for name, row in SETS.items() if row.env == "ctf"]
READ = [
    name
    for name, row in SETS.items()
    if not (row.lacks or "counts" in row.wrong or "databases" in row.kinds)
]
"""Sets of which something is read."""


@dataclass(frozen=True)
class Part:
    """A file or folder that a user names: what lies there, and what the product makes of it."""

    entries: tuple[raw.Entry, ...]
    tasks: tuple[Task, ...] = ()
    left_out: tuple[tuple[Task, str], ...] = ()
    refused: str | None = None

    @property
    def playable(self) -> list[raw.Entry]:
        return [entry for entry in self.entries if not entry.lacks]

    @property
    def counts(self) -> tuple[int, int, int]:
        """Return how many entries are read and left out, and 1 if all are refused."""
        left_out = {task.id for task, _ in self.left_out}
        return len(self.tasks), len(left_out), int(self.refused is not None)

    @property
    def right_counts(self) -> tuple[int, int, int]:
        read = len(self.playable)
        return (read, len(self.entries) - read, 0) if read else (0, 0, 1)

    def asked(self) -> list[tuple[str, str]]:
        """Return what each entry asks, and the query."""
        if not self.entries[0].id:
            texts = [entry.text for entry in self.playable]
            return list(zip(texts, [task.query for task in self.tasks], strict=True))
        tasks = (*self.tasks, *(task for task, _ in self.left_out))
        queries = {task.id: task.query for task in tasks}
        return [(entry.text, queries[entry.id]) for entry in self.entries]

    def reasons(self, kind: str) -> list[tuple[raw.Entry, str]]:
        """Return the entries that lack only this, and what was said of each, `""` for nothing."""
        said = {task.id: why for task, why in self.left_out}
        return [
            (entry, self.refused or said.get(entry.id or str(place), ""))
            for place, entry in enumerate(self.entries)
            if entry.lacks == {kind}
        ]


Parts = Callable[[str], list[Part]]
Played = Callable[[str], list[tuple[dict[str, Any], Episode, Episode]]]


@pytest.fixture(scope="module")
def parts(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Parts:
    """The parts of a set, by its name; each set is read once."""

    @functools.cache
    def parts_of(name: str) -> list[Part]:
        row = SETS[name]
        if row.folder is None:
            files = raw.record_files(world / name)
            return [part(row.env, file, map(row.read, raw.records(file))) for file in files]
        tasks = world / name / "tasks"
        entries = row.folder(tasks)
        if row.env == "harbor":
            tasks = with_placeholders(tasks, tmp_path_factory.mktemp(name) / "tasks")
        return [part(row.env, tasks, entries)]

    return parts_of


def part(env: str, path: Path, entries: Iterable[raw.Entry]) -> Part:
    try:
        factory = intercode.prepare(env, max_turns=None, data=path)
    except IntercodeError as error:
        return Part(tuple(entries), refused=str(error).replace(str(path), "FILE"))
    left_out = tuple((task, str(why)) for task, why in factory.left_out)
    return Part(tuple(entries), tuple(factory.tasks), left_out)


def with_placeholders(tasks: Path, copy: Path) -> Path:
    """Copy a set that lies there without its Dockerfiles and tests, with others in their places."""
    shutil.copytree(tasks, copy)
    for name, files in (
        ("task.toml", ("environment/Dockerfile", "tests/test.sh")),
        ("task.yaml", ("Dockerfile", "run-tests.sh")),
    ):
        for folder in [file.parent for file in copy.rglob(name)]:
            for file in files:
                (folder / file).parent.mkdir(exist_ok=True)
                (folder / file).write_text("FROM debian:12\n" if "Docker" in file else "exit 1\n")
    return copy


def rows(promise: str, names: Iterable[str]) -> list[Any]:
    return [pytest.param(name, marks=marks(name, promise), id=name) for name in names]


def kinds(names: Iterable[str]) -> list[Any]:
    return [
        pytest.param(name, kind, marks=marks(name, kind), id=f"{name}-{kind}")
        for name in names
        for kind in SETS[name].kinds
    ]


def marks(name: str, promise: str) -> list[pytest.MarkDecorator]:
    return [wrong_today(FILES)] if promise in SETS[name].wrong else []


# -- reading ---------------------------------------------------------------------------------------


def test_the_rules_count_what_the_list_counts(world: Path) -> None:
    with (world / "sets.tsv").open() as file:
        listed = {line["set"]: line for line in csv.DictReader(file, delimiter="\t")}
    assert {name for name, line in listed.items() if line["env"] != "-"} == SETS.keys()
    for name, row in SETS.items():
        files = raw.record_files(world / name) + sorted((world / name).glob("*.cm"))
        if row.folder:
            count = sum(1 for _ in row.folder(world / name / "tasks"))
        elif listed[name]["form"] == "fixtures":
            count = len(files)
        else:
            count = sum(not raw.is_schema(record) for file in files for record in raw.records(file))
        assert str(count) in (listed[name]["shared"], listed[name]["held"]), name


@pytest.mark.parametrize("name", rows("counts", SETS))
def test_what_can_be_played_is_read(parts: Parts, name: str) -> None:
    """As many are read and left out, and the same files refused."""
    assert [part.counts for part in parts(name)] == [part.right_counts for part in parts(name)]


@pytest.mark.parametrize("name", FOLDERS)
def test_those_are_read_that_can_be_played(parts: Parts, name: str) -> None:
    (folder,) = parts(name)
    assert sorted(task.id for task in folder.tasks) == sorted(entry.id for entry in folder.playable)


@pytest.mark.parametrize("name", rows("asks", READ))
def test_the_query_asks_what_the_entry_asks(parts: Parts, name: str) -> None:
    """Also of a challenge that is left out, where `{box}` and `{port}` name its server."""
    asked = [pair for part in parts(name) for pair in part.asked()]
    assert asked
    assert [text for text, query in asked if text.strip() not in query] == []


@pytest.mark.parametrize(("name", "kind"), kinds(name for name in SETS if name not in CHALLENGES))
def test_the_reason_is_true_and_its_advice_helps(parts: Parts, name: str, kind: str) -> None:
    """To name the gold's field is advised only where the records have one."""
    reasons = [reason for part in parts(name) for reason in part.reasons(kind)]
    assert reasons
    for entry, why in reasons:
        assert all(says(why, word) for word in entry.says), why
        assert ADVICE not in why or ADVICE in entry.says, why


def says(why: str, word: str) -> bool:
    """Return whether the word is told, not as a part of an id (`Java/3`)."""
    return re.search(rf"(?<![\w/]){re.escape(word)}(?![\w/])", why, re.I) is not None


@pytest.mark.parametrize(("name", "kind"), kinds(CHALLENGES))
def test_a_challenge_is_left_out_for_what_it_lacks(parts: Parts, name: str, kind: str) -> None:
    (folder,) = parts(name)
    stated = {task.id for task, why in folder.left_out if STATED[kind] in why}
    lacking = {entry.id for entry in folder.entries if kind in entry.lacks}
    lacking_only_this = {entry.id for entry in folder.entries if entry.lacks == {kind}}
    assert stated - lacking == set()
    assert lacking_only_this - stated == set()


@pytest.mark.parametrize("name", rows("static", FOLDERS))
def test_a_static_check_names_what_cannot_be_played(world: Path, name: str) -> None:
    """Harbor's and Terminal-Bench's tasks lie there without Dockerfile and tests: all of them."""
    row, tasks = SETS[name], world / name / "tasks"
    assert row.folder
    unplayable = [entry.id for entry in row.folder(tasks) if entry.lacks or row.env == "harbor"]
    findings = json.dumps(check_texts(row.env, data=tasks))
    assert unplayable
    assert [task for task in unplayable if json.dumps(task) not in findings] == []


def test_naming_the_gold_alone_is_no_bug(world: Path) -> None:
    """Where `query` is the column of the gold."""
    for file in raw.record_files(world / "defog-sql-eval"):
        with pytest.raises(IntercodeError):
            intercode.prepare("sql", max_turns=None, data=file, gold_fields=["query"])


# -- playing ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def played(world: Path) -> Played:
    """The records of a set that can be played, each with an episode of its gold and one of nothing;
    each set is played once."""
    needs_bwrap()

    @functools.cache
    def played_in(name: str) -> list[tuple[dict[str, Any], Episode, Episode]]:
        episodes: list[tuple[dict[str, Any], Episode, Episode]] = []
        for file in raw.record_files(world / name):
            entries = map(SETS[name].read, raw.records(file))
            if playable := [entry.record for entry in entries if not entry.lacks]:
                factory = intercode.prepare(SETS[name].env, max_turns=None, data=file)
                by_agent = [evaluate(factory, agent, tasks=factory.tasks) for agent in (gold, noop)]
                episodes += zip(playable, *by_agent, strict=True)
        return episodes

    return played_in


PLAYED = ["agentbench-dbbench", "classeval", "humaneval", "humaneval-x", "mxeval", "odex"]


@pytest.mark.parametrize("name", PLAYED)
def test_a_gold_earns_1_and_doing_nothing_0(played: Played, name: str) -> None:
    """Or the error names the library that the sandbox's Python lacks."""
    episodes = played(name)
    assert episodes
    absent = missing(sorted({module for record, *_ in episodes for module in libraries(record)}))
    for record, right, nothing in episodes:
        if lacking := absent & libraries(record):
            assert (right.reward, nothing.reward) == (None, None), record.get("task_id")
            assert any(f"No module named '{module}'" in str(right.error) for module in lacking)
        else:
            assert (nothing.reward, nothing.error) == (0, None), record.get("task_id")
            if not opens_files(record):
                assert (right.reward, right.error) == (1, None), record.get("task_id")


def test_a_gold_whose_test_shares_a_file_with_it_is_never_wrong(played: Played) -> None:
    """1, or an error of the data: the published harness runs answer and test in one process."""
    rewards = [right.reward for record, right, _ in played("odex") if opens_files(record)]
    assert rewards
    assert 0 not in rewards


def opens_files(record: dict[str, Any]) -> bool:
    return "open(" in "".join(record.get("test", ()))


def libraries(record: dict[str, Any]) -> set[str]:
    return {name.partition(".")[0] for name in record.get("library", ())}


def missing(names: list[str]) -> set[str]:
    """Return the modules that the Python of the sandboxes cannot find."""
    code = (
        "import sys, importlib.util as u; print(*(n for n in sys.argv[1:] if not u.find_spec(n)))"
    )
    command = ["/usr/bin/python3", "-c", code, *names]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
