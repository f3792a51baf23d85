"""An episode for a reader: the turns one by one, then the verdict. Plain data, for the terminal and
for web pages.

    steps(episode)      the turns, each with the messages that are new in its question, and its
                        facts in words
    verdict(episode)    why the reward came about: the parts that failed, and what the gold and the
                        agent did

The outcomes of built-in environments (docs/run-folder.md) become answers side by side, tables and
diffs; what a user's environment puts there is shown as JSON.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from intercode.agents.code import split_reasoning
from intercode.report.text import count_of, one_line
from intercode.report.turns import code_turns, is_cut_off, is_error, is_submission
from intercode.runs.store import kept_messages
from intercode.types import Episode, Message, Turn, reasoning_of

ENDED = {
    "submit": "the agent submitted",
    "solved": "the state was right",
    "turns": "out of turns",
    "stopped": "the agent stopped",
    "limit": "a limit was reached",
    "agent_fault": "the agent broke its sandbox",
}
"""`Episode.ended` in words."""

_ENDED = "The program: status {status}, {seconds} s ({cpu_seconds} s of them on a processor)"

State = Literal["solved", "failed", "ambiguous", "fault", "unscored"]
MARKS: dict[State, str] = {
    "solved": "✓",
    "failed": "✗",
    "ambiguous": "≈",
    "fault": "!",
    "unscored": "–",
}
FAILED: Sequence[State] = ("failed", "ambiguous")
"""Scored and not solved: an ambiguous episode has failed as well."""
_FINISHED = (None, "", "stop", "tool_calls", "function_call")
"""Values of `finish_reason` that say nothing."""
_LISTED = 10
"""The most rows that an SQL record lists as missing or extra."""
_PARTS = 8
"""Parts of a reward that a verdict lists."""


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """A turn with its number, from 1. The first `kept` messages of its question repeat the last
    question and its reply. `solved`: the turn submitted what solved the task."""

    number: int
    turn: Turn
    kept: int
    solved: bool = False

    @property
    def title(self) -> str:
        return "submitted for the agent" if self.turn.forced else f"turn {self.number}"

    @property
    def reasoning(self) -> str:
        """The model's reasoning: in the server's fields, otherwise inside tags in the reply."""
        return reasoning_of(self.turn) or self._split[0].strip()

    @property
    def thought(self) -> str:
        """The turn's thought, without reasoning inside tags."""
        thought, inside = (self.turn.thought or "").strip(), self._split[0].strip()
        # a long thought is cut in the record
        return "" if inside.startswith(thought) else thought.removeprefix(inside).strip()

    @property
    def reply(self) -> str:
        """The reply, without reasoning inside tags."""
        return self._split[1].strip()

    @property
    def _split(self) -> tuple[str, str]:
        return split_reasoning((self.turn.reply or "").replace("\r\n", "\n"))

    @property
    def messages(self) -> Sequence[Message]:
        """The messages of the question that no earlier question contained."""
        return (self.turn.ask or ())[self.kept :]

    @property
    def kind(self) -> Literal["question", "submission", "error", "fine"]:
        if not self.turn.acted:
            return "question"
        return (
            "submission" if is_submission(self.turn) else "error" if is_error(self.turn) else "fine"
        )

    @property
    def facts(self) -> list[str]:
        """Words on how the reply and the action ended, the score, seconds, tokens and cost."""
        turn, used = self.turn, self.turn.usage
        limits = [name for name in turn.limits if name != "time"]
        tokens = used.prompt_tokens + used.completion_tokens
        conditions = {
            _finish(turn): turn.finish_reason not in _FINISHED,
            "the user had no answer": turn.asked == "",
            f"the user answered: {turn.asked}": turn.asked,
            f"exit status {turn.exit_code}": turn.exit_code is not None,
            "out of time": turn.timed_out,
            "the session ended": turn.session_lost,
            f"limit hit: {', '.join(limits)}": limits,
            "output shortened for the agent": turn.truncated_output,
            f"score {turn.score or 0:.2f}": turn.score is not None,
            f"{turn.seconds:.2f} s": turn.acted and turn.seconds,
            f"reply in {turn.reply_seconds or 0:.2f} s": turn.reply_seconds is not None,
            f"{used.prompt_tokens:,} + {used.completion_tokens:,} tokens": tokens,
            "the server did not count its tokens": used.uncounted,
            f"${used.cost:.4f}": used.cost,
            f"{turn.left_out} messages did not fit into the context": turn.left_out,
        }
        return [fact for fact, holds in conditions.items() if holds]


