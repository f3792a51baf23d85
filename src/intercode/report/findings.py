"""What `check` found as a Markdown page: numbers of each kind, then examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from intercode.report.text import one_line
from intercode.tasks.issues import BROKEN, KINDS

EXAMPLES = 5


def markdown(found: Mapping[str, Any], title: str) -> str:
    return "\n".join(_lines(found, title)) + "\n"


def _lines(found: Mapping[str, Any], title: str) -> Iterator[str]:
    rows = [*found["broken"], *found["suspicious"]]
    blamed = {name: len({row["task"] for row in found[name]}) for name in ("broken", "suspicious")}
    yield f"# Check of {title}\n"
    yield f"{found['tasks']} tasks; {blamed['broken']} are broken, {blamed['suspicious']} suspicious (one may be both)."
    yield "Texts alone were looked at.\n" if found["gold_ok"] is None else f"The gold succeeds on {found['gold_ok']}.\n"
    yield "| kind | | tasks | meaning |\n|---|---|---|---|"
    for kind, count in found["kinds"].items():
        yield f"| {kind} | {'broken' if kind in BROKEN else 'suspicious'} | {count} | {KINDS[kind]} |"
    for kind in found["kinds"]:
        yield f"\n## {kind}\n"
        these = [row for row in rows if row["kind"] == kind]
        yield from (f"- task {_plain(row['task'])}: {_plain(row['why'])}" for row in these[:EXAMPLES])
        if len(these) > EXAMPLES:
            yield f"- and {len(these) - EXAMPLES} more"


def _plain(text: str) -> str:
    """Words of tasks are no markup."""
    return one_line(text, 300).replace("<", "&lt;").replace("|", "\\|")
