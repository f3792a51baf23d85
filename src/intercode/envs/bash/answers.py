"""Compare two printed answers, ignoring formatting noise, and name the rule that decided.

Always noise: `\\r` at line ends; whitespace at the start and end; runs of spaces and tabs; empty
lines in a list; a leading `./`; a slash at the end of a path; punctuation after a line number. If
the query is about spaces, empty lines or slashes, only spaces at the end of a line are noise.

Other differences are accepted under these rules, which may be combined:

    paths below a folder    a folder that the task names is removed from the paths on both sides
    columns of ls -l        the columns before a name in `ls -l` are removed from the agent's lines
    signs between words     `,` `:` `=` etc. in the agent's lines become spaces, and 1,234 is 1234
    a sentence around it    a sentence, title or column is removed from the agent's (`wording`)
    other line breaks       one line, or one word per line, is split over more or fewer lines

Never noise: letters, digits, case, the number of equal lines, and the order if the query asks for
one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain

from intercode.envs.bash.wording import (
    FORM,
    about_the_answer,
    asks_alone,
    asks_for_order,
    fixes_lines,
    in_case_of_choice,
    without_extras,
    without_file_sentences,
    without_listing,
)
from intercode.types import Task

Lines = list[str]

_INVISIBLE = re.compile(
    r"[^\S \t\n]|[\x00-\x08\x0e-\x1f\x7f-\x9f\xad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]"
)
_TIMES, _ROOM = 4, 1 << 18
"""An answer longer than `_TIMES` times the gold's plus `_ROOM` characters is refused unread."""
_SPACES = re.compile(
    r"white ?space|\bblanks?\b|(?<!disk )(?<!free )\bspaces?\b(?!"
    r" (used|left|available|usage))|\btabs?\b|indent|\btrim|\bstrip"
    r"|\bpad|\balign|squeeze|\bempty lines?|new ?lines?|line"
    r" breaks?|\bfold(ed|ing)?\b|\bwrap|width|leading|trailing|justif"
    r"|\bcent(er|re)|\bslash",
    re.IGNORECASE,
)
_TRAILING = re.compile(
    r"trailing|\btrim|\bstrip|\bpad|\balign|justif|\bends? of|\bwidth", re.IGNORECASE
)
_GIVES_SEPARATOR = re.compile(
    r"(?-i:\b[A-Z]{2,}[^\w\s`'\"/.]+[A-Z]{2,}\b)"
    r"|colon|\bformat|separat|delimit|\bcommas?\b|\bparted\b",
    re.IGNORECASE,
)
_PATHS = re.compile(
    r"absolute|\bslash|\bno (folder|dir|path)|(begin|start)\w* with /"
    r"|(full|complete|entire) ?(file ?)?(path|name)|relative|base ?name|\bwhere\b|locat"
    r"|(only|just) (the |their )?(file ?)?names?|names? only"
    r"|(without|not) (the |their |its )?(leading |full )?(dir|path|folder)",
    re.IGNORECASE,
)
_NAMED_PATH = re.compile(r"(?<![\w./~$-])(?:\./|/)?[\w.@+-]+(?:/[\w.@+-]+)*")
_LINE_END = re.compile(r"\r(?:\n|\Z)")
_BLANKS = re.compile(r"[ \t]+")
_NOISE = [
    (re.compile(r"(?<![^ '\"(=])\./+(?=[^ /])"), ""),
    (re.compile(r"(?<=[\w.-])/(?= |:|$)"), ""),
    (re.compile(r"^(\d+)[:.)] ?(?=\D)"), r"\1 "),
]
_THOUSANDS = re.compile(r"(?<![\w.,])\d{1,3}(,\d{3})+(?![\w,])")
_LETTER = re.compile(r"\w")
_SEPARATOR = re.compile(r" *(?:[,;|]|(?<![!<>=~])=(?![=~])|->|(?<!\d):|:(?!\d)) *")


@dataclass(frozen=True, slots=True)
class Ruling:
    """The verdict on an answer, and the rules that accepted it or the reason for refusal."""

    accepted: bool
    rule: str


@dataclass(frozen=True, slots=True)
class _Reading:
    """Both answers as lines without noise, and the names of the rules that were applied."""

    agent: Lines
    gold: Lines
    rules: tuple[str, ...] = ()


def compare_answers(agent: str, gold: str, task: Task) -> Ruling:
    """Return whether the agent's output equals the gold's, ignoring noise, and the rule."""
    if agent == gold:
        return Ruling(True, "same output")
    agent = in_case_of_choice(agent, gold, task.query)
    if len(agent) > _TIMES * len(gold) + _ROOM:
        return Ruling(False, "a much longer output")
    agent = _LINE_END.sub("\n", agent)
    gold = _LINE_END.sub("\n", gold)
    if hides(agent, gold):
        return Ruling(False, "hidden characters")
    if gold.strip() and not agent.strip():
        return Ruling(False, "no output")
    ordered = asks_for_order(task)
    exact = bool(_SPACES.search(without_file_sentences(task.query)))
    lines = partial(_lines, query=task.query, ordered=ordered, exact=exact)
    plain = _Reading(lines(agent), lines(gold))
    counts_spaces = exact and any(
        not line or line != " ".join(line.split()) for line in plain.agent + plain.gold
    )
    for paths in chain([plain], _rebased(plain, task)):
        if _match(paths.agent, paths.gold, ordered):
            if paths.rules:
                return Ruling(True, ", ".join(paths.rules))
            if plain.agent == plain.gold:
                return Ruling(True, "same lines")
            return Ruling(True, "same lines in another order")
        if counts_spaces:
            continue
        for reading in _readings(paths, task):
            rule = _rule_for_extras(reading, ordered, task)
            if rule is not None:
                return Ruling(True, ", ".join(filter(None, (*reading.rules, rule))))
    return Ruling(False, _difference(plain, ordered, task))


