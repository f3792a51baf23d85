"""What `check` finds in the public data sets, beside what their README names as known, and beside a reader's own verdicts.

    by kind      how many tasks of each set have a finding of each kind
    known        defects that the data's README names, task by task: how many of them are found
    by hand      findings and clean tasks that a person looked at (defects/verdicts.json): precision, and recall as estimated
                 from both shares: true findings / (true findings + what was missed among the clean)

`python benchmarks/data_defects.py [--sets NAME,…] [--json] [--out FILE] [--workers N]`; `--sample N` lists N findings and N
clean tasks of each set instead, to be looked at. Sets whose data or parts are absent are left out. BIRD has no
databases here: its texts alone are looked at.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fidelity import data
from measuring.rows import Row, command, finish, skip, table

from intercode.envs import prepare
from intercode.findings import BROKEN, KINDS
from intercode.runner.check import check, look

VERDICTS = Path(__file__).with_name("defects") / "verdicts.json"
SETS = ("nl2bash_1", "nl2bash_2", "nl2bash_3", "nl2bash_4", "spider", "wikisql", "bird", "mbpp", "ctf")
NETWORK = {1, 7, 9, 14, 16, 20, 28, 29, 35, 39, 41, 42, 43, 54, 57, 62, 66, 73, 87, 88, 89, 95}
KNOWN: dict[tuple[str, str], tuple[set[int], tuple[str, ...]]] = {
    ("spider", "golds that do not earn 1"): ({164, 178, 225, 531, 638, 802}, tuple(KINDS)),
    ("ctf", "tasks that need the internet"): (NETWORK, ("needs_network",)),
    ("ctf", "tasks without a local asset"): (
        {1, 9, 16, 17, 18, 19, 20, 22, 28, 29, 35, 39, 40, 41, 54, 73, 90},
        ("needs_files", "needs_network"),
    ),
    ("ctf", "damaged golds"): ({15, 76}, ("odd_flag",)),
}
"""What the data's README names: its tasks, and the kinds that count as finding them."""
Findings = dict[str, Any]


def world(name: str) -> tuple[str, dict[str, Any]]:
    """The environment and the options of `prepare` for a set."""
    folder = data.folder()
    if name.startswith("nl2bash"):
        return "bash", data.world(int(name[-1]))
    if name in ("spider", "wikisql"):
        dumps = {"spider": "ic_spider_dbs.sql", "wikisql": "ic_wikisql_dev.sql"}
        return "sql", {"data": _tasks(name), "dump": folder / name / dumps[name]}
    if name == "ctf":
        return "ctf", {"data": _tasks(name), "assets": folder / "ctf" / "task_assets", "everything": True}
    return ("python" if name == "mbpp" else "sql"), {"data": _tasks(name)}


def _tasks(name: str) -> str:
    ends = "_dev" if name in ("spider", "wikisql") else ""
    return str(data.folder() / name / f"ic_{name}{ends}.json")


def examine(name: str, workers: int) -> tuple[list[str], Findings]:
    """The ids of a set's tasks, and what is found."""
    env, options = world(name)
    if name == "bird":
        found = look(env, **options)
        return [str(number) for number in range(found["tasks"])], found
    setting = prepare(env, max_turns=None, **options)
    return [task.id for task in setting.tasks], check(setting, setting.tasks, workers=workers)


def blamed(found: Findings, kinds: tuple[str, ...] = tuple(KINDS)) -> set[str]:
    return {row["task"] for row in (*found["broken"], *found["suspicious"]) if row["kind"] in kinds}


def rows(results: Mapping[str, tuple[list[str], Findings]]) -> Iterator[Row]:
    for name, (ids, found) in results.items():
        for kind, count in found["kinds"].items():
            yield Row(f"{name}: {kind}{'' if kind in BROKEN else ' (suspicious)'}, of tasks", count, len(ids), unit="")
    for (name, what), (tasks, kinds) in KNOWN.items():
        if name in results:
            hit = tasks & {int(task) for task in blamed(results[name][1], kinds)}
            yield Row(f"{name}: known {what}, found", len(hit), len(tasks), unit="")
    yield from _judged(results)


def _judged(results: Mapping[str, tuple[list[str], Findings]]) -> Iterator[Row]:
    """By set: shares of the sample, carried over to the set; then all sets together."""
    verdicts = json.loads(VERDICTS.read_text())
    right = wrong = missed = 0.0
    for name, judged in verdicts.items():
        parts = [results[each] for each in results if each.partition("_")[0] == name]
        if not parts:
            continue
        flagged = sum(len(blamed(found)) for _, found in parts)
        clean = sum(len(ids) for ids, _ in parts) - flagged
        true, unseen = (_share(judged[sample], verdict) for sample, verdict in (("findings", True), ("clean", False)))
        yield Row(f"{name}: precision by hand ({len(judged['findings'])} findings)", true, 1, unit="")
        yield Row(f"{name}: defects among {len(judged['clean'])} clean tasks, by hand", unseen, 1, unit="")
        right, wrong, missed = right + true * flagged, wrong + (1 - true) * flagged, missed + unseen * clean
    if right:
        yield Row("precision over all sets, estimated", round(right / (right + wrong), 3), 1, unit="")
        yield Row("recall over all sets, estimated", round(right / (right + missed), 3), 1, unit="")


def _share(verdicts: Mapping[str, bool], wanted: bool) -> float:
    return sum(verdict is wanted for verdict in verdicts.values()) / len(verdicts) if verdicts else 0.0


def sample(results: Mapping[str, tuple[list[str], Findings]], count: int) -> None:
    """Of each set some findings, drawn among all of them, and some clean tasks."""
    draw = random.Random(0)
    for name, (ids, found) in results.items():
        complaints = sorted({f"{row['task']}:{row['kind']}" for row in (*found["broken"], *found["suspicious"])})
        clean = [task for task in ids if task not in blamed(found)]
        for what, these in (("findings", complaints), ("clean", clean)):
            print(name, what, *sorted(draw.sample(these, min(count, len(these)))))


def absent(name: str) -> str | None:
    _, options = world(name)
    lacking = [
        path for path in options.values() if isinstance(path, str | Path) and "/" in str(path) and not Path(path).exists()
    ]
    return f"{lacking[0]} is not there" if lacking else data.no_image() if name.startswith("nl2bash") else None


def main() -> int:
    parser = command(__doc__, out=True, workers=True)
    parser.add_argument("--sets", default=",".join(SETS), help="names, with commas between")
    parser.add_argument("--sample", type=int, help="list tasks to be looked at by hand")
    options = parser.parse_args()
    results = {}
    for name in options.sets.split(","):
        if why := absent(name):
            skip(name, why)
        else:
            results[name] = examine(name, options.workers)
    if options.sample:
        sample(results, options.sample)
        return 0
    found = list(rows(results))
    details = {name: each["kinds"] for name, (_, each) in results.items()}
    return finish(options, found, show=lambda: table(found), details=details)


if __name__ == "__main__":
    sys.exit(main())
