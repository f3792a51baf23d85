"""`bash-repair`: what is broken is found by executing it, and any way to mend it is accepted."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap

from intercode.envs import prepare
from intercode.generate import generate

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_bwrap()
    out = tmp_path_factory.mktemp("generated") / "data"
    generate("bash-repair", n=12, seed=4, out=out, kinds=["build", "script"])
    return out


def records(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = (folder / "tasks.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


def test_a_build_names_one_fault_after_the_other_until_all_are_mended(folder: Path) -> None:
    builds = records(folder, "build")
    assert builds
    with closing(prepare("bash", data=str(folder))()) as env:
        for record in builds:
            *mends, build = record["gold"].split("; ")
            env.reset(options={"task": record["id"]})
            messages = []
            for mend in mends:
                messages.append(env.step(f"{build}; {mend}")[0])
            assert all(message.startswith("build: ") for message in messages)
            assert len(set(messages)) > 1
            assert env.step(build)[0] == ""
            assert env.step("submit")[4]["score"].success


def test_a_mended_script_counts_like_a_result_written_by_hand(folder: Path) -> None:
    mends = {
        "big": "s/-gt/-ge/",
        "total": r"s/sum=[$]\(.*\)/sum=$((sum + $\1))/",
        "lines": "s/[*]txt | uniq/*.txt/; s/sort >/sort -u >/",
        "first": "s/for file/for f/",
        "ends": "s/find.*txt./ls *.txt/",
    }
    scripts = records(folder, "script")
    assert scripts
    with closing(prepare("bash", data=str(folder))()) as env:
        for record in scripts:
            then = record["gold"].split("; ")[-1]
            script = then.split()[-1]
            mend = mends[Path(script).stem]
            for solution, solved in ((f"sed -i '{mend}' {script}", True), (":", False)):
                env.reset(options={"task": record["id"]})
                for action in (solution, f"sh {script}", then):
                    env.step(action)
                assert env.step("submit")[4]["score"].success is solved, (record, solution)
