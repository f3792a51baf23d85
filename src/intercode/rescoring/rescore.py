"""Score a run under another reward: from the record where it decides the score, else by executing
the episode again.

    observed    the agent never submitted, or broke its sandbox: 0 under every reward
    executed    everything else: a record shows what the agent saw, not its effect on files,
                databases or interpreters
    kept        episodes without a result
    earlier     episodes that a resumed run has already

Data and userland must match the run's: they are compared with the record before anything is scored.
For an executed episode, the first turn whose observation differs shows where it took another course
than in the run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from intercode.agents import SUBMIT
from intercode.agents import replay as replay_agent
from intercode.env import InterCodeEnv
from intercode.envs import environment_class, known_options, prepare
from intercode.errors import DataError, UsageError
from intercode.factory import EnvFactory
from intercode.options import Settings
from intercode.reading import present
from intercode.rescoring.recordings import Recording, require_executable
from intercode.runner.run import evaluate
from intercode.runs.store import RunStore, stream_run
from intercode.runs.trust import may_be_signed, require_trust
from intercode.submission import is_submission
from intercode.tasks import list_entries
from intercode.types import Ended, Episode, Score, Turn, line_of

KEPT_SETTINGS = ("protocol", "session", "tell", "submits")
"""Options that keep the run's values."""
DATA = ("data_digest", "assets_digest")
"""Facts that `force` does not override: with other data, these are not the run's tasks."""


class Rescoring:
    """One run that is scored by `reward`; `given` says where its data are now.

    Raises `UsageError` if its world cannot be rebuilt or differs; `force` allows another userland,
    `trust` what an unsigned run names. `signs`: the new run may be signed.
    """

    def __init__(
        self,
        run: str | Path,
        reward: str,
        *,
        force: bool = False,
        trust: bool = False,
        **given: Any,
    ) -> None:
        then, self.episodes = stream_run(run)
        if lacking := sorted({"env", "agent"} - then.keys()):
            raise UsageError(
                f"{run} does not say its {' and '.join(lacking)}: it cannot be scored again"
            )
        require_executable(run, then)
        if then.get("reward") is None:
            raise UsageError(
                f"{run} cannot be scored again: its environment has one reward of its own"
            )
        if then.get("reward") == reward:
            raise UsageError(f"{run} was scored by {reward} already")
        self.env, self._run = str(then["env"]), str(run)
        options = options_of(then, given)
        require_trust(then, {"env": self.env, **taken_from(options, given)}, trust=trust)
        require_data(then, options)
        self.signs = trust or may_be_signed(then)
        env_class = environment_class(self.env)
        old_reward = then["reward"] if then["reward"] in env_class.rewards else reward
        require_same(then, rebuild(run, self.env, options, old_reward).facts(), force)
        played_for = then.get("played_for", then["reward"])
        self._submission = env_class.submission_under(played_for)
        self.factory = with_submission(self._submission, rebuild(run, self.env, options, reward))
        self.config = {
            **then,
            **self.factory.facts(),
            "data_from": options.get("data"),
            "rescored_from": str(run),
            "played_for": played_for,
        }
        if "values" in then:
            self.config["values"] = False
        self._protocol = then.get("protocol", SUBMIT)
        self._tasks = {task.id: task for task in self.factory.tasks}
        if missing := sorted({episode.task for episode in self.episodes} - set(self._tasks)):
            raise UsageError(
                f"the task {missing[0]} of {run} is not among these tasks; "
                "give the run's own with --data"
            )

    def run(
        self, store: RunStore, *, workers: int, tick: Callable[[Episode], None]
    ) -> list[dict[str, Any]]:
        """Return a row for each episode, in the order of the data: `how` it got its score, and the
        first turn, from 0, whose observation `differs` from the recorded one. Each episode that
        `store` lacks is added to it as soon as it has its score.

        `tick` is called with each of those.
        """
        rows: list[dict[str, Any]] = []
        to_execute: dict[int, list[int]] = {}
        stored, places = store.episodes(), dict[tuple[str, int], int]()
        for place, episode in enumerate(stored):
            if episode.reward is not None:
                places[episode.task, episode.epoch] = place

        def note(now: Episode, then: Episode, how: str, differs: int | None = None) -> None:
            if how != "earlier":
                store.append(now)
                tick(now)
            rows.append(_row(now, then, how, differs))

        for number, episode in enumerate(self.episodes):
            if (episode.task, episode.epoch) in places:
                note(stored[places[episode.task, episode.epoch]], episode, "earlier")
            elif episode.reward is None:
                note(episode, episode, "kept")
            elif episode.ended == "agent_fault" or (
                self._protocol == SUBMIT and not any(map(self._submits, episode.line))
            ):
                note(_with_score(episode, Score(0.0, False)), episode, "observed")
            else:
                to_execute.setdefault(episode.epoch, []).append(number)
        for _, numbers in sorted(to_execute.items()):
            recording = Recording(self._run, {}, self.episodes.at(numbers))

            def compare(again: Episode, recording: Recording = recording) -> None:
                then = recording.find(self._tasks[again.task])
                note(self._scored(again, then), then, "executed", self._difference(again, then))

            evaluate(
                self.factory,
                replay_agent(recording),
                tasks=[self._tasks[episode.task] for episode in recording.episodes],
                workers=workers,
                on_episode=compare,
                collect=False,
            )
        order = {task: place for place, task in enumerate(self._tasks)}
        return sorted(rows, key=lambda row: (order[row["task"]], row["epoch"]))

    def _submits(self, turn: Turn) -> bool:
        return is_submission(turn.action, self._submission)

    def _scored(self, again: Episode, then: Episode) -> Episode:
        """Return an episode with the score that it got when it was executed again."""
        if again.error is not None:
            return replace(
                then, reward=None, success=False, parts={}, ended=None, error=again.error
            )
        turns = [replace(turn, score=None) for turn in then.turns]
        for place, turn in zip(line_of(then.turns), again.turns, strict=False):
            turns[place] = replace(turns[place], score=turn.score)
        now = Score(again.reward or 0.0, again.success, again.parts, again.ambiguous)
        ended = _end(then, again, self._protocol)
        outcomes = dict(then.outcomes)
        if "rounds" in again.outcomes:
            outcomes["rounds"] = again.outcomes["rounds"]
        return _with_score(replace(then, turns=tuple(turns), ended=ended, outcomes=outcomes), now)

    def _difference(self, again: Episode, then: Episode) -> int | None:
        """Return the first turn whose observation differs. Feedback to a submission depends on the
        reward, and the note to a reply without code is not output: both may differ."""
        for number, (old, new) in enumerate(zip(then.line, again.turns, strict=False)):
            is_output = old.action is not None and not self._submits(old)
            if is_output and old.observation != new.observation and again.error is None:
                return number
        return None