def hides(agent: str, gold: str) -> bool:
    """Return whether the agent's text contains invisible characters (other than spaces, tabs and
    line ends) that the gold's does not."""
    return not set(_INVISIBLE.findall(agent)) <= set(_INVISIBLE.findall(gold))


def _difference(plain: _Reading, ordered: bool, task: Task) -> str:
    """Return why an answer is refused that no reading makes equal to the gold's."""
    agent = Counter(plain.agent)
    gold = Counter(plain.gold)
    if agent == gold:
        return "another order"
    # equal lines count once here
    agent_words = Counter(" ".join(agent).split())
    gold_words = Counter(" ".join(gold).split())
    if agent_words == gold_words:
        return "other blanks or line breaks"
    if agent < gold:
        return "missing lines"
    if gold_words <= agent_words:
        if asks_alone(task):
            return "more than the answer alone"
        return "other words around it"
    return "other lines"


def _match(a: Lines, b: Lines, ordered: bool) -> bool:
    return a == b if ordered else sorted(a) == sorted(b)


def _lines(text: str, query: str, ordered: bool, exact: bool) -> Lines:
    """Return the lines without noise."""
    if exact:
        lines = text.rstrip("\n").split("\n")
        if not _TRAILING.search(query):
            lines = list(map(str.rstrip, lines))
        return lines
    lines = []
    for line in text.split("\n"):
        plain = _BLANKS.sub(" ", line).strip(" ")
        for pattern, replacement in _NOISE:
            plain = pattern.sub(replacement, plain)
        lines.append(plain)
    if ordered:
        return "\n".join(lines).rstrip("\n").split("\n")
    return list(filter(None, lines))


def _rebased(plain: _Reading, task: Task) -> Iterator[_Reading]:
    """For each folder that the task names, yield both answers with paths relative to it, unless
    that makes two lines equal."""
    a, b = plain.agent, plain.gold
    named = {line for line in b if "/" in line}
    if not named and not any("/" in line for line in a):
        return
    if _PATHS.search(task.query) or not named.isdisjoint(task.query.split()):
        return
    folders = {"/"}  # every absolute path is below it
    for word in _NAMED_PATH.findall(f"{task.gold} {task.query}"):
        folder = ""
        for name in word.split("/"):
            if name not in ("", "."):
                folder += f"/{name}"
                folders.add(folder)
    for folder in sorted(folders):
        agent, gold = _relative(a, folder), _relative(b, folder)
        if (agent, gold) == (a, b):
            continue
        if len(set(agent)) == len(set(a)) and len(set(gold)) == len(set(b)):
            yield _Reading(agent, gold, ("paths below a folder",))


def _relative(lines: Lines, folder: str) -> Lines:
    """Return the lines with paths below the folder made relative to it.

    Other paths are unchanged, as is a top-level folder: `root` is not `/root`.
    """
    below, rest = rf"/?{re.escape(folder[1:])}/", "[^ /]"
    if folder == "/":
        below, rest = "/", "[^ /]+/[^ /]"
    path = re.compile(rf"(?<![^ :='\"(,]){below}(?={rest})")
    return [path.sub("", line) if "/" in line else line for line in lines]


def _readings(paths: _Reading, task: Task) -> Iterator[_Reading]:
    """Yield readings of both answers: unchanged, without the `ls -l` columns in the agent's, and
    with spaces for punctuation in the agent's."""
    yield paths
    answer = about_the_answer(task.query)
    if FORM.search(answer):
        return
    agent, gold = paths.agent, paths.gold
    bare = without_listing(agent, gold)
    if bare != agent:
        yield _Reading(bare, gold, (*paths.rules, "columns of ls -l"))
    gold_words = set(" ".join(gold).split())
    if _GIVES_SEPARATOR.search(answer) or not all(map(_LETTER.search, gold_words)):
        return

    def joined(number: re.Match[str]) -> str:
        """Return 1,234 as 1234 if the gold prints 1234."""
        digits = number[0].replace(",", "")
        return digits if digits in gold_words else number[0]

    plain = [_SEPARATOR.sub(" ", _THOUSANDS.sub(joined, line)).strip() for line in agent]
    if plain != agent:
        yield _Reading(plain, gold, (*paths.rules, "signs between words"))


def _rule_for_extras(reading: _Reading, ordered: bool, task: Task) -> str | None:
    """Return the rule under which the answers are equal once a sentence, a title or extra columns
    are removed from the agent's: "" if nothing is extra, None if they are not equal.

    If the gold prints one line, or one word per line, the agent may print the words on more or
    fewer lines, unless the query says what goes on a line.
    """
    if asks_alone(task):
        return None
    agent = without_extras(reading.agent, reading.gold, task.query)
    if agent is None:
        return None
    gold = [" ".join(line.split()) for line in reading.gold]
    if _match(agent, gold, ordered):
        return "" if _match(reading.agent, gold, ordered) else "a sentence around it"
    agent_words = " ".join(agent).split()
    gold_words = " ".join(gold).split()
    free = len(gold) in (1, len(gold_words)) and "" not in gold and not fixes_lines(task.query)
    if len(agent) == len(gold) or not free:
        return None
    same = _match(agent_words, gold_words, ordered or len(agent) != 1)
    return "other line breaks" if same else None
