"""Tasks exported for Harbor: their files, the verdicts of their verifiers in plain containers, and
forged answers. tests/integrations/test_harbor_tasks.py has Harbor's own reader and runner."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import docker_images
import pytest
from click.testing import CliRunner

from intercode.cli import main
from intercode.errors import UsageError
from intercode.interop.harbor.export import FORMS, export_tasks

LIGHTHOUSE = Path(__file__).parents[1] / "data" / "lighthouse"
HARD_CODED = "printf '%s\\n' 'A 90' 'B 12'"
_PLAY = """
mkdir -p /logs/verifier /opt/tool
echo a >/opt/tool/text; echo b >/etc/tool.conf
echo '#!/bin/cat /opt/tool/text' >/usr/local/bin/tool
chmod 755 /usr/local/bin/tool
for hand in /hands/*; do
    rm -rf /app /logs/verifier/*; cp -a "$hand" /app
    ROUNDS_PLAYED=${hand##* } /tests/test.sh >&2
    cat /logs/verifier/reward.txt || echo none
done
"""


def write_data(folder: Path, *records: Mapping[str, Any], **files: str) -> Path:
    folder.mkdir(parents=True)
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in records))
    return folder


def verdicts(task: Path, *hands: Sequence[str | Path], work: Path) -> list[str]:
    """The rewards that a task's verifier writes, one after the other in the same container. A hand
    is the answers to the rounds so far; a path is a link to it."""
    docker_images.require_docker()
    paths = tomllib.loads((task / "task.toml").read_text())["artifacts"]
    for number, answers in enumerate(hands):
        folder = work / f"{number:03} {len(answers) or 1}"
        folder.mkdir(parents=True)
        for path, answer in zip(paths, answers, strict=False):
            place = folder / Path(path).name
            if isinstance(answer, Path):
                place.symlink_to(answer)
            else:
                place.write_text(answer)
    options = ["--rm", "--network", "none", "--env", "TOOL=c"]
    options += ["--volume", f"{task / 'tests'}:/tests:ro", "--volume", f"{work}:/hands:ro"]
    words = ["docker", "run", *options, docker_images.debian(), "bash", "-c", _PLAY]
    result = subprocess.run(words, capture_output=True, text=True, timeout=600)
    shutil.rmtree(work)
    rewards = result.stdout.split()
    assert len(rewards) == len(hands), result.stderr
    return rewards


def only_task(out: Path) -> Path:
    (task,) = (path for path in out.iterdir() if path.is_dir())
    return task


GENERAL = {
    "id": "sum of/each",
    "query": "For each letter in /stock/parts.csv print the letter, a space and the sum.",
    "gold": "awk -F, '{n[$1] += $2} END {for (x in n) print x, n[x]}' /stock/parts.csv | sort",
    "general": True,
}
NAME = f"sum-of-each-{hashlib.sha256(b'sum of/each').hexdigest()[:8]}"
GOLD = str(GENERAL["gold"])
HONEST = {
    "programs and settings of the image": (
        f"[[ $(tool | head -n 1) == a && $(cat /etc/tool.conf) == b && $TOOL == c ]] && {GOLD}"
    ),
    "a file in /app": f"{{ cd /app && sort /stock/parts.csv >x && rm x; }} && {GOLD}",
}
FILES = {"tree__stock__parts.csv": "A,40\nB,12\nA,50\n", "second__stock__parts.csv": "C,1\nA,2\n"}


def test_a_task_has_the_files_that_harbor_reads_and_hides_its_gold(tmp_path: Path) -> None:
    shown = {"action_seconds": 20, "setup": "#!/usr/bin/python3"}
    data = write_data(tmp_path / "data", {**GENERAL, **shown}, **FILES)
    words = ["export", str(data), "--format", "harbor", "--env", "bash", "--image", "base:1"]
    result = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    out, task = tmp_path / "out", tmp_path / "out" / NAME
    settings = tomllib.loads((task / "task.toml").read_text())
    assert settings["artifacts"] == ["/app/answer.sh"]
    assert settings["verifier"]["environment_mode"] == "separate"
    instruction = (task / "instruction.md").read_text()
    assert "/app/answer.sh" in instruction
    assert "on other data" in instruction
    assert "at most 20 seconds" in instruction
    dockerfile = (task / "environment" / "Dockerfile").read_text()
    assert "RUN mkdir -p /app" in dockerfile
    assert "task.sh" in dockerfile
    for name in ("environment", "tests"):
        assert (task / name / "Dockerfile").read_text().startswith("FROM base:1\n")
    for path in (task / "instruction.md", *(task / "environment").rglob("*")):
        assert path.is_dir() or b"awk" not in path.read_bytes()
    assert (task / "solution" / "answer.sh").read_text().strip() == GOLD
    digest = hashlib.sha256()
    for path in sorted(path for path in task.rglob("*") if path.is_file()):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(task)}\0{content}\n".encode())
    assert tomllib.loads((out / "dataset.toml").read_text())["tasks"] == [
        {"name": f"intercode/{NAME}", "digest": f"sha256:{digest.hexdigest()}"}
    ]
    card = json.loads((out / "card.json").read_text())
    assert (card["env"], card["tasks"]) == ("bash", {"sum of/each": NAME})


def test_tasks_that_the_verifier_cannot_judge_are_left_out_with_the_reason(tmp_path: Path) -> None:
    plain = {"query": "Print yes.", "gold": "echo yes"}
    facet = {"name": "word", "asks": ["word"], "reply": "yes"}
    reasons = {
        "user": ({"facets": [facet]}, "'facets'"),
        "lookups": ({"lookups": {"schema": 1}}, "'lookups'"),
        "proc": ({"gold": "cat <(echo yes)"}, "needs /proc"),
        "idle": ({"query": "Remove /nothing.", "gold": "rm -f /nothing"}, "doing nothing earns 1"),
        "broken": ({"gold": "exit 127"}, "gold"),
        "shell": ({"session_start": "x=1"}, "'session_start'"),
        "variables": ({"env": {"X": "1"}}, "'env'"),
    }
    records = [{"id": name, **plain, **fields} for name, (fields, _) in reasons.items()]
    data = write_data(tmp_path / "data", {"id": "fine", **plain}, *records)
    count, left_out = export_tasks(data, tmp_path / "out", env="bash")
    assert count == 1
    for name, (_, reason) in reasons.items():
        assert reason in left_out[name], left_out[name]
    with pytest.raises(UsageError, match="add --env"):
        export_tasks(data, tmp_path / "other")


def test_each_id_has_a_name_of_its_own(tmp_path: Path) -> None:
    ids = [
        "a",
        "A",
        "a b",
        "a/b",
        "größe",
        "größer",
        "日本",
        "card.json",
        "dataset.toml",
        "x" * 300,
    ]
    records = [{"id": id, "query": "Print yes.", "gold": "echo yes"} for id in ids]
    data = write_data(tmp_path / "data", *records)
    export_tasks(data, tmp_path / "out", env="bash")
    names = json.loads((tmp_path / "out" / "card.json").read_text())["tasks"]
    assert names["a"] == "a"
    assert len({name.lower() for name in names.values()}) == len(ids)


def test_equal_data_give_equal_digests(tmp_path: Path) -> None:
    digests = []
    for number in (1, 2):
        data = write_data(tmp_path / str(number) / "data", GENERAL, **FILES)
        os.utime(data / "tree" / "stock" / "parts.csv", (number, number))
        export_tasks(data, tmp_path / f"out{number}", env="bash")
        digests.append((tmp_path / f"out{number}" / "dataset.toml").read_text())
    assert digests[0] == digests[1]


def test_the_agent_sees_a_database_as_its_task_begins(tmp_path: Path) -> None:
    add = "INSERT INTO ship VALUES ('Ann')"
    record = {"query": "Which ships?", "gold": "SELECT name FROM ship", "preprocess_sql": [add]}
    dump = "CREATE TABLE ship (name TEXT); INSERT INTO ship VALUES ('Bo');"
    data = write_data(tmp_path / "data", record, **{"databases__port.sql": dump})
    export_tasks(data, tmp_path / "out", env="sql")
    rows = []
    for folder in ("environment", "tests/data"):
        (file,) = (only_task(tmp_path / "out") / folder).glob("databases/*.sqlite")
        with closing(sqlite3.connect(file)) as connection:
            rows.append(connection.execute("SELECT count(*) FROM ship").fetchall())
    assert rows == [[(2,)], [(1,)]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["export", "bash", "--env", "sql"], "no data set is called 'bash'"),
        (["export", "nosuch"], "not the name of starter tasks"),
        (["export", "sql", "--only", "all"], "takes no --only"),
        (["data", "generate", "sql-shop", "--asks", "1"], "--asks"),
    ],
)
def test_what_cannot_be_exported_is_refused_by_name(
    words: list[str], message: str, tmp_path: Path
) -> None:
    result = CliRunner().invoke(main, [*words, "--format", "harbor", "--out", str(tmp_path / "o")])
    assert result.exit_code != 0
    assert message in result.output + str(result.exception)
    assert not (tmp_path / "o").exists()


def test_a_folder_comes_before_starter_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_data(Path("bash"), GENERAL, **FILES)
    assert export_tasks("bash", "out", env="bash") == (1, {})


def test_starter_tasks_of_each_environment_are_exported(tmp_path: Path) -> None:
    for env in FORMS:
        count, _ = export_tasks(env, tmp_path / env, limit=2)
        assert count == 2


@pytest.mark.slow
@pytest.mark.alone
def test_the_verifier_pays_right_answers_only(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data", GENERAL, **FILES)
    rounds = {
        "id": "two",
        "query": "Write 1 into /note.",
        "gold": "echo 1 >/note",
        "rounds": [{}, {"query": "Add the line 2.", "gold": "echo 2 >>/note"}],
    }
    several = write_data(tmp_path / "several", rounds)
    cases = [
        (
            (data, "bash"),
            [
                ([GOLD], 1),
                *(([text], 1) for text in HONEST.values()),
                ([HARD_CODED], 0),
                ([], 0),
                (["submit 'A 90'"], 0),
            ],
        ),
        ((several, "bash"), [(["echo 1 >/note"], 0.5), (["echo 1 >/note", "echo 2 >>/note"], 1)]),
        (("sql", "sql"), [(["SELECT 1"], 0), (["\0"], 0)]),
        ((LIGHTHOUSE, "python"), [(["print('no')"], 0)]),
    ]
    for number, ((source, env), answers) in enumerate(cases):
        out = tmp_path / f"out{number}"
        export_tasks(source, out, env=env, limit=1)
        task, form = only_task(out), FORMS[env]
        if not (task / "steps").exists():
            gold = (task / "solution" / f"answer{form.suffix}").read_text()
            answers = [([gold], 1), *answers]
        hands, expected = zip(*answers, strict=True)
        rewards = verdicts(task, *hands, work=tmp_path / "work")
        assert rewards == [str(float(reward)) for reward in expected], (source, rewards)


@pytest.mark.slow
@pytest.mark.alone
def test_an_image_without_a_program_of_the_gold_gives_no_verdict(tmp_path: Path) -> None:
    gold = "echo '[1, 2]' | jq '.[]' | wc -l"
    record = {"query": "Print the number of elements of the list [1, 2].", "gold": gold}
    export_tasks(write_data(tmp_path / "data", record, **FILES), tmp_path / "out", env="bash")
    task = only_task(tmp_path / "out")
    assert verdicts(task, [gold], ["echo"], work=tmp_path / "work") == ["none", "none"]


FORGERIES = {
    "the reward file": "mkdir -p /logs/verifier; echo 1 >/logs/verifier/reward.txt",
    "the reward file, later": "(sleep 1; echo 1 >/logs/verifier/reward.txt) & disown",
    "the expected answer": "cat /tests/data/tasks.jsonl /tests/*; ls -R /tests /var/tmp",
    "the gold, found": "$(grep -rhs awk / --include=tasks.jsonl)",
    "all processes": "kill -9 -1; kill -9 1; pkill -9 python3",
    "the parents": "kill -9 $PPID; kill -STOP $PPID",
    "another root": "python3 -c 'import os; os.chroot(\"/tmp\")'; ls /proc/1/root/tests",
    "setuid": "cp /bin/bash /tmp/b; chmod 4755 /tmp/b; /tmp/b -p -c 'cat /tests/task.json'",
    "python's startup": "echo 'print(1)' >/usr/lib/python3.11/sitecustomize.py",
    "the scorer's code": "echo >/var/tmp/verdict/intercode/env.py; rm -rf /var/tmp/verdict",
    "its cache": "rm -rf /root/.cache; ls -R /root/.cache",
    "bash functions": "awk() { echo; }; sort() { echo; }; export -f awk sort",
    "PATH": "mkdir /b; printf '#!/bin/sh\\necho A 90' >/b/awk; chmod 755 /b/awk; PATH=/b:$PATH",
    "devices": "mknod /d b 8 0; cat /d; mount -t proc proc /proc",
    "sockets": "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 80))'",
    "memory": 'python3 -c \'open("/proc/1/mem", "rb").read(9)\'; gdb -p 1',
    "endless": "while :; do :; done",
    "endless output": "yes 'A 90'",
    "many processes": "f() { f | f & }; f",
    "a submission": "submit",
    "success by name": "exit 0; echo 1.0; echo reward 1",
}


@pytest.mark.slow
@pytest.mark.alone
def test_no_forged_answer_is_paid(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data", GENERAL, **FILES)
    export_tasks(data, tmp_path / "out", env="bash")
    task = only_task(tmp_path / "out")
    links = [[Path(target)] for target in ("/tests/data/tasks.jsonl", "/dev/zero", "/tests")]
    hands = [[text] for text in FORGERIES.values()]
    right = [GOLD]
    rewards = verdicts(task, *hands, *links, right, work=tmp_path / "work")
    assert dict(zip(FORGERIES, rewards, strict=False)) == dict.fromkeys(FORGERIES, "0.0")
    assert rewards[len(FORGERIES) :] == ["0.0", "0.0", "0.0", "1.0"]


def test_a_generated_family_is_exported_at_once(tmp_path: Path) -> None:
    words = ["data", "generate", "sql-shop", "--n", "10", "--out", str(tmp_path / "shop")]
    for more in ([], ["--resume", "--format", "harbor"]):
        result = CliRunner().invoke(main, [*words, *more])
        assert result.exit_code == 0, result.output
    assert "10 tasks in" in result.output
    assert len([path for path in (tmp_path / "shop" / "harbor").iterdir() if path.is_dir()]) == 10
