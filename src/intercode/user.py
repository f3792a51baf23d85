"""The user of a task: answers questions about what the query leaves open, and goes on asking.

    ask QUESTION ──► its words, as stems ──► the facets with an entry of which the question has all
                                             words
        one, or two with different numbers of such words ──► the reply of the one with more
        none, a draw, more than two ───────────────────────► "I can't say more about that."

A record has `facets`, each with the entries that ask for it, the reply and perhaps a cost:

    {"query": "How many orders are large?", "gold": "…", "ask_budget": 3,
     "facets": [{"name": "large", "asks": ["large", "big order", "threshold"],
                 "reply": "An order of 100 euros or more is large.", "cost": 2}]}

With `"lookups": {"schema": 1}`, the action `schema` or `schema NAME` prints a document of the world
and costs 1 of the budget; the environment says which words it knows.

A record with `rounds` has several tasks in one world:

    record ──► `rounds_in`: a record for each ──► `join_rounds`: the first task, with the others
    submit ──► score of the round ──► `end_round` ──► the next round
                     └──► `score_of_episode`

What a round is judged by is a matter of judges (`envs/judged.py`, `envs/judges/outcome.py`).

The default user has no model: equal questions get equal replies, which can only be those of the
record. Not covered: questions in other languages than English, and synonyms that no entry lists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import compress
from math import fsum, inf
from typing import Any, Protocol

from intercode.errors import DataError
from intercode.plugins import call_plugin
from intercode.types import Score, Task, TaskIssue, View, is_number

TAKES_QUESTIONS = "takes_questions"
"""The field of a task's `extra` that tells a strategy that the task takes `ask QUESTION`."""
FIELDS = (
    "facets",
    "ask_budget",
    "ask_cost",
    "lookups",
    "unclarified",
    "rounds",
    "rounds_rule",
    "rounds_reward",
    "go_on",
    "changes",
)
"""The fields of a record that are read here."""
SILENT = "I can't say more about that."
OWN_USER = "--user"
NO_BUDGET = "Your budget for questions is used up."
MOST_FACETS = 2
"""Facets that one question may touch; a question about more asks for everything at once."""
MOST_LETTERS, MOST_COMMAS = 400, 4
"""A question with more is a list of what might be open."""
_QUESTION = re.compile(r"ask(?:[ \t]+|:[ \t]*)(?=\S)([^\n]+)")
_INSIDE = re.compile(r"(?:\A|\n|&&|\|\||[;(`])[ \t]*ask[ \t]+[\"']?\w")

ROUND_FIELDS = ("query", "gold", "golds", "facets", "go_on", "changes")
"""The fields that a round may have in every environment."""
_LEAST = {"always": -inf, "solved": 1.0}


@dataclass(frozen=True, slots=True)
class Facet:
    """A clause that the query leaves out. A question asks for it if it contains all words of one of
    the entries `asks`, in any order and form. `cost` is deducted from the record's `ask_budget`;
    None: the record's `ask_cost`."""

    name: str
    asks: Sequence[str]
    reply: str
    cost: float | None = None


class User(Protocol):
    """A user of the caller's own, such as one that a model plays: a function that answers a
    question. `asked` are the earlier questions of the episode with their replies."""

    def __call__(self, task: Task, asked: Sequence[tuple[str, str]], question: str) -> str: ...


def facets_of(record: Mapping[str, Any]) -> tuple[Facet, ...]:
    """Return the facets of a record, or of a task's `extra`. Raises `DataError` for a field that is
    not as described above."""
    entries = record.get("facets") or ()
    if not isinstance(entries, list | tuple):
        raise DataError("the field 'facets' is not a list")
    for name in ("ask_budget", "ask_cost"):
        number = record.get(name)
        if number is not None and not (is_number(number) and number >= 0):
            raise DataError(f"the field {name!r} is not a number of at least 0")
    return tuple(map(_read_facet, entries, range(1, len(entries) + 1)))


