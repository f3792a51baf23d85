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
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

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
_RESULTS: Mapping[str, str] = {
    "solved": "Solved",
    "fault": "Not scored, because of a fault",
    "unscored": "Not scored",
}
_FINISHED = (None, "", "stop", "tool_calls", "function_call")
"""Values of `finish_reason` that say nothing."""
_PARTS = 8
"""Parts of a reward that a verdict lists."""


class ShownTurn(NamedTuple):
    """A turn with its number, from 1. The first `repeated` messages of its question repeat the last
    question and its reply. `solved`: the turn submitted what solved the task."""

    number: int
    turn: Turn
    repeated: int
    solved: bool = False
    chapter: str = ""
    """The heading of the round that begins with this turn, before its title."""
    same_as: int = 0
    """The number of the turn that this turn and all between them repeat; its own if it is new."""

    @property
    def title(self) -> str:
        title = "submitted for the agent" if self.turn.forced else f"turn {self.number}"
        return f"{self.chapter}{title}"

    @property
    def reasoning(self) -> str:
        """The model's reasoning: in the server's fields, otherwise inside tags in the reply."""
        return reasoning_of(self.turn) or self._split[0]

    @property
    def thought(self) -> str:
        """The turn's thought, without reasoning inside tags."""
        thought, inside = (self.turn.thought or "").strip(), self._split[0]
        if inside.startswith(thought):  # a long thought is cut in the record
            return ""
        return thought.removeprefix(inside).strip()

    @property
    def reply(self) -> str:
        """The reply, without reasoning inside tags."""
        return self._split[1]

    @property
    def _split(self) -> list[str]:
        reply = (self.turn.reply or "").replace("\r\n", "\n")
        return [part.strip() for part in split_reasoning(reply)]

    @property
    def messages(self) -> Sequence[Message]:
        """The messages of the question that no earlier question contained."""
        return (self.turn.ask or ())[self.repeated :]

    @property
    def kind(self) -> str:
        if not self.turn.acted:
            return "question"
        if is_submission(self.turn):
            return "submission"
        return "error" if is_error(self.turn) else "fine"

    @property
    def facts(self) -> list[str]:
        """Words on how the reply and the action ended, the score, seconds, tokens and cost."""
        turn, used = self.turn, self.turn.usage
        limits = [name for name in turn.limits if name != "time"]
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
            f"{used.tokens:,} tokens ({used.completion_tokens:,} in the reply)": used.tokens,
            "the server did not count its tokens": used.uncounted,
            f"${used.cost:.4f}": used.cost,
            f"{turn.left_out} messages did not fit into the context": turn.left_out,
        }
        return [fact for fact, holds in conditions.items() if holds]


def _finish(turn: Turn) -> str:
    """Return why the reply ended, in words."""
    if not is_cut_off(turn):
        return f"reply ended by {one_line(str(turn.finish_reason), 40)}"
    count = turn.usage.completion_tokens
    return f"reply cut off at {count:,} tokens" if count else "reply cut off"


def last_action(episode: Episode) -> str:
    """Return the last action that is not a submission; empty if there is none."""
    for turn in reversed(code_turns(episode)):
        if turn.action is not None:
            return turn.action
    return ""


def steps(episode: Episode) -> list[ShownTurn]:
    """Return the turns of an episode as steps."""
    shown = list[ShownTurn]()
    rounds = episode.outcomes.get("rounds", ())
    chapters = [f"Round {row['round']}, reward {row['reward']:.3g}: " for row in rounds]
    if rounds:
        chapters.append(f"Round {len(rounds) + 1}, not ended: ")
    begins, before = True, None
    for turn, repeated in zip(episode.turns, kept_messages(episode.turns), strict=True):
        solved = episode.success and turn.score in (None, episode.reward)
        chapter = ""
        if begins and chapters:
            chapter = chapters.pop(0)
        number = same_as = len(shown) + 1
        replied = turn.thought, turn.reply, reasoning_of(turn)
        now = (*replied, turn.action, turn.observation, turn.exit_code, turn.score)
        if now == before and turn.after is None and not chapter:
            same_as = shown[-1].same_as
        shown.append(ShownTurn(number, turn, repeated, solved, chapter, same_as))
        before = now if turn.acted else None
        begins = is_submission(turn) and turn.score is not None
    return shown


def content_of(message: Message) -> str:
    """Return the text of a message, or its other content in words."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return str(content or message.get("tool_calls") or "")


def state_of(episode: Episode) -> State:
    """Return how the episode counts."""
    if episode.reward is None:
        return "unscored" if episode.error is None else "fault"
    if episode.success:
        return "solved"
    return "ambiguous" if episode.ambiguous else "failed"


def first_difference(episode: Episode, reference: Episode) -> int | None:
    """Return the number of the first turn of `episode` whose action or observation is not the one
    in `reference`; None if there is none."""
    expected = iter([(turn.action, turn.observation) for turn in reference.turns if turn.acted])
    for number, turn in enumerate(episode.turns, 1):
        if turn.acted and next(expected, None) != (turn.action, turn.observation):
            return number
    return None


# -- the verdict -----------------------------------------------------------------------------------


class Line(NamedTuple):
    """A line of an answer. `alone`: the other side has no such line."""

    text: str
    alone: bool = False


class Sides(NamedTuple):
    """The answers of gold and agent, line by line; without the gold's if the record lacks it."""

    title: str
    lines: Mapping[str, Sequence[Line]]


