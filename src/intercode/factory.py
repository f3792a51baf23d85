"""Factories: read the data of an environment class once, and make environments that share it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from intercode.env import InterCodeEnv
from intercode.errors import UsageError, did_you_mean
from intercode.options import EnvOptions
from intercode.plugins import attribute_path
from intercode.reading import leave_all_out
from intercode.tasks import DataSet, open_data
from intercode.tasks.loader import DECIDING, near_fields
from intercode.types import Task, TaskIssue
from intercode.user import ROUND_FIELDS

_NAMED = 5
"""Reasons, and tasks with one reason, that an error names."""
OF_WORLD = """
setup session_start image cwd env services assets action_seconds memory processes disk files_count
db db_id evidence preprocess_sql
"""
"""Fields of an environment that hold for all rounds of a task."""
_WITH_STARTER_TASKS = ("intercode.envs.", "intercode.interop.")


@dataclass(frozen=True, slots=True)
class EnvFactory:
    """Tasks and settings that environments share; each call makes a new environment.

    `facts` returns what influences results beyond the options. `left_out` are tasks that cannot be
    played as they are, and why. A factory from `intercode.prepare` can be pickled, if its options
    can: the other process prepares the environment again.
    """

    tasks: Sequence[Task]
    make: Callable[[], InterCodeEnv]
    facts: Callable[[], dict[str, Any]] = dict
    left_out: Sequence[tuple[Task, TaskIssue]] = ()
    options: EnvOptions = field(default_factory=EnvOptions)
    prepare_again: Callable[[Sequence[Task]], EnvFactory] | None = None
    """Makes an equal factory for these tasks in another process."""

    def __call__(self) -> InterCodeEnv:
        return self.make()

    def __reduce__(self) -> Any:
        if self.prepare_again is None:
            raise TypeError("only a factory from `intercode.prepare` can be pickled")
        return self.prepare_again, (self.tasks,)


def prepare_class(env_class: type[InterCodeEnv], options: EnvOptions) -> EnvFactory:
    """Read the data and call `prepare_world`, once for all environments of the factory."""
    reward, names = options.chosen_reward, [*env_class.rewards]
    # a class's own method is not a single word: "GardenEnv.reward"
    if names and isinstance(reward, str) and reward.isidentifier() and reward not in names:
        known = ", ".join(map(repr, names))
        raise UsageError(
            f"reward {reward!r}: use {known}, or a function (module:function)"
            f"{did_you_mean(reward, names)}"
        )
    data, episode = env_class.read_data(options), options.episode()
    prepared = env_class.prepare_world(data, options)
    tasks = data.tasks if prepared.tasks is None else prepared.tasks
    left_out = (*data.left_out, *prepared.left_out)
    facts = {"data": data.name, "data_digest": data.digest}
    reasons = dict[str, str]()
    place = data.file and data.folder
    for task, issue in left_out:
        # equal wherever the data lies, since a run is resumed with equal facts
        why = issue.replace(f"{place}/", "")
        if task.id in reasons:
            why = f"{reasons[task.id]}; {why}"
        reasons[task.id] = why
    why_left_out = {"left_out": reasons} if reasons else {}
    return EnvFactory(
        tasks,
        lambda: env_class(tasks, **prepared.arguments, **episode),
        lambda: {**facts, **prepared.facts(), **why_left_out},
        left_out,
        options,
    )


def read_data(env_class: type[InterCodeEnv], options: EnvOptions) -> DataSet:
    """Return the data that the options name, or else the data that the class names.

    Raises what `open_data` raises, and `UsageError` if neither names any data.
    """
    source = options.data or attribute_path(env_class, "data")
    # a reward or a class of the caller's own may read any field
    is_ours = env_class.__module__.startswith(_WITH_STARTER_TASKS)
    if source is None and not is_ours:
        raise UsageError(
            f"{env_class.__qualname__} has no tasks; name their file by its attribute `data`, or"
            " with --data"
        )
    by_name = options.chosen_reward is None or options.chosen_reward in env_class.rewards
    read = (*env_class.fields, *env_class.decided_by)
    reader = env_class.reader(source)
    round_fields = set[str]()
    if not (reader or options.gold_fields or options.field_names):
        round_fields = {*ROUND_FIELDS, *read}.difference(OF_WORLD.split())
    data = open_data(
        source,
        env=env_class.language.name,
        split=options.split,
        limit=options.limit,
        preprocess=options.chosen_preprocess or env_class.preprocess,
        layouts=env_class.layouts,
        gold_fields=options.gold_fields,
        names=options.field_names,
        decided_by=env_class.decided_by,
        judged_by=env_class.judged_by,
        gold_pattern=env_class.gold_pattern,
        unread=[name for name in DECIDING if is_ours and by_name and name not in read],
        round_fields=round_fields,
        records=reader,
        between=env_class.language.between,
    )
    leave_all_out([why for _, why in data.left_out])
    if misspelt := misspelt_fields(env_class, data.tasks):
        warnings.warn(f"{data.name}: {'; '.join(misspelt)}", RuntimeWarning, stacklevel=2)
    return data


def chosen_reward(env_class: type[InterCodeEnv], options: EnvOptions) -> tuple[Any, Any]:
    """Return the reward for `__init__`, and its function or name. The first is None for the class's
    own attribute `reward`, which may be a method."""
    if options.reward is None and hasattr(env_class, "reward"):
        return None, env_class.reward
    return options.chosen_reward, options.chosen_reward


def misspelt_fields(env_class: type[InterCodeEnv], tasks: Iterable[Task]) -> list[str]:
    """Return a sentence for each field of the tasks that seems to be misspelt."""
    columns = {name for columns, _ in env_class.layouts for name in columns}
    return near_fields(tasks, (*env_class.fields, *env_class.decided_by), columns)


def none_playable(left_out: Sequence[tuple[Task, TaskIssue]]) -> str:
    """Return that none of the tasks can be played, with the most frequent reasons and some tasks
    that have them."""
    by_reason: dict[str, list[str]] = {}
    for task, issue in left_out:
        by_reason.setdefault(str(issue), []).append(task.id)
    reasons = sorted(by_reason.items(), key=lambda reason: -len(reason[1]))
    sentences = []
    for why, ids in reasons[:_NAMED]:
        more = ", …" if len(ids) > _NAMED else ""
        sentences.append(f"{why} ({len(ids)}: {', '.join(ids[:_NAMED])}{more})")
    if len(reasons) > _NAMED:
        sentences.append(f"and {len(reasons) - _NAMED} other reasons")
    number = len({task.id for task, _ in left_out})
    return f"none of {number} tasks can be played here: {'; '.join(sentences)}"