def _read_facet(entry: object, number: int) -> Facet:
    if not isinstance(entry, Mapping):
        raise DataError(f"facet {number} is not an object")
    name, asks, reply, cost = map(entry.get, ("name", "asks", "reply", "cost"))
    if not isinstance(reply, str) or not reply.strip():
        raise DataError(f"facet {number} has no text in 'reply'")
    if not isinstance(asks, list) or {*map(type, asks)} != {str} or not all(map(stems, asks)):
        raise DataError(f"facet {number}: 'asks' is not a list of words that ask for it")
    if cost is not None and not (is_number(cost) and cost >= 0):
        raise DataError(f"facet {number}: 'cost' is not a number of at least 0")
    return Facet(str(name or number), tuple(asks), reply, cost)


@lru_cache(1)
def _stemmer() -> Any:
    import snowballstemmer

    return snowballstemmer.stemmer("english")


@lru_cache(1 << 16)
def _stem(word: str) -> str:
    stem: str = _stemmer().stemWord(word)
    return stem


@lru_cache(1 << 12)
def stems(text: str) -> frozenset[str]:
    """Return the stems of the words of a text, in lower case."""
    return frozenset(map(_stem, re.findall(r"[^\W_]+", text.lower())))


def lookups_of(record: Mapping[str, Any]) -> Mapping[str, float]:
    """Return the cost of each word of a record's `lookups`. Raises `DataError` if they are not
    words with costs."""
    lookups = record.get("lookups") or {}
    if not isinstance(lookups, Mapping) or not all(
        re.fullmatch(r"[a-z]+", word) and is_number(cost) and cost >= 0
        for word, cost in lookups.items()
    ):
        raise DataError("the field 'lookups' is not an object of words with their costs")
    return lookups


def lookup_in(action: str, words: Collection[str]) -> tuple[str, str] | None:
    """Return the word of an action `WORD` or `WORD NAME`, and the name; None for any other
    action."""
    word, _, name = action.strip().partition(" ")
    if word not in words or "\n" in name:
        return None
    return word, name.strip()


def question_in(action: str) -> str | None:
    """Return the question of an action `ask QUESTION`; None for any other action."""
    match = _QUESTION.fullmatch(action.strip())
    if match is None:
        return None
    return " ".join(match[1].split())


def has_question(action: str) -> bool:
    """Return whether one of the lines of an action seems to ask a question."""
    return _INSIDE.search(action) is not None


def facet_asked(facets: Sequence[Facet], question: str) -> Facet | None:
    """Return the facet that a question asks for; None if it is vague, or asks for too much."""
    if len(question) > MOST_LETTERS or question.count(",") > MOST_COMMAS:
        return None
    words = stems(question)
    counts = dict[Facet, int]()
    for facet in facets:
        said = set[str]()
        for entry in map(stems, facet.asks):
            if entry <= words:
                said |= entry
        if said:
            counts[facet] = len(said)
    most = max(counts.values(), default=0)
    best = [facet for facet, count in counts.items() if count == most]
    if len(best) != 1 or len(counts) > MOST_FACETS:
        return None
    return best[0]


def facet_issues(task: Task) -> list[TaskIssue]:
    """Return the issues of a task's facets: some that no question of their own words reaches, and
    replies that contain a gold."""
    facets, issues = facets_of(task.extra), list[TaskIssue]()
    golds = [" ".join(gold.split()) for gold in task.golds]
    for facet in facets:
        if not any(facet_asked(facets, text) == facet for text in facet.asks):
            why = f"none of the entries that ask for the facet {facet.name!r} gets its reply"
            issues.append(TaskIssue(why, "facet_unreached"))
        reply = " ".join(facet.reply.split())
        if any(gold and gold in reply for gold in golds):
            why = f"the reply of the facet {facet.name!r} contains the gold"
            issues.append(TaskIssue(why, "facet_tells"))
    return issues


# -- rounds ----------------------------------------------------------------------------------------