class Grid(NamedTuple):
    """A table: names of columns, and rows of text."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


class Diff(NamedTuple):
    """Lines of a unified diff, from the gold to the agent, or plain text."""

    title: str
    text: str


class FailedTest(NamedTuple):
    """The text of a test in the run's language, and what explains its failure, by name."""

    title: str
    text: str
    facts: Mapping[str, str]


Block = Sides | Grid | Diff | FailedTest


class EpisodeVerdict(NamedTuple):
    """A sentence on the result, notes that explain it, and what the gold and the agent did."""

    state: State
    headline: str
    notes: Sequence[str]
    blocks: Sequence[Block]


def verdict(episode: Episode) -> EpisodeVerdict:
    """Return why the episode got its reward."""
    outcomes, state, facts = dict(episode.outcomes), state_of(episode), []
    if episode.reward is not None:
        facts.append(f"reward {episode.reward:.3g}")
    ended = ENDED.get(str(episode.ended), "")
    if any(turn.forced for turn in episode.turns):
        ended += "; the work was submitted for the agent"
    if ended:
        facts.append(ended)
    headline, where = _RESULTS.get(state, "Not solved"), ""
    if facts:
        headline += f" ({', '.join(facts)})"
    failed = list(map(str, _listed(outcomes.pop("failed", ()))))
    if failed == ["robust"] and state != "solved":
        headline += ". Right on the data that the agent saw, wrong on other data"
        where = "on other data: "
    elif failed and state != "solved":
        headline += f". Failed: {', '.join(failed)}"
    program = outcomes.pop("program", None)
    if not (isinstance(program, Mapping) and "cpu_seconds" in program):
        program = {}
    notes = list(_notes(episode, state, outcomes, program))
    blocks = list(_blocks(outcomes, failed, where))
    for name, text in program.items():
        if text and name in ("stdout", "stderr"):
            blocks.append(Diff(f"the end of the program's {name}", text))
    return EpisodeVerdict(state, headline, notes, blocks)


def _notes(
    episode: Episode, state: State, outcomes: dict[str, Any], program: Mapping[str, Any]
) -> Iterator[str]:
    """Yield sentences about the result; removes from `outcomes` what they say."""
    if episode.error is not None:
        yield f"Fault: {episode.error}"
    if rule := outcomes.pop("rule", None):
        yield f"{'Accepted' if state == 'solved' else 'Refused'}: {rule}"
    if parts := [f"{name}: {value:.3g}" for name, value in episode.parts.items()]:
        more = " …" * (len(parts) > _PARTS)
        yield f"Parts of the reward: {' · '.join(parts[:_PARTS])}{more}"
    for test in _listed(outcomes.pop("verified", ())):
        yield f"Verified by tests: {test}"
    if paths := _listed(outcomes.pop("left_behind", ())):
        yield f"The tests did not get the agent's changes to {', '.join(map(str, paths))}"
    if state == "ambiguous":
        yield (
            "Ambiguous: most of the gold's words or values are in the answer; "
            "`intercode rescore --judge` can ask a model."
        )
    if program:
        yield _ENDED.format_map(program)
    if node := outcomes.pop("node", None):
        yield f"Played on the node {node}"
    if keys := _listed(outcomes.pop("cut", ())):
        yield f"Too large for the record: {', '.join(map(str, keys))}"


def _blocks(outcomes: dict[str, Any], failed: Sequence[str], where: str) -> Iterator[Block]:
    """Yield what the outcomes say, the known keys first and all others as JSON. The answers come
    after the files if only these are wrong. `where` says on which data, and begins the titles."""
    answers = list(_answers(outcomes, where))
    only_files = "files" in failed and "answer" not in failed
    if not only_files:
        yield from answers
    if paths := _records(outcomes.pop("paths", ())):
        names, title = ("path", "gold", "agent"), f"{where}files that differ"
        if total := outcomes.pop("paths_total", None):
            title += f": the first {len(paths)} of {total}"
        yield Grid(title, names, [_cells(row, *names) for row in paths])
        for row in paths:
            if row.get("diff"):
                title = f"{where}{row.get('path')}, from the gold to the agent"
                yield Diff(title, str(row["diff"]))
    if only_files:
        yield from answers
    passed = []
    for row in _records(outcomes.pop("tests", ())):
        if row.get("passed"):
            passed.append([_test_name(row), *_cells(row, "test", "gold")])
        else:
            yield _failed_test(row)
    if passed:
        yield Grid("tests that passed", ("", "test", "gold"), passed)
    if (output := outcomes.pop("output", None)) is not None:
        yield Diff("output of the tests", str(output))
    if outcomes:
        yield Diff("other outcomes", json.dumps(outcomes, indent=2, ensure_ascii=False))