def _finish(turn: Turn) -> str:
    """Return why the reply ended, in words."""
    if is_cut_off(turn):
        count = turn.usage.completion_tokens
        return f"reply cut off at {count:,} tokens" if count else "reply cut off"
    return f"reply ended by {one_line(str(turn.finish_reason), 40)}"


def last_action(episode: Episode) -> str:
    """Return the last action that is not a submission; empty if there is none."""
    actions = [turn.action for turn in code_turns(episode) if turn.action is not None]
    return actions[-1] if actions else ""


def steps(episode: Episode) -> list[ShownTurn]:
    """Return the turns of an episode as steps."""
    pairs = zip(episode.turns, kept_messages(episode.turns), strict=True)
    return [
        ShownTurn(number, turn, shared, episode.success and turn.score in (None, episode.reward))
        for number, (turn, shared) in enumerate(pairs, 1)
    ]


def content_of(message: Message) -> str:
    """Return the text of a message, or its other content in words."""
    content = message.get("content")
    return content if isinstance(content, str) else str(content or message.get("tool_calls") or "")


def state_of(episode: Episode) -> State:
    """Return how the episode counts."""
    if episode.reward is None:
        return "unscored" if episode.error is None else "fault"
    return "solved" if episode.success else "ambiguous" if episode.ambiguous else "failed"


def first_difference(episode: Episode, reference: Episode) -> int | None:
    """Return the number of the first turn of `episode` whose action or observation is not the one
    in `reference`; None if there is none."""
    numbers = [number for number, turn in enumerate(episode.turns, 1) if turn.acted]
    turns, expected = (
        [(turn.action, turn.observation) for turn in source.turns if turn.acted]
        for source in (episode, reference)
    )
    for number, (here, there) in zip(numbers, zip(turns, expected, strict=False), strict=False):
        if here != there:
            return number
    return numbers[len(expected)] if len(turns) > len(expected) else None


# -- the verdict -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """A line of an answer. `alone`: the other side has no such line."""

    text: str
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Sides:
    """The answers of gold and agent, line by line. `gold` is None if the record leaves it out."""

    title: str
    gold: Sequence[Line] | None
    agent: Sequence[Line]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: names of columns, and rows of text."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Diff:
    """Lines of a unified diff, from the gold to the agent, or plain text."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class FailedTest:
    """The text of a test in the run's language, and what explains its failure, by name."""

    title: str
    text: str
    facts: Mapping[str, str]


Block = Sides | Grid | Diff | FailedTest


@dataclass(frozen=True, slots=True)
class EpisodeVerdict:
    """A sentence on the result, notes that explain it, and what the gold and the agent did."""

    state: State
    headline: str
    notes: Sequence[str]
    blocks: Sequence[Block]


