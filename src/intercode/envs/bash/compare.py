"""What a careful person would call solved: the same effect on the files, and the same answer.

    effects   every path is the same in the end: type, content, permission bits, where a link leads
    answer    the same lines, in the gold's order if it orders, apart from formatting noise (`answers`, `ordering`)

Times and owners do not count, nor do owners, modes and times in an archive unless the query names them. New files in /tmp and
other places for scratch count only where the gold makes them too. New histories and caches in a home, `.pyc` files, and a
tool's marked cache count only where gold or query name them, or where a file had to go that could be hidden there.
Contents are compared byte by byte, a missing last newline included: a file is what it holds, while a terminal shows no
difference. Archives are the same if they hold the same under the same names (`archives`), unless the query says how to
pack. Links are the same if they lead to the same place, written relative or not, unless the query says which.

If the gold changes files and prints nothing, or only logs its changes (`rm -v`) where the query asks for nothing to be shown,
the answer does not count. If the gold changes nothing and only fails (`rmdir` of a full folder), the agent's last action
must end with a non-zero status too, and what it prints does not count.
Left out, since outcomes do not tell it: the directory and variables that a shell is left with.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from itertools import pairwise

from intercode.envs.bash.answers import same_answer
from intercode.envs.bash.pipelines import named, printing
from intercode.envs.overlap import mostly_in
from intercode.types import Change, Outcome, Score, Task

_SCRATCH = ("/tmp", "/var/tmp", "/dev", "/run", "/var/cache", "/proc", "/sys")
_OF_HOMES = named(
    ".cache .bash_history .sh_history .zsh_history .python_history .sqlite_history .mysql_history .node_repl_history .lesshst "
    ".viminfo .wget-hsts .rnd .selected_editor"
)
_MARKED = named(".pytest_cache .mypy_cache .ruff_cache")
_CACHES = _OF_HOMES | _MARKED | {"__pycache__"}
_HOME = re.compile(r"/|/root/|/home/[^/]+/")
_CHATTY = named(
    "tar cp mv rm mkdir rmdir ln chmod chown chgrp zip unzip gzip gunzip bzip2 bunzip2 xz unxz dd patch install rename "
    "rsync split csplit tee touch cpio git curl wget"
)
_LOOPS = named("for while until done")
_LEVEL = re.compile(r"\blevels?\b|\b(best|fastest|maximum|smallest|highest|strongest)\b", re.IGNORECASE)
"""Words of a query that say how an archive is to be packed."""
_ATTRIBUTES = [
    re.compile(rf"\b({words}|attributes|metadata)\b", re.IGNORECASE)
    for words in ("owners?|ownership", "permissions?|modes?", r"time ?stamps?|mtimes?|(modification|change|file) (time|date)s?")
]
"""Words of a query by which the owners, modes and times in an archive count."""
_SHOWING = re.compile(
    r"(?<![\w/.-])(print|show|display|list|output|echo|report|count|tell|view|console|stdout|terminal|screen|summar|write out"
    r"|log(?! ?files?\b|s\b))"
    r"|\bverbos|\bhow (many|much)\b|\b(which|what|see)\b|\b(give|state) the (names?|number|paths?|sizes?|total|sum) of\b",
    re.IGNORECASE,
)


def bash_exact(agent: Outcome, gold: Outcome, task: Task) -> Score:
    """Score an agent's outcome against the gold's: 1 if effect, answer and what a probe shows are the same, else 0.

    Unsure if nothing but the answer differs, and most of the gold's words are in it.
    """
    effects = same_effects(agent.changes, gold.changes, task)
    only_fails = gold.failed and not gold.changes  # then the answer is that it cannot be done, in any words
    told = agent.failed if only_fails else _answer_is_free(gold, task) or _same_output(agent, gold, task)
    shown = {"probe": float(agent.probe == gold.probe)} if agent.probe or gold.probe else {}
    parts = {"effects": float(effects), "answer": float(told), **shown}
    only_told = effects and not told and all(shown.values())
    return Score(min(parts.values()), all(parts.values()), parts, only_told and mostly_in(_words(gold), _words(agent)))


def same_effects(ours: Mapping[str, Change], theirs: Mapping[str, Change], task: Task) -> bool:
    """Whether both sides leave every path that counts in the same state."""
    return all(
        _state(path, ours.get(path), task) == _state(path, theirs.get(path), task)
        for path in ours.keys() | theirs.keys()
        if _counts(path, ours, theirs, task)
    )


def _counts(path: str, ours: Mapping[str, Change], theirs: Mapping[str, Change], task: Task) -> bool:
    cache = next((name for name in path.split("/") if name in _CACHES), None)
    if cache is not None and path in theirs:
        return not _is_litter(path, cache, theirs) or cache in task.gold or cache in task.query
    if cache is not None:
        return not _is_litter(path, cache, ours) or any(change.kind == "removed" for change in theirs.values())
    scratch = next((place for place in _SCRATCH if (path + "/").startswith(place + "/")), None)
    if scratch is None or path in theirs:
        return True
    return ours[path].kind != "added" or any(_within(path, other) for other in theirs if _within(other, scratch))


def _is_litter(path: str, cache: str, ours: Mapping[str, Change]) -> bool:
    """Whether a tool leaves such a new file behind: a cache in its usual place and form."""
    before, _, after = path.partition(cache)
    if ours[path].kind != "added":
        return False
    if cache in _OF_HOMES:
        return bool(_HOME.fullmatch(before))
    if cache in _MARKED:
        return f"{before}{cache}/CACHEDIR.TAG" in ours
    return not after or bool(re.fullmatch(r"/[^/]+\.pyc", after))


def _within(path: str, folder: str) -> bool:
    return path != folder and path.startswith(folder + "/")


def _state(path: str, change: Change | None, task: Task) -> object:
    """What is compared of a path: None if it is as it was in the template."""
    if change is None or change.kind == "removed":
        return change and "removed"
    if change.type == "link" and re.search("relative|absolute", task.query, re.IGNORECASE):
        return "link", change.target
    if change.type == "link":
        return "link", posixpath.normpath(posixpath.join(posixpath.dirname(path), change.target or ""))
    return change.type, change.mode, (not _LEVEL.search(task.query) and change.held) or change.digest, [
        digest for digest, words in zip(change.attributes, _ATTRIBUTES, strict=False) if words.search(task.query)
    ]  # fmt: skip


def _answer_is_free(gold: Outcome, task: Task) -> bool:
    """Whether the gold's answer is its effect alone: it prints nothing, or only a log of the changes that its tools make."""
    counting = any(_counts(path, {}, gold.changes, task) for path in gold.changes)
    silent = not gold.output.strip() and gold.overflow is None
    ends = [pipeline[-1] for pipeline in printing(task.gold)]
    chatters = all(words[0] in _LOOPS or _tools(words) & _CHATTY for words in ends)  # the words of a loop print nothing
    return counting and (silent or (chatters and not _SHOWING.search(task.query)))


def _tools(words: list[str]) -> set[str]:
    """The command itself, or the one that find or xargs runs; `find -delete` removes as `rm` does."""
    if words[0] == "find" and "-delete" in words:
        return {"rm"}
    if words[0] == "find":
        return {after for word, after in pairwise(words) if word in ("-exec", "-execdir", "-ok")}
    return set(words) if words[0] == "xargs" else {words[0]}


def _words(side: Outcome) -> list[str]:
    return re.findall(r"\w+", side.output)


def _same_output(agent: Outcome, gold: Outcome, task: Task) -> bool:
    if agent.overflow is not None or gold.overflow is not None:
        return agent.overflow == gold.overflow
    return agent.output == gold.output or same_answer(agent.output, gold.output, task)
