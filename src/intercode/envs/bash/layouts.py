"""Published layouts of Bash tasks, recognized by the fields of their records.

    NL2SH-ALFA    nl, bash, and in the test set bash2, another gold

Other fields are unchanged.
"""

from __future__ import annotations

from intercode.tasks import Layout, Record


def _read_nl2sh(record: Record) -> Record:
    names = {"nl": "query", "bash": "gold"}
    converted = {names.get(name, name): value for name, value in record.items() if name != "bash2"}
    return {**converted, "golds": [gold] if (gold := record.get("bash2")) else []}


LAYOUTS: tuple[Layout, ...] = ((("nl", "bash"), _read_nl2sh),)
