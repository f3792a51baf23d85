"""`intercode check` calls each thing by its kind: suspicious Bash golds, CTF tasks that cannot be played, texts alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cli_words import write_tasks

pytestmark = pytest.mark.slow

BASH = [
    ("complains", "How many entries do /box and the odd file have?", "ls /box 'odd file' | wc -l", "gold_complains"),
    ("answers", "Copy /box/a to /box/l; is zzz in it?", "cat /box/a odd | tee /box/l | grep zzz", "gold_complains"),
    ("shell", "Enter the missing folder and count the entries of /box.", "cd missing; ls /box | wc -l", "gold_complains"),
    ("named", "Enter the warnings and count the entries of /box.", "cd warnings; ls /box | wc -l", "gold_complains"),
    ("hidden", "Remove the directory /box and those in it.", "find /box -type d -exec rmdir {} \\;", "gold_complains"),
    ("first", "Print what the file /box/a holds.", "cat /box/a", "retrieval_solves"),
    ("again", "Print what the file /box/a holds, please.", "head -n 1 /box/a", "retrieval_solves"),
    ("none", "How many archives (*.zip) lie in /box?", "find /box -name '*.zip' | wc -l", "by_luck"),
]  # fmt: skip
CTF = [
    {"id": "plain", "query": "Find the flag in a.txt.", "gold": "flag{plain_one}"},
    {"id": "packed", "query": "Decode b.b64.", "gold": "flag{two}"},
    {"id": "odd", "query": "Look at c.txt.", "gold": "FLAG[three"},
    {"id": "far", "query": "Connect to nc example.org 1337 and get the flag.", "gold": "flag{five}"},
    {"id": "lost", "query": "Look at d.bin, which is attached.", "gold": "flag{six}"},
]
UNPLAYABLE = {("odd", "odd_flag"), ("far", "needs_network"), ("lost", "needs_files")}


def rows(found: dict[str, Any], severity: str) -> set[tuple[str, str]]:
    return {(row["task"], row["kind"]) for row in found[severity]}


def test_suspicious_golds_are_called_by_their_kind(cli: Any, box: Path, tmp_path: Path) -> None:
    tasks = [{"id": name, "query": query, "gold": gold} for name, query, gold, _ in BASH]
    tasks.append(
        {"id": "sound", "query": "Write the sizes of everything into /box/sizes.", "gold": "wc -c /box/* > /box/sizes"}
    )
    tasks.append(
        {
            "id": "remark",
            "query": "Write the names of the editor's functions into /box/names.",
            "gold": "bind -l | tee /box/names",
        }
    )
    done = cli("check", "bash", "--data", write_tasks(tmp_path / "t.jsonl", tasks), "--tree", box / "tree", "--json")
    assert (done.status, done.json["broken"]) == (0, [])
    assert rows(done.json, "suspicious") == {(name, kind) for name, _, _, kind in BASH}


@pytest.fixture
def ctf(tmp_path: Path) -> tuple[object, ...]:
    files = {"plain": "a.txt", "packed": "b.b64", "odd": "c.txt"}
    for name, file in files.items():
        (tmp_path / "assets" / name).mkdir(parents=True)
        (tmp_path / "assets" / name / file).write_text("flag{plain_one}" if name == "plain" else "ZmxhZ3t0d299")
    return ("ctf", "--data", write_tasks(tmp_path / "t.jsonl", CTF), "--assets", tmp_path / "assets", "--json")


def test_challenges_that_cannot_be_played_are_counted_and_told(cli: Any, ctf: Any) -> None:
    done = cli("check", *ctf)
    assert (done.status, done.json["tasks"], done.json["gold_ok"]) == (1, 5, 2)
    assert rows(done.json, "broken") == UNPLAYABLE
    assert rows(done.json, "suspicious") == {("plain", "plain_flag")}
    assert "5 tasks, 3 of which cannot be played (--all tries): gold succeeds on 2" in cli("check", *ctf[:-1]).out
    assert rows(cli("check", *ctf, "--all").json, "broken") == UNPLAYABLE
    played = cli("eval", *ctf, "--agent", "gold", "--exclude-broken").json
    assert (played["episodes"], played["excluded"]) == (2, [])


def test_their_texts_alone_tell_it_as_well(cli: Any, ctf: Any) -> None:
    done = cli("check", *ctf, "--static")
    assert (done.status, done.err, done.json["gold_ok"]) == (1, "", None)
    assert rows(done.json, "broken") == UNPLAYABLE


def test_options_that_texts_do_not_heed_are_named(cli: Any, box: Path) -> None:
    done = cli("check", "bash", "--data", box, "--static", "--image", "nosuch", "--sandbox", "docker", "--reward", "paper")
    assert done.status == 0
    assert "--static executes nothing, so it does not heed --image, --reward, --sandbox" in done.err
    assert cli("check", "bash", "--data", box, "--static", "--limit", 2).err == ""
