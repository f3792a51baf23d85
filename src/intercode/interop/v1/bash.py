"""The paper's Bash reward, reproduced exactly so that results can be compared with published ones
(InterCode, appendix).

    reward = 0.01 + p1 + p2 + p3, each part rounded to 2 digits; solved if the sum is 1

    p1 "effects"   0.33 · (1 − erf(entries of `git status` on one side only))
    p2 "contents"  0.33 · (share of equal MD5 sums among common entries with status A, C or ??);
                   0.33 if there are no such entries
    p3 "answer"    0.33 · cosine similarity of the outputs' TF-IDF vectors; if there are no words,
                   0.33 if the outputs are equal, otherwise 0

InterCode v1's quirks are kept: the status text is split at whitespace and read in pairs, so a name
with a space shifts the pairs (v1 crashed if an odd word was left over; here it forms a pair with an
empty path). A path with a dot is hashed with `md5sum`, which follows links and, for a folder,
prints the same error on both sides. Other paths are hashed with `md5deep`, which v1's image lacks:
it fails on both sides, so such paths agree. Content digests replace MD5.

Left out: accidental agreement between links to different unchanged or missing paths (the template's
digests are not known here). Answers beyond the sandbox's limit agree if their digests do; otherwise
the kept parts are compared.
"""

from __future__ import annotations

import math
import posixpath
from typing import ClassVar

from intercode.agents.tfidf import similarity
from intercode.envs.bash.judge import BashJudge
from intercode.envs.bash.world import BashWorld
from intercode.envs.judges import Attempt
from intercode.envs.workspace import GoldOutcome
from intercode.interop.v1.git_status import Changes, status, text
from intercode.interop.v1.session import execute_gold_again, tracked_files
from intercode.types import Outcome, Score

BASE, WEIGHT = 0.01, 0.33
_HASHED = ("A", "C", "??")
_LINKS = 40

Pair = tuple[str, str]
Leaf = tuple[str, str]
"""The content at a path: ("file", digest), ("template", unchanged path), ("folder", path), or
("nothing", "")."""


class PaperReward:
    """The reward `paper` of `BashEnv`."""

    full: ClassVar = {"base": BASE, "effects": WEIGHT, "contents": WEIGHT, "answer": WEIGHT}
    """The value of each part in a reward of 1."""

    @staticmethod
    def compare(
        judge: BashJudge, world: BashWorld, attempt: Attempt, agent: Outcome
    ) -> tuple[Score, GoldOutcome]:
        """Return the score against the first gold, and the gold's outcome. From the second scored
        turn on, this is the outcome of the gold's second execution."""
        if judge.scores_steps and len(attempt.actions) > 1:
            gold = judge.run_otherwise(world, attempt.task, execute_gold_again)
        else:
            gold = judge.gold(world, attempt.task)
        return bash_paper(agent, gold.outcome, tracked_files(world.workspace.spec.template)), gold


def bash_paper(agent: Outcome, gold: Outcome, tracked: Changes) -> Score:
    """Score an agent's outcome against the gold's; for `tracked` see `git_status.status`."""
    entries = pairs(text(status(agent.changes, tracked)))
    gold_entries = pairs(text(status(gold.changes, tracked)))
    common = entries & gold_entries
    # on top of the template's state, since a new link may lead to an old file
    sides = {**tracked, **agent.changes}, {**tracked, **gold.changes}
    parts = {
        "base": BASE,
        "effects": effects(entries, gold_entries),
        "contents": contents(common, *sides),
        "answer": answer(agent, gold),
    }
    reward = sum(parts.values())
    solved = abs(reward - 1) < 1e-9
    if solved:
        reward = 1.0
    return Score(reward, solved, parts)


def pairs(status_text: str) -> set[Pair]:
    """Return the words of the status text as (path, status) pairs; a space in a name shifts the
    pairs."""
    words = status_text.split()
    words += [""] * (len(words) % 2)
    return set(zip(words[1::2], words[::2], strict=True))


def effects(agent: set[Pair], gold: set[Pair]) -> float:
    """Return p1: 0.33 for equal entries, 0.05 if one entry is on one side only, 0 for more."""
    return round(WEIGHT * (1 - math.erf(len(agent ^ gold))), 2)


def contents(common: set[Pair], agent: Changes, gold: Changes) -> float:
    """Return p2: the share with equal content among the new entries on both sides."""
    hashed = [path for path, letters in common if letters in _HASHED]
    if not hashed:
        return WEIGHT
    same = sum(md5(path, agent) == md5(path, gold) for path in hashed)
    return round(WEIGHT * (same / len(hashed)), 2)


def answer(agent: Outcome, gold: Outcome) -> float:
    """Return p3: the similarity of the outputs as bags of words."""
    if agent.overflow is not None and agent.overflow == gold.overflow:
        return WEIGHT
    share = similarity(agent.output, gold.output)
    if share is None:
        share = float(agent.output == gold.output)
    return round(WEIGHT * share, 2)


def md5(word: str, changes: Changes) -> Leaf:
    """Return a value for a word in the status text; two words have equal values if the hash command
    prints the same for both."""
    if "." not in word or set(word) & set("\"'\\"):
        # no such command, or (part of) a quoted name, which is not a file on either side
        return ("nothing", "")
    content = leaf(posixpath.normpath("/" + word), changes)
    if content[0] == "folder":
        return ("folder", "")
    return content


def leaf(path: str, changes: Changes, links: int = _LINKS) -> Leaf:
    """Follow links and return the content at a path."""
    above = ""
    for name in path.split("/")[1:]:
        above += f"/{name}"
        change = changes.get(above)
        if change is None or change.type != "link" or change.kind == "removed":
            continue
        if change.target is not None:
            if not links:
                return ("nothing", "")
            target = posixpath.join(posixpath.dirname(above), change.target, path[len(above) + 1 :])
            return leaf(posixpath.normpath(target), changes, links - 1)
        break
    here = changes.get(path)
    if here is None:
        below = path.rstrip("/") + "/"
        if any(other.startswith(below) for other in changes):
            return ("folder", path)
        return ("template", path)
    if here.kind == "removed" or here.type == "other":
        return ("nothing", "")
    if here.type == "dir":
        return ("folder", path)
    return ("file", here.digest or "")
