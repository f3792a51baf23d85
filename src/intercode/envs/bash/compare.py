"""The reward `exact` in Bash: the agent solved the task if its files and its answer are the same as
the gold's.

    effects   every path ends in the same state: type, content, permission bits, target of a link
    answer    the same lines, in the gold's order if the gold orders, apart from formatting noise
              (`answers`, `ordering`)

Ignored: times and owners of files; owners, modes and times inside an archive, unless the query
names them; new files in /tmp and other scratch folders, unless the gold makes files there too; new
histories and caches in a home folder, `.pyc` files and a tool's marked cache, unless the gold or
the query names them, or the gold removes a file that could be hidden there. File contents are
compared byte by byte, a missing last newline included. Archives are equal if they hold the same
members under the same names (`archives`), unless the query says how to pack. Links are equal if
they lead to the same path, relative or absolute, unless the query says which.

If the gold changes files and prints nothing, any answer is accepted; so is any answer if the gold
only prints a log of its changes (`rm -v`) and the query does not ask to print anything. Not
compared, because outcomes do not hold them: the directory and the variables of the shell.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from itertools import pairwise

from intercode.envs.bash.answers import same_answer
from intercode.envs.bash.ordering import printing
from intercode.envs.bash.wording import word_set
from intercode.envs.rewards import mostly_in
from intercode.types import Change, Outcome, Score, Task

_SCRATCH = ("/tmp", "/var/tmp", "/dev", "/run", "/var/cache", "/proc", "/sys")
_IN_HOMES = word_set(
    ".cache .bash_history .sh_history .zsh_history .python_history .sqlite_history .mysql_history"
    " .node_repl_history .lesshst .viminfo .wget-hsts .rnd .selected_editor"
)
_MARKED = word_set(".pytest_cache .mypy_cache .ruff_cache")
_CACHES = _IN_HOMES | _MARKED | {"__pycache__"}
_HOME = re.compile(r"/|/root/|/home/[^/]+/")
_LOGGING = word_set(
    "tar cp mv rm mkdir rmdir ln chmod chown chgrp zip unzip gzip gunzip bzip2 bunzip2 xz unxz dd"
    " patch install rename rsync split csplit tee touch cpio git curl wget"
)
_FIND_PRINTS = word_set("-print -print0 -printf -ls")
"""Options with which `find -delete` prints on purpose."""
_LOOPS = word_set("for while until done")
_LEVEL = re.compile(
    r"\blevels?\b|\b(best|fastest|maximum|smallest|highest|strongest)\b", re.IGNORECASE
)
"""Words in a query that say how to pack an archive."""
_ATTRIBUTES = [
    re.compile(rf"\b({words}|attributes|metadata)\b", re.IGNORECASE)
    for words in (
        "owners?|ownership",
        "permissions?|modes?",
        r"time ?stamps?|mtimes?|(modification|change|file) (time|date)s?",
    )
]
"""Words in a query that make owners, modes and times inside an archive count."""
_SHOWING = re.compile(
    r"(?<![\w/.-])(print|show|display|list|output|echo|report|count|tell|view|console|stdout"
    r"|terminal|screen|summar|write out|log(?! ?files?\b|s\b))"
    r"|\bverbos|\bhow (many|much)\b|\b(which|what|see)\b|\b(give|state) the"
    r" (names?|number|paths?|sizes?|total|sum) of\b"
    r"|\breturn|\bmention|\banswer|\bgive me\b|\b(is|are) (wanted|needed|the answer)"
    r"|\bnam(e|ing) (each|every|all|them|the)\b(?![^.;]*\b(after|like|so|as)\b)",
    re.IGNORECASE,
)


def bash_exact(agent: Outcome, gold: Outcome, task: Task) -> Score:
    """Return 1 if the agent's effects, answer and probe output equal the gold's, else 0, with one
    part for each.

    The score is ambiguous if only the answers differ and the agent's answer has most of the gold's
    words.
    """
    effects = not different_paths(agent.changes, gold.changes, task)
    answered = _accepts_any_answer(gold, task) or _same_output(agent, gold, task)
    probe = {"probe": float(agent.probe == gold.probe)} if agent.probe or gold.probe else {}
    parts = {"effects": float(effects), "answer": float(answered), **probe}
    only_answer_differs = effects and not answered and all(probe.values())
    gold_words, agent_words = (re.findall(r"\w+", side.output) for side in (gold, agent))
    return Score(
        min(parts.values()),
        all(parts.values()),
        parts,
        only_answer_differs and mostly_in(gold_words, agent_words),
    )


def different_paths(
    ours: Mapping[str, Change], theirs: Mapping[str, Change], task: Task
) -> list[str]:
    """Return in order the paths that count and that the two sides leave in different states."""
    return [
        path
        for path in sorted(ours.keys() | theirs.keys())
        if _counts(path, ours, theirs, task)
        and _state(path, ours.get(path), task) != _state(path, theirs.get(path), task)
    ]


def _counts(
    path: str, ours: Mapping[str, Change], theirs: Mapping[str, Change], task: Task
) -> bool:
    cache = next((name for name in path.split("/") if name in _CACHES), None)
    if cache is not None and path in theirs:
        return not _is_litter(path, cache, theirs) or cache in task.gold or cache in task.query
    if cache is not None:
        return not _is_litter(path, cache, ours) or any(
            change.kind == "removed" for change in theirs.values()
        )
    scratch = next((folder for folder in _SCRATCH if (path + "/").startswith(folder + "/")), None)
    if scratch is None or path in theirs:
        return True
    return ours[path].kind != "added" or any(
        _within(path, other) for other in theirs if _within(other, scratch)
    )


def _is_litter(path: str, cache: str, ours: Mapping[str, Change]) -> bool:
    """Return whether the path is a new cache file in its usual place and form."""
    before, _, after = path.partition(cache)
    if ours[path].kind != "added":
        return False
    if cache in _IN_HOMES:
        return bool(_HOME.fullmatch(before))
    if cache in _MARKED:
        return f"{before}{cache}/CACHEDIR.TAG" in ours
    return not after or bool(re.fullmatch(r"/[^/]+\.pyc", after))


def _within(path: str, folder: str) -> bool:
    return path != folder and path.startswith(folder + "/")


def _state(path: str, change: Change | None, task: Task) -> object:
    """Return what is compared of a path: None if the path is unchanged from the template."""
    if change is None or change.kind == "removed":
        return change and "removed"
    if change.type == "link" and re.search("relative|absolute", task.query, re.IGNORECASE):
        return "link", change.target
    if change.type == "link":
        target = posixpath.join(posixpath.dirname(path), change.target or "")
        climbs = re.search(
            r"[^/.][^/]*/+\.\.(/|$)", change.target or ""
        )  # `..` of a folder depends on the folder
        return "link", target if climbs else posixpath.normpath(target)
    content = (not _LEVEL.search(task.query) and change.held) or change.digest
    asked = [
        digest
        for digest, words in zip(change.attributes, _ATTRIBUTES, strict=False)
        if words.search(task.query)
    ]
    return change.type, change.mode, content, asked


def _accepts_any_answer(gold: Outcome, task: Task) -> bool:
    """Return whether the gold changes files and prints nothing, or only a log that the query does
    not ask for."""
    counting = any(_counts(path, {}, gold.changes, task) for path in gold.changes)
    silent = not gold.output.strip() and gold.overflow is None
    ends = [pipeline[-1] for pipeline in printing(task.gold)]
    only_logs = all(
        words[0] in _LOOPS or _tools(words) & _LOGGING for words in ends
    )  # the words of a loop print nothing
    return counting and (silent or (only_logs and not _SHOWING.search(task.query)))


def _tools(words: list[str]) -> set[str]:
    """Return the command itself, or the commands that find or xargs runs; `find -delete` removes as
    `rm` does."""
    if words[0] == "find" and "-delete" in words and not _FIND_PRINTS & set(words):
        return {"rm"}
    if words[0] == "find":
        return {after for word, after in pairwise(words) if word in ("-exec", "-execdir", "-ok")}
    return set(words) if words[0] == "xargs" else {words[0]}


def _same_output(agent: Outcome, gold: Outcome, task: Task) -> bool:
    if agent.overflow is not None or gold.overflow is not None:
        return agent.overflow == gold.overflow
    return agent.output == gold.output or same_answer(agent.output, gold.output, task)
