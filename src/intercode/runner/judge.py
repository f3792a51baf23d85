"""A second opinion on answers of which `exact` is unsure: a model is asked whether they tell what the gold's answer tells.

    episode that is `unsure` ── its answer, what the gold prints ──► question ──► `same`, `different` or none
                                                                        └── RUN/judged/replies.jsonl: nothing is asked twice

`reward` and `success` stay what they are. What an agent printed is data to the judge: it lies between lines with a word that is
drawn when the run is first judged (RUN/judged/mark), is cut to `LONGEST`, and a reply counts only if it is that word and a
verdict, nothing else. A model can be talked over all the same: a verdict is an opinion and no score.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from string import Template
from typing import Any, Literal

from intercode.env import InterCodeEnv
from intercode.errors import StoreError, UsageError
from intercode.models.base import Model
from intercode.runner.asking import Asking
from intercode.runner.journal import Notes
from intercode.runner.rescore import options_of, rebuilt, require_same
from intercode.store import read_run, storage_faults
from intercode.submission import is_submission
from intercode.types import Episode, Task

LONGEST = 6000
"""Characters of each text that a judge is shown."""
_INSTRUCTIONS = Template(Path(__file__).with_suffix(".txt").read_text("utf-8"))

Opinion = Literal["same", "different"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`says` is None where the reply had not the form that counts; `reply` is what the model wrote."""

    task: str
    epoch: int
    judge: str
    says: Opinion | None
    reply: str


def judge_run(run: str | Path, model: Model, *, force: bool = False, **given: Any) -> list[Verdict]:
    """A verdict on each unsure episode of a run, kept in RUN/judged/verdicts.jsonl.

    `given` are options that say where its data are now. Raises `UsageError` if nothing says what it is unsure of, or its
    world cannot be rebuilt; `force` allows another userland.
    """
    then, episodes = read_run(run)
    if then.get("reward") != "exact":
        raise UsageError(f"{run} was scored by {then.get('reward')}, which is never unsure; rescore it with --reward exact")
    unsure = [episode for episode in episodes if episode.unsure]
    found = list(_verdicts(Path(run), then, unsure, model, force, given)) if unsure else []
    _keep(Path(run), found)
    return found


def summary(run: str, model: Model, episodes: list[Episode], verdicts: list[Verdict]) -> dict[str, Any]:
    """What was said, and apart from it what was scored."""
    scored = [episode for episode in episodes if episode.reward is not None]
    says = Counter(verdict.says or "none" for verdict in verdicts)
    return {
        "run": run, "judge": model.name, "episodes": len(scored), "solved": sum(episode.success for episode in scored),
        "unsure": len(verdicts), **{each: says[each] for each in ("same", "different", "none")},
        "judged": [asdict(verdict) for verdict in verdicts],
    }  # fmt: skip


def _verdicts(
    run: Path, then: Mapping[str, Any], unsure: list[Episode], model: Model, force: bool, given: Mapping[str, Any]
) -> Iterator[Verdict]:
    setting = rebuilt(run, str(then["env"]), options_of(then, given), "exact")
    require_same(then, setting.facts(), force)
    tasks = {task.id: task for task in setting.tasks}
    mark, replies, said = _mark(run / "judged"), Notes(run / "judged" / "replies.jsonl"), dict[str, str]()
    with closing(setting()) as env:
        for episode in unsure:
            question = _question(tasks[episode.task], _printed(env, tasks[episode.task]), _answer(episode, env), mark)
            if question not in said:
                messages = [
                    {"role": "system", "content": _INSTRUCTIONS.substitute(mark=mark)},
                    {"role": "user", "content": question},
                ]
                said[question] = Asking(model, notes=replies).complete(messages).text
            yield Verdict(episode.task, episode.epoch, model.name, read_verdict(said[question], mark), said[question])


def _printed(env: InterCodeEnv, task: Task) -> str:
    """What the agent would have seen, had it answered as the gold."""
    env.reset(options={"task": task.id})
    return env.step(task.gold)[0]


def _answer(episode: Episode, env: InterCodeEnv) -> str:
    """What was printed last before it was handed in."""
    seen = [turn.observation for turn in episode.line if not is_submission(turn.action, env.submission)]
    return seen[-1] if seen else ""


def _question(task: Task, right: str, answer: str, mark: str) -> str:
    parts = {"The task": task.query, "The right answer": right, "The answer to judge": answer}
    return "\n\n".join(f"{name}:\n{mark}\n{_data(text, mark)}\n{mark}" for name, text in parts.items())


def _data(text: str, mark: str) -> str:
    text = text.replace(mark, "")
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}\n[{len(text) - LONGEST} more characters are not shown]"


def read_verdict(reply: str, mark: str) -> Opinion | None:
    """None for anything but the mark and one word."""
    forms: dict[str, Opinion] = {f"{mark} same": "same", f"{mark} different": "different"}
    return forms.get(reply.strip())


def _mark(folder: Path) -> str:
    """Drawn once the agents are done, and kept, so that a question stays the same and its reply is found again."""
    path = folder / "mark"
    with storage_faults(folder.parent):
        folder.mkdir(exist_ok=True)
        if not path.exists():
            path.write_text(secrets.token_hex(16))
        return path.read_text()


def kept_verdicts(run: str | Path) -> list[Verdict]:
    """Those that were kept when the run was last judged; none if it never was. Raises `StoreError` for anything else there."""
    file = _kept_in(Path(run))
    try:
        with storage_faults(Path(run)):
            return [Verdict(**json.loads(line)) for line in file.read_text("utf-8").splitlines()] if file.exists() else []
    except (ValueError, TypeError) as error:
        raise StoreError(f"{file} is damaged ({error}); judge the run again") from error


def _keep(run: Path, verdicts: list[Verdict]) -> None:
    with storage_faults(run):
        _kept_in(run).parent.mkdir(exist_ok=True)
        _kept_in(run).write_text("".join(json.dumps(asdict(each)) + "\n" for each in verdicts), "utf-8")


def _kept_in(run: Path) -> Path:
    return run / "judged" / "verdicts.jsonl"
