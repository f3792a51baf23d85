"""Strangers' files in ../shared/cases: one odd entry beside a good one, compose files, published
layouts in small, a beginner's mistakes, files that are hard to read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from base_image import base_image
from faults import definitions, rows
from kept import needs_bwrap

import intercode
from intercode.agents import gold, noop
from intercode.env import InterCodeEnv
from intercode.errors import DataError, IntercodeError
from intercode.factory import EnvFactory
from intercode.runner.run import evaluate

pytestmark = [
    pytest.mark.world,
    pytest.mark.filterwarnings("ignore::intercode.errors.EntryLeftOut"),
]

CHALLENGES = [
    "plain file",
    "no flag",
    "flag null",
    "no description",
    "files is a text",
    "trailing comma",
    "BOM",
    "Latin-1",
    "list in the file",
    "flag list",
    "file outside",
    "compose, no file",
    "compose broken",
    "name Web_App",
    "box with capitals",
    "port as text",
    "memory in compose",
]
COLLECT = """#!/bin/bash
case "$*" in *--data*) cp -r "$4" "$TO/$(ls "$TO" | wc -l)" ;; esac
"""
"""A stand-in for `intercode` that keeps the folders which nyu.sh makes for it, one for each row."""


@pytest.fixture(scope="module")
def challenges(cases: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    program, to, scratch = map(tmp_path_factory.mktemp, ("program", "challenges", "scratch"))
    (program / "intercode").write_text(COLLECT)
    (program / "intercode").chmod(0o755)
    path = f"{program}:{os.environ['PATH']}"
    variables = os.environ | {"PATH": path, "TO": str(to), "TMPDIR": str(scratch)}
    script = cases / "edges/nyu.sh"
    printed = subprocess.check_output(["bash", script], env=variables, text=True)
    names = [line[3:].partition(" | ")[0] for line in printed.splitlines() if line[:3] == "== "]
    return {name: to / str(number) for number, name in enumerate(names)}


def test_every_challenge_has_a_row(challenges: dict[str, Path]) -> None:
    assert list(challenges) == CHALLENGES


@pytest.mark.parametrize("name", CHALLENGES)
def test_an_odd_challenge_leaves_only_itself_out(challenges: dict[str, Path], name: str) -> None:
    factory = intercode.prepare("ctf", data=str(challenges[name]))
    played = {task.id.rpartition("-")[2] for task in factory.tasks}
    left_out = {task.id.rpartition("-")[2]: why for task, why in factory.left_out}
    assert "good" in played
    assert "odd" in played or left_out["odd"]
    with closing(factory()) as env:
        env.reset(options={"task": "2023-misc-good"})
        if "odd" in played:
            assert "host name" not in why_no_episode(env, "2023-web-odd")


def why_no_episode(env: InterCodeEnv, task: str) -> str:
    try:
        env.reset(options={"task": task})
    except IntercodeError as error:  # its image has no shell
        return str(error)
    return ""


REASON = "a reason"
COMPOSED: dict[str, Any] = {
    "plain": {"port": 1337, "command": "python3 app.py"},
    "port default ${PORT:-1337}": {"port": 1337},
    "env default ${FLAG:-flag{x}}": {"env": {"MODE": "easy"}},
    "env list without value": {"env": None},
    "127.0.0.1 in ports": {"port": 1337},
    "port range": REASON,
    "expose and ports": {"port": 1337},
    "EXPOSE of the Dockerfile with /tcp": {"port": 1337},
    "CMD as shell line": {"command": "python3 app.py --port 1337"},
    "ENTRYPOINT + CMD": {"command": "/entry.sh serve --now"},
    "heredoc in the Dockerfile": {"command": "python3 a.py"},
    "command with && (text)": {"command": "sh -c 'cd /app && python3 a.py'"},
    "command null": {"command": "python3 app.py"},
    "entrypoint reset": {"command": "python3 b.py"},
    "healthcheck text with $$": {"ready": "test -n $HOME"},
    "build context and args": REASON,
    "volumes: a flag file": REASON,
    "cap_add, security_opt": REASON,
    "version, networks, x-": {"port": 1337},
    "hostname": {"port": 1337},
    "include/extends": REASON,
    "udp": REASON,
    "Dockerfile inline": REASON,
    "tty + stdin_open + init + platform": {"port": 1337},
    "CRLF and BOM": {"port": 1337},
}
OR_A_REASON = {"env list without value"}


@pytest.mark.parametrize("name", rows(COMPOSED))
def test_a_compose_file_is_read_as_compose_reads_it(cases: Path, tmp_path: Path, name: str) -> None:
    script = definitions(cases / "edges/compose.py", "DOCKERFILE", "CASES")
    assert script.CASES.keys() == COMPOSED.keys()
    text, dockerfile, _ = script.CASES[name]
    challenge = tmp_path / "2031/web/one"
    challenge.mkdir(parents=True)
    (challenge / "docker-compose.yml").write_text(text, newline="")
    (challenge / "Dockerfile").write_text(dockerfile or script.DOCKERFILE)
    about = {"name": "one", "category": "web", "description": "Ask it.", "flag": "flag{x}"}
    (challenge / "challenge.json").write_text(json.dumps(about | {"compose": True, "box": "web"}))
    service, reason = service_of(tmp_path)
    if COMPOSED[name] == REASON:
        assert reason
    elif not (reason and name in OR_A_REASON):
        assert service.items() >= COMPOSED[name].items(), reason


def service_of(folder: Path) -> tuple[dict[str, Any], str]:
    """Return the service of the only challenge, with an `env` of None if it has none; or why the
    challenge is left out."""
    try:
        (task,) = intercode.prepare("ctf", data=str(folder)).tasks
    except IntercodeError as error:
        return {}, str(error)
    return {"env": None} | task.extra["services"]["web"], ""


PLAYED = {
    "bigcodebench_layout.jsonl": "python",
    "livesqlbench_layout.jsonl": "sql",
    "nl2sh_alfa.csv": "bash",
    "humaneval_x_python.jsonl": "python",
    "sparc_layout.json": "sql",
    "spider_gold.txt": "sql",
    "odex_layout.jsonl": "python",
    "dbbench.jsonl": "sql",
    "agentbench_os_one.json": "bash",
    "harbor_steps/single": "harbor",
    "harbor_template/one": "harbor",
    "harbor_separate/one": "harbor",
}
"""Layouts whose tasks pay a gold 1 and nothing 0, by environment. Harbor's are played without their
images, in a root with the folder that they work in."""


def prepare(cases: Path, layout: str, env: str, tree: Path, **options: Any) -> EnvFactory:
    layouts = cases / "layouts"
    if env == "sql":
        options["databases"] = str(layouts / "databases")
    if layout == "agentbench_os_one.json":
        options["image"] = base_image()  # it writes into /usr
    if env == "harbor":
        (tree / "app").mkdir()
        (tree / "app" / "in.txt").write_text("b\na\nb\n")  # as the image of steps_shape does
        options |= {"tree": str(tree), "preprocess": without_image}
    return intercode.prepare(env, data=str(layouts / layout), **options)


def without_image(record: dict[str, Any]) -> dict[str, Any]:
    fields = {name: value for name, value in record.items() if name != "image"}
    if "verify_image" in record:  # one with pip, which needs the network
        fields |= {"verify_image": "task", "verify": "tests"}
        fields["artifacts"] = ["/app/a.txt"]  # it declares none: with Harbor, its oracle fails too
    if "rounds" in record:
        fields["rounds"] = [without_image(posed) for posed in record["rounds"]]
    return fields


def test_tests_with_an_image_of_their_own_are_played(cases: Path) -> None:
    needs_bwrap()
    data = str(cases / "layouts/tb4_shape")
    factory = intercode.prepare("harbor", data=data, image=base_image())
    with closing(factory()) as env:
        (task,) = factory.tasks
        assert (reward(env, task.id), reward(env, task.id, task.gold)) == (0.0, 1.0)


def reward(env: InterCodeEnv, task: str, *actions: str) -> float:
    env.reset(options={"task": task})
    for action in actions:
        env.step(action)
    return env.step("submit")[1]


@pytest.mark.parametrize("name", PLAYED)
def test_a_published_layout_is_played(cases: Path, tree: Path, name: str) -> None:
    needs_bwrap()
    factory = prepare(cases, name, PLAYED[name], tree)
    with closing(factory()) as env:
        for task in factory.tasks:
            paid = reward(env, task.id), reward(env, task.id, task.gold)
            assert paid == (0.0, 1.0), task.id


@pytest.mark.parametrize("name", ["steps_shape", "harbor_steps"])
def test_steps_are_played_one_after_the_other(cases: Path, tree: Path, name: str) -> None:
    needs_bwrap()
    factory = prepare(cases, name, "harbor", tree)
    for agent, reward_of_all in ((gold, 1.0), (noop, 0.0)):
        for episode in evaluate(factory, agent, tasks=factory.tasks):
            assert (episode.error, episode.reward) == (None, reward_of_all), episode.task


SOLUTIONS = {"none": "", "one that only prints": "echo Oracle solution script\n"}
"""D1 and D2 of faults.md."""


@pytest.mark.parametrize("name", SOLUTIONS)
def test_a_right_answer_needs_no_gold(cases: Path, tree: Path, tmp_path: Path, name: str) -> None:
    needs_bwrap()
    task = shutil.copytree(cases / "layouts/harbor_template/one", tmp_path / "one")
    (task / "solution.sh").unlink()
    if SOLUTIONS[name]:
        (task / "solution.sh").write_text(SOLUTIONS[name])
    with closing(prepare(tmp_path, str(tmp_path), "harbor", tree)()) as env:
        assert reward(env, "one", "echo hello > /app/hello.txt") == 1.0
        assert reward(env, "one") == 0.0


REFUSED = {
    "tb_uv_pytest": ("harbor", "its tests download"),
    "harbor_uvx": ("harbor", "its tests download"),
    "humaneval_x_js.jsonl": ("python", "JavaScript"),
    "nyu_small": ("ctf", "names 'big.bin'"),
}
"""Layouts that are left out, wholly or in part, and a true reason."""


@pytest.mark.parametrize("name", REFUSED)
def test_a_layout_is_left_out_with_a_true_reason(cases: Path, tree: Path, name: str) -> None:
    env, reason = REFUSED[name]
    assert reason in reasons(cases, name, env, tree)


def reasons(cases: Path, layout: str, env: str, tree: Path) -> str:
    try:
        return " ".join(why for _, why in prepare(cases, layout, env, tree).left_out)
    except IntercodeError as error:
        return str(error)


UNTRUE = {
    "wikisql_original.jsonl": ("sql", "--gold-fields"),
    "conala_test.json": ("python", "--gold-fields"),
    "nyu_small": ("ctf", "its server has volumes"),
    "nyu_small/2031": ("ctf", "needs the network (http://{box}"),
}
"""What must not be said: advice that cannot help, reasons that are none, one entry for all."""


@pytest.mark.parametrize("name", UNTRUE)
def test_a_layout_is_not_refused_for_this(cases: Path, tree: Path, name: str) -> None:
    env, reason = UNTRUE[name]
    assert reason not in reasons(cases, name, env, tree)


def test_one_odd_task_is_left_out(cases: Path, tree: Path) -> None:
    needs_bwrap()
    factory = prepare(cases, "harbor_template", "harbor", tree)
    assert [task.id for task in factory.tasks] == ["one"]
    assert [task.id for task, _ in factory.left_out] == ["new_task_template"]


def test_a_gold_that_fails_its_tests_is_an_error_of_the_data(cases: Path, tree: Path) -> None:
    needs_bwrap()
    factory = prepare(cases, "harbor_gold_fails", "harbor", tree)
    with closing(factory()) as env, pytest.raises(DataError, match="does not pass its tests"):
        reward(env, "one")


@pytest.fixture
def tree(empty_cache: Path) -> Path:
    (empty_cache / "tree").mkdir()
    return empty_cache / "tree"


BOMBS = ["yaml bomb 9", "query regex words"]


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_costs_little(cases: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "scratch").mkdir()
    script = [sys.executable, str(cases / "attack/compose_bombs.py"), name]
    command = ["prlimit", "--cpu=2", "--as=2000000000", *script]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 0
