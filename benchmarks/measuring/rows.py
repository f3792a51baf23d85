"""What a script of benchmarks/ says: figures, each against another, some of them held to a bound.

main() -> int:  options = command(__doc__).parse_args()
                if absent(options, what, it, needs):        says so; no figures are no failure
                    return 0
                return finish(options, [Row(…), …])         a table or JSON, each missed bound in
                                                            words, the exit status
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Unit = Literal["s", "x", "B", ""]
"""Seconds, times, bytes, or a plain number."""


@dataclass(frozen=True)
class Row:
    """One figure. `bound` is the most that the ratio may be, with `floor` the least.

    A bound that is a time or a number stands as `against`, with 1 as `bound`. Without `against`
    nothing is missed.
    """

    what: str
    ours: float
    against: float | None = None
    bound: float | None = None
    floor: bool = False
    unit: Unit = "s"
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return self.ours / self.against if self.against else None

    @property
    def missed(self) -> bool:
        if self.ratio is None or self.bound is None:
            return False
        return self.ratio < self.bound if self.floor else self.ratio > self.bound

    @property
    def fault(self) -> str:
        """How a bound is missed, in words."""
        return f"{self.what}: {self.ratio:.4g} {'<' if self.floor else '>'} {self.bound:.4g}"

    def as_json(self) -> dict[str, Any]:
        return {"what": self.what, "ours": self.ours, "against": self.against, "ratio": self.ratio}


# -- what a script is asked, and whether it can answer ---------------------------------------------


def command(
    doc: str | None, *, out: bool = False, workers: bool = False, part: bool = False
) -> ArgumentParser:
    """The options that all scripts have; a script adds its own."""
    parser = ArgumentParser(description=doc, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument(
        "--json",
        action="store_true",
        help="print a list of {what, ours, against, ratio}, in seconds and bytes",
    )
    if out:
        parser.add_argument(
            "--out", type=Path, help="write all figures there, as JSON, without texts of the data"
        )
    if workers:
        parser.add_argument("--workers", type=int, default=2)
    if part:
        parser.add_argument(
            "--part", type=int, default=1, metavar="N", help="only every Nth task of each set"
        )
    return parser


def absent(options: Namespace, *needed: Path, why: str | None = None) -> bool:
    """Whether the script cannot measure here: public data is not there, or `why`. It is said; there
    are no rows then."""
    lacking = [f"{path} is not there; set INTERCODE_DATA" for path in needed if not path.exists()]
    if why is not None:
        lacking.append(why)
    if not lacking:
        return False
    print(f"skipped: {lacking[0]}", file=sys.stderr)
    if options.json:
        print("[]")
    return True


def skip(what: str, why: str) -> None:
    """A part that is left out."""
    print(f"{what}: skipped, {why}", file=sys.stderr)


# -- what it says ----------------------------------------------------------------------------------


def finish(
    options: Namespace,
    rows: Sequence[Row],
    *,
    show: Callable[[], None] | None = None,
    details: object = None,
    faults: Iterable[str] = (),
) -> int:
    """Prints what was measured, and on stderr what fell short: missed bounds, and `faults`. The
    exit status: 1 if any did.

    `show` prints more than the table, or other than it; `details` are for `--out`.
    """
    if details is not None and options.out:
        options.out.write_text(json.dumps(details, indent=1))
    if options.json:
        print(json.dumps([row.as_json() for row in rows], indent=1))
    elif show is not None:
        show()
    else:
        table(rows)
    short = [*(row.fault for row in rows if row.missed), *faults]
    for words in short:
        print(f"missed: {words}", file=sys.stderr)
    return int(bool(short))


def table(rows: Sequence[Row]) -> None:
    width = max((len(row.what) for row in rows), default=0)
    print(f"{'':{width}}{'ours':>12}{'against':>12}{'ratio':>8}{'bound':>8}")
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.3f}"
        bound = "" if row.bound is None else f"{'≥ ' if row.floor else ''}{row.bound:.3g}"
        figures = (
            f"{_amount(row.ours, row.unit)}{_amount(row.against, row.unit)}{ratio:>8}{bound:>8}"
        )
        print(f"{row.what:{width}}{figures}  {row.note}{'  missed' if row.missed else ''}".rstrip())


def _amount(value: float | None, unit: Unit) -> str:
    if value is None:
        return f"{'':12}"
    if unit == "s" and value < 1:
        return f"{value * 1e3:9.3f} ms"
    if unit == "B":
        return f"{value / 2**20:8.1f} MiB"
    return f"{value:9.{'2f' if unit else '6g'}} {unit:2}"
