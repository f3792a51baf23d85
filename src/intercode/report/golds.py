"""The golds of a run's tasks, from its data: what a reader wants to see next to the agent's action.

No code is executed, and a path is read only from a run with the user's signature. The flags of CTF
tasks are never shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from intercode.envs import environment_class
from intercode.errors import IntercodeError
from intercode.rescoring.rescore import options_of
from intercode.trust import is_vouched

_ENVIRONMENTS = ("bash", "sql", "python")


def golds_of(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the gold of each task; empty if the data of the run is not here, or has changed.

    `settings` are those in run.json.
    """
    env = settings.get("env")
    if env not in _ENVIRONMENTS or settings.get("preprocess"):
        return {}
    if settings.get("data_from") and not is_vouched(settings):
        return {}
    try:
        env_class = environment_class(env)
        options = options_of({"run": "", **settings}, {})
        names = ("data", "query_field", "gold_fields", "id_field", "db_field")
        chosen: dict[str, Any] = {name: options[name] for name in names if name in options}
        data = env_class.read_data(env_class.Options.of(chosen, f"the environment {env}"))
    except (IntercodeError, OSError, TypeError, ValueError, AttributeError):
        return {}
    is_same = data.digest == settings.get("data_digest")
    return {task.id: task.gold for task in data.tasks} if is_same else {}
