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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from intercode.language import Language
from intercode.report.text import LONGEST, count_of, ends_of, one_line, visible
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
_SIGNS = {"gold": "-", "agent": "+"}
"""The signs of lines that the other side lacks."""


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
        result = verdict(episode)
        mark = MARKS[result.state], f"bold {COLOURS[result.state]}"
        title = f" task {visible(episode.task)}"
        if episode.epoch:
            title += f", epoch {episode.epoch}"
        yield Text.assemble(mark, (title, "bold"))
        yield self._text("  ", episode.query)
        tells_messages = not self.messages
        for _, same in groupby(steps(episode), self._shown_as):
            step, *repeats = same
            title = f"\n{step.title}"
            if (after := step.turn.after) is not None:
                origin = f"turn {after + 1}" if after >= 0 else "the beginning"
                title += f", continues {origin}"
            yield Text(title, "bold")
            if step.messages and tells_messages:
                tells_messages = False
                count = count_of(len(step.messages), "message")
                yield Text(f"  {count} to the model; --messages prints them", "dim")
            yield from self._turn(step)
            if repeats:
                numbers = ", ".join(str(step.number) for step in repeats)
                plural = "s" * (len(repeats) > 1)
                yield Text(f"  the same again in turn{plural} {numbers}", "dim")
        yield Text.assemble("\n", mark, (f" {visible(result.headline)}", "bold"))
        for note in result.notes:
            yield self._text("  ", note)
        for block in result.blocks:
            yield Text(f"\n  {visible(block.title)}", "bold")
            yield from self._block(block)
        if gold and result.state in FAILED:
            sources = {"agent's final action": last_action(episode), "gold's command": gold}
            for name, source in sources.items():
                yield Text(f"\n  {name}", "bold")
                yield _behind("  › ", "    ", self._code(source or "(none)"))
        yield Text()

    def _shown_as(self, step: ShownTurn) -> int:
        """Return the number of the turn with which a turn is printed."""
        return step.number if self.full or self.messages else step.same_as

    def _turn(self, step: ShownTurn) -> Iterator[Text]:
        turn = step.turn
        if self.messages:
            texts = [(str(message["role"]), content_of(message)) for message in step.messages]
            if reasoning := reasoning_of(turn):
                texts.append(("reasoning", reasoning))
            if turn.reply is not None:
                texts.append(("reply", turn.reply))
            for role, content in texts:
                yield Text(f"  {visible(role)}:", "dim bold")
                yield self._text("    ", content)
        else:
            if reasoning := step.reasoning:
                length = ""
                if not self.full:
                    if len(reasoning) > _REASONING:
                        length = f" ({len(reasoning):,} characters; --full prints them)"
                    reasoning = one_line(reasoning, _REASONING)
                yield self._text("  ", f"reasoning: {reasoning}{length}", "dim")
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
        code = self._cut(source).rstrip("\n")
        highlighted = Syntax(code, self.language.fence, theme="ansi_dark").highlight(code)
        highlighted.rstrip()
        return highlighted

    def _block(self, block: Block) -> Iterator[RenderableType]:
        match block:
            case Sides(_, sides) if self.wide and len(sides) > 1:
                table = Table(box=None, expand=True, padding=(0, 2, 0, 2), header_style="dim bold")
                for name in sides:
                    table.add_column(name, ratio=1, overflow="fold")
                table.add_row(*(self._side(name, lines) for name, lines in sides.items()))
                yield table
            case Sides(_, sides):
                for name, lines in sides.items():
                    if len(sides) > 1:
                        yield Text(f"  {name}", "dim bold")
                    yield self._side(name, lines, "  ")
            case Grid():
                table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 2))
                for column in block.columns:
                    table.add_column(Text(visible(column)), overflow="fold")
                for cells in block.rows:
                    table.add_row(*map(Text, map(self._cut, cells)))
                yield table
            case FailedTest():
                if block.text:
                    yield _behind("  › ", "    ", self._code(block.text))
                for name, value in block.facts.items():
                    shown = Text(self._cut(value.rstrip("\n") or "(nothing)"))
                    yield _behind(f"    {name}: ", f"    {' ' * len(name)}  ", shown)
            case Diff():
                rows = block.text.splitlines()
                yield self._lines(
                    Text(f"  {visible(row)}", _OF_DIFF.get(row[:1], "")) for row in rows
                )

    def _side(self, name: str, lines: Sequence[Line], indent: str = "") -> Text:
        """Return an answer; a sign precedes the lines that the other side lacks."""
        rows = []
        for line in lines:
            sign = _SIGNS[name] if line.alone else " "
            row = f"{indent}{sign} {self._cut(line.text)}"
            rows.append(Text(row, _OF_DIFF.get(sign, "")))
        return self._lines(rows or [Text(f"{indent}  (nothing)", "dim")])

    def _lines(self, lines: Iterable[Text]) -> Text:
        rows = list(lines)
        if not self.full and len(rows) > _LINES:
            more = f"  … {len(rows) - _LINES:,} more lines; --full prints them"
            rows[_LINES:] = [Text(more, "dim")]
        return Text("\n").join(rows)

    def _text(self, gutter: str, value: str, style: str = "") -> Text:
        return _behind(gutter, gutter, Text(self._cut(value).rstrip("\n"), style))

    def _cut(self, value: str) -> str:
        """Return a text, made visible; of a long one the beginning and the end."""
        if not self.full and len(value) > LONGEST:
            head, gap, tail = ends_of(value)
            value = f"{head}\n{gap}; --full prints them …\n{tail}"
        return visible(value)


def _behind(first: str, later: str, text: Text, style: str = "dim") -> Text:
    """Return the text with a gutter before each line."""
    lines, gutter = [], first
    for line in text.split("\n", allow_blank=True):
        lines.append(Text.assemble((gutter, style), line))
        gutter = later
    return Text("\n").join(lines)
