"""Lint rules for Bash tasks: names, numbers and actions that only the query or only the gold
contains, and dependence on the network, the clock or the machine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from intercode.envs.bash.english import is_english
from intercode.envs.lint import Cue, disagrees, named, quoted, unheeded
from intercode.types import Task, TaskIssue

_START = r"(?:^|[|;&(`]|\bxargs(?:\s+-\S+)*)\s*"
"""The text before a command's name."""
_PATH = re.compile(r"(?<![\w.*?\]}\\$~)/-])/[\w+-][\w.+-]*(?:/[\w.+-]+)*")
_EXAMPLE = re.compile(r"/[A-Z]+(?=/|$)|/[a-z](?=/|$)")
"""A component of an example path, such as `/X` or `/a`."""
_PROGRAM = re.compile(
    r"""'[^']*[$^{}\\*\[|;@#()!][^']*'|"s[/@#,|][^"]*"|\bs([/@#,|])[^\s]*?\1[^\s]*?\1"""
)
"""Text that looks like a sed, awk or grep program, which contains no paths."""
_SYSTEM = re.compile(r"/(dev|proc|sys|bin|sbin|usr|etc|var|tmp|root|home|opt|run)\b")
_NETWORK = re.compile(
    _START + r"(?:sudo\s+)?"
    r"((?:curl|wget|ping6?|dig|host|nslookup|ssh|scp|ftp|telnet|traceroute|whois)\s+\S.*)"
)
_LOCAL = re.compile(r"localhost|127\.0\.0\.1|::1\b")
_MOMENT = re.compile(
    _START + r"(date|w|who|users|uptime|last|ps|pstree|top|free|df|uname|mktemp|shuf|cal(?!.*\d{4})"
    r"|nproc|lscpu|lsblk|hostid|arch|getconf)(?=\s|$|[|;)`])"
    r"|\s(-(?:daystart|[acm](?:time|min)))\b|(\$RANDOM|\$\$)|(?<![&>])(&)\s*$|(/proc/\w+)"
    r"|(\bstat\s[^|;]*%[iXxZzWwdD]|\bls\s+-\w*i|-printf[^|;]*%[iAC])"
)
_ASSIGNED = re.compile(r"\b([A-Z][A-Z_]+)=|\bread (?:-\w+ )*([A-Z][A-Z_]+)|\bfor ([A-Z][A-Z_]+) in")
_VARIABLE = re.compile(r"\$\{?([A-Z][A-Z_]+)\b")
_KNOWN = re.compile(
    r"(HOME|PATH|(OLD)?PWD|USER|SHELL|HOST(NAME|TYPE)|RANDOM|IFS|E?UID|P?PID|BASH.*|SECONDS|TERM"
    r"|LANG|O?[FR]S|N[RF]|TMPDIR)$"
)
"""Variables that a shell or awk sets."""
_AMOUNT = re.compile(
    r"\b(?:first|last|top|than|biggest|largest|smallest|oldest|newest) (\d+)\b(?![.,:/-]\d)",
    re.IGNORECASE,
)
"""Numbers that the gold must contain; others may be computed by the command."""
_WRITES = re.compile(r"(?:\btee\s+(?:-a\s+)?|(?<![0-9&>=-])>>?\s*)([\w./+-]*\w)")
_CUES = (
    Cue(
        r"(^|and )counts? |^(print|display|show|find|get) the number of \w*s\b",
        r"\bwc\b|\s-\w*[cn]\b|\bNR\b|\+\+|\+=|count|length|\bnl\b|\$\d - |-links|seq|\bnproc\b"
        r"|lscpu|getconf|/proc/",
        "no counting",
    ),
    Cue(
        r"case.?insensitiv|any cased?\b|ignor\w+ case",
        r"\s-\w*i|-iregex|tolower|toupper|\bsort -\w*f|IGNORECASE",
        "no such option",
    ),
    Cue(
        r"\bsort(ed|s|ing)?\b|\b(de|a)scending\b",
        r"sort|\bls\b|\btac\b|\bcomm\b|\btree\b",
        "no sorting",
    ),
    Cue(
        r"\bsymbol\w+ link|\bsymlink|\bsoft link",
        r"\bln\b.*\s-\w*s|--symbolic|-x?type l|readlink|\bcp -\w*s",
        "no symbolic link",
    ),
    Cue(r"\bmd5", r"md5", "no md5"),
    Cue(
        r"\bcopy (all|the|every|each|files?)\b|^copies\b",
        r"\bcp\b|cpio|rsync|\binstall\b|\btar\b|mkdir|\bdd\b|\bcat\b",
        "nothing that copies",
    ),
    Cue(r"\bmove (all |the )?(files|dir)", r"\bmv\b|rsync|rename", "nothing that moves"),
    Cue(
        r"\b(delete|remove) (all |the |empty )*(files|director|folders)",
        r"\brm|-delete|unlink|rsync",
        "nothing that removes",
    ),
    Cue(r"\bin parallel\b", r"-P|parallel|&", "nothing parallel"),
    Cue(
        r"\b(unique|duplicates?)\b",
        r"uniq|\s-\w*u|awk|comm|diff|md5",
        "nothing that finds duplicates",
    ),
)


def lint(task: Task) -> Iterator[TaskIssue]:
    query, gold = task.query, task.gold
    if not is_english(query) and not {"order_counts", "answer_form"} <= task.extra.keys():
        why = "is not English, so order counts, and nothing but the answer is accepted"
        yield TaskIssue(f"the query {why}; `order_counts` and `answer_form` decide", "not_english")
    yield from _environment(gold, reaches=bool(task.extra.get("services")))
    yield from _paths(query, gold)
    yield from _words(query, gold)
    yield from unheeded(_CUES, query, gold)
    yield from _unasked(query, gold)