def rounds_in(record: dict[str, Any], allowed: Collection[str] = ()) -> list[dict[str, Any]]:
    """Return a record for each round of a record; the record alone if it has no rounds. `allowed`
    are the fields that a round may have; empty: any. Raises `DataError` for fields that are not as
    described."""
    shared, records = {**record}, []
    rounds = shared.pop("rounds", None)
    if rounds is None:
        return [record]
    if not isinstance(rounds, list) or {*map(type, rounds)} != {dict}:
        raise DataError("field 'rounds' is not a list of one or more objects")
    reward = shared.get("rounds_reward")
    is_reward = reward in ("mean", "reached", "last")
    if isinstance(reward, list) and len(reward) == len(rounds):
        is_reward = all(is_number(share) and share >= 0 for share in reward)
    rewards = f"'mean', 'reached', 'last' or a list of {len(rounds)} numbers of at least 0"
    of_round = f"only these in a round: {', '.join(sorted(allowed))}; others next to 'rounds'"
    for number, entry in enumerate(rounds, start=1):
        posed, before = {**shared, **entry}, range(1, number)
        least, changes = posed.get("go_on"), posed.get("changes")
        are_before = isinstance(changes, list) and all(map(before.__contains__, changes))
        checks = [
            *[(name, name in allowed, of_round) for name in entry if allowed],
            ("rounds_rule", posed.get("rounds_rule") in ("alive", "own"), "'alive' or 'own'"),
            ("rounds_reward", is_reward, rewards),
            ("files_count", False, "nothing, since in rounds all files count"),
            ("go_on", is_number(least) or str(least) in _LEAST, "'always', 'solved' or a number"),
            ("changes", are_before, "a list of numbers of earlier rounds"),
        ]
        for name, is_right, expected in checks:
            if posed.get(name) is not None and not is_right:
                raise DataError(
                    f"round {number}: field {name!r} is {posed[name]!r:.60}; write {expected}"
                )
        records.append(posed)
    return records


def join_rounds(tasks: tuple[Task, ...]) -> Task:
    """Return the task of the first round, with the tasks of the other rounds."""
    played = tasks[:1]
    for number, task in enumerate(tasks[1:], start=2):
        played += (replace(task, id=f"{tasks[0].id}#{number}", earlier=played),)
    return replace(tasks[0], rounds=played[1:])


def golds_of(task: Task) -> list[str]:
    """Return the golds of the rounds up to this one."""
    return [*(earlier.gold for earlier in task.earlier), task.gold]


def still_alive(task: Task) -> list[Task]:
    """Return the tasks of the earlier rounds that count in this one: neither it nor one between
    changes them."""
    if task.extra.get("rounds_rule") == "own":
        return []
    changed = set[int]()
    for later in (*task.earlier, task)[1:]:
        changed.update(later.extra.get("changes", ()))
    return [earlier for earlier in task.earlier if len(earlier.earlier) + 1 not in changed]


def part_of(task: Task) -> str:
    """Return the name of the part of a score that says whether a round's demand holds."""
    return f"round {len(task.earlier) + 1}"


# -- a conversation --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reply:
    """The user's answer to an action that asks. `asked` names the facet that answered, "" for none,
    `OWN_USER` for a function of the caller's; it is None after a lookup."""

    text: str
    asked: str | None = None


