"""The verdict of a task's tests: read from the files that the tests wrote, and turned into a score.

    reward.json, reward.txt   the reward, as Harbor's tests write it: finite numbers
    ctrf.json, *.xml          the tests' results, as CTRF or JUnit XML
    the exit status           if the tests wrote none of these: 0 is a pass

The tests are run on the gold's work first, once. Its verdict is the reference: it decides which of
these kinds is believed, a pass needs every test that passed there, and a verdict that is missing
there is an error of the data. Without a gold, the reference is the verdict on untouched files; then
tests that it does not list can only fail. Where tests are listed and none passed, nothing is paid.

An agent's program that the tests start may write into the verdict folder too. So only regular files
that can be a verdict are read, of the kinds that the reference left, with the owner and mode that
they had there. More of them than the bounds allow is not a verdict at all.
"""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from itertools import islice
from typing import Any
from xml.etree import ElementTree

from intercode.types import Score, is_number
from intercode_sandbox.base import MIB, Sandbox

REWARD_FILES = ("reward.json", "reward.txt")
_PASSED, _SKIPPED = "passed", "skipped"
_MESSAGE = 1000
"""Characters of a failed test's message."""
_LONGEST = 64 << 10
"""Bytes of a reward file."""
_RESULTS = 100_000
"""Results of tests in all files."""
_NAMED = 5
"""Paths that a message names."""
_END = 500
"""Characters of the tests' output in a message."""
_KILLED = (-9, 128 + 9)
_FILES, _BYTES, _LISTED = 20, 16 * MIB, 1000
"""The most files that can be a verdict, and their bytes, that are believed (or twice as many as the
reference left), and the most files that are listed."""
_MOST_OF_REFERENCE = 256 * MIB
_PARSED_HERE = MIB
"""Results of more bytes are parsed in a process of their own, with limits."""
_CHILD_MEMORY, _CHILD_SECONDS, _PATIENCE = 2048 * MIB, 60, 600.0
_ENTRY = re.compile(r"([a-z ]+):(\d+):([0-7]+):(\d+):(.+)", re.DOTALL)
_LIST = r"""
cd -P -- "$1" 2>/dev/null && shopt -s nullglob || exit
files=() names=(*.xml *.json)
[[ -e reward.txt || -L reward.txt ]] && names+=(reward.txt)
for name in "${names[@]:0:$2}"; do [[ $name != *$'\n'* ]] && files+=("./$name"); done
printf '\nlisting %s %s\n' "${#names[@]}" "$EUID"
[[ ! -L $1 ]] && stat -c '%F:%u:%a:%s:%n' -- . "${files[@]}"
"""
"""Print the number of names that can be a verdict, the user, and the type, owner, mode, size and
name of the folder and of the first files. The shell may first say which job was killed."""


