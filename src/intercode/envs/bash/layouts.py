"""Published layouts of Bash tasks, recognized by the fields of their records.

    NL2SH-ALFA       nl, bash, and in the test set bash2, another gold
    AgentBench OS    description, evaluation, create, start; the gold prints what is expected, or
                     the published script decides

Other fields are unchanged.
"""

from __future__ import annotations

import re
import shlex

from intercode.errors import DataError
from intercode.tasks import Layout, Record

_COMPARES = re.compile(r"\[None, \{.*'file': '[^']*(?:integer|string)-match\.py'\}\]")
"""An AgentBench check that compares an answer with the output of the example."""


def _read_nl2sh(record: Record) -> Record:
    names = {"nl": "query", "bash": "gold"}
    converted = {names.get(name, name): value for name, value in record.items() if name != "bash2"}
    return {**converted, "golds": [gold] if (gold := record.get("bash2")) else []}


def _read_agentbench_os(record: Record) -> Record:
    """The harness of the set works in /, and takes the answer alone."""
    evaluation, create = record["evaluation"], record.get("create") or {}
    if not isinstance(create, dict):
        raise DataError(f"the field `create` is {create!r:.100}; an object is expected")
    converted = {
        **record,
        "query": record["description"],
        "setup": _script(create.get("init")) or None,
        "session_start": _script(record.get("start")) or None,
        "gold": _script(evaluation.get("example") or record.get("example")),
        "cwd": "/",
        "answer_form": "only",
        "files_count": False,
    }
    check, match = evaluation.get("check"), evaluation.get("match")
    if isinstance(match, str):
        converted["gold"] = f"echo {shlex.quote(match)}"
    elif isinstance(check, dict):
        converted |= {"verify": _script(check), "answer_form": None, "keep_processes": True}
    elif not _COMPARES.fullmatch(str(check)):
        raise DataError(f"its evaluation is {evaluation!r:.100}, which no gold or test here can be")
    return converted


def _script(script: str | dict[str, str] | None) -> str:
    """Return the text of a script, which may lie in a file of its own. Raises `DataError`."""
    if not isinstance(script, dict):
        return script or ""
    if "code" in script and script.get("language", "bash") == "bash":
        return script["code"]
    raise DataError(
        f"names the script {script.get('file', script)!r:.100}, and only Bash in the record is "
        'executed; write it there, as {"code": …}'
    )


LAYOUTS: tuple[Layout, ...] = (
    (("nl", "bash"), _read_nl2sh),
    (("description", "evaluation"), _read_agentbench_os),
)