def verdict(episode: Episode) -> EpisodeVerdict:
    """Return why the episode got its reward."""
    outcomes, state = dict(episode.outcomes), state_of(episode)
    failed = [str(part) for part in _listed(outcomes.pop("failed", ()))]
    ended = ENDED.get(str(episode.ended), "")
    if any(turn.forced for turn in episode.turns):
        ended += "; the work was submitted for the agent"
    notes = [] if episode.error is None else [f"Fault: {episode.error}"]
    if rule := outcomes.pop("rule", None):
        notes.append(f"{'Accepted' if state == 'solved' else 'Refused'}: {rule}")
    if parts := [f"{name}: {value:.3g}" for name, value in episode.parts.items()]:
        notes.append(
            "Parts of the reward: "
            f"{' · '.join(parts[:_PARTS])}{' …' if len(parts) > _PARTS else ''}"
        )
    notes += [f"Verified by tests: {said}" for said in _listed(outcomes.pop("verified", ()))]
    if left := _listed(outcomes.pop("left_behind", ())):
        notes.append(f"The tests did not get the agent's changes to {', '.join(map(str, left))}")
    if state == "ambiguous":
        notes.append(
            "Ambiguous: most of the gold's words or values are in the answer; "
            "`intercode rescore --judge` can ask a model."
        )
    program = outcomes.pop("program", None)
    if not (isinstance(program, Mapping) and "cpu_seconds" in program):
        program = {}
    if program:
        notes.append(_ENDED.format_map(program))
    if node := outcomes.pop("node", None):
        notes.append(f"Played on the node {node}")
    if cut := _listed(outcomes.pop("cut", ())):
        notes.append(f"Too large for the record: {', '.join(map(str, cut))}")
    words = {
        "solved": "Solved",
        "fault": "Not scored, because of a fault",
        "unscored": "Not scored",
    }
    facts = [
        *([] if episode.reward is None else [f"reward {episode.reward:.3g}"]),
        *filter(None, [ended]),
    ]
    headline = words.get(state, "Not solved") + (f" ({', '.join(facts)})" if facts else "")
    where = ""
    if failed == ["robust"] and state != "solved":
        headline += ". Right on the data that the agent saw, wrong on other data"
        where = "on other data: "
    elif failed and state != "solved":
        headline += f". Failed: {', '.join(failed)}"
    blocks = list(_blocks(outcomes, failed, where))
    for name, text in program.items():
        if text and name in ("stdout", "stderr"):
            blocks.append(Diff(f"the end of the program's {name}", text))
    return EpisodeVerdict(state, headline, notes, blocks)


def _blocks(outcomes: dict[str, Any], failed: Sequence[str], where: str) -> Iterable[Block]:
    """Yield what the outcomes say, the known keys first and all others as JSON. The answers come
    after the files if only these are wrong. `where` says on which data, and begins the titles."""
    answers = []
    agent, gold = (outcomes.pop(side, None) for side in ("agent", "gold"))
    differing = [outcomes.pop(name, None) for name in ("missing", "extra")]
    if gold is None and agent is not None:
        answers = [Sides("answer (the record leaves the gold's out)", None, _split(_lines(agent)))]
    elif gold is not None:
        answers = [
            replace(sides, title=f"{where}{sides.title}")
            for sides in _answers(gold, agent, differing)
        ]
    if "answer" in failed or "files" not in failed:
        yield from answers
        answers = []
    if paths := [row for row in _listed(outcomes.pop("paths", ())) if isinstance(row, Mapping)]:
        rows = [[str(row.get(name, "")) for name in ("path", "gold", "agent")] for row in paths]
        total = outcomes.pop("paths_total", None)
        some = f": the first {len(rows)} of {total}" if total else ""
        yield Grid(f"{where}files that differ{some}", ("path", "gold", "agent"), rows)
        for row in paths:
            if row.get("diff"):
                title = f"{where}{row.get('path')}, from the gold to the agent"
                yield Diff(title, str(row["diff"]))
    yield from answers
    if tests := [row for row in _listed(outcomes.pop("tests", ())) if isinstance(row, Mapping)]:
        yield from (_failed_test(row) for row in tests if not row.get("passed"))
        passed = [row for row in tests if row.get("passed")]
        rows = [
            [_test_name(row), *(str(row.get(k, "")) for k in ("test", "gold"))] for row in passed
        ]
        if rows:
            yield Grid("tests that passed", ("", "test", "gold"), rows)
    if (output := outcomes.pop("output", None)) is not None:
        yield Diff("output of the tests", str(output))
    if outcomes:
        yield Diff("other outcomes", json.dumps(outcomes, indent=2, ensure_ascii=False))


