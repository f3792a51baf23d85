"""Write docs/options.md from the declared options: `options_table.py [--check]`.

`--check` writes nothing and ends with status 1 if the file is not what would be written.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from intercode.envs import ENVIRONMENTS, known_options
from intercode.options import SECTIONS, Option, RunOptions

PAGE = Path(__file__).parents[1] / "docs" / "options.md"
HEAD = """# Options

The options of `intercode eval`. `score`, `play`, `check`, `attack`, `replay` and `rescore` take
those of the environment, too. In Python, `intercode.make` and `intercode.prepare` take an
environment's options under the name in the second column, and `run.json` has them under that name.
A resumed run must have the same values, except where there is a †.
"""


def rows(section: str) -> Iterator[str]:
    for name, (_, one, environments) in known_options().items():
        if one.section == section:
            some = len(environments) < len(ENVIRONMENTS)
            yield row(name, one, ", ".join(environments) if some else "all")
    for name, _, one in RunOptions.declared():
        if one.section == section:
            yield row(name, one, "`eval`")


def row(name: str, one: Option, where: str) -> str:
    flag = f"`--{(one.flag or name).replace('_', '-')}`"
    free = "†" if one.recorded and not one.fixed else ""
    return f"| {flag} | `{name}`{free} | {where} | {one.help.replace('|', chr(92) + '|')} |"


def page() -> str:
    parts = [HEAD]
    for section in SECTIONS:
        parts.append(f"## {section}\n\n| option | name | taken by | meaning |\n|---|---|---|---|")
        parts[-1] += "".join(f"\n{line}" for line in rows(section)) + "\n"
    return "\n".join(parts)


def main() -> int:
    if "--check" in sys.argv:
        return PAGE.read_text("utf-8") != page()
    PAGE.write_text(page(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