class MalformedVerdict(ValueError):
    """A file with a verdict that cannot be read; the message names the file."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The outcome of one test: passed, skipped, or another word for a failure."""

    name: str
    outcome: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class VerdictFolder:
    """The listing of a verdict folder: number and bytes of the files that can be a verdict, and by
    kind (a reward file's name, `.xml`, `.json`, `.` for the folder) their owners and modes."""

    count: int
    size: int
    marks: Mapping[str, set[str]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of running the tests once.

    `rewards` are the numbers of a reward file, None if there was none. `status` is the exit status
    of the script. `unread` says which file could not be read. `in_process`: a process that ran
    tests had imported code that the agent (here: the gold) had changed, or had a folder of the
    agent on its path of imports; None if unknown. `forged`: a program that forges verdicts was
    executed. `reward_file` is the one with the rewards. `alive`: the agent's processes were alive.
    `writable`: programs of the agent could change the tests. `changes` are the paths that the
    golds changed, with the targets of links; `left_behind` those that the tests did not get.
    `notes` say what went wrong before the tests, as in a hook. `of_stub`: the gold is none, since
    it changes nothing, prints only its own text, and fails the tests.
    """

    rewards: Mapping[str, float] | None
    tests: Sequence[CaseResult]
    status: int | None
    timed_out: bool
    output: str
    unread: str = ""
    in_process: bool | None = None
    forged: bool = False
    reward_file: str = ""
    alive: bool = False
    writable: bool = False
    folder: VerdictFolder | None = None
    changes: Mapping[str, str | None] = field(default_factory=dict)
    left_behind: Sequence[str] = ()
    notes: Sequence[str] = ()
    of_stub: bool = False

    @property
    def reward(self) -> float | None:
        """The entry `reward`, or the mean of all entries, cut to the range from 0 to 1."""
        if not self.rewards:
            return None
        mean = sum(self.rewards.values()) / len(self.rewards)
        return min(1.0, max(0.0, self.rewards.get("reward", mean)))

    @property
    def names(self) -> frozenset[str]:
        return frozenset(test.name for test in self.tests)

    @property
    def passed(self) -> frozenset[str]:
        """The names of the tests that passed each time they were reported."""
        return self.names - {test.name for test in self.tests if test.outcome != _PASSED}

    @property
    def skipped(self) -> frozenset[str]:
        return frozenset(test.name for test in self.tests if test.outcome == _SKIPPED)

    @property
    def failed(self) -> frozenset[str]:
        return self.names - self.passed - self.skipped


def read_folder(
    box: Sandbox, path: str, reference: VerdictFolder | None, *, kinds: set[str] | None
) -> tuple[VerdictFolder, dict[str, bytes], str]:
    """Return the listing, the believed files by name, and why nothing is believed, or "".

    Without a `reference` all files are believed. `kinds` are those that may be read; None: all.
    """
    look = box.exec("", argv=["bash", "-c", _LIST, "bash", path, str(_LISTED)], cwd="/")
    listing = look.output.partition("\nlisting ")[2] or "0 0\n"
    first, *lines = listing.split("\n")
    count, user = first.split(" ")[:2]
    total = 0
    marks: dict[str, set[str]] = {}
    entries = {}
    for line in lines:
        entry = _ENTRY.fullmatch(line)
        if not entry:
            continue  # what the loader or the shell says
        type, owner, mode, size, name = entry.groups()
        name = name.removeprefix("./")
        kind = name if name in REWARD_FILES else name[name.rindex(".") :]
        who = "own" if owner == user else owner
        mark = f"{type.replace('empty ', '')} {who} {mode}"
        marks.setdefault(kind, set()).add(mark)
        if name != ".":
            entries[name] = kind, mark
            total += int(size)
    folder = VerdictFolder(int(count), total, marks)
    most_files, most_bytes = _LISTED, _MOST_OF_REFERENCE
    if reference is not None:
        most_files = max(_FILES, 2 * reference.count)
        most_bytes = max(_BYTES, 2 * reference.size)
        if marks.get(".") != reference.marks.get("."):
            return folder, {}, "the verdict folder has another type, owner or mode"
        marks = {**marks, **reference.marks}
    if folder.count > most_files or total > most_bytes:
        return folder, {}, f"the verdict folder holds {count} files, {total} bytes"
    names = [
        name
        for name, (kind, mark) in entries.items()
        if mark.startswith("regular file ")
        and mark in marks[kind]
        and (kinds is None or kind in kinds)
    ]
    files = {}
    contents = box.read_many([f"{path}/{name}" for name in names], limit=most_bytes)
    for name, content in zip(names, contents, strict=True):
        if content is not None:
            files[name] = content
    return folder, files, ""


def read_rewards(files: Mapping[str, bytes]) -> dict[str, float] | None:
    """Return the numbers of reward.json, or else of reward.txt; None if there is neither."""
    name = reward_file(files)
    if not name:
        return None
    content = files[name]
    if len(content) > _LONGEST:
        raise MalformedVerdict(f"{name} holds {len(content)} bytes, more than {_LONGEST}")
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise MalformedVerdict(f"{name} is not a number: {content[:60]!r}") from error
    numbers = value if isinstance(value, dict) else {"reward": value}
    are_numbers = [is_number(part) and not isinstance(part, bool) for part in numbers.values()]
    if not are_numbers or not all(are_numbers):
        raise MalformedVerdict(f"{name} holds {value!r:.60}, not finite numbers")
    return {str(key): float(number) for key, number in numbers.items()}


def reward_file(files: Mapping[str, bytes]) -> str:
    """Return the name of the file with the reward; "" if there is none."""
    return next((name for name in REWARD_FILES if name in files), "")


def parse_tests(files: Mapping[str, bytes]) -> list[CaseResult]:
    """Return the results in all CTRF and JUnit files, as `read_tests`; results of many bytes are
    parsed in a process with limits. Raises `MalformedVerdict`."""
    results = {name: content for name, content in files.items() if name not in REWARD_FILES}
    if sum(map(len, results.values())) <= _PARSED_HERE:
        return read_tests(results)
    texts = {name: content.decode("latin-1") for name, content in results.items()}
    try:
        process = subprocess.run(
            [sys.executable, "-m", __name__],
            input=json.dumps(texts).encode(),
            capture_output=True,
            timeout=_PATIENCE,
            check=True,
        )
    except subprocess.SubprocessError as error:
        names = ", ".join(sorted(results))
        raise MalformedVerdict(f"{names:.100} cannot be read within the limits") from error
    parsed = json.loads(process.stdout)
    if isinstance(parsed, str):
        raise MalformedVerdict(parsed)
    return [CaseResult(*fields) for fields in parsed]


def read_tests(files: Mapping[str, bytes]) -> list[CaseResult]:
    """Return the results in all CTRF and JUnit files."""
    results: list[CaseResult] = []
    for name, content in sorted(files.items()):
        try:
            if name.endswith(".xml"):
                cases = _junit(ElementTree.fromstring(content))
            else:
                cases = _ctrf(json.loads(content))
            results += islice(cases, _RESULTS + 1)
        except (ElementTree.ParseError, ValueError, TypeError, RecursionError) as error:
            raise MalformedVerdict(f"{name} cannot be read: {error!s:.100}") from error
        if len(results) > _RESULTS:
            raise MalformedVerdict(f"{name} contains more than {_RESULTS} test results")
    return results


def _junit(root: ElementTree.Element) -> Iterator[CaseResult]:
    for case in root.iter("testcase"):
        name = "::".join(filter(None, (case.get("classname"), case.get("name"))))
        outcome = _PASSED if case.find("skipped") is None else _SKIPPED
        message = ""
        for part in case:
            if part.tag in ("failure", "error"):
                outcome = "failed"
                message = part.get("message") or part.text or ""
                break
        yield CaseResult(name, outcome, message[:_MESSAGE])


def _ctrf(report: Any) -> Iterator[CaseResult]:
    """Yield the tests of a report; a JSON file of another form has none."""
    for key in ("results", "tests"):
        report = report.get(key) if isinstance(report, dict) else None
    for test in report if isinstance(report, list) else ():
        if isinstance(test, dict):
            message = str(test.get("message") or test.get("trace") or "")
            outcome = str(test.get("status"))
            yield CaseResult(str(test.get("name")), outcome, message[:_MESSAGE])


def missing_verdict(verdict: Verdict, *, rewards_only: bool) -> str:
    """Return why the tests gave no verdict at all, or ""."""
    if verdict.timed_out:
        return "the tests ran out of time"
    if verdict.unread:
        return verdict.unread
    if rewards_only and verdict.rewards is None:
        return f"the tests wrote neither {' nor '.join(REWARD_FILES)}"
    if verdict.rewards is None and not verdict.tests and verdict.status is None:
        return "the tests' script did not finish"
    return ""


def gold_fault(verdict: Verdict, *, rewards_only: bool) -> str:
    """Return why the verdict on the gold's work is not a pass, or "". Name the changes that the
    tests did not get, and the end of what the tests printed."""
    why = _fault(verdict, rewards_only=rewards_only)
    if not why:
        return ""
    changes = set(verdict.left_behind)
    tops = [path for path in verdict.left_behind if path.rpartition("/")[0] not in changes]
    if tops:
        more = f" and {len(tops) - _NAMED} more" if len(tops) > _NAMED else ""
        why += (
            f"; the tests did not get the changes to {', '.join(tops[:_NAMED])}{more}: "
            "if the task is about such a path, name it in `verify_system` (in `artifacts`, "
            "if the tests have an image of their own)"
        )
    if end := verdict.output.strip()[-_END:]:
        why += f"; the tests printed at the end:\n{end}"
    return why


def _fault(verdict: Verdict, *, rewards_only: bool) -> str:
    if why := missing_verdict(verdict, rewards_only=rewards_only):
        return why
    if verdict.reward is not None:
        if verdict.reward < 1:
            return f"its reward is {verdict.reward:g}"
        return ""
    if verdict.failed:
        return f"these tests fail: {', '.join(sorted(verdict.failed))[:200]}"
    if verdict.tests and not verdict.passed:
        return "no test passes"
    if not verdict.tests and verdict.status != 0:
        return f"the tests end with status {verdict.status}"
    return ""


def score(verdict: Verdict, reference: Verdict, *, of_gold: bool, rewards_only: bool) -> Score:
    """Return the score of a verdict. `reference` is the verdict on the gold's work if `of_gold`,
    else on the untouched files."""
    why = missing_verdict(verdict, rewards_only=rewards_only)
    if not why and verdict.status in _KILLED and reference.status not in _KILLED:
        why = "the tests' script was killed"
    if why:
        return Score(0.0, False, rule=why)
    names = reference.passed
    lacking = names - verdict.passed
    if not of_gold:
        names = reference.names | verdict.names
        lacking = names - verdict.passed - verdict.skipped
    parts = {"tests": 1 - len(lacking) / len(names)} if names else {}
    parts.update(verdict.rewards or {})
    reward = 0.0
    if verdict.reward is None and reference.reward is not None:
        why = "the tests wrote no reward"
    elif not verdict.tests and reference.tests:
        why = "the tests reported no results"
    elif lacking:
        reward = min(verdict.reward or 0.0, parts["tests"])
        why = f"did not pass: {', '.join(sorted(lacking))[:300]}"
    elif verdict.tests and not verdict.passed:
        why = "no test passed"
    elif verdict.reward is not None:
        reward = verdict.reward
    elif reference.tests or verdict.status == 0:
        reward = 1.0
    else:
        why = f"the tests ended with status {verdict.status}"
    return Score(reward, not why and reward >= 1, parts, rule=why)


def _main() -> None:
    """Parse the files on standard input, and print their results, or why they cannot be read."""
    resource.setrlimit(resource.RLIMIT_AS, (_CHILD_MEMORY, _CHILD_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_CHILD_SECONDS, _CHILD_SECONDS))
    texts = json.load(sys.stdin.buffer)
    try:
        tests = read_tests({name: text.encode("latin-1") for name, text in texts.items()})
    except MalformedVerdict as error:
        json.dump(str(error), sys.stdout)
    else:
        json.dump(list(map(astuple, tests)), sys.stdout)


if __name__ == "__main__":
    _main()
