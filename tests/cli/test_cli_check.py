"""`intercode check` finds what is planted in a data set, and nothing in a sound one;
`--exclude-broken` leaves that out."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cli_words import CHECK_KEYS, INTERCODE, TASKS, write_tasks
from families import commands, wait_until

pytestmark = pytest.mark.slow

SOUND = [
    "cat /box/b | tr a-z A-Z",
    "wc -c /box/* > /box/sizes",
    "mkdir -p /box/deep/er && echo x > /box/deep/er/file",
    "split -l 1 /box/c /box/piece-",
    "mv /box/a /box/moved",
    "find /box -path '/box/*' | sort",
    "echo http://host/box/x /nosuch/place",
    "basename /box/none/x.sh .sh",
]
BROKEN = {
    "fails": ("cat /box/nosuch", "gold_fails", "status 1: cat: /box/nosuch: No such file"),
    "syntax": ("echo $((", "gold_fails", "status"),
    "random": ("echo $RANDOM$RANDOM", "gold_differs", "differ"),
    "files": ("date +%s%N > /box/new", "gold_differs", "differ: in what they leave"),
    "tool": (
        "frobnicate /box/a | sort",
        "gold_fails",
        "calls frobnicate, which is not installed here",
    ),
    "owner": ("chown 1 /box/a", "gold_fails", "the sandbox has one user"),
    "nothing": ("true", "noop_solves", "doing nothing succeeds"),
    "typo": ("ls /box/bxo 2>/dev/null | wc -l", "missing", "names /box/bxo"),
}
GENERAL = {
    "constant": ("cat /box/b", "not_general", "constant answer"),
    "same-files": ("touch /box/new", "not_general", "constant answer"),
    "moody": ("grep apple /box/a || date +%N", "gold_differs", "differ"),
}
SUSPICIOUS = [
    (
        "complains",
        "How many entries do /box and the odd file have?",
        "ls /box 'odd file' | wc -l",
        "gold_complains",
    ),
    (
        "shell",
        "Enter the missing folder and count the entries of /box.",
        "cd missing; ls /box | wc -l",
        "gold_complains",
    ),
    ("doubtful", "Print the first 2 letters of /box/b.", "head -c 9 /box/b", "disagrees"),
    ("first", "Print what the file /box/a holds.", "cat /box/a", "retrieval_solves"),
    ("again", "Print what the file /box/a holds, please.", "head -n 1 /box/a", "retrieval_solves"),
    (
        "none",
        "How many archives (*.zip) lie in /box?",
        "find /box -name '*.zip' | wc -l",
        "by_luck",
    ),
]
MORE: list[dict[str, Any]] = [
    {
        "id": "elsewhere",
        "query": "Turn the letters of /box/a around.",
        "gold": "rev /box/a",
        "general": True,
    },
    {
        "id": "twice",
        "query": "enter  the missing FOLDER and count the entries of /box.",
        "gold": "ls /box | wc -l",
    },
    {
        "id": "golds",
        "query": "Show /box/c.",
        "gold": "cat /box/c",
        "golds": ["sort /box/c", "cat /box/none", "cat /box/b"],
    },
]


def rows(found: dict[str, Any], severity: str) -> set[tuple[str, str]]:
    return {(row["task"], row["kind"]) for row in found[severity]}


def test_every_plant_is_found_and_the_sound_tasks_are_not_blamed(
    cli: Any, box: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(box, tmp_path / "planted"))
    tasks = [
        {"id": f"sound{n}", "query": f"task {n} of /box/none/x.sh", "gold": gold}
        for n, gold in enumerate(SOUND)
    ]
    tasks += [
        {"id": name, "query": f"task {name}", "gold": gold} for name, (gold, *_) in BROKEN.items()
    ]
    tasks += [
        {"id": id, "query": f"task {id}", "gold": gold, "general": True}
        for id, (gold, *_) in GENERAL.items()
    ]
    tasks += [{"id": name, "query": query, "gold": gold} for name, query, gold, _ in SUSPICIOUS]
    write_tasks(folder / "tasks.jsonl", [*tasks, *MORE])
    done = cli("check", "bash", "--data", folder, "--json")
    found = done.json
    assert (done.status, done.err, set(found)) == (1, "", CHECK_KEYS)
    plants = BROKEN | GENERAL
    assert rows(found, "broken") >= {(name, kind) for name, (_, kind, _) in plants.items()} | {
        ("twice", "duplicate")
    }
    assert {row["task"] for row in found["broken"]} == {*plants, "twice"}
    whys = {(row["task"], row["kind"]): row["why"] for row in found["broken"]}
    assert all(why in whys[name, kind] for name, (_, kind, why) in plants.items())
    assert whys["twice", "duplicate"] == "asks the same as task shell but has another gold"
    alternatives = {("golds", "alternative_fails"), ("golds", "golds_disagree")}
    assert (
        rows(found, "suspicious")
        >= {(name, kind) for name, _, _, kind in SUSPICIOUS} | alternatives
    )


def test_a_sound_set_passes_and_tasks_of_another_set_are_named_and_counted(
    cli: Any, box: Path, tmp_path: Path
) -> None:
    copied = {"id": "copy", "query": "how many entries does /box have", "gold": "ls -A /box|wc -l"}
    moved = {"id": "moved", "query": "Print what /pot/c holds.", "gold": "cat /pot/c"}
    other = write_tasks(tmp_path / "other.jsonl", [copied, moved])
    done = cli("check", "bash", "--data", box, "--protocol", "paper", "--against", other)
    assert (done.status, done.err) == (0, "")
    same, almost, *counts = done.out.splitlines()
    assert "in_both: asks the same as task copy of the other set but has another gold" in same
    assert "near_in_both: is almost task moved of the other set" in almost
    assert counts == [
        "5 tasks: gold succeeds on 5, 0 differ between two executions, doing nothing succeeds on 0",
        f"in {other} too: 1, and almost the same: 1",
    ]
    starter = cli("check", "bash", "--static", "--against", "starter")
    assert (starter.status, "choose a --split" in starter.err) == (2, True)


def test_a_misspelt_field_fails_the_check(cli: Any, tmp_path: Path) -> None:
    task = {"query": "Make the folder /box/new.", "gold": "mkdir -p /box/new", "verfy": "false"}
    data = write_tasks(tmp_path / "t.jsonl", [task])
    done = cli("check", "bash", "--data", data, "--static")
    why = "intercode: t: the field 'verfy' (task 0) is not read; did you mean 'verify'?\n"
    assert (done.status, done.err) == (1, why)


def test_an_interrupted_check_ends_within_one_gold(box: Path, tmp_path: Path) -> None:
    tasks = [
        {"query": f"task {number}", "gold": f"touch /box/{number}; sleep 1.5"}
        for number in range(30)
    ]
    words = [
        "check",
        "bash",
        "--data",
        str(write_tasks(tmp_path / "t.jsonl", tasks)),
        "--tree",
        str(box / "tree"),
    ]
    with subprocess.Popen(
        [INTERCODE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert wait_until(lambda: any("sleep 1.5" in line for line in commands(process.pid)), 30)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=15)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err


# -- texts alone, and challenges that cannot be played ---------------------------------------------

CTF = [
    {"id": "plain", "query": "Find the flag in a.txt.", "gold": "flag{plain_one}"},
    {"id": "packed", "query": "Decode b.b64.", "gold": "flag{two}"},
    {"id": "odd", "query": "Look at c.txt.", "gold": "FLAG[three"},
    {
        "id": "far",
        "query": "Connect to nc example.org 1337 and get the flag.",
        "gold": "flag{five}",
    },
    {"id": "lost", "query": "Look at d.bin, which is attached.", "gold": "flag{six}"},
]
UNPLAYABLE = {("odd", "odd_flag"), ("far", "needs_network"), ("lost", "needs_files")}


def test_challenges_that_cannot_be_played_are_counted_told_and_left_out(
    cli: Any, tmp_path: Path
) -> None:
    for name, file in (("plain", "a.txt"), ("packed", "b.b64"), ("odd", "c.txt")):
        (tmp_path / "assets" / name).mkdir(parents=True)
        (tmp_path / "assets" / name / file).write_text(
            "flag{plain_one}" if name == "plain" else "ZmxhZ3t0d299"
        )
    ctf = (
        "ctf",
        "--data",
        write_tasks(tmp_path / "t.jsonl", CTF),
        "--assets",
        tmp_path / "assets",
        "--json",
    )
    done = cli("check", *ctf)
    assert (done.status, done.json["tasks"], done.json["gold_ok"]) == (1, 5, 2)
    assert (rows(done.json, "broken"), rows(done.json, "suspicious")) == (
        UNPLAYABLE,
        {("plain", "plain_flag")},
    )
    texts = cli("check", *ctf, "--static")
    assert (texts.status, texts.err, texts.json["gold_ok"], rows(texts.json, "broken")) == (
        1,
        "",
        None,
        UNPLAYABLE,
    )
    played = cli("eval", *ctf, "--agent", "gold", "--exclude-broken").json
    assert (played["episodes"], played["excluded"]) == (2, [])


# -- findings that are kept ------------------------------------------------------------------------

BAD = {"id": "bad", "query": "Print what /box/nosuch holds.", "gold": "cat /box/nosuch"}


def test_broken_tasks_are_left_out_by_the_findings_in_the_cache(
    cli: Any, box: Path, tmp_path: Path, empty_cache: Path
) -> None:
    words = (
        "bash",
        "--data",
        write_tasks(tmp_path / "t.jsonl", [TASKS[0], BAD]),
        "--tree",
        box / "tree",
        "--agent",
        "gold",
    )
    done = cli("eval", *words, "--exclude-broken", "--out", "run", "--json")
    assert (done.status, done.json["episodes"], done.json["excluded"]) == (0, 1, ["bad"])
    assert "1 gold failed; `intercode check bash --data" in done.err
    why = json.loads((tmp_path / "run" / "run.json").read_text())["excluded"]["bad"]
    assert why.startswith("gold_fails: gold ends with status 1")
    assert "left out as broken: 1 task (run.json says why): bad" in cli("report", "run").out
    assert cli("eval", "--resume", "run", "--json").json["episodes"] == 1
    (kept,) = (empty_cache / "findings").iterdir()
    for content, excluded in (
        (
            json.dumps(
                {"broken": [{"task": "count", "kind": "noop_solves", "why": "written by hand"}]}
            ),
            ["count"],
        ),
        ('{"broken": [{"task": 1}]}', ["bad"]),  # damaged: looked for anew
    ):
        kept.write_text(content)
        assert cli("eval", *words, "--exclude-broken", "--json").json["excluded"] == excluded