def _environment(gold: str, *, reaches: bool) -> Iterator[TaskIssue]:
    """Yield what the command depends on besides files: network, clock, machine, variables."""
    if (call := _NETWORK.search(gold)) and not (reaches or _LOCAL.search(gold)):
        yield TaskIssue(f"needs the network ({call[1]:.60})", "needs_network")
    if moment := _MOMENT.search(gold):
        what = next(filter(None, moment.groups()))
        yield TaskIssue(f"the answer depends on the moment or the machine ({what})", "unstable")
    bound = set()
    for names in _ASSIGNED.findall(gold):
        bound.update(names)
    for name in sorted({*_VARIABLE.findall(gold)} - bound):
        if not _KNOWN.match(name):
            yield TaskIssue(f"gold uses ${name}, which nothing sets", "missing")
    if re.search(r"^\s*(echo|printf)\s[^$`|;&<>]*$", gold):
        yield TaskIssue("the gold prints a constant", "by_luck")


def _paths(query: str, gold: str) -> Iterator[TaskIssue]:
    """Yield paths that only the query or only the gold names."""
    named_paths = _paths_in(query)
    used = _paths_in(_PROGRAM.sub(" ", gold))
    for path in sorted(named_paths):
        if _used(path, gold):
            continue
        wider = any(path.startswith(f"{folder}/") for folder in used)
        if (wider or used <= named_paths) and not _EXAMPLE.search(path):
            yield disagrees(f"query names {path}, which the gold does not")
        elif other := _neighbour(path, used, query):
            yield disagrees(f"query names the file {path}, the gold uses {other} instead")
    for path in sorted(used):
        if not _SYSTEM.match(path) and not _is_word(path.split("/")[1], query):
            yield disagrees(f"gold names {path}, which the query does not")
    if (
        named_paths
        and re.search(r"\bfind(\s+[\w/]+)*\s+/\s", gold)
        and not re.search(r"\broot\b|system|machine", query)
    ):
        yield disagrees("gold searches all of /, which the query does not ask")


def _neighbour(path: str, used: set[str], query: str) -> str | None:
    """Return another file with the same folder and suffix that the gold uses in place of `path`, if
    the query does not name it."""
    folder, suffix = path.rpartition("/")[0], PurePosixPath(path).suffix
    for other in sorted(used) if suffix else ():
        other_folder, _, name = other.rpartition("/")
        alike = other_folder == folder and PurePosixPath(other).suffix == suffix
        if alike and not _is_word(name, query):
            return other
    return None


def _paths_in(text: str) -> set[str]:
    return {path.rstrip(".") for path in _PATH.findall(re.sub(r"[\"'`]", " ", text))}


def _used(path: str, gold: str) -> bool:
    """Return whether the gold names the path: in full, relative, or with the folder and the name
    (or the name and the suffix) apart."""
    name = path.strip("/")
    for sign in "/.":
        first, _, last = name.rpartition(sign)
        if first and _is_word(first, gold) and (sign == "." or _is_word(last, gold)):
            return True
    return _is_word(name, gold)


def _is_word(name: str, text: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text, re.IGNORECASE) is not None


def _words(query: str, gold: str) -> Iterator[TaskIssue]:
    bare = re.sub(r"[\\*\s]", "", gold).lower()
    for word in quoted(query):
        plain = re.sub(r"[\\*\s]", "", word).lower().strip("/.")
        if plain and plain not in bare and "/" not in plain:
            yield disagrees(f"query quotes {word!r}, which the gold does not contain")
    for number in map(float, _AMOUNT.findall(query)):
        usual = number == 10 and re.search(r"\bhead\b|\btail\b", gold)
        if number > 1 and not usual and not named(number, gold):
            yield disagrees(f"query names the number {number:g}, which the gold does not contain")


def _unasked(query: str, gold: str) -> Iterator[TaskIssue]:
    """Yield actions of the gold that the query does not ask for."""
    low = query.lower()
    for name in _WRITES.findall(_PROGRAM.sub(" ", gold)):
        if "/" not in name and not name.isdigit() and name.lower() not in low:
            yield disagrees(f"gold writes the file {name}, which the query does not name")
    if re.search(r"(largest|smallest|biggest)\s(\w+\s)?files?", low) and re.search(
        r"\bls -\w*s\b|\bdu (?!.*-\w*b)", gold
    ):
        yield disagrees(
            "query asks for the size of files, the gold takes the disk space they occupy"
        )
    if "-maxdepth 1" in gold and not re.search(
        r"sub|depth|level|only|direct(ly)?\b|immediate|current|recurs|do not", low
    ):
        yield disagrees("gold looks at one level only (-maxdepth 1), but the query does not say so")
    if re.search(r"\bgrep -\w*i|-iname|-iregex", gold) and not re.search(r"case", low):
        yield disagrees("gold ignores case, but the query does not say so")
    files = re.search(r"\bfiles?\b(?! path)", low)
    search = re.search(r"\bfind\b[^|]*", gold)
    if search is None:
        return
    asks_folders = re.search(
        r"\b(all|each|every|empty|of|largest|the|any) (\w+ )?(directories|folders|dirs)\b"
        r"|directories",
        low,
    )
    if "-type f" in search[0] and asks_folders and not files:
        yield disagrees("query asks for folders, but the gold searches for files")
    if "-type d" in search[0] and files and not asks_folders and "name" not in search[0]:
        yield disagrees("query asks for files, but the gold searches for folders")
    narrow = re.search(r"-type|-x?type|name|-path|-regex|\bgrep\b|-prune|-exec (?!ls)", gold)
    if files and not asks_folders and not narrow and "printf" not in gold:
        yield disagrees("query asks for files, but the gold also takes folders")
