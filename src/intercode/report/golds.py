"""The golds of a run's tasks, from its data: what a reader wants to see next to the agent's action.

No code is executed, and a path is read only if the user names it or has signed the run. The flags
of CTF tasks are never shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from intercode.envs import environment_class
from intercode.errors import IntercodeError, UsageError
from intercode.rescoring.rescore import options_of, require_data
from intercode.runs.trust import may_be_signed
from intercode.user import golds_of as rounds_golds

_ENVIRONMENTS = ("bash", "sql", "python")


def golds_of(settings: Mapping[str, Any], data: str | None = None) -> tuple[dict[str, str], str]:
    """Return the gold of each task, with those of later rounds, or why a reader does not see them.

    `settings` are those in run.json, with the path of the run. `data` is where its data are now.
    """
    env, run = settings.get("env"), settings["run"]
    if env not in _ENVIRONMENTS or settings.get("preprocess") or not settings.get("data_digest"):
        return {}, ""
    if settings.get("data_from") and not data and not may_be_signed(settings):
        return {}, f"{run} is not signed by you, so its data are not read; name them with --data"
    try:
        options = options_of(settings, {"data": data})
        require_data(settings, options)
    except UsageError as error:
        return {}, str(error)
    try:
        env_class = environment_class(env)
        names = ("data", "query_field", "gold_fields", "id_field", "db_field")
        chosen: dict[str, Any] = {name: options[name] for name in names if name in options}
        tasks = env_class.read_data(env_class.Options.of(chosen, f"the environment {env}"))
    except (IntercodeError, OSError, TypeError, ValueError, AttributeError) as error:
        return {}, f"the data of {run} cannot be read ({error}); name them with --data"
    if tasks.digest != settings["data_digest"]:
        where = options.get("data", "those that come with intercode")
        return {}, f"{where} are not the data of {run}; name the run's own with --data"
    golds = {}
    for task in tasks.tasks:
        *_, last = (task, *task.rounds)
        golds[task.id] = "\n\n# next round\n".join(rounds_golds(last))
    return golds, ""
