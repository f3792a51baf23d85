"""Rules for Bash: what a query and its command name, and on what the command's output depends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from intercode.envs.lint import Cue, disagrees, named, quoted, unheeded
from intercode.tasks.issues import TaskIssue
from intercode.types import Task

_START = r"(?:^|[|;&(`]|\bxargs(?:\s+-\S+)*)\s*"
"""Where a command's name stands."""
_PATH = re.compile(r"(?<![\w.*?\]}\\$~)/-])/[\w+-][\w.+-]*(?:/[\w.+-]+)*")
_EXAMPLE = re.compile(r"/[A-Z]+(?=/|$)|/[a-z](?=/|$)")
"""A part that stands for others."""
_PROGRAM = re.compile(r"""'[^']*[$^{}\\*\[|;@#()!][^']*'|"s[/@#,|][^"]*"|\bs([/@#,|])[^\s]*?\1[^\s]*?\1""")
"""What looks like a program of sed, awk or grep: paths in it are none."""
_SYSTEM = re.compile(r"/(dev|proc|sys|bin|sbin|usr|etc|var|tmp|root|home|opt|run)\b")
_NETWORK = re.compile(
    _START + r"(?:sudo\s+)?((?:curl|wget|ping6?|dig|host|nslookup|ssh|scp|ftp|telnet|traceroute|whois)\s+\S.*)"
)
_LOCAL = re.compile(r"localhost|127\.0\.0\.1|::1\b")
_MOMENT = re.compile(
    _START + r"(date|w|who|users|uptime|last|ps|pstree|top|free|df|uname|mktemp|shuf|cal(?!.*\d{4})"
    r"|nproc|lscpu|lsblk|hostid|arch|getconf)(?=\s|$|[|;)`])"
    r"|\s(-(?:daystart|[acm](?:time|min)))\b|(\$RANDOM|\$\$)|(?<![&>])(&)\s*$|(/proc/\w+)"
    r"|(\bstat\s[^|;]*%[iXxZzWwdD]|\bls\s+-\w*i|-printf[^|;]*%[iAC])"
)
_VARIABLE = re.compile(r"\$\{?([A-Z][A-Z_]+)\b")
_KNOWN = re.compile(
    r"(HOME|PATH|(OLD)?PWD|USER|SHELL|HOST(NAME|TYPE)|RANDOM|IFS|E?UID|P?PID|BASH.*|SECONDS|TERM|LANG|O?[FR]S|N[RF]|TMPDIR)$"
)
"""Variables that a shell has, or awk."""
_AMOUNT = re.compile(r"\b(?:first|last|top|than|biggest|largest|smallest|oldest|newest) (\d+)\b(?![.,:/-]\d)", re.IGNORECASE)
"""Other numbers may be what the command looks for in a roundabout way."""
_WRITES = re.compile(r"(?:\btee\s+(?:-a\s+)?|(?<![0-9&>=-])>>?\s*)([\w./+-]*\w)")
_CUES = (
    Cue(
        r"(^|and )counts? |^(print|display|show|find|get) the number of \w*s\b",
        r"\bwc\b|\s-\w*[cn]\b|\bNR\b|\+\+|\+=|count|length|\bnl\b|\$\d - |-links|seq|\bnproc\b|lscpu|getconf|/proc/",
        "no counting",
    ),
    Cue(
        r"case.?insensitiv|any cased?\b|ignor\w+ case",
        r"\s-\w*i|-iregex|tolower|toupper|\bsort -\w*f|IGNORECASE",
        "no such option",
    ),
    Cue(r"\bsort(ed|s|ing)?\b|\b(de|a)scending\b", r"sort|\bls\b|\btac\b|\bcomm\b|\btree\b", "no sorting"),
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
    Cue(r"\b(delete|remove) (all |the |empty )*(files|director|folders)", r"\brm|-delete|unlink|rsync", "nothing that removes"),
    Cue(r"\bin parallel\b", r"-P|parallel|&", "nothing parallel"),
    Cue(r"\b(unique|duplicates?)\b", r"uniq|\s-\w*u|awk|comm|diff|md5", "nothing that finds equal ones"),
)


def doubts(task: Task) -> Iterator[TaskIssue]:
    query, gold = task.query, task.gold
    yield from _environment(gold)
    yield from _paths(query, gold)
    yield from _words(query, gold)
    yield from unheeded(_CUES, query, gold)
    yield from _unasked(query, gold)


def _environment(gold: str) -> Iterator[TaskIssue]:
    """What the command needs beyond its files."""
    if (call := _NETWORK.search(gold)) and not _LOCAL.search(gold):
        yield TaskIssue(f"needs the network ({call[1]:.60})", "needs_network")
    if moment := _MOMENT.search(gold):
        what = next(filter(None, moment.groups()))
        yield TaskIssue(f"the answer depends on the moment or the machine ({what})", "unstable")
    assigned = set(re.findall(r"\b([A-Z][A-Z_]+)=|\bread (?:-\w+ )*([A-Z][A-Z_]+)|\bfor ([A-Z][A-Z_]+) in", gold))
    bound = {name for names in assigned for name in names}
    for name in sorted({*_VARIABLE.findall(gold)} - bound):
        if _KNOWN.match(name):
            continue
        yield TaskIssue(f"gold uses ${name}, which nothing sets", "missing")
    if re.search(r"^\s*(echo|printf)\s[^$`|;&<>]*$", gold):
        yield TaskIssue("the gold prints a constant", "by_luck")


