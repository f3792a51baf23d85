"""A transcript for the terminal, as texts and tables for rich: header, turns, verdict.

    ✗ task 12, epoch 1
    turn 2, continues turn 1
      the thought
    › the action
    │ the output
      exit status 0 · 0.01 s

Texts are printed without wrapping, so that a long action can be copied whole. Control characters
are made visible everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from intercode.language import Language
from intercode.report.text import one_line, visible
from intercode.report.transcript import (
    FAILED,
    MARKS,
    Block,
    Diff,
    FailedTest,
    Grid,
    Line,
    ShownTurn,
    Sides,
    State,
    content_of,
    last_action,
    steps,
    verdict,
)
from intercode.types import Episode, reasoning_of

LONGEST = 2_000
"""Characters of a text that are printed, unless all are asked for."""
COLOURS: Mapping[State, str] = {
    "solved": "green",
    "failed": "red",
    "ambiguous": "yellow",
    "fault": "magenta",
    "unscored": "white",
}
_REASONING = 200
"""Characters of reasoning that are printed, unless all are asked for."""
_LINES = 60
"""Lines of an answer or a diff that are printed, unless all are asked for."""
_OF_DIFF = {"+": "green", "-": "red", "@": "cyan"}


@dataclass(frozen=True)
class Transcript:
    """How to print episodes in `language`: `full` texts, with the `messages` to the model,
    answers side by side if it is `wide`."""

    language: Language
    full: bool = False
    messages: bool = False
    wide: bool = False

    def of(self, episode: Episode, gold: str = "") -> Iterator[RenderableType]:
        """Yield the parts of an episode's transcript; if it failed, with the command of the
        `gold`."""
        result, all_steps = verdict(episode), steps(episode)
        epoch = f", epoch {episode.epoch}" if episode.epoch else ""
        yield Text.assemble(_mark(result.state), (f" task {visible(episode.task)}{epoch}", "bold"))
        yield self._text("  ", episode.query)
        first = next((step for step in all_steps if step.messages), None)
        for step in all_steps:
            after = step.turn.after
            origin = (
                ""
                if after is None
                else f", continues turn {after + 1}"
                if after >= 0
                else ", continues the beginning"
            )
            yield Text(f"\n{step.title}{origin}", "bold")
            if step is first and not self.messages:
                count = f"{len(step.messages)} message{'s' if len(step.messages) > 1 else ''}"
                yield Text(f"  {count} to the model; --messages prints them", "dim")
            yield from self._turn(step)
        yield Text.assemble("\n", _mark(result.state), (f" {visible(result.headline)}", "bold"))
        yield from (self._text("  ", note) for note in result.notes)
        for block in result.blocks:
            yield Text(f"\n  {visible(block.title)}", "bold")
            yield from self._block(block)
        if gold and result.state in FAILED:
            sources = {"agent's final action": last_action(episode), "gold's command": gold}
            for name, source in sources.items():
                yield Text(f"\n  {name}", "bold")
                yield _behind("  › ", "    ", self._code(source or "(none)"))
        yield Text()

    def _turn(self, step: ShownTurn) -> Iterator[Text]:
        turn = step.turn
        if self.messages:
            reasoning = reasoning_of(turn)
            replies = [("reasoning", reasoning)] if reasoning else []
            replies += [] if turn.reply is None else [("reply", turn.reply)]
            for role, content in [
                *((str(message["role"]), content_of(message)) for message in step.messages),
                *replies,
            ]:
                yield Text(f"  {visible(role)}:", "dim bold")
                yield self._text("    ", content)
        else:
            if reasoning := step.reasoning:
                shown = f"reasoning: {reasoning if self.full else one_line(reasoning, _REASONING)}"
                length = f" ({len(reasoning):,} characters; --full prints them)"
                cut = not self.full and len(reasoning) > _REASONING
                yield self._text("  ", shown + length * cut, "dim")
            if step.reply and turn.action is None:  # such as the open fence of one that was cut off
                yield self._text("  ", step.reply)
            elif step.thought:
                yield self._text("  ", step.thought, "italic")
        if self.messages or turn.action is None:
            for call in turn.calls or ():
                yield self._text("  ", f"call of {call.name}: {call.arguments}")
        if turn.action is not None:
            yield _behind("› ", "  ", self._code(turn.action), "bold")
        if turn.observation:
            yield self._text("│ " if turn.asked is None else "user │ ", turn.observation)
        elif turn.action is not None and step.kind != "submission":
            yield Text("  (no output)", "dim")
        if step.facts:
            yield Text(f"  {visible(' · '.join(step.facts))}", "dim")

    def _code(self, source: str) -> Text:
        code = visible(self._cut(source)).rstrip("\n")
        highlighted = Syntax(code, self.language.fence, theme="ansi_dark").highlight(code)
        highlighted.rstrip()
        return highlighted

    def _block(self, block: Block) -> Iterator[RenderableType]:
        match block:
            case Sides(gold=None):
                yield self._side(block.agent, "+")
            case Sides() if self.wide:
                table = Table(box=None, expand=True, padding=(0, 2, 0, 2), header_style="dim bold")
                for name in ("gold", "agent"):
                    table.add_column(name, ratio=1, overflow="fold")
                table.add_row(
                    self._side(block.gold or (), "-", ""), self._side(block.agent, "+", "")
                )
                yield table
            case Sides():
                for name, lines, sign in (
                    ("gold", block.gold or (), "-"),
                    ("agent", block.agent, "+"),
                ):
                    yield Text(f"  {name}", "dim bold")
                    yield self._side(lines, sign)
            case Grid():
                table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 2))
                for column in block.columns:
                    table.add_column(Text(visible(column)), overflow="fold")
                for cells in block.rows:
                    table.add_row(*(Text(visible(self._cut(cell))) for cell in cells))
                yield table
            case FailedTest():
                if block.text:
                    yield _behind("  › ", "    ", self._code(block.text))
                for name, value in block.facts.items():
                    shown = visible(self._cut(value.rstrip("\n") or "(nothing)"))
                    yield _behind(f"    {name}: ", f"    {' ' * len(name)}  ", Text(shown))
            case Diff():
                rows = block.text.splitlines()
                yield self._lines(
                    [Text(f"  {visible(row)}", _OF_DIFF.get(row[:1], "")) for row in rows]
                )

    def _side(self, lines: Sequence[Line], sign: str, indent: str = "  ") -> Text:
        """Return an answer; `sign` precedes the lines that the other side lacks."""
        return self._lines(
            [
                Text(
                    f"{indent}{sign if line.alone else ' '} {visible(self._cut(line.text))}",
                    _OF_DIFF[sign] * line.alone,
                )
                for line in lines
            ]
            or [Text(f"{indent}  (nothing)", "dim")]
        )

    def _lines(self, lines: Sequence[Text]) -> Text:
        if not self.full and len(lines) > _LINES:
            lines = [
                *lines[:_LINES],
                Text(f"  … {len(lines) - _LINES:,} more lines; --full prints them", "dim"),
            ]
        return Text("\n").join(lines)

    def _text(self, gutter: str, value: str, style: str = "") -> Text:
        return _behind(gutter, gutter, Text(visible(self._cut(value)).rstrip("\n"), style))

    def _cut(self, value: str) -> str:
        """Return the beginning and the end of a long text."""
        if self.full or len(value) <= LONGEST:
            return value
        head, tail = value[: LONGEST * 3 // 4], value[-LONGEST // 4 :]
        return (
            f"{head}\n… {len(value) - len(head) - len(tail):,} characters left out; "
            f"--full prints them …\n{tail}"
        )


def _behind(first: str, later: str, text: Text, style: str = "dim") -> Text:
    """Return the text with a gutter before each line."""
    lines = text.split("\n", allow_blank=True)
    return Text("\n").join(
        Text.assemble((later if at else first, style), line) for at, line in enumerate(lines)
    )


def _mark(state: State) -> tuple[str, str]:
    return MARKS[state], f"bold {COLOURS[state]}"