def _row(now: Episode, then: Episode, how: str, differs: int | None) -> dict[str, Any]:
    return {
        "task": now.task,
        "epoch": now.epoch,
        "how": how,
        "recorded": then.reward,
        "reward": now.reward,
        "success": now.success,
        "differs": differs,
        "error": now.error,
    }


def options_of(then: Settings, given: Settings) -> dict[str, Any]:
    """Return the environment's options of a run with settings `then`, without its reward; `given`
    replaces all but `KEPT_SETTINGS`. Raises `UsageError` without data."""
    options = {}
    for name, (_, declaration, _) in known_options().items():
        if name in KEPT_SETTINGS or (declaration.recorded and not given.get(name)):
            options[name] = then.get(name)
        else:
            options[name] = given.get(name)
    data = given.get("data") or then.get("data_from")
    if not data:  # the catalog has it, or the environment brings it
        name, env = str(then.get("data") or ""), str(then["env"])
        if name in {entry.name for entry in list_entries()}:
            data = name
        elif name and name != f"{env}-starter" and ":" not in env:
            raise UsageError(
                f"{then['run']} does not say where its data ({name}) are; "
                "name their file or folder with --data"
            )
    server = then.get("server")  # the engine's, or a fact of the user's own environment
    if isinstance(server, dict):
        options["engine"] = options["engine"] or server.get("engine")
    options |= {"reward": None, "data": data, "sandbox": then.get("sandbox")}
    if options["sandbox"] == "local":
        del options["sandbox"]
    return {name: value for name, value in options.items() if value}


def require_data(then: Settings, options: Settings) -> None:
    """Raise `UsageError` if the data of a run with settings `then` are not where they were."""
    data = options.get("data")
    if data and data == then.get("data_from") and not present(data):
        raise UsageError(
            f"the data of {then['run']} were at {data}, which is not here; "
            "say where they are now with --data"
        )


def taken_from(options: Settings, given: Settings) -> dict[str, Any]:
    """Return the options that the command line did not give."""
    return {name: value for name, value in options.items() if not given.get(name)}


def rebuild(run: str | Path, env: str, options: Settings, reward: str) -> EnvFactory:
    """Return a factory with the data and the world of a run. Raises `UsageError` if they are not
    here."""
    try:
        return prepare(env, reward=reward, max_turns=None, keep_going=True, **options)
    except (UsageError, DataError) as error:
        where = "say where its parts are now with --data, --tree and the like"
        raise UsageError(f"the world of {run} cannot be rebuilt here: {error} ({where})") from error


def require_same(then: Settings, now: Settings, force: bool) -> None:
    """Raise `UsageError` if the facts `now` are not those of the run's settings `then`. `force`
    allows all but other data."""
    differing = {}
    for key, value in sorted(json.loads(json.dumps(now)).items()):
        if key != "data" and then.get(key) != value:
            differing[key] = f"{key}: {then.get(key)!r:.200} then, {value!r:.200} now"
    differences = "; ".join(differing.values())
    if differing.keys() & set(DATA):
        raise UsageError(
            f"these are not the data of {then['run']} ({differences}); "
            "give the run's own with --data"
        )
    if differing and not force:
        raise UsageError(
            f"this is not the world of {then['run']} ({differences}); "
            "add --force to score in it anyway"
        )


def _with_score(episode: Episode, score: Score) -> Episode:
    """Return the episode with another score, and without values between turns, which belong to the
    old reward."""
    return replace(
        episode,
        turns=tuple(replace(turn, value=None) for turn in episode.turns),
        reward=score.reward,
        success=score.success,
        parts=score.parts,
        ambiguous=score.ambiguous,
    )


def _end(then: Episode, again: Episode, protocol: str) -> Ended | None:
    """Return how a rescored episode ended. Under `paper`, success ends it; an episode that no
    longer succeeds ran out of turns."""
    if again.ended == "agent_fault":
        return again.ended
    if protocol == SUBMIT:
        return then.ended if then.ended == "limit" else again.ended
    if again.success:
        return "solved"
    return "turns" if then.ended == "solved" else then.ended


def with_submission(submission: re.Pattern[str], factory: EnvFactory) -> EnvFactory:
    """Return a factory whose environments submit by the pattern `submission`, as they did when the
    record was made."""

    def make() -> InterCodeEnv:
        env = factory.make()
        env.submission = submission
        return env

    return replace(factory, make=make)
