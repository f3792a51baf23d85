"""HTML of an episode: its turns and its verdict, for the page of `report --html` and for `intercode
view`.

Episodes contain whatever agents and programs printed. Every text passes `text` or `code`, which
escape HTML and make control characters and bidirectional marks visible; long texts are cut, with a
link to the whole if there is one. transcript.css has the styles.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from intercode.language import Language
from intercode.report.text import visible
from intercode.report.transcript import (
    MARKS,
    Block,
    Diff,
    EpisodeVerdict,
    FailedTest,
    Grid,
    Line,
    ShownTurn,
    Sides,
    State,
    content_of,
)
from intercode.types import Message

LONGEST = 2_000
"""Characters of a text that a page shows."""
_LINES = 200
"""Lines of an answer that a verdict shows."""

Whole = Callable[[int, str], str]
"""Returns the address of a whole text: (number of the turn, "action", "observation", …) → URL."""


def text(value: object) -> str:
    """Return a text as harmless HTML."""
    return escape(visible(str(value)))


def code(source: str, language: Language) -> str:
    """Return code as HTML, with a class for each kind of token if pygments knows the language."""
    from pygments import highlight  # imports much

    lexer, formatter = _highlighter(language.fence)
    return highlight(visible(source), lexer, formatter).rstrip("\n") if lexer else text(source)


@functools.cache
def _highlighter(name: str) -> tuple[Any, Any]:
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_by_name(name, stripnl=False)
    except ClassNotFound:
        lexer = None
    return lexer, HtmlFormatter(nowrap=True, classprefix="c-")


def mark(state: State) -> str:
    """Return the sign of a result, with its name for screen readers."""
    return (
        f'<span class="mark {state}" role="img" aria-label="{state}" '
        f'title="{state}">{MARKS[state]}</span>'
    )


def bounded(value: str, show: Callable[[str], str] = text, whole: str | None = None) -> str:
    """Return `value` through `show`; of a long text the beginning and the end, and a link to all of
    it if `whole` is its address."""
    if len(value) <= LONGEST:
        return show(value)
    head, tail = value[: LONGEST * 3 // 4], value[-LONGEST // 4 :]
    link = f' · <a href="{escape(whole)}">whole text</a>' if whole else ""
    gap = (
        f'<span class="gap">… {len(value) - len(head) - len(tail):,} characters left '
        f"out{link} …</span>"
    )
    return f"{show(head)}\n{gap}\n{text(tail)}"


def turn(
    step: ShownTurn, language: Language, whole: Whole = lambda number, part: "", anchor: str = "t"
) -> str:
    """Return a turn: facts, new messages folded, thought, action, output. Its id is `anchor` and
    its number."""
    now, number = step.turn, step.number

    def pre(kind: str, label: str, value: str, show: Callable[[str], str] = text) -> str:
        return (
            f'<pre class="{kind}" '
            f'aria-label="{label}">{bounded(value, show, whole(number, kind))}</pre>'
        )

    facts = "".join(f'<span class="fact">{text(fact)}</span>' for fact in step.facts)
    parts = [
        f'<header><a class="number" href="#{anchor}{number}">{step.title}</a> {facts}</header>'
    ]
    if step.messages:
        parts.append(_messages(step.messages))
    if reasoning := step.reasoning:
        parts.append(
            f"<details><summary>reasoning ({len(reasoning):,} characters)</summary>"
            f"{pre('reasoning', 'reasoning', reasoning)}</details>"
        )
    if thought := step.thought:
        parts.append(f'<p class="thought">{bounded(thought, text, whole(number, "thought"))}</p>')
    if now.action is not None:
        parts.append(pre("action", "action", now.action, lambda source: code(source, language)))
    shown = {thought, (now.action or "").strip()}
    if now.reply is not None and now.action is None and step.reply not in shown:
        parts.append(pre("reply", "reply without an action", step.reply))
    elif now.reply is not None and now.action is not None and now.reply.strip() not in shown:
        parts.append(
            f"<details><summary>whole reply</summary>{pre('reply', 'reply', now.reply)}</details>"
        )
    for call in now.calls or ():
        arguments = bounded(call.arguments)
        parts.append(
            f"<details><summary>call of {text(call.name)}</summary><pre>{arguments}</pre></details>"
        )
    if now.asked is not None:
        parts.append('<p class="quiet">the user:</p>')
    if now.observation:
        label = "output" if now.asked is None else "reply of the user"
        parts.append(pre("observation", label, now.observation))
    elif now.action is not None and step.kind != "submission":
        parts.append('<p class="quiet">(no output)</p>')
    return (
        f'<article class="turn {step.kind}{" solved" if step.solved else ""}" '
        f'id="{anchor}{number}" tabindex="-1" aria-label="{step.title}">{"".join(parts)}</article>'
    )


def _messages(messages: Sequence[Message]) -> str:
    title = f"{len(messages)} new message{'s' if len(messages) > 1 else ''} to the model"
    body = "".join(
        f"<h4>{text(message['role'])}</h4><pre>{bounded(content_of(message))}</pre>"
        for message in messages
    )
    return f'<details class="messages"><summary>{title}</summary>{body}</details>'


def verdict(result: EpisodeVerdict, language: Language) -> str:
    """Return the result of an episode, and why; tests are in `language`."""
    notes = "".join(f"<p>{bounded(note)}</p>" for note in result.notes)
    blocks = "".join(_block(block, language) for block in result.blocks)
    return (
        f'<section class="verdict {result.state}" aria-label="verdict"><h2>{mark(result.state)} '
        f"{text(result.headline)}</h2>{notes}{blocks}</section>"
    )


def commands(gold: str, action: str, language: Language) -> str:
    """Return the gold's command next to the agent's final action, folded."""
    sides = "".join(
        f"<div><h4>{name}</h4><pre>{bounded(value, lambda part: code(part, language))}</pre></div>"
        for name, value in {"gold": gold, "agent": action or "(no action)"}.items()
    )
    return (
        "<details><summary>the gold's command and the agent's final action</summary>"
        f'<div class="sides">{sides}</div></details>'
    )


def _block(block: Block, language: Language) -> str:
    match block:
        case Sides():
            both = {"gold": block.gold, "agent": block.agent}
            sides = "".join(
                f"<div><h4>{name}</h4>{_lines(lines)}</div>"
                for name, lines in both.items()
                if lines is not None
            )
            body = f'<div class="sides">{sides}</div>'
        case Grid():
            head = "".join(
                f'<th scope="col">{text(name)}</th>' if name else "<td></td>"
                for name in block.columns
            )
            rows = "".join(
                f"<tr>{''.join(f'<td>{bounded(cell)}</td>' for cell in row)}</tr>"
                for row in block.rows
            )
            body = (
                f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
                f"<tbody>{rows}</tbody></table></div>"
            )
        case FailedTest():
            facts = "".join(
                f"<dt>{text(name)}</dt><dd><pre>{bounded(value or '(nothing)')}</pre></dd>"
                for name, value in block.facts.items()
            )
            source = bounded(block.text, lambda part: code(part, language))
            body = f"<pre>{source}</pre>" * bool(block.text) + f'<dl class="facts">{facts}</dl>'
        case Diff():
            body = f"<pre>{_diff(block.text)}</pre>"
    return f"<h3>{text(block.title)}</h3>{body}"


def _lines(lines: Sequence[Line]) -> str:
    if not lines:
        return '<p class="quiet">(nothing)</p>'
    content = "\n".join(
        f"<mark>{text(line.text)}</mark>" if line.alone else text(line.text)
        for line in lines[:_LINES]
    )
    more = (
        f'\n<span class="gap">… {len(lines) - _LINES:,} more lines</span>'
        if len(lines) > _LINES
        else ""
    )
    return f"<pre>{content}{more}</pre>"


def _diff(value: str) -> str:
    kinds = {"+": "added", "-": "removed", "@": "place"}
    lines = value[: 10 * LONGEST].splitlines()
    return "\n".join(
        f'<span class="{kinds[line[0]]}">{text(line)}</span>' if line[:1] in kinds else text(line)
        for line in lines
    )
