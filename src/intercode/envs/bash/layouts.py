"""Published layouts of Bash tasks, recognized by the fields of their records.

    NL2SH-ALFA       nl, bash, and in the test set bash2, another gold
    AgentBench OS    description, evaluation, create, start; the gold prints what is expected, or
                     the published script decides

Other fields are unchanged.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

from intercode.errors import DataError
from intercode.tasks import Layout, Record

_COMPARES = re.compile(r"\[None, \{.*'file': '[^']*(?:integer|string)-match\.py'\}\]")
"""An AgentBench check that compares an answer with the output of the example."""


def _read_nl2sh(record: Record) -> Record:
    return {
        **record,
        "query": record["nl"],
        "golds": [record["bash"], *filter(None, [record.get("bash2")])],
        **dict.fromkeys(("nl", "bash", "bash2")),
    }


def _read_agentbench_os(record: Record) -> Record:
    """The harness of the set works in /, and takes the answer alone."""
    evaluation, create = record["evaluation"], record.get("create") or {}
    match, check = evaluation.get("match"), evaluation.get("check")
    converted = {
        **record,
        "query": record["description"],
        "setup": _script(create.get("init") if isinstance(create, dict) else create),
        "session_start": _script(record.get("start")),
        "gold": _script(evaluation.get("example")),
        "cwd": "/",
    }
    if isinstance(check, dict):
        return {**converted, "verify": _script(check), "keep_processes": True}
    if isinstance(match, str):
        converted["gold"] = f"echo {shlex.quote(match)}"
    elif not _COMPARES.fullmatch(str(check)):
        raise DataError(f"its evaluation is {evaluation!r:.100}, which no gold or test here can be")
    return {**converted, "answer_form": "only", "files_count": False}


def _script(script: Any) -> str | None:
    """Return the text of a script, which may lie in a file of its own. Raises `DataError`."""
    if isinstance(script, str | None):
        return script
    if isinstance(script, dict) and script.keys() == {"code"}:
        return str(script["code"])
    raise DataError(
        f"names the script {script!r:.100}, and only Bash in the record is executed; write its "
        'text there, as {"code": …}'
    )


LAYOUTS: tuple[Layout, ...] = (
    (("nl", "bash"), _read_nl2sh),
    (("description", "evaluation"), _read_agentbench_os),
)