class Conversation:
    """What is said in one episode: questions and lookups, the budget that they cost, and the
    rounds. It is made at each reset; for a live copy of an episode, `copy.copy` copies it.

    Args:
        task: the task of the first round, with those of the others.
        user: answers the questions in place of the facets.
        view: cuts what the caller's user and lookups return.
    """

    def __init__(
        self,
        task: Task,
        user: User | None = None,
        view: View | None = None,
    ) -> None:
        self._task, self._user, self._view = task, user, view or View()
        self._facets, self._lookups = facets_of(task.extra), lookups_of(task.extra)
        self._asked: tuple[tuple[str, str], ...] = ()
        self._budget = float(task.extra.get("ask_budget", inf))
        self.ahead = task.rounds
        """The tasks of the rounds to come."""
        self.scores: tuple[Score, ...] = ()
        """The scores of the rounds that have ended."""
        self.words: tuple[str, ...] = ()
        """The words that were submitted in these rounds."""
        self.shown: tuple[dict[str, Any], ...] = ()
        """The same for readers, if there are several rounds. `demands` are 1 if the demand of a
        round holds, of those that are alive."""
        self._count = 1 + len(task.rounds)

    @property
    def takes_questions(self) -> bool:
        return bool(self._facets)

    def takes(self, action: str) -> bool:
        """Return whether an action is a question or a lookup, so that nothing executes it."""
        if self.takes_questions and question_in(action) is not None:
            return True
        return lookup_in(action, self._lookups) is not None

    def answer(self, action: str, look_up: Callable[[str, str], str | None]) -> Reply | None:
        """Return the reply to a question or a lookup; None for any other action. `look_up` returns
        the document of a word and a name, or None if there is none."""
        question = question_in(action) if self.takes_questions else None
        if question is not None:
            return self._ask(question)
        lookup = lookup_in(action, self._lookups)
        if lookup is None:
            return None
        word, name = lookup
        document = look_up(word, name)
        if document is None:
            text = f"There is no {word} {name}".strip() + f"; `{word}` lists the names."
        elif self._pay(self._lookups[word]):
            text = self._view.fit(document)
        else:
            text = NO_BUDGET
        return Reply(text + self._budget_note())

    def _ask(self, question: str) -> Reply:
        text, asked, cost = SILENT, "", float(self._task.extra.get("ask_cost", 1))
        if self._user is not None:
            answer = call_plugin(self._user, str, self._task, list(self._asked), question)
            text, asked = self._view.fit(answer), OWN_USER
        elif facet := facet_asked(self._facets, question):
            text, asked = facet.reply, facet.name
            if facet.cost is not None:
                cost = facet.cost
        if not self._pay(cost):
            text, asked = NO_BUDGET, ""
        self._asked += ((question, text),)
        return Reply(text + self._budget_note(), asked)

    def _pay(self, cost: float) -> bool:
        """Deduct a cost from the budget if there is enough left."""
        if cost > self._budget:
            return False
        self._budget -= cost
        return True

    def _budget_note(self) -> str:
        if self._budget == inf:
            return ""
        return f"\n[{self._budget:g} of the budget left]"

    def end_round(self, score: Score, word: str) -> Task | None:
        """End the round with this score and submitted word. Return the task of the next one, if it
        leads to one."""
        self.scores += (score,)
        self.words += (word,)
        number, demands = len(self.scores), {}
        for name, part in score.parts.items():
            if "round " in name:
                demands[name] = part
        demands.setdefault(f"round {number}", float(score.success))
        if self._count > 1:
            row = {"round": number, "reward": score.reward, "success": score.success}
            self.shown += ({**row, "demands": demands},)
        least = self._task.extra.get("go_on", "always")
        if not self.ahead or score.reward < _LEAST.get(least, least):
            return None
        self._task, self.ahead = self.ahead[0], self.ahead[1:]
        self._facets = facets_of(self._task.extra)
        return self._task

    def score_of_episode(self, *present: Score) -> Score:
        """Return the score of the episode if it ends now. `present` is that of the round that has
        not ended, if it shall count."""
        scores, how = (*self.scores, *present), self._task.extra.get("rounds_reward", "mean")
        if not scores:
            return Score(0.0, False)
        if self._count == 1:
            return scores[-1]
        counted, count = scores, self._count
        if how == "last":  # which may not have begun
            counted = scores[self._count - 1 :]
        if how != "mean":
            count = max(1, len(counted))
        solved = [score.success for score in counted]
        if isinstance(how, list):
            reward = fsum(compress(how, solved))
        else:
            reward = fsum(score.reward for score in counted)
            reward /= count
        success = len(scores) == self._count and all(solved)
        return replace(scores[-1], reward=reward, success=success)
