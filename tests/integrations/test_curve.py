"""The example of a curve, from a random model to its last comparison, on the CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap

EXAMPLE = Path(__file__).parents[2] / "examples" / "curve.py"
LABELS = ["untrained", "SFT", "GRPO", "RFT", "longer SFT"]
KINDS = ["train", "known", "near", "held out", "other", "starter"]
pytestmark = [
    pytest.mark.integrations,
    pytest.mark.skipif(
        not (find_spec("torch") and find_spec("transformers")),
        reason="torch and transformers are not installed: make integrations",
    ),
]


def test_a_random_model_gets_its_curve_and_its_controls(tmp_path: Path) -> None:
    needs_bwrap()
    done = subprocess.run(
        [sys.executable, EXAMPLE, "--tiny", "--every", "1000", "--out", tmp_path],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in (tmp_path / "curve.jsonl").read_text().splitlines():
        row = json.loads(line)
        rows[row["row"]].append(row)
    (tasks,) = rows["tasks"]
    assert all(tasks[kind] for kind in KINDS)
    assert [(row["label"], row["kind"]) for row in rows["eval"]] == [
        (label, kind) for label in LABELS for kind in KINDS
    ]
    for row in rows["eval"]:
        assert (row["tasks"], row["faults"]) == (tasks[row["kind"]], 0)
        for rate in (row["greedy"], row["sampled"]):
            assert 0 <= rate["low"] <= rate["rate"] <= rate["high"] <= 1
    first, *_, last = rows["sft"]
    assert last["loss"] < first["loss"] / 2
    steps = {label: [row for row in rows["step"] if row["label"] == label] for label in LABELS[2:]}
    for label in ("GRPO", "RFT"):
        assert any(row["sequences"] for row in steps[label]), label
        assert not any(name.startswith("train/faults") for row in steps[label] for name in row)
        assert all(0 <= row["sampler/mixed_groups"] <= 1 for row in steps[label])
    assert steps["longer SFT"][-1]["loss"] < first["loss"] / 2
    outcomes = {row["label"]: row["greedy"] for row in rows["outcomes"]}
    for row in rows["compare"]:
        pairs = [
            (outcomes[row["before"]][name], won)
            for name, won in outcomes[row["after"]].items()
            if name.startswith(f"{row['kind']}: ")
        ]
        assert (row["won"], row["lost"]) == (pairs.count((False, True)), pairs.count((True, False)))
        assert 0 < row["p"] <= 1
    assert len(rows["compare"]) == 3 * len(KINDS)
    assert {folder.name for folder in tmp_path.iterdir()} >= {"GRPO", "RFT", "longer-SFT"}
    lines = ET.parse(tmp_path / "curve.svg").findall("{http://www.w3.org/2000/svg}polyline")
    first = [line.get("points", "").split()[0] for line in lines]
    assert len(first) == 4
    assert len({*first}) == 1  # all begin where training began
