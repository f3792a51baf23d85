"""Ask a model for a second opinion on ambiguous answers: do they say the same as the gold's answer?

    episode that is `ambiguous` ── its answer, the gold's output ──► question
      ├── RUN/judged/replies.jsonl: nothing is asked twice
      └──► `same`, `different` or none

`reward` and `success` do not change. The agent's output is only data for the judge: it is enclosed
in lines with a random mark, drawn when the run is first judged (RUN/judged/mark). A reply counts
only if it consists of another word, which is only in the instructions, and a verdict. If a text is
too long to be read whole, the model is not asked. An answer may still persuade the model: a verdict
is an opinion, not a score.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from string import Template
from typing import Any, Literal, NamedTuple

from intercode.env import InterCodeEnv
from intercode.errors import StoreError, UsageError
from intercode.models import Model
from intercode.options import Settings
from intercode.rescoring.rescore import options_of, rebuild, require_data, require_same, taken_from
from intercode.runner.episode_model import EpisodeModel
from intercode.runner.reply_cache import ReplyCache
from intercode.runs.store import alone_in, read_inside, storage_faults, stream_run, write_whole
from intercode.runs.trust import require_trust
from intercode.submission import answer_in, is_submission, submitted_word
from intercode.types import Episode

LONGEST = 8000
"""The most characters of a text that a judge reads. A longer text, or one that the agent did not
see whole, is not judged."""
_INSTRUCTIONS = Template(Path(__file__).with_suffix(".txt").read_text("utf-8"))

Opinion = Literal["same", "different"]


class JudgeVerdict(NamedTuple):
    """A judge's opinion: `says` is None if the reply has another form; `reply` is None if the model
    was not asked."""

    task: str
    epoch: int
    judge: str
    says: Opinion | None
    reply: str | None


def judge_run(
    run: str | Path, model: Model, *, force: bool = False, trust: bool = False, **options: Any
) -> list[JudgeVerdict]:
    """Judge each ambiguous episode of a run, and keep the verdicts in RUN/judged/verdicts.jsonl,
    with those of other judges.

    `options` say where its data are now. Raises `UsageError` if the run marks no ambiguous answers
    or its world cannot be rebuilt; `StoreError` if another process plays or judges it. `force`
    allows another userland, `trust` what the run names.
    """
    then, episodes = stream_run(run)
    if then.get("reward") != "exact":
        raise UsageError(
            f"{run} was scored by {then.get('reward')}, which marks no answers; "
            "rescore it with --reward exact"
        )
    if not episodes:
        raise UsageError(f"{run} holds no episodes, so there is nothing to judge")
    ambiguous = episodes.at(n for n, episode in enumerate(episodes) if episode.ambiguous)
    if not ambiguous:
        return []
    world = options_of(then, options)
    require_trust(then, {"env": then["env"], **taken_from(world, options)}, trust=trust)
    require_data(then, world)
    with alone_in(Path(run)):
        verdicts = list(_verdicts(Path(run), then, ambiguous, model, force, world))
        # earlier verdicts of this judge are replaced; those of others stay unless they are damaged
        stored = verdicts
        with suppress(StoreError):
            earlier = read_verdicts(run)
            stored = [verdict for verdict in earlier if verdict.judge != model.name] + verdicts
        lines = "".join(json.dumps(verdict._asdict()) + "\n" for verdict in stored)
        with storage_faults(Path(run)):
            write_whole(Path(run) / "judged" / "verdicts.jsonl", lines)
    return verdicts


def summary(
    run: str, model: Model, episodes: Iterable[Episode], verdicts: list[JudgeVerdict]
) -> dict[str, Any]:
    """Return the keys of `rescore --judge --json`: the scores and, separately, the verdicts."""
    successes = [episode.success for episode in episodes if episode.reward is not None]
    says = Counter(verdict.says or "none" for verdict in verdicts)
    return {
        "run": run,
        "judge": model.name,
        "episodes": len(successes),
        "solved": sum(successes),
        "ambiguous": len(verdicts),
        "same": says["same"],
        "different": says["different"],
        "none": says["none"],
        "judged": [verdict._asdict() for verdict in verdicts],
    }


def _verdicts(
    run: Path,
    then: Settings,
    ambiguous: Iterable[Episode],
    model: Model,
    force: bool,
    options: Settings,
) -> Iterator[JudgeVerdict]:
    factory = rebuild(run, str(then["env"]), options, "exact")
    require_same(then, factory.facts(), force)
    tasks = {task.id: task for task in factory.tasks}
    mark = mark_of(run / "judged")
    # Not the mark itself, which the data could ask the model to repeat.
    word = hashlib.sha256(mark.encode()).hexdigest()[: len(mark)]
    instructions = _INSTRUCTIONS.substitute(mark=mark, word=word)
    cache, replies = ReplyCache(run / "judged" / "replies.jsonl"), dict[str, str]()
    opinions: dict[str, Opinion] = {f"{word} same": "same", f"{word} different": "different"}
    with closing(factory()) as env:
        for episode in ambiguous:
            task = tasks[episode.task]
            env.reset(options={"task": task.id})
            observation, *_, info = env.step(task.gold)
            answer, reply = _answer(episode, env), None
            if answer is not None and len(observation) <= LONGEST and not info["truncated_output"]:
                parts = {
                    "The task": task.query,
                    "The right answer": observation,
                    "The answer to judge": answer,
                }
                texts = []
                for name, text in parts.items():
                    texts.append(f"{name}:\n{mark}\n{text.replace(mark, '')}\n{mark}")
                question = "\n\n".join(texts)
                if question not in replies:
                    messages = [
                        {"role": "system", "content": instructions},
                        {"role": "user", "content": question},
                    ]
                    replies[question] = EpisodeModel(model, cache=cache).complete(messages).text
                reply = replies[question]
            says = opinions.get((reply or "").strip())
            yield JudgeVerdict(episode.task, episode.epoch, model.name, says, reply)


def _answer(episode: Episode, env: InterCodeEnv) -> str | None:
    """Return the submitted answer, or the last output before it; None if that is too long, or the
    record does not contain all of it."""
    answer = answer_in(submitted_word(env.submission, episode.line[-1].action or ""))
    if not answer:
        answer = ""
        for turn in episode.line:
            if not is_submission(turn.action, env.submission):
                answer = None if turn.truncated_output else turn.observation
    return None if answer is None or len(answer) > LONGEST else answer


def mark_of(folder: Path) -> str:
    """Return the mark of a judged run; draw and keep it if there is none, or a full disk damaged
    it.

    It is drawn after the agents are done. It is kept so that a question stays the same and its
    reply is found again.
    """
    path = folder / "mark"
    with storage_faults(folder.parent):
        folder.mkdir(exist_ok=True)
        mark = ""
        if path.exists():
            mark = read_inside(folder.parent, folder.name, path.name).decode("ascii", "replace")
        if not re.fullmatch("[0-9a-f]{32}", mark):
            mark = secrets.token_hex(16)
            write_whole(path, mark)
    return mark


def read_verdicts(run: str | Path) -> list[JudgeVerdict]:
    """Return the kept verdicts of a run; none if it was never judged. Raises `StoreError` for a
    damaged file."""
    file = Path(run) / "judged" / "verdicts.jsonl"
    content = b""
    try:
        with storage_faults(Path(run)):
            if file.exists():
                content = read_inside(Path(run), "judged", "verdicts.jsonl")
        return [JudgeVerdict(**json.loads(line)) for line in content.splitlines()]
    except (ValueError, TypeError, RecursionError) as error:
        raise StoreError(f"{file} is damaged ({error}); judge the run again") from error
