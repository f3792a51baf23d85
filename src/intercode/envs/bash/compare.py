"""The reward `exact` in Bash: the task is solved if the agent's files and answer match the gold's.

    files     every path ends in the same state: type, content, permission bits, link target
    answer    the same lines, in the gold's order if the query asks for one, ignoring formatting
              noise (`answers`)

Ignored: times and owners of files; owners, modes and times inside an archive, unless the query
names them; new files in /tmp and other scratch folders, unless the gold makes files there too; new
history files and caches in a home folder, `.pyc` files, and cache folders marked by a tool, unless
the gold or the query names them, or the gold removes a file that could be hidden there. File
contents are compared byte by byte, so a missing final newline counts. Archives are equal if they
contain the same members under the same names (`archives`), unless the query says how to pack. Links
are equal if they lead to the same path, relative or absolute, unless the query says which.

If the gold changes files, any answer is accepted, unless the gold prints something and the query
asks to print or report something. The shell's working directory and variables are not compared,
because they are not part of an outcome.

The score's `rule` names the reason for refusal, files first, or the rule that accepted the answer.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import replace

from intercode.envs.bash.answers import Ruling, compare_answers
from intercode.envs.bash.wording import asks_to_print, word_set
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


def bash_exact(agent: Outcome, gold: Outcome, task: Task) -> Score:
    """Return 1 if the agent's effects, answer and probe output equal the gold's, otherwise 0, with
    one part for each; without the files if they do not count (`files_count`).

    The score is ambiguous if only the answers differ and the agent's answer contains most words of
    the gold's.
    """
    if task.extra.get("files_count") is False:
        agent, gold = replace(agent, changes={}), replace(gold, changes={})
    effects = _compare_effects(agent.changes, gold.changes, task)
    answer = _compare_output(agent, gold, task)
    rulings = {"files": effects, "answer": answer}
    if agent.probe or gold.probe:
        rulings["probe"] = Ruling(agent.probe == gold.probe, "other output of the probe")
    refused = [name for name, ruling in rulings.items() if not ruling.accepted]
    parts = {name: float(name not in refused) for name in rulings}
    if not refused:
        return Score(1.0, True, parts, rule=answer.rule)
    words = re.compile(r"\w+").findall
    ambiguous = refused == ["answer"] and mostly_in(words(gold.output), words(agent.output))
    return Score(0.0, False, parts, ambiguous, rulings[refused[0]].rule)


def _compare_effects(agent: Mapping[str, Change], gold: Mapping[str, Change], task: Task) -> Ruling:
    """Return whether all paths that count have the same state on both sides, and otherwise the
    fault at the first path that differs."""
    paths = different_paths(agent, gold, task)
    if not paths:
        return Ruling(True, "same files")
    change = agent.get(paths[0])
    gold_change = gold.get(paths[0])
    if change is None:
        return Ruling(False, "a file that should have changed")
    if gold_change is None:
        return Ruling(False, "a file that should not have changed")
    if change.type != gold_change.type or "removed" in (change.kind, gold_change.kind):
        return Ruling(False, "another type of file")
    if change.mode != gold_change.mode:
        return Ruling(False, "other permissions")
    return Ruling(False, "another target" if change.type == "link" else "other content")


def different_paths(
    agent: Mapping[str, Change], gold: Mapping[str, Change], task: Task
) -> list[str]:
    """Return, sorted, the paths that count and whose states differ between the two sides."""
    return [
        path
        for path in sorted(agent.keys() | gold.keys())
        if _counts(path, agent, gold, task)
        and _state(path, agent.get(path), task) != _state(path, gold.get(path), task)
    ]


def _counts(path: str, agent: Mapping[str, Change], gold: Mapping[str, Change], task: Task) -> bool:
    changes = gold if path in gold else agent
    cache = next((name for name in path.split("/") if name in _CACHES), None)
    if cache is not None and not _is_litter(path, cache, changes):
        return True
    if path in gold:
        return cache is None or cache in task.gold or cache in task.query
    if cache is not None:
        return any(change.kind == "removed" for change in gold.values())
    scratch = next((folder for folder in _SCRATCH if f"{path}/".startswith(f"{folder}/")), None)
    if scratch is None or agent[path].kind != "added":
        return True
    return any(_within(path, other) for other in gold if _within(other, scratch))


def _is_litter(path: str, cache: str, changes: Mapping[str, Change]) -> bool:
    """Return whether the path is a new cache file with its usual location and form."""
    before, _, after = path.partition(cache)
    if changes[path].kind != "added":
        return False
    if cache in _IN_HOMES:
        return bool(_HOME.fullmatch(before))
    if cache in _MARKED:
        return f"{before}{cache}/CACHEDIR.TAG" in changes
    return not after or bool(re.fullmatch(r"/[^/]+\.pyc", after))


def _within(path: str, folder: str) -> bool:
    return path != folder and path.startswith(folder + "/")


def _state(path: str, change: Change | None, task: Task) -> object:
    """Return the value to compare for a path: None if the path is unchanged from the template."""
    if change is None or change.kind == "removed":
        return change and "removed"
    if change.type == "link":
        target = change.target or ""
        if re.search("relative|absolute", task.query, re.IGNORECASE):
            return "link", change.target
        path = posixpath.join(posixpath.dirname(path), target)
        # the meaning of `..` after a folder depends on the folder
        if re.search(r"[^/.][^/]*/+\.\.(/|$)", target):
            return "link", path
        return "link", posixpath.normpath(path)
    content = (not _LEVEL.search(task.query) and change.held) or change.digest
    asked = [
        digest
        for digest, words in zip(change.attributes, _ATTRIBUTES, strict=False)
        if words.search(task.query)
    ]
    return change.type, change.mode, content, asked


def _compare_output(agent: Outcome, gold: Outcome, task: Task) -> Ruling:
    if task.extra.get("answer_form") == "none":
        return Ruling(True, "no answer asked for")
    if any(_counts(path, {}, gold.changes, task) for path in gold.changes):
        silent = not gold.output.strip() and gold.overflow is None
        if silent or not asks_to_print(task):
            return Ruling(True, "no answer asked for")
    if agent.overflow is not None or gold.overflow is not None:
        same = agent.overflow == gold.overflow
        return Ruling(same, "same output" if same else "other lines")
    return compare_answers(agent.output, gold.output, task)
