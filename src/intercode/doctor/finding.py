"""What is found."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """`ok` is None for what sandboxes can do without, and for what could not be tried. `mend` is "" where all is well."""

    what: str
    ok: bool | None
    detail: str
    mend: str