def _answers(gold: object, agent: object, differing: Sequence[object]) -> Iterable[Sides]:
    """Yield both answers, and the `differing` rows of the record (missing, extra) that neither
    shows. The record marks the rows, as the reward compared all of them; an older one lists some
    of those that differ. Without a list, lines are compared."""
    sides = [_lines(gold), _lines(agent)]
    texts = [[line.text for line in side] for side in sides]
    counts = [Counter(lines) for lines in texts]
    order = ""
    if counts[0] == counts[1] and texts[0] != texts[1] and not any(map(_is_cut, (gold, agent))):
        order = ": the same lines in another order"
    listed = [_rows(rows) for rows in differing]
    if not any(isinstance(side, Mapping) and "unmatched" in side for side in (gold, agent)):
        alone = [counts[0] - counts[1], counts[1] - counts[0]]
        if differing[0] is not None:
            alone = [Counter(rows) for rows in listed]
        sides = [_marked(lines, only) for lines, only in zip(texts, alone, strict=True)]
    yield Sides(f"answers{order}", *map(_split, sides))
    hidden = [
        [Line(row, True) for row in rows if row not in lines]
        for rows, lines in zip(listed, texts, strict=True)
    ]
    if any(hidden):
        yield Sides("other rows that differ", *map(_split, hidden))


def _test_name(row: Mapping[str, Any]) -> str:
    """Return the name of a test, with its number in the record; older runs have no numbers."""
    return f"test {row.get('number', '')}".rstrip() + (" (hidden)" if row.get("hidden") else "")


def _failed_test(row: Mapping[str, Any]) -> FailedTest:
    names = {"input": "input", "expected": "expected", "got": "got", "agent": "error"}
    facts = {name: str(row[key]) for key, name in names.items() if row.get(key) is not None}
    # what a program printed is what it got; its test is the input and the output
    if "got" in facts and facts.get("error", "").startswith("printed "):
        del facts["error"]
    if row.get("gold", "passed") != "passed":
        facts["gold"] = str(row["gold"])
    text = "" if "input" in facts else str(row.get("test", ""))
    return FailedTest(f"{_test_name(row)}: failed", text, facts)


def _lines(side: object) -> list[Line]:
    """Return an answer as lines: a text, an error, or rows of a table; anything else as JSON. Rows
    that the record calls unmatched are marked."""
    if not isinstance(side, Mapping):
        return [] if side is None else [Line(str(side))]
    rest = dict(side)
    before = str(rest.pop("answer", "")).splitlines()
    if error := rest.pop("error", None):
        before += f"error: {error}".splitlines()
    before += _rows(rest.pop("columns", None) and [side["columns"]])
    rows, unmatched = _rows(rest.pop("rows", ())), _listed(rest.pop("unmatched", ()))
    after = []
    if isinstance(total := rest.pop("rows_total", None), int):
        after.append(f"… {count_of(total - len(rows), 'more row')}")
    if "submitted" in rest:
        after.append(str(rest.pop("submitted")) or "(nothing)")
    if rest:
        after += json.dumps(rest, indent=2, ensure_ascii=False).splitlines()
    marked = [Line(row, place in unmatched) for place, row in enumerate(rows)]
    return [*map(Line, before), *marked, *map(Line, after)]


def _split(lines: Iterable[Line]) -> list[Line]:
    """Return the lines; a row whose cells have line ends becomes several, with the same mark."""
    return [Line(part, line.alone) for line in lines for part in line.text.split("\n")]


def _is_cut(side: object) -> bool:
    return isinstance(side, Mapping) and "rows_total" in side


def _rows(rows: object) -> list[str]:
    return [
        " | ".join("NULL" if v is None else str(v) for v in _listed(row)) for row in _listed(rows)
    ]


def _listed(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else () if value is None else (value,)


def _marked(lines: Sequence[str], alone: Counter[str]) -> list[Line]:
    """Return the lines, with a mark at those that `alone` counts."""
    marked = []
    for line in lines:
        alone[line] -= 1
        marked.append(Line(line, alone[line] >= 0))
    return marked
