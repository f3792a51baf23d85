"""A stranger's run folder: settings are taken from it, and what acts only if the user signed it or
says `--trust`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import click
import pytest
from cli_words import INTERCODE
from loopback import Quiet, Server, serving

from intercode.cli import main
from intercode.cli.options import _NOT_STORED
from intercode.envs import all_facts, all_options
from intercode.errors import IntercodeError
from intercode.options import RunOptions
from intercode.rescoring.rescore import options_of
from intercode.runs.folders import RunFolders
from intercode.runs.signing import is_signed
from intercode.runs.store import read_run
from intercode.runs.trust import needs_trust, settings_that_need_trust

EVIL = """
import pathlib
pathlib.Path(__file__).with_name("EXECUTED").touch()
from intercode.agents import gold
from intercode.envs.bash.env import BashEnv as Env
from intercode_sandbox.local import LocalProvider as Sandbox
def agent(*task):
    return gold(*task)
agent.needs_model = False
def reward(*_):
    return 1.0
class Engine:
    pass
"""
READERS: dict[str, tuple[str, ...]] = {
    "resume": ("eval", "--resume", "RUN"),
    "replay": ("replay", "RUN"),
    "rescore": ("rescore", "RUN", "--reward", "paper", "--out", "RESCORED"),
    "judge": ("rescore", "RUN", "--judge", "scripted:{replies}"),
    "export": ("export", "RUN", "--format", "sft", "--as", "try_again", "--out", "OUT.jsonl"),
    "report": ("report", "RUN", "--html", "OUT.html"),
    "show": ("show", "RUN"),
    "merge": ("merge", "RUN", "--out", "MERGED"),
}


class KeyServer(Server):
    """Keeps the keys that it is sent, and refuses them."""

    def __init__(self) -> None:
        super().__init__(_KeyHandler)


class _KeyHandler(Quiet):
    def do_POST(self) -> None:
        self.server.requests.append(self.headers["Authorization"])
        self.send_error(401)


def edit(
    run: Path, *, signed: bool = False, options: dict[str, Any] | None = None, **settings: Any
) -> None:
    """Change settings of a run as a stranger would; the old signature stays with `signed`."""
    found = json.loads((run / "run.json").read_text())
    found |= {**settings, "options": {**found["options"], **(options or {})}}
    if not signed:
        found.pop("signature", None)
    (run / "run.json").write_text(json.dumps(found))


def tree(folder: Path) -> dict[str, Any]:
    """What is in a folder: names, links, kinds, contents."""
    paths = sorted(folder.rglob("*"))
    files = {
        str(path): path.read_bytes() for path in paths if path.is_file() and not path.is_symlink()
    }
    return {**{str(path): path.lstat().st_mode for path in paths}, **files}


@contextmanager
def ends(seconds: int = 60) -> Iterator[None]:
    """Fail if the block takes longer: a command that waits for a pipe would wait forever."""

    def stop(*_: object) -> None:
        raise AssertionError("the command does not end by itself")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def played(box: Path, run_once: Any) -> Path:
    words = ("eval", "bash", "--data", box, "--agent", "gold", "--limit", 2, "--out", "run")
    return Path(run_once(*words)) / "run"


@pytest.fixture
def run(played: Path, tmp_path: Path) -> Path:
    """A run of the user's own, with its data named by a path; and what a stranger might put beside
    it."""
    shutil.copytree(played, tmp_path / "run")
    (tmp_path / "evil.py").write_text(EVIL)
    (tmp_path / "replies").write_text('["no"]')
    return tmp_path / "run"


def test_nothing_that_a_strangers_run_names_is_executed_read_or_sent_a_key(
    cli: Any, box: Path, run: Path, tmp_path: Path
) -> None:
    evil, secret = tmp_path / "evil.py", tmp_path / "secret"
    secret.write_text("the secret")
    with serving(KeyServer()) as server:
        key = {"OPENAI_API_KEY": "sk-of-the-user"}
        named: dict[str, Any] = {
            "agent": f"{evil}:agent", "env": f"{evil}:Env", "reward": f"{evil}:reward",
            "sandbox": f"{evil}:Sandbox", "base_url": f"{server.url}/v1",
            "model": f"scripted:{secret}", "on": "ray://127.0.0.1:1", "setup": str(secret),
            "tree": str(secret), "image": "a/stranger", "failed_in": str(run), "novelty": "x",
        }  # fmt: skip
        commands: list[tuple[tuple[Any, ...], str]] = []
        for name, value in named.items():
            stranger = shutil.copytree(run, tmp_path / f"stranger-{name}")
            model = {"agent": "try_again", "model": "m"} if name in ("base_url", "model") else {}
            edit(stranger, **({name: value} if name in ("env", "reward", "sandbox") else {}))
            edit(
                stranger,
                options={**model, name: value, "trust": True, "out": str(tmp_path / "elsewhere")},
            )
            if name != "novelty":  # no option of this command
                commands.append(
                    (
                        (
                            "eval",
                            "--resume",
                            stranger,
                            *(() if name == "data" else ("--data", box)),
                        ),
                        str(value),
                    )
                )
        stranger = shutil.copytree(run, tmp_path / "stranger")
        edit(
            stranger,
            env=named["env"],
            reward=named["reward"],
            sandbox=named["sandbox"],
            tree=str(secret),
            data_from=str(secret),
        )
        line = json.loads((run / "episodes.jsonl").read_text().splitlines()[0])
        (stranger / "episodes.jsonl").write_text(
            json.dumps({**line, "reward": 0, "success": False, "ambiguous": True}) + "\n"
        )
        judged = shutil.copytree(stranger, tmp_path / "stranger-judged")
        edit(judged, reward="exact")
        for name, folder in (
            ("replay", stranger),
            ("rescore", stranger),
            ("export", stranger),
            ("judge", judged),
        ):
            words = [word.format(replies=tmp_path / "replies") for word in READERS[name]]
            commands.append(
                (tuple(folder if word == "RUN" else word for word in words), named["env"])
            )
        commands += [
            (
                ("replay", stranger, "--env", "bash", "--reward", "exact", "--data", box),
                named["sandbox"],
            ),
            (
                (
                    "replay",
                    stranger,
                    "--env",
                    "bash",
                    "--reward",
                    "exact",
                    "--data",
                    box,
                    "--sandbox",
                    "local",
                ),
                str(secret),
            ),
        ]
        log = tmp_path / "v1.json"  # a log of InterCode v1 is as strange
        log.write_text(
            json.dumps(
                {
                    "0": {
                        "environment": named["env"],
                        "task_id": 0,
                        "query": "q",
                        "summary": {"max_reward": 1, "turns_max": 1},
                        "turn_history": {
                            "actions": ["ls"],
                            "observations": [""],
                            "rewards": [1],
                            "valid_action": [True],
                        },
                    }
                }
            )
        )
        commands.append((("replay", log), named["env"]))
        for folder in (stranger, tmp_path / "stranger-agent"):
            for name in ("report", "show"):
                with ends():
                    assert (
                        cli(*(folder if word == "RUN" else word for word in READERS[name])).status
                        == 0
                    )
        before = tree(tmp_path)
        for words, value in commands:
            with ends():
                done = cli(*words, **key)
            assert (done.status, value in done.err, "--trust" in done.err) == (2, True, True), (
                words,
                done,
            )
            assert "the secret" not in done.out + done.err
        assert tree(tmp_path) == before
        assert not evil.with_name("EXECUTED").exists()
        assert server.requests == []
        assert len(commands) + 4 >= 20

        # The controls: with --trust the code is loaded and the key is sent, and the run is the
        # user's own from then on.
        again = tmp_path / "stranger-agent"
        cli(
            "eval",
            "--resume",
            tmp_path / "stranger-base_url",
            "--data",
            box,
            "--trust",
            "--limit",
            3,
            **key,
        )
        trusting = cli("replay", stranger, "--trust", "--data", box)
        assert "the secret" not in trusting.out
    assert evil.with_name("EXECUTED").exists()
    evil.with_name("EXECUTED").unlink()
    for words in (("--trust",), ()):
        done = cli("eval", "--resume", again, *words)
        assert "other settings" in done.err, done  # the run was played by another agent
        assert evil.with_name("EXECUTED").exists()
        evil.with_name("EXECUTED").unlink()
    assert is_signed(read_run(again)[0])


def test_an_engine_that_a_strangers_run_names_is_loaded_only_when_the_run_is_trusted(
    cli: Any, tmp_path: Path
) -> None:
    (evil := tmp_path / "evil.py").write_text(EVIL)
    words = ("eval", "sql", "--agent", "gold", "--limit", 1, "--engine", "sqlite")
    assert cli(*words, "--out", "run").status == 0
    for name in (f"{evil}:Engine", "evil:Engine"):
        edit(tmp_path / "run", engine=name, options={"engine": name})
        for command in (("eval", "--resume", "run"), ("replay", "run")):
            refused = cli(*command)
            assert (refused.status, name in refused.err, "--trust" in refused.err) == (
                2,
                True,
                True,
            )
            assert not evil.with_name("EXECUTED").exists()
        assert "not a database engine" in cli("eval", "--resume", "run", "--trust").err
        evil.with_name("EXECUTED").unlink()
    assert cli("replay", "run", "--engine", "sqlite").status == 0


def test_only_the_command_line_opens_the_host_s_network(
    cli: Any, box: Path, tmp_path: Path
) -> None:
    words = ("eval", "bash", "--data", box, "--agent", "gold", "--limit", 1)
    assert cli(*words, "--allow-host-network", "--out", "run").status == 0
    settings = read_run(tmp_path / "run")[0]
    assert settings["network"] == "host"
    assert "allow_host_network" not in {**settings, **settings["options"]}
    edit(tmp_path / "run", options={"allow_host_network": True})
    for more in ((), ("--trust",)):
        refused = cli("eval", "--resume", "run", "--data", box, *more)
        assert (refused.status, "network: 'host' → None" in refused.err) == (2, True)
    assert cli("eval", "--resume", "run", "--allow-host-network").status == 0
    crafted = {**settings, "allow_host_network": True, "data_from": "tasks.jsonl"}
    assert "allow_host_network" not in options_of(crafted, {})
    assert options_of(crafted, {"allow_host_network": True})["allow_host_network"]


def test_a_key_goes_to_an_address_that_a_run_names_only_when_the_run_is_trusted(
    cli: Any, box: Path, tmp_path: Path
) -> None:
    with serving(KeyServer()) as server:
        url, key = f"{server.url}/v1", {"OPENAI_API_KEY": "sk-of-the-user"}
        cli(
            "eval",
            "bash",
            "--data",
            box,
            "--limit",
            1,
            "--model",
            "m",
            "--base-url",
            url,
            "--out",
            "run",
            **key,
        )
        assert server.requests == ["Bearer sk-of-the-user"]
        edit(tmp_path / "run")
        refused = cli("eval", "--resume", "run", **key)
        assert (refused.status, url in refused.err, len(server.requests)) == (2, True, 1)
        given = cli("eval", "--resume", "run", "--base-url", url, "--data", box, **key)
        assert (given.status, len(server.requests)) == (3, 2)
        for count, words in ((2, ()), (3, ("--trust",)), (4, ())):
            cli("eval", "--resume", "run", *words, **key)
            assert len(server.requests) == count


def test_an_old_run_asks_once_and_changed_settings_ask_again(
    cli: Any, run: Path, box: Path
) -> None:
    edit(run)
    done = cli("eval", "--resume", run)
    assert done.status == 2
    assert f"data {str(box)!r}" in done.err
    assert cli("eval", "--resume", run, "--data", box).status == 0
    assert cli("eval", "--resume", run).status == 2
    for words in (("--trust",), ()):
        assert cli("eval", "--resume", run, *words, "--json").json["episodes"] == 2
    moved = run.rename(run.with_name("moved"))
    assert cli("replay", moved).status == 0
    edit(moved, signed=True, tree=str(box / "tree"))
    assert cli("replay", moved).status == 2


def test_a_run_of_built_in_parts_is_settings_only(cli: Any, tmp_path: Path) -> None:
    assert cli("eval", "bash", "--agent", "gold", "--limit", 1, "--out", "run").status == 0
    assert settings_that_need_trust(read_run(tmp_path / "run")[0]) == {}
    edit(tmp_path / "run")
    assert cli("eval", "--resume", "run").status == 0
    assert cli("replay", "run").status == 0


def test_every_option_is_classified() -> None:
    kinds = (all_options(), RunOptions.named, all_facts())
    for name in ("eval", "score", "play", "replay", "rescore"):
        command = main.get_command(click.Context(main), name)
        assert command is not None
        for option in {str(param.name) for param in command.params} - _NOT_STORED - {"log"}:
            assert sum(option in kind for kind in kinds) == 1, option
    assert needs_trust("an option that nobody knows", "x")
    assert [needs_trust("data", value) for value in ("spider", "spider.json")] == [False, True]


@pytest.mark.parametrize("fault", ["open", "no home"])
def test_a_key_that_cannot_be_used_is_told_and_the_run_is_played(
    cli: Any, box: Path, tmp_path: Path, fault: str
) -> None:
    home = {
        "INTERCODE_TRUST_KEY": "",
        "XDG_CONFIG_HOME": "/dev/null/x" if fault == "no home" else str(tmp_path / "config"),
    }
    words = ("eval", "bash", "--data", box, "--agent", "gold", "--limit", 1)
    if fault != "no home":
        assert cli(*words, "--out", "first", **home).err.count("key") == 0
        key = tmp_path / "config" / "intercode" / "trust.key"
        assert key.stat().st_mode & 0o777 == 0o600
        assert cli("eval", "--resume", "first", **home).status == 0
        key.chmod(0o644)
    done = cli(*words, "--out", "run", **home)
    assert (done.status, done.err.count("the run is not signed")) == (0, 1)
    refused = cli("eval", "--resume", "run", **home)
    assert (refused.status, "the key" in refused.err) == (2, True)
    assert cli("eval", "--resume", "run", "--trust", **home).status == 0
    assert (
        cli("eval", "--resume", "run", "--data", box, **{**home, "INTERCODE_TRUST_KEY": "k"}).status
        == 0
    )


def pipe(path: Path) -> None:
    os.mkfifo(path)


def without_end(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 42)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("run.json", kind) for kind in ("link", "pipe")),
        *(("episodes.jsonl", kind) for kind in ("link", "pipe", "device", "no end")),
    ],
)
def test_a_file_that_is_no_plain_file_is_refused_by_every_command(
    cli: Any, run: Path, tmp_path: Path, name: str, kind: str
) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes((run / name).read_bytes() + b"a line without an end")
    (run / name).unlink()
    (run / "index.sqlite").unlink(missing_ok=True)
    made: dict[str, Callable[[], object]] = {
        "link": lambda: (run / name).symlink_to(outside),
        "device": lambda: (run / name).symlink_to("/dev/zero"), "pipe": lambda: pipe(run / name),
        "no end": lambda: without_end(run / name),
    }  # fmt: skip
    made[kind]()
    before = outside.read_bytes(), outside.stat().st_mtime_ns
    commands = ("report",) if kind == "no end" else (*READERS, "view")
    for command in commands:
        with ends():
            if command == "view":
                (viewed,) = RunFolders([run]).all().values()
                with pytest.raises(IntercodeError) if name == "episodes.jsonl" else nullcontext():
                    viewed.index.update()
                assert name == "episodes.jsonl" or not viewed.config
                continue
            words = [word.format(replies=tmp_path / "replies") for word in READERS[command]]
            done = cli(*(run if word == "RUN" else word for word in words))
        # `show` shows episodes without their settings
        assert done.status in ((0,) if (command, name) == ("show", "run.json") else (2, 3)), (
            command,
            done,
        )
    assert (outside.read_bytes(), outside.stat().st_mtime_ns) == before
    assert not {"MERGED", "RESCORED", "OUT.html", "OUT.jsonl"} & set(os.listdir(tmp_path))


def test_what_lies_in_a_run_folder_leads_no_command_out_of_it(
    cli: Any, run: Path, tmp_path: Path
) -> None:
    line = json.loads((run / "episodes.jsonl").read_text().splitlines()[0])
    (run / "episodes.jsonl").write_text(json.dumps({**line, "ambiguous": True}) + "\n")
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("a.turns", "mark", "verdicts.jsonl", "replies.jsonl", "page.html", "index.sqlite"):
        (outside / name).write_text("precious\n")
    before = tree(outside)
    for name in ("underway", "judged"):
        (run / name).symlink_to(outside)
    (run / "page.html").symlink_to(outside / "page.html")
    (run / "index.sqlite").unlink(missing_ok=True)
    (run / "index.sqlite").symlink_to(outside / "index.sqlite")
    (run / f"run.json.{os.getpid()}.new").symlink_to(outside / "mark")
    statuses = {}
    for command in ("resume", "judge", "report", "show", "export", "merge"):
        words = [
            str(run) if word == "RUN" else word.format(replies=tmp_path / "replies")
            for word in READERS[command]
        ]
        with ends():
            statuses[command] = cli(
                *words, *(("--trust",) if command in ("resume", "judge") else ())
            ).status
    with ends():
        statuses["page"] = cli("report", run, "--html", run / "page.html").status
        pipe(run / "piped.html")
        statuses["pipe"] = cli("report", run, "--html", run / "piped.html").status
        statuses["file"] = cli(
            "export", run, "--format", "jsonl", "--out", run / "page.html", "--force"
        ).status
    assert tree(outside) == before
    assert statuses == {
        "resume": 3, "judge": 3, "report": 3, "show": 0, "export": 0, "merge": 0, "page": 3,
        "pipe": 3, "file": 2,
    }  # fmt: skip
    (run / "underway").unlink(), (run / "judged").unlink()
    assert cli("eval", "--resume", run, "--trust").status == 0
    assert tree(outside) == before


def test_a_journal_beside_a_strangers_index_deletes_no_file(
    cli: Any, run: Path, tmp_path: Path
) -> None:
    """SQLite deletes the file that a journal names as its "super-journal"."""

    def plant(folder: Path, victim: Path) -> Path:
        victim.write_text("precious\n")
        shutil.rmtree(folder / "gone", ignore_errors=True)
        (index := folder / "index.sqlite").unlink(missing_ok=True)
        with sqlite3.connect(tmp_path / "made", isolation_level=None) as db:
            db.execute("CREATE TABLE IF NOT EXISTS t (x)")
            db.execute("PRAGMA cache_size = 1")
            db.execute("BEGIN")
            db.executemany("INSERT INTO t VALUES (?)", [("y" * 500,)] * 500)
            shutil.copy(tmp_path / "made", index)
            journal = Path(f"{tmp_path / 'made'}-journal").read_bytes()
            db.execute("ROLLBACK")
        db.close()
        name = os.fsencode(victim)
        end = struct.pack(">II", len(name), sum(name)) + bytes.fromhex("d9d505f920a163d7")
        Path(f"{index}-journal").write_bytes(
            journal + struct.pack(">I", (1 << 30) // 4096 + 1) + name + end
        )
        return index

    victim = tmp_path / "victim"
    (tmp_path / "control").mkdir()
    with sqlite3.connect(plant(tmp_path / "control", victim)) as control:
        control.execute("SELECT count(*) FROM t").fetchone()
    control.close()
    assert not victim.exists()
    plant(run, victim)
    edit(run)
    assert "--json" not in cli("show", run).out
    assert victim.exists()


def test_a_merged_run_is_the_users_only_if_all_its_parts_are(
    cli: Any, box: Path, tmp_path: Path
) -> None:
    for number in (1, 2):
        shard = ("--shard", f"{number}/2")
        words = ("eval", "bash", "--data", box, "--agent", "gold", "--limit", 2)
        cli(*words, *shard, "--out", f"part{number}")
    for name, words, signed in (
        ("own", (), True),
        ("strange", (), False),
        ("trusted", ("--trust",), True),
    ):
        assert cli("merge", "part1", "part2", "--out", name, *words).status == 0
        assert is_signed(read_run(tmp_path / name)[0]) is signed
        edit(tmp_path / "part2")
    assert [cli("replay", name).status for name in ("own", "strange")] == [0, 2]


@pytest.mark.parametrize("value", [{"a": 1}, [1], "much"])
def test_a_stored_option_of_a_wrong_type_is_named(
    cli: Any, run: Path, tmp_path: Path, value: Any
) -> None:
    edit(run, options={"max_cost": value})
    done = cli("eval", "--resume", run, "--trust")
    assert (done.status, "option max_cost" in done.err) == (2, True)


def test_a_killed_merge_leaves_no_run_and_unfinished_runs_say_so(
    cli: Any, run: Path, tmp_path: Path
) -> None:
    line = json.loads((run / "episodes.jsonl").read_text().splitlines()[0])
    with (run / "episodes.jsonl").open("w") as file:
        file.writelines(json.dumps({**line, "epoch": epoch}) + "\n" for epoch in range(3_000))
    edit(run, epochs=3_000)
    with subprocess.Popen(
        [INTERCODE, "merge", run, "--out", tmp_path / "merged"], stdout=subprocess.DEVNULL
    ) as merging:
        while not any(
            file.stat().st_size for file in tmp_path.glob(".merged.*.new/run/episodes.jsonl")
        ):
            assert merging.poll() is None
            time.sleep(0.01)
        merging.kill()
    assert not (tmp_path / "merged").exists()
    assert cli("report", tmp_path).out.count("run: ") == 1

    (run / "episodes.jsonl").write_text(json.dumps(line) + "\n")
    edit(run, epochs=1, planned=12)
    assert " 1 of 12 " in cli("report", run, "--html", "page.html").out
    assert "1 of 12" in (tmp_path / "page.html").read_text()
    assert cli("report", run, "--json").json["planned"] == 12
