"""HTML of an episode: its turns and its verdict, for the page of `report --html` and for `intercode
view`.

Episodes contain whatever agents and programs printed. Every text passes `text` or `code`, which
escape HTML and make control characters and bidirectional marks visible; long texts are cut, with a
link to the whole if there is one. transcript.css has the styles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from html import escape
from typing import Any

from intercode.language import Language
from intercode.report.text import LONGEST, count_of, ends_of, visible
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


@cache
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


def bounded(value: str, show: Callable[[str], str] = text, whole: str = "") -> str:
    """Return `value` through `show`; of a long text the beginning and the end, and a link to all of
    it if `whole` is its address."""
    if len(value) <= LONGEST:
        return show(value)
    head, gap, tail = ends_of(value)
    if whole:
        gap += f' · <a href="{escape(whole)}">whole text</a>'
    return f'{show(head)}\n<span class="gap">{gap} …</span>\n{text(tail)}'


def turn(
    step: ShownTurn, language: Language, whole: Whole = lambda number, part: "", anchor: str = "t"
) -> str:
    """Return a turn: facts, new messages folded, thought, action, output. Its id is `anchor` and
    its number."""
    now, number, thought = step.turn, step.number, step.thought

    def pre(kind: str, label: str, value: str, show: Callable[[str], str] = text) -> str:
        content = bounded(value, show, whole(number, kind))
        return f'<pre class="{kind}" aria-label="{label}">{content}</pre>'

    facts = "".join(f'<span class="fact">{text(fact)}</span>' for fact in step.facts)
    html = f'<header><a class="number" href="#{anchor}{number}">{step.title}</a> {facts}</header>'
    if step.same_as != number:
        return _article(step, anchor, f'{html}<p class="quiet">the same as turn {step.same_as}</p>')
    if messages := step.messages:
        summary, content = f"{count_of(len(messages), 'new message')} to the model", ""
        for message in messages:
            content += f"<h4>{text(message['role'])}</h4><pre>{bounded(content_of(message))}</pre>"
        html += _folded(summary, content, ' class="messages"')
    if reasoning := step.reasoning:
        summary = f"reasoning ({len(reasoning):,} characters)"
        html += _folded(summary, pre("reasoning", "reasoning", reasoning))
    if thought:
        html += f'<p class="thought">{bounded(thought, text, whole(number, "thought"))}</p>'
    if now.action is not None:
        html += pre("action", "action", now.action, partial(code, language=language))
    shown = {thought, (now.action or "").strip()}
    if now.reply is not None:
        if now.action is None:
            if step.reply not in shown:
                html += pre("reply", "reply without an action", step.reply)
        elif now.reply.strip() not in shown:
            html += _folded("whole reply", pre("reply", "reply", now.reply))
    for call in now.calls or ():
        html += _folded(f"call of {text(call.name)}", f"<pre>{bounded(call.arguments)}</pre>")
    label = "output"
    if now.asked is not None:
        html += '<p class="quiet">the user:</p>'
        label = "reply of the user"
    if now.observation:
        html += pre("observation", label, now.observation)
    elif now.action is not None and step.kind != "submission":
        html += '<p class="quiet">(no output)</p>'
    return _article(step, anchor, html)


def _article(step: ShownTurn, anchor: str, html: str) -> str:
    return (
        f'<article class="turn {step.kind}{" solved" * step.solved}" '
        f'id="{anchor}{step.number}" tabindex="-1" aria-label="{step.title}">{html}</article>'
    )


def _folded(summary: str, content: str, attributes: str = "") -> str:
    return f"<details{attributes}><summary>{summary}</summary>{content}</details>"


def verdict(result: EpisodeVerdict, language: Language) -> str:
    """Return the result of an episode, and why; tests are in `language`."""
    html = f"<h2>{mark(result.state)} {text(result.headline)}</h2>"
    for note in result.notes:
        html += f"<p>{bounded(note)}</p>"
    for block in result.blocks:
        html += f"<h3>{text(block.title)}</h3>{_block(block, language)}"
    return f'<section class="verdict {result.state}" aria-label="verdict">{html}</section>'


def commands(gold: str, action: str, language: Language) -> str:
    """Return the gold's command next to the agent's final action, folded."""
    return _folded(
        "the gold's command and the agent's final action",
        _side_by_side(
            gold=command(gold, language), agent=command(action or "(no action)", language)
        ),
    )


def command(source: str, language: Language) -> str:
    return f"<pre>{bounded(source, partial(code, language=language))}</pre>"


def _side_by_side(**contents: str) -> str:
    sides = "".join(f"<div><h4>{name}</h4>{html}</div>" for name, html in contents.items())
    return f'<div class="sides">{sides}</div>'


def _block(block: Block, language: Language) -> str:
    match block:
        case Sides():
            return _side_by_side(**{name: _lines(lines) for name, lines in block.lines.items()})
        case Grid():
            head = rows = ""
            for name in block.columns:
                head += f'<th scope="col">{text(name)}</th>' if name else "<td></td>"
            for row in block.rows:
                rows += f"<tr>{''.join(f'<td>{bounded(cell)}</td>' for cell in row)}</tr>"
            return (
                f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
                f"<tbody>{rows}</tbody></table></div>"
            )
        case FailedTest():
            html = facts = ""
            if block.text:
                html = f"<pre>{bounded(block.text, partial(code, language=language))}</pre>"
            for name, value in block.facts.items():
                facts += f"<dt>{text(name)}</dt><dd><pre>{bounded(value or '(nothing)')}</pre></dd>"
            return f'{html}<dl class="facts">{facts}</dl>'
        case Diff():
            changed = map(_changed, block.text[: 10 * LONGEST].splitlines())
            return "<pre>" + "\n".join(changed) + "</pre>"


def _lines(lines: Sequence[Line]) -> str:
    if not lines:
        return '<p class="quiet">(nothing)</p>'
    rows = []
    for line in lines[:_LINES]:
        shown = text(line.text)
        rows.append(f"<mark>{shown}</mark>" if line.alone else shown)
    if len(lines) > _LINES:
        rows.append(f'<span class="gap">… {len(lines) - _LINES:,} more lines</span>')
    return "<pre>" + "\n".join(rows) + "</pre>"


def _changed(line: str) -> str:
    """Return a line of a diff."""
    kind = {"+": "added", "-": "removed", "@": "place"}.get(line[:1])
    return f'<span class="{kind}">{text(line)}</span>' if kind else text(line)
