"""The verdict of a task's tests: read from the files that the tests wrote, and turned into a score.

    reward.json, reward.txt   the reward, as Harbor's tests write it: finite numbers
    ctrf.json, *.xml          the tests' results, as CTRF or JUnit XML
    the exit status           if the tests wrote none of these: 0 is a pass

The tests are run on the gold's work first, once. Its verdict is the reference: it decides which of
these kinds is believed, a pass needs every test that passed there, and a verdict that is missing
there is an error of the data. Without a gold, the reference is the verdict on untouched files; then
tests that it does not list can only fail. Where tests are listed and none passed, nothing is paid.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from xml.etree import ElementTree

from intercode.types import Score, is_number

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

    count: int = 0
    size: int = 0
    marks: Mapping[str, frozenset[str]] | None = None


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
    `starts` are the folders in which the tests start, and those above. `of_stub`: the gold is none,
    since it changes nothing, prints only its own text, and fails the tests.
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
    starts: Sequence[str] = ()
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


def read_rewards(files: Mapping[str, bytes]) -> dict[str, float] | None:
    """Return the numbers of reward.json, or else of reward.txt; None if there is neither."""
    for name in REWARD_FILES:
        if name not in files:
            continue
        if len(files[name]) > _LONGEST:
            raise MalformedVerdict(f"{name} holds {len(files[name])} bytes, more than {_LONGEST}")
        try:
            value = json.loads(files[name])
        except (ValueError, RecursionError) as error:
            raise MalformedVerdict(f"{name} is not a number: {files[name][:60]!r}") from error
        numbers = value if isinstance(value, dict) else {"reward": value}
        are_numbers = [is_number(n) and not isinstance(n, bool) for n in numbers.values()]
        if not are_numbers or not all(are_numbers):
            raise MalformedVerdict(f"{name} holds {value!r:.60}, not finite numbers")
        return {str(key): float(number) for key, number in numbers.items()}
    return None


def read_tests(files: Mapping[str, bytes]) -> list[CaseResult]:
    """Return the results in all CTRF and JUnit files."""
    results: list[CaseResult] = []
    for name, content in sorted(files.items()):
        try:
            if name.endswith(".xml"):
                cases = _junit(ElementTree.fromstring(content))
            elif name not in REWARD_FILES:
                cases = _ctrf(json.loads(content))
            else:
                continue
            results += islice(cases, _RESULTS + 1)
        except (ElementTree.ParseError, ValueError, TypeError, RecursionError) as error:
            raise MalformedVerdict(f"{name} cannot be read: {error!s:.100}") from error
        if len(results) > _RESULTS:
            raise MalformedVerdict(f"{name} contains more than {_RESULTS} test results")
    return results


def _junit(root: ElementTree.Element) -> Iterator[CaseResult]:
    for case in root.iter("testcase"):
        name = "::".join(filter(None, (case.get("classname"), case.get("name"))))
        bad = next((c for c in case if c.tag in ("failure", "error")), None)
        if bad is not None:
            message = bad.get("message") or bad.text or ""
            yield CaseResult(name, "failed", message[:_MESSAGE])
        else:
            yield CaseResult(name, _PASSED if case.find("skipped") is None else _SKIPPED)


def _ctrf(report: Any) -> Iterator[CaseResult]:
    """Yield the tests of a report; a JSON file of another form has none."""
    results = report.get("results") if isinstance(report, dict) else None
    tests = results.get("tests") if isinstance(results, dict) else None
    for test in tests if isinstance(tests, list) else ():
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
    changes = set(verdict.left_behind)
    tops = [path for path in verdict.left_behind if path.rpartition("/")[0] not in changes]
    if why and tops:
        more = f" and {len(tops) - _NAMED} more" if len(tops) > _NAMED else ""
        why += (
            f"; the tests did not get the changes to {', '.join(tops[:_NAMED])}{more}: "
            "if the task is about such a path, name it in `verify_system`"
        )
    if why and (end := verdict.output.strip()[-_END:]):
        why += f"; the tests printed at the end:\n{end}"
    return why


def _fault(verdict: Verdict, *, rewards_only: bool) -> str:
    if why := missing_verdict(verdict, rewards_only=rewards_only):
        return why
    if verdict.reward is not None:
        return "" if verdict.reward >= 1 else f"its reward is {verdict.reward:g}"
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
    if why := missing_verdict(verdict, rewards_only=rewards_only):
        return Score(0.0, False, rule=why)
    if verdict.status in _KILLED and reference.status not in _KILLED:
        return Score(0.0, False, rule="the tests' script was killed")
    names = reference.passed if of_gold else reference.names | verdict.names
    lacking = sorted(names - verdict.passed - (frozenset() if of_gold else verdict.skipped))
    parts = {"tests": 1 - len(lacking) / len(names)} if names else {}
    parts.update(verdict.rewards or {})
    if verdict.reward is None and reference.reward is not None:
        return Score(0.0, False, parts, rule="the tests wrote no reward")
    if not verdict.tests and reference.tests:
        return Score(0.0, False, parts, rule="the tests reported no results")
    if lacking:
        reward = min(verdict.reward or 0.0, parts["tests"])
        return Score(reward, False, parts, rule=f"did not pass: {', '.join(lacking)[:300]}")
    if verdict.tests and not verdict.passed:
        return Score(0.0, False, parts, rule="no test passed")
    if verdict.reward is not None:
        return Score(verdict.reward, verdict.reward >= 1, parts)
    if reference.tests or verdict.status == 0:
        return Score(1.0, True, parts)
    return Score(0.0, False, parts, rule=f"the tests ended with status {verdict.status}")