def _paths(query: str, gold: str) -> Iterator[TaskIssue]:
    """What the query names the gold does not pass over, nor act on what lies around it; it acts on no place of its own."""
    asked = _places(query)
    used = _places(_PROGRAM.sub(" ", gold))
    for path in sorted(asked):
        wider = any(path.startswith(f"{place}/") for place in used)
        if not _used(path, gold) and (wider or used <= asked) and not _EXAMPLE.search(path):
            yield disagrees(f"query names {path}, which the gold does not")
        elif not _used(path, gold) and (other := _beside(path, used, query)):
            yield disagrees(f"query names the file {path}, the gold takes {other} beside it")
    for path in sorted(used):
        if not _SYSTEM.match(path) and not _stands(path.split("/")[1], query):
            yield disagrees(f"gold names {path}, which the query does not")
    if asked and re.search(r"\bfind(\s+[\w/]+)*\s+/\s", gold) and not re.search(r"\broot\b|system|machine", query):
        yield disagrees("gold searches all of /, which the query does not ask")


def _beside(path: str, used: set[str], query: str) -> str | None:
    """What the gold takes from the folder of a file, in its place: of the same suffix, and not named by the query."""
    folder, suffix = path.rpartition("/")[0], PurePosixPath(path).suffix
    others = (other for other in sorted(used) if other.rpartition("/")[0] == folder and PurePosixPath(other).suffix == suffix)
    return next((other for other in others if not _stands(other.rpartition("/")[2], query)), None) if suffix else None


def _places(text: str) -> set[str]:
    return {path.rstrip(".") for path in _PATH.findall(re.sub(r"[\"'`]", " ", text))}


def _used(path: str, gold: str) -> bool:
    """As a whole; or as a folder and a name, or a name and a suffix, that stand apart; or relative to the folder."""
    parts = [path.strip("/").rpartition(sign) for sign in "/."]
    apart = any(part[0] and _stands(part[0], gold) and (_stands(part[2], gold) or part[1] == ".") for part in parts)
    return apart or _stands(path.strip("/"), gold)


def _stands(name: str, text: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text, re.IGNORECASE) is not None


def _words(query: str, gold: str) -> Iterator[TaskIssue]:
    bare = re.sub(r"[\\*\s]", "", gold).lower()
    for word in quoted(query):
        plain = re.sub(r"[\\*\s]", "", word).lower().strip("/.")
        if plain and plain not in bare and "/" not in plain:
            yield disagrees(f"query quotes {word!r}, which the gold does not have")
    for number in map(float, _AMOUNT.findall(query)):
        usual = number == 10 and re.search(r"\bhead\b|\btail\b", gold)
        if number > 1 and not usual and not named(number, gold):
            yield disagrees(f"query names the number {number:g}, which the gold does not have")


def _unasked(query: str, gold: str) -> Iterator[TaskIssue]:
    """What the command does that the query does not ask for."""
    low = query.lower()
    for name in _WRITES.findall(_PROGRAM.sub(" ", gold)):
        if "/" not in name and not name.isdigit() and name.lower() not in low:
            yield disagrees(f"gold writes the file {name}, which the query does not name")
    if re.search(r"(largest|smallest|biggest)\s(\w+\s)?files?", low) and re.search(r"\bls -\w*s\b|\bdu (?!.*-\w*b)", gold):
        yield disagrees("query asks for the size of files, the gold takes what they occupy on the disk")
    if "-maxdepth 1" in gold and not re.search(r"sub|depth|level|only|direct(ly)?\b|immediate|current|recurs|do not", low):
        yield disagrees("gold looks at one level only (-maxdepth 1), the query does not say so")
    if re.search(r"\bgrep -\w*i|-iname|-iregex", gold) and not re.search(r"case", low):
        yield disagrees("gold ignores case, the query does not say so")
    yield from _types(low, gold)


def _types(query: str, gold: str) -> Iterator[TaskIssue]:
    """Files or folders: what is searched for against what is asked for."""
    files = re.search(r"\bfiles?\b(?! path)", query)
    search = re.search(r"\bfind\b[^|]*", gold)
    if search is None:
        return
    asks_folders = re.search(
        r"\b(all|each|every|empty|of|largest|the|any) (\w+ )?(directories|folders|dirs)\b|directories", query
    )
    if "-type f" in search[0] and asks_folders and not files:
        yield disagrees("query asks for folders, the gold searches files")
    if "-type d" in search[0] and files and not asks_folders and "name" not in search[0]:
        yield disagrees("query asks for files, the gold searches folders")
    narrow = re.search(r"-type|-x?type|name|-path|-regex|\bgrep\b|-prune|-exec (?!ls)", gold)
    if files and not asks_folders and not narrow and "printf" not in gold:
        yield disagrees("query asks for files, the gold takes folders too")
