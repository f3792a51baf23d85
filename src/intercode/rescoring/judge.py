"""A second opinion on ambiguous answers: ask a model whether an answer says what the gold's answer says.

    episode that is `ambiguous` ── its answer, what the gold prints ──► question ──► `same`, `different` or none
                                                                        └── RUN/judged/replies.jsonl: nothing is asked twice

`reward` and `success` stay what they are. What an agent printed is data to the judge: it lies between lines with a word that is
drawn when the run is first judged (RUN/judged/mark), and a reply counts only if it is another word, which stands in the
instructions alone, and a verdict, nothing else. Of a text that cannot be shown whole nothing is asked. A model can be talked
over all the same: a verdict is an opinion and no score.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from string import Template
from typing import Any, Literal

from intercode.env import InterCodeEnv
from intercode.errors import StoreError, UsageError
from intercode.models.base import Model
from intercode.rescoring.rescore import options_of, rebuilt, require_same
from intercode.runner.episode_model import EpisodeModel
from intercode.runner.reply_cache import ReplyCache
from intercode.store import alone_in, read_run, storage_faults, write_whole
from intercode.submission import answer_in, is_submission, submitted_word
from intercode.types import Episode

LONGEST = 8000
"""Of a text with more characters no judge is asked; nor of one that the agent did not see whole."""
_INSTRUCTIONS = Template(Path(__file__).with_suffix(".txt").read_text("utf-8"))

Opinion = Literal["same", "different"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`says` is None where the reply had not the form that counts. `reply` is what the model wrote; None: it was not asked."""

    task: str
    epoch: int
    judge: str
    says: Opinion | None
    reply: str | None


def judge_run(run: str | Path, model: Model, *, force: bool = False, **given: Any) -> list[Verdict]:
    """A verdict on each ambiguous episode of a run, kept in RUN/judged/verdicts.jsonl beside those of other judges.

    `given` are options that say where its data are now. Raises `UsageError` if the run marks no ambiguous answers, or its
    world cannot be rebuilt; `StoreError` if another process plays or judges it. `force` allows another userland.
    """
    then, episodes = read_run(run)
    if then.get("reward") != "exact":
        raise UsageError(f"{run} was scored by {then.get('reward')}, which marks no answers; rescore it with --reward exact")
    if not episodes:
        raise UsageError(f"{run} holds no episodes, so there is nothing to judge")
    ambiguous = [episode for episode in episodes if episode.ambiguous]
    if not ambiguous:
        return []
    with alone_in(Path(run)):
        found = list(_verdicts(Path(run), then, ambiguous, model, force, given))
        others: list[Verdict] = []  # what this judge said before is replaced; what others said stays, unless it is damaged
        with suppress(StoreError):
            others = [each for each in kept_verdicts(run) if each.judge != model.name]
        with storage_faults(Path(run)):
            write_whole(_kept_in(Path(run)), "".join(json.dumps(asdict(each)) + "\n" for each in [*others, *found]))
    return found


def summary(run: str, model: Model, episodes: list[Episode], verdicts: list[Verdict]) -> dict[str, Any]:
    """What was said, and apart from it what was scored."""
    scored = [episode for episode in episodes if episode.reward is not None]
    says = Counter(verdict.says or "none" for verdict in verdicts)
    return {
        "run": run, "judge": model.name, "episodes": len(scored), "solved": sum(episode.success for episode in scored),
        "ambiguous": len(verdicts), **{each: says[each] for each in ("same", "different", "none")},
        "judged": [asdict(verdict) for verdict in verdicts],
    }  # fmt: skip


def _verdicts(
    run: Path, then: Mapping[str, Any], ambiguous: list[Episode], model: Model, force: bool, given: Mapping[str, Any]
) -> Iterator[Verdict]:
    factory = rebuilt(run, str(then["env"]), options_of(then, given), "exact")
    require_same(then, factory.facts(), force)
    tasks = {task.id: task for task in factory.tasks}
    mark, replies, said = kept_mark(run / "judged"), ReplyCache(run / "judged" / "replies.jsonl"), dict[str, str]()
    with closing(factory()) as env:
        for episode in ambiguous:
            task = tasks[episode.task]
            env.reset(options={"task": task.id})
            observation, *_, info = env.step(task.gold)
            right, answer = _whole(observation, info["truncated_output"]), _answer(episode, env)
            question = None
            if right is not None and answer is not None:
                parts = {"The task": task.query, "The right answer": right, "The answer to judge": answer}
                question = "\n\n".join(f"{name}:\n{mark}\n{text.replace(mark, '')}\n{mark}" for name, text in parts.items())
            if question and question not in said:
                instructions = _INSTRUCTIONS.substitute(mark=mark, word=word_of(mark))
                messages = [{"role": "system", "content": instructions}, {"role": "user", "content": question}]
                said[question] = EpisodeModel(model, cache=replies).complete(messages).text
            reply = said[question] if question else None
            yield Verdict(episode.task, episode.epoch, model.name, read_verdict(reply or "", word_of(mark)), reply)


def _answer(episode: Episode, env: InterCodeEnv) -> str | None:
    """The answer that was submitted, or what was printed last before; None if not all of it was recorded."""
    if answer := answer_in(submitted_word(env.submission, episode.line[-1].action or "")):
        return _whole(answer, False)
    seen = [turn for turn in episode.line if not is_submission(turn.action, env.submission)]
    return _whole(seen[-1].observation, seen[-1].truncated_output) if seen else ""


def _whole(text: str, cut: bool) -> str | None:
    return None if cut or len(text) > LONGEST else text


def word_of(mark: str) -> str:
    """What a reply begins with. It is not what stands around the data, which they could ask the model to repeat."""
    return hashlib.sha256(mark.encode()).hexdigest()[: len(mark)]


def read_verdict(reply: str, word: str) -> Opinion | None:
    """None for anything but the word and a verdict."""
    forms: dict[str, Opinion] = {f"{word} same": "same", f"{word} different": "different"}
    return forms.get(reply.strip())


def kept_mark(folder: Path) -> str:
    """Drawn once the agents are done, and kept, so that a question stays the same and its reply is found again.

    One that is no mark, which a full disk may have left, is drawn anew.
    """
    path = folder / "mark"
    with storage_faults(folder.parent):
        folder.mkdir(exist_ok=True)
        known = path.read_bytes().decode("ascii", "replace") if path.exists() else ""
        if not re.fullmatch("[0-9a-f]{32}", known):
            known = secrets.token_hex(16)
            write_whole(path, known)
    return known


def kept_verdicts(run: str | Path) -> list[Verdict]:
    """Those that were kept when the run was last judged; none if it never was. Raises `StoreError` for anything else there."""
    file = _kept_in(Path(run))
    try:
        with storage_faults(Path(run)):
            return [_verdict(json.loads(line)) for line in file.read_bytes().splitlines()] if file.exists() else []
    except (ValueError, TypeError, RecursionError) as error:
        raise StoreError(f"{file} is damaged ({error}); judge the run again") from error


def _verdict(record: dict[str, Any]) -> Verdict:
    verdict = Verdict(**record)
    texts = verdict.task, verdict.judge, verdict.reply or ""
    if not all(isinstance(text, str) for text in texts) or verdict.says not in (None, "same", "different"):
        raise ValueError("a line is no verdict")
    if type(verdict.epoch) is not int:
        raise ValueError(f"{verdict.epoch!r:.50} is no epoch")
    return verdict


def _kept_in(run: Path) -> Path:
    return run / "judged" / "verdicts.jsonl"
