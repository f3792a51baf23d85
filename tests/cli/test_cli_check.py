"""`intercode check` finds what is planted in a data set, and nothing in a sound one."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cli_words import CHECK_KEYS, INTERCODE, write_tasks
from families import commands, wait_until

import intercode
from intercode.runner.check import check
from intercode.sandbox.base import Limits

pytestmark = pytest.mark.slow

SOUND = {"id": "sound", "query": "Print what /box/a holds.", "gold": "cat /box/a"}
PLANTED = {
    "fails": ("cat /box/nosuch", "gold_fails", "status 1: cat: /box/nosuch: No such file"),
    "full": ("rmdir /box", "gold_fails", "status 1: rmdir: failed to remove '/box'"),
    "syntax": ("echo $((", "gold_fails", "status"),
    "random": ("echo $RANDOM$RANDOM", "gold_differs", "differ"),
    "clock": ("date +%s", "gold_differs", "differ"),
    "files": ("date +%s%N > /box/new", "gold_differs", "differ: in the files"),
    "tool": ("frobnicate /box/a", "gold_fails", "calls frobnicate, which is not installed here"),
    "piped": ("frobnicate /box/a | sort", "gold_fails", "calls frobnicate"),
    "owner": ("chown 1 /box/a", "gold_fails", "the sandbox has one user"),
    "nothing": ("true", "noop_solves", "doing nothing succeeds"),
    "typo": ("ls /box/bxo 2>/dev/null | wc -l", "missing", "names /box/bxo"),
}


@pytest.fixture
def planted(box: Path, tmp_path: Path) -> Path:
    """The box with one sound task and one for each plant, made anew since tests alter it."""
    folder = tmp_path / "planted"
    for tree in ("tree", "second"):
        shutil.copytree(box / tree, folder / tree)
    tasks = [{"id": name, "query": f"task {name}", "gold": gold} for name, (gold, *_) in PLANTED.items()]
    write_tasks(folder / "tasks.jsonl", [SOUND, *tasks])
    return folder


def test_every_plant_is_found_and_the_sound_task_is_not_blamed(cli: Any, planted: Path) -> None:
    done = cli("check", "bash", "--data", planted, "--json")
    assert (done.status, done.err) == (1, "")
    found = done.json
    assert set(found) == CHECK_KEYS
    assert all(set(finding) == {"task", "kind", "why"} for finding in found["broken"])
    once = [(finding["task"], finding["kind"]) for finding in found["broken"] if finding["task"] not in ("fails", "nothing")]
    assert once == [(name, kind) for name, (_, kind, _) in PLANTED.items() if name not in ("fails", "nothing")]
    whys = {(finding["task"], finding["kind"]): finding["why"] for finding in found["broken"]}
    for name, (_, kind, why) in PLANTED.items():
        assert why in whys[name, kind]
    assert (found["tasks"], found["nondeterministic"], found["noop_paid"]) == (12, 3, 1)


def test_a_gold_that_runs_out_of_time_is_found(box: Path, tmp_path: Path, module_cache: Path) -> None:
    late = write_tasks(tmp_path / "late.jsonl", [{"id": "late", "query": "Wait.", "gold": "echo begun; sleep 60"}])
    setting = intercode.prepare("bash", data=str(late), tree=box / "tree", limits=Limits(seconds=0.3))
    found = check(setting, setting.tasks)
    assert found["broken"] == [{"task": "late", "kind": "gold_fails", "why": "gold runs out of time"}]


@pytest.mark.parametrize("how", [[], ["--protocol", "paper"], ["--reward", "paper"], ["--session", "stateless"]])
def test_a_sound_set_passes(cli: Any, box: Path, how: list[str]) -> None:
    done = cli("check", "bash", "--data", box, "--json", *how)
    assert (done.status, done.err) == (0, "")
    assert done.json == {
        "tasks": 5,
        "gold_ok": 5,
        "noop_paid": 0,
        "nondeterministic": 0,
        "broken": [],
        "suspicious": [],
        "kinds": {},
    }


def test_without_json_it_is_said_in_words(cli: Any, box: Path) -> None:
    done = cli("check", "bash", "--data", box, "--limit", 2)
    assert done.status == 0
    assert done.out == "2 tasks: gold succeeds on 2, 0 differ between two executions, doing nothing succeeds on 0\n"


def test_a_general_task_that_cannot_tell_a_constant_answer_is_found(cli: Any, box: Path, tmp_path: Path) -> None:
    folder = tmp_path / "general"
    for tree in ("tree", "second"):
        shutil.copytree(box / tree, folder / tree)
        (folder / tree / "box" / "apart").write_text("the tree\n" if tree == "tree" else "the  tree\n")
        (folder / tree / "box" / "headed").write_text("total 3\n" if tree == "tree" else "3\n")
        (folder / tree / "box" / "turned").write_text("3\n" if tree == "tree" else "total 3\n")
    golds = {"differs": "cat /box/a", "constant": "cat /box/b", "same-files": "touch /box/new"}
    alike = {name: f"cat /box/{name}" for name in ("apart", "headed", "turned")}
    tasks = [{"id": name, "query": f"task {name}", "gold": gold, "general": True} for name, gold in (golds | alike).items()]
    write_tasks(folder / "tasks.jsonl", tasks)
    found = cli("check", "bash", "--data", folder, "--json").json
    assert [finding["task"] for finding in found["broken"]] == ["constant", "same-files", *alike]
    assert all("constant answer" in finding["why"] for finding in found["broken"])
    setting = intercode.prepare("bash", data=str(folder), reward=lambda agent, gold, task: float(agent == gold))
    assert [finding["task"] for finding in check(setting, setting.tasks)["broken"]] == ["constant", "same-files"]
    shutil.rmtree(folder / "second")
    found = cli("check", "bash", "--data", folder, "--json").json
    assert len(found["broken"]) == 6
    assert all("no second contents" in finding["why"] for finding in found["broken"])


def test_a_gold_that_differs_only_elsewhere_is_found(cli: Any, box: Path, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    for tree in ("tree", "second"):
        shutil.copytree(box / tree, folder / tree)
    gold = "grep apple /box/a || date +%N"
    write_tasks(folder / "tasks.jsonl", [{"id": "moody", "query": "Print.", "gold": gold, "general": True}])
    found = cli("check", "bash", "--data", folder, "--json").json
    assert found["nondeterministic"] == 1
    assert "differ" in found["broken"][0]["why"]


def test_paths_that_a_gold_makes_begins_or_takes_as_text_are_no_finding(cli: Any, box: Path, tmp_path: Path) -> None:
    golds = [
        "mkdir -p /box/deep/er && echo x > /box/deep/er/file",
        "split -l 1 /box/c /box/piece-",
        "mv /box/a /box/moved",
        "sed 's/plum/box/' /box/c",
        "find /box -path '/box/*' | sort",
        "echo http://host/box/x /nosuch/place",
        "basename /box/none/x.sh .sh",
        "n=$(dirname /box/none/y.sh); echo /box/b | xargs basename; printf '%s\\n' $n /box/none/z",
    ]
    queries = [f"task {number} of /box/none/x.sh, /box/none/y.sh" for number in range(len(golds))]
    tasks = [{"id": query[5], "query": query, "gold": gold} for query, gold in zip(queries, golds, strict=True)]
    made = cli("check", "bash", "--data", write_tasks(tmp_path / "t.jsonl", tasks), "--tree", box / "tree", "--json")
    assert [finding for finding in made.json["broken"] if "names" in finding["why"]] == []


def test_alternatives_that_fail_or_disagree_with_the_gold_are_suspicious(cli: Any, box: Path, tmp_path: Path) -> None:
    tasks = [
        {**SOUND, "golds": ["head -n 1 /box/a", "tail -n 1 /box/a"]},
        {"id": "odd", "query": "Print what /box/b holds.", "gold": "cat /box/b", "golds": ["cat /box/none", "cat /box/c"]},
    ]
    words = ("check", "bash", "--data", write_tasks(tmp_path / "t.jsonl", tasks), "--tree", box / "tree", "--json")
    done = cli(*words)
    assert (done.status, done.json["broken"], done.json["gold_ok"]) == (0, [], 2)
    assert [(row["task"], row["kind"], row["why"]) for row in done.json["suspicious"]] == [
        (
            "odd",
            "alternative_fails",
            "the alternative 'cat /box/none': gold ends with status 1: cat: /box/none: No such file or directory",
        ),
        ("odd", "golds_disagree", "the alternative 'cat /box/c' and the gold do not match"),
    ]


def test_named_fields_hold_the_golds_and_another_list_of_them_is_other_data(cli: Any, box: Path, tmp_path: Path) -> None:
    data = write_tasks(tmp_path / "t.jsonl", [{**SOUND, "gold2": "cat /box/b"}])
    (tmp_path / "p.txt").write_text("cat /box/b\n")
    words = (
        "score",
        tmp_path / "p.txt",
        "--env",
        "bash",
        "--data",
        data,
        "--tree",
        box / "tree",
        "--out",
        tmp_path / "run",
        "--json",
    )
    assert cli(*words, "--gold-fields", "gold,gold2").json["success_rate"] == 1
    assert cli(*words, "--resume").status == 2
    again = cli("rescore", tmp_path / "run", "--reward", "paper", "--out", tmp_path / "paper", "--json")
    assert again.json["success_rate"] == 0, again.err
    assert "no record has the gold field 'golf'" in cli("check", "bash", "--data", data, "--gold-fields", "gold,golf").err


def test_tasks_that_ask_the_same_are_found(cli: Any, box: Path, tmp_path: Path) -> None:
    tasks = [
        SOUND,
        {"id": "again", "query": "print  what /box/a HOLDS.", "gold": "cat /box/a"},
        {"id": "other", "query": "Print what /box/a holds.", "gold": "cat /box/b"},
    ]
    found = cli("check", "bash", "--data", write_tasks(tmp_path / "t.jsonl", tasks), "--tree", box / "tree", "--json").json
    assert found["broken"] == [
        {"task": "again", "kind": "duplicate", "why": "asks the same as task sound and has the same gold"},
        {"task": "other", "kind": "duplicate", "why": "asks the same as task sound but has another gold"},
    ]


def test_a_gold_that_the_papers_quoting_breaks_is_found_under_that_protocol(cli: Any, box: Path, tmp_path: Path) -> None:
    broken = write_tasks(tmp_path / "t.jsonl", [{"id": "quotes", "query": "Print.", "gold": 'cat "/box/a'}])
    words = ("check", "bash", "--data", broken, "--tree", box / "tree", "--json")
    (finding,) = cli(*words, "--protocol", "paper").json["broken"]
    assert finding == {"task": "quotes", "kind": "gold_fails", "why": "gold does not run to an end: Malformed command"}


def test_an_interrupted_check_ends_within_one_gold(box: Path, tmp_path: Path, module_cache: Path) -> None:
    tasks = [{"query": f"task {number}", "gold": f"touch /box/{number}; sleep 1.5"} for number in range(30)]
    words = ["check", "bash", "--data", str(write_tasks(tmp_path / "t.jsonl", tasks)), "--tree", str(box / "tree")]
    with subprocess.Popen([INTERCODE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert wait_until(lambda: any("sleep 1.5" in line for line in commands(process.pid)), 30)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=15)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err


def test_the_starter_set_is_sound(cli: Any) -> None:
    done = cli("check", "bash", "--json")
    assert (done.status, done.json["broken"]) == (0, [])
