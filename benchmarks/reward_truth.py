"""Precision and recall of the rewards on labelled answers, and which answers they judge wrongly.

    precision    of the answers that a reward calls solved, the share that is right
    recall       of the right answers, the share that it calls solved

`python benchmarks/reward_truth.py [--env bash …] [--json] [--write]`; `--write` renews the table in
docs/rewards.md. Answers that are held out are counted, never listed. A second table counts the
right and wrong answers that each rule of a reward decided; an answer that needed two rules counts
for both. Exit status 1 if `exact` misses its bound on the Bash answers that it was tuned on.
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from measuring.rows import Row, absent, command, finish
from truth import bash, ctf, python, sql
from truth.pairs import Truth

DOC = Path(__file__).parents[1] / "docs" / "rewards.md"
BEGIN, END = "<!-- table: benchmarks/reward_truth.py --write -->", "<!-- end of table -->"
PARTS: dict[str, Callable[[], Iterable[Truth]]] = {
    "bash": bash.truths,
    "sql": sql.truths,
    "python": python.truths,
    "ctf": ctf.truths,
}
HEAD = ["| answers | reward | right | wrong | precision | recall |", "|---|---|---|---|---|---|"]
PRECISION, RECALL, SHOWN = 0.99, 0.95, 40


def rows(truths: Sequence[Truth]) -> Iterator[Row]:
    for one in truths:
        bound = 1 if (one.env, one.reward) == ("bash", "exact") else None
        what = f"{one.env}, {one.reward}, {len(one.verdicts)} answers"
        yield Row(f"{what}: precision", one.precision.value, PRECISION, bound, floor=True, unit="")
        yield Row(f"{what}: recall", one.recall.value, RECALL, bound, floor=True, unit="")


def table(truths: Sequence[Truth]) -> str:
    return "\n".join([*HEAD, *map(_line, truths)])


def _line(one: Truth) -> str:
    right = sum(verdict.pair.right for verdict in one.verdicts)
    return (
        f"| {one.env} | {one.reward} | {right} | {len(one.verdicts) - right} | {one.precision} |"
        f" {one.recall} |"
    )


def rules(one: Truth) -> str:
    """Return a table of the rules that decided answers, most answers first; empty if the reward
    names none."""
    counts = Counter(
        (verdict.accepted, rule, verdict.pair.right)
        for verdict in one.verdicts
        for rule in filter(None, verdict.rule.split(", "))
    )
    decided = Counter[tuple[bool, str]]()
    for (accepted, rule, _), count in counts.items():
        decided[accepted, rule] += count
    lines = [
        f"| {'accepted' if accepted else 'refused'}: {rule} | {counts[accepted, rule, True]} |"
        f" {counts[accepted, rule, False]} |"
        for (accepted, rule), _ in sorted(
            decided.items(), key=lambda item: (not item[0][0], -item[1])
        )
    ]
    head = [f"| {one.env}, {one.reward}: rule | right | wrong |", "|---|---|---|"]
    return "\n".join(["", *head, *lines]) if lines else ""


def show(truths: Sequence[Truth]) -> None:
    print(table(truths))
    for counted in filter(None, map(rules, truths)):
        print(counted)
    for one in truths:
        missed = (
            []
            if one.held_out or one.reward == "paper"
            else [verdict for verdict in one.verdicts if verdict.wrong]
        )
        if missed:
            print(f"\n{one.env}, {one.reward}: {len(missed)} judged wrongly")
            print("\n".join(f"  {verdict}"[:300] for verdict in missed[:SHOWN]))


def write(truths: Sequence[Truth]) -> None:
    """The rows of environments that were not measured stay."""
    before, _, rest = DOC.read_text("utf-8").partition(BEGIN)
    written, _, after = rest.partition(END)
    lines = list(map(_line, truths))
    measured = set(map(_env, lines))
    lines += [
        line for line in written.strip().splitlines()[len(HEAD) :] if _env(line) not in measured
    ]
    lines.sort(key=lambda line: list(PARTS).index(_env(line)))
    DOC.write_text("\n".join([before + BEGIN, *HEAD, *lines, END + after]), "utf-8")


def _env(line: str) -> str:
    """Of which environment a row is."""
    return line.strip("| ").partition(" ")[0].rstrip(",")


def main() -> int:
    parser = command(__doc__)
    parser.add_argument(
        "--env", action="append", choices=PARTS, help="only this one; may be given again"
    )
    parser.add_argument("--write", action="store_true", help="renew the table in docs/rewards.md")
    options = parser.parse_args()
    if absent(options, why=None if shutil.which("bwrap") else "bubblewrap is not installed"):
        return 0
    truths = [one for name in options.env or PARTS for one in PARTS[name]()]
    if options.write:
        write(truths)
    return finish(options, list(rows(truths)), show=lambda: show(truths))


if __name__ == "__main__":
    sys.exit(main())
