"""Write docs/options.md from the declared options: `options_table.py [--check]`.

`--check` writes nothing and ends with status 1 if the file is not what would be written.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from written import write_or_check

from intercode.envs import ENVIRONMENTS, known_options
from intercode.options import SECTIONS, Option, RunOptions

PAGE = Path(__file__).parents[1] / "docs" / "options.md"
HEAD = """# Options

`intercode eval ENV` and `intercode.evaluate` take these options. `score`, `play`, `check`,
`attack`, `replay`, `rescore`, `intercode.make` and `intercode.prepare` take those not marked
`eval`, in the environments listed. In Python and `run.json`, `--max-cost` is called `max_cost`, and
so on; different names are in parentheses. Defaults are in brackets. `--resume` requires the same
values, except for options marked †.
"""


def rows(section: str) -> Iterator[str]:
    for name, (default, one, environments) in known_options().items():
        if one.section == section:
            yield row(name, one, default, takers(environments))
    for name, default, one in RunOptions.declared():
        if one.section == section:
            yield row(name, one, default, "`eval`")


def takers(environments: Sequence[str]) -> str:
    """Describe the environments that take an option, such as "all but sql"."""
    others = [name for name in ENVIRONMENTS if name not in environments]
    if not others:
        return "all"
    return f"all but {others[0]}" if len(others) == 1 else ", ".join(environments)


def row(name: str, one: Option, default: Any, where: str) -> str:
    flag = f"`--{(one.flag or name).replace('_', '-')}`"
    other_name = f" (`{name}`)" if one.flag else ""
    free = "†" if one.recorded and not one.fixed else ""
    no_default = default is None or default is False or default == ()
    meaning = (one.help if no_default else f"{one.help} [{default}]").replace("|", r"\|")
    return f"| {flag}{free}{other_name} | {where} | {meaning} |"


def page() -> str:
    parts = [HEAD]
    for section in SECTIONS:
        parts.append(f"## {section}\n\n| option | for | meaning |\n|---|---|---|")
        parts[-1] += "".join(f"\n{line}" for line in rows(section)) + "\n"
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page()))
