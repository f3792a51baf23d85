"""What models cost, from a table that the user keeps: none comes with the program, since prices change without notice.

# ~/.config/intercode/prices.toml: US dollars per million tokens, in and out
small-model = [0.15, 0.60]
"vendor/large-model" = [3, 15]
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from intercode.errors import UsageError

Price = tuple[float, float]
"""US dollars per million tokens, in and out."""


def table_path() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "intercode" / "prices.toml"


def listed_price(model: str) -> Price | None:
    """The price that the table has for `model`. Raises `UsageError` for a table that cannot be read."""
    path = table_path()
    if not path.exists():
        return None
    try:
        entry = tomllib.loads(path.read_text(encoding="utf-8")).get(model)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}; mend the table of prices") from error
    match entry:
        case None:
            return None
        case [int() | float() as tokens_in, int() | float() as tokens_out] if 0 <= tokens_in < 1e9 and 0 <= tokens_out < 1e9:
            return float(tokens_in), float(tokens_out)
    raise UsageError(f'{path}: {model} must be two numbers of 0 or more, such as "{model}" = [0.15, 0.60]')