def _answers(outcomes: dict[str, Any], where: str) -> Iterator[Sides]:
    """Yield both answers, and the rows which the record lists as differing (missing, extra) and
    neither shows. The record marks the rows, as the reward compared all of them; an older one lists
    some of those that differ. Without a list, lines are compared."""
    gold, agent = outcomes.pop("gold", None), outcomes.pop("agent", None)
    missing, extra = outcomes.pop("missing", None), outcomes.pop("extra", None)
    expected, answered = list(_lines(gold)), list(_lines(agent))
    if gold is None:
        if agent is not None:
            title = "answer"
            if isinstance(agent, Mapping) and "submitted" in agent:  # a flag, which is kept secret
                title += " (the record leaves the gold's out)"
            yield Sides(title, {"agent": _split(answered)})
        return
    gold_texts, agent_texts = [line.text for line in expected], [line.text for line in answered]
    alone = Counter(gold_texts), Counter(agent_texts)
    title = f"{where}answers"
    if alone[0] == alone[1] and gold_texts != agent_texts and not _has("rows_total", gold, agent):
        title += ": the same lines in another order"
    missing_rows, extra_rows = _rows(missing), _rows(extra)
    if not _has("unmatched", gold, agent):
        alone = alone[0] - alone[1], alone[1] - alone[0]
        if missing is not None:
            alone = Counter(missing_rows), Counter(extra_rows)
        expected, answered = _marked(gold_texts, alone[0]), _marked(agent_texts, alone[1])
    yield Sides(title, {"gold": _split(expected), "agent": _split(answered)})
    hidden = {"gold": _hidden(missing_rows, gold_texts), "agent": _hidden(extra_rows, agent_texts)}
    if any(hidden.values()):
        yield Sides(f"{where}other rows that differ", hidden)


def _test_name(row: Mapping[str, Any]) -> str:
    """Return the name of a test, with its number in the record; older runs have no numbers."""
    return f"test {row.get('number', '')}".rstrip() + " (hidden)" * bool(row.get("hidden"))


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


def _lines(side: object) -> Iterator[Line]:
    """Yield the lines of an answer: a text, an error, or rows of a table; anything else as JSON.
    Rows that the record calls unmatched are marked."""
    if not isinstance(side, Mapping):
        if side is not None:
            yield Line(str(side))
        return
    rest = dict(side)
    yield from map(Line, str(rest.pop("answer", "")).splitlines())
    if error := rest.pop("error", None):
        yield from map(Line, f"error: {error}".splitlines())
    yield from map(Line, _rows(rest.pop("columns", None) and [side["columns"]]))
    rows, unmatched = _rows(rest.pop("rows", ())), _listed(rest.pop("unmatched", ()))
    for place, row in enumerate(rows):
        yield Line(row, place in unmatched)
    if isinstance(total := rest.pop("rows_total", None), int):
        yield Line(f"… {count_of(total - len(rows), 'more row')}")
    if "submitted" in rest:
        yield Line(str(rest.pop("submitted")) or "(nothing)")
    if rest:
        yield from map(Line, json.dumps(rest, indent=2, ensure_ascii=False).splitlines())


def _split(lines: Sequence[Line]) -> list[Line]:
    """Return the lines; a row whose cells have line ends becomes several, with the same mark."""
    pieces = []
    for text, alone in lines:
        pieces += [Line(piece, alone) for piece in text.split("\n")]
    return pieces


def _has(key: str, *sides: object) -> bool:
    return any(isinstance(side, Mapping) and key in side for side in sides)


def _rows(rows: object) -> list[str]:
    return [" | ".join(map(_cell, _listed(row))) for row in _listed(rows)]


def _cell(value: object) -> str:
    return "NULL" if value is None else str(value)


def _cells(row: Mapping[str, Any], *names: str) -> list[str]:
    return [str(row.get(name, "")) for name in names]


def _records(value: object) -> list[Mapping[str, Any]]:
    return [row for row in _listed(value) if isinstance(row, Mapping)]


def _listed(value: object) -> Sequence[Any]:
    if isinstance(value, list | tuple):
        return value
    return () if value is None else (value,)


def _hidden(rows: Sequence[str], shown: Sequence[str]) -> list[Line]:
    return _split([Line(row, True) for row in rows if row not in shown])


def _marked(lines: Sequence[str], alone: Counter[str]) -> list[Line]:
    """Return the lines, with a mark at those that `alone` counts."""
    marked = []
    for line in lines:
        alone[line] -= 1
        marked.append(Line(line, alone[line] >= 0))
    return marked
