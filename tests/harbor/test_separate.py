"""Tests in an image of their own: only artifacts come from the agent, and nothing of it decides."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import docker_images
import pytest
from base_image import base_image
from families import killing_the_wall_at
from harbor_tasks import (
    FILES,
    HOOK,
    OUT,
    RIGHT,
    SEPARATE,
    acting,
    passing,
    played,
    prepare,
    write_task,
    write_usual_tasks,
)

import intercode
from intercode.agents import gold, noop
from intercode.errors import DataError, EntryLeftOut
from intercode.factory import EnvFactory
from intercode.interop.harbor.directory import read_directory
from intercode.tasks.formats import Unreadable
from intercode.validate.check import check
from intercode_sandbox.image import image_path

COMPOSE = """
services:
  main: {}
  store:
    build: {context: ./store}
    expose: [8000]
"""


# -- the ways of a separate verifier ---------------------------------------------------------------

SERVER = """
import http.server, pathlib
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        pathlib.Path("/data/asked").write_text(self.path)
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("", 8000), Handler).serve_forever()
"""
STORE = "FROM debian:bookworm-slim\nWORKDIR /data\nCOPY server.py /\nCMD python3 /server.py\n"
ASKS = "import urllib.request; urllib.request.urlopen('http://store:8000/3')"
SLOW = (
    '[environment.healthcheck]\ncommand = "echo >> /tried; [ $(wc -l < /tried) -ge 4 ]"\n'
    "interval_sec = 0.05\nretries = 2\nstart_period_sec = 30\nstart_interval_sec = 0.05\n"
)
SERVICE = '{source = "/data", service = "store", exclude = ["*.tmp", "cache"]}'
FILLS = "cp asked copy; mkdir cache; touch x.tmp cache/y"


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> EnvFactory:
    folder = tmp_path_factory.mktemp("tasks")
    write_usual_tasks(folder)
    write_task(folder / "named", f'{OUT}[verifier.environment]\ndocker_image = "{named_image()}"\n')
    programs = "/bin/tar /usr/bin/tar /usr/bin/python3* /usr/bin/find"
    write_task(
        folder / "bare", tests__Dockerfile=f"{FILES['tests/Dockerfile']}RUN rm -f {programs}\n"
    )
    write_task(
        folder / "collected",
        SEPARATE
        + HOOK.format("cp /app/out.txt /logs/artifacts/")
        + HOOK.format("exit 3")
        + HOOK.format("sleep 30")
        + "timeout_sec = 0.5\n",
        tests__test_dot_sh=passing('"$(cat /logs/artifacts/out.txt)" = 3'),
    )
    write_task(folder / "healthy", OUT + SEPARATE + SLOW)
    write_task(
        folder / "of-service",
        f'artifacts = [{SERVICE}]\n{SEPARATE}{HOOK.format(FILLS)}service = "store"\n',
        environment__compose_dot_yaml=COMPOSE,
        environment__store__Dockerfile=STORE,
        environment__store__server_dot_py=SERVER,
        solution__solve_dot_sh=f'#!/bin/bash\npython3 -c "{ASKS}"\n',
        tests__test_dot_sh=passing(
            '"$(cat /data/copy) $(echo /data/*)" = "/3 /data/asked /data/copy"'
        ),
    )
    return prepare(folder)


def named_image() -> str:
    """The name of an image that holds the tests."""
    name = f"{base_image()}-separate"
    place = image_path(name)
    if not place.is_dir():
        subprocess.run(["cp", "-a", image_path(base_image()), place], check=True)
        (place / "tree" / "tests").mkdir()
        (place / "tree" / "tests" / "test.sh").write_text(RIGHT)
    return name


def test_gold_earns_1_and_doing_nothing_0(ways: EnvFactory) -> None:
    assert not ways.left_out
    golds, idle = played(ways, gold), played(ways, noop)
    assert {name: (e.reward, e.error) for name, e in golds.items()} == dict.fromkeys(
        golds, (1.0, None)
    )
    assert {name: (e.reward, e.error) for name, e in idle.items()} == dict.fromkeys(
        golds, (0.0, None)
    )
    assert golds["own"].outcomes["artifacts"] == ["/logs/artifacts", "/app/out.txt"]
    notes = golds["collected"].outcomes["verified"]
    assert notes == ["the hook 'exit 3' ended with status 3", "the hook 'sleep 30' ran out of time"]
    assert ways.facts()["verify"]["separate"]["fresh"] == "task"


def test_an_image_of_busybox_alone_can_hold_the_tests(tmp_path: Path) -> None:
    docker_images.require_docker()
    base, small = docker_images.debian(), docker_images.busybox()
    write_task(
        tmp_path / "one",
        environment__Dockerfile=FILES["environment/Dockerfile"].replace(
            "debian:bookworm-slim", base
        ),
        tests__Dockerfile=f"FROM {small}\nCOPY . /tests/\n",
        tests__test_dot_sh=RIGHT.replace("/bin/bash", "/bin/sh"),
    )
    factory = intercode.prepare("harbor", data=str(tmp_path), sandbox="docker", image=base)
    rewards = [played(factory, agent)["one"].reward for agent in (gold, noop)]
    assert rewards == [1.0, 0.0]


def test_check_says_the_mode_and_what_travels(tmp_path: Path) -> None:
    write_task(tmp_path / "one")
    factory = prepare(tmp_path)
    result = check(factory, factory.tasks)
    (row,) = result["stays_behind"]
    assert row["what"] == (
        "anything but /logs/artifacts, /app/out.txt (the tests' image: one/tests/Dockerfile)"
    )
    assert (result["gold_ok"], result["noop_paid"], result["hacks_paid"]) == (1, 0, [])


def test_a_gold_whose_work_is_no_artifact_is_no_stub(tmp_path: Path) -> None:
    write_task(tmp_path / "one", SEPARATE)
    (episode,) = played(prepare(tmp_path), gold).values()
    assert "did not get the changes to /app/out.txt" in str(episode.error)


def test_steps_are_judged_apart(tmp_path: Path) -> None:
    steps = ""
    for name in ("one", "two"):
        steps += f'[[steps]]\nname = "{name}"\nartifacts = ["/app/{name}.txt"]\n'
        steps += '[steps.healthcheck]\ncommand = "test -d /app"\n'
    files: dict[str, str | None] = {"instruction_dot_md": None}
    for name in ("one", "two"):
        files[f"steps__{name}__instruction_dot_md"] = f"Write {name}.\n"
        files[f"steps__{name}__solution__solve_dot_sh"] = f"#!/bin/bash\necho 3 > /app/{name}.txt\n"
        files[f"steps__{name}__tests__Dockerfile"] = FILES["tests/Dockerfile"]
        files[f"steps__{name}__tests__test_dot_sh"] = passing(
            f'"$(cat /app/*.txt)" = 3 -a -f /app/{name}.txt'
        )
    write_task(tmp_path / "one", SEPARATE + steps, **files)
    factory = prepare(tmp_path)
    (episode,) = played(factory, gold).values()
    assert (episode.reward, episode.error) == (1.0, None)
    (episode,) = played(factory, noop).values()
    assert (episode.reward, episode.error) == (0.0, None)


def test_a_later_step_whose_health_check_an_agent_breaks_earns_0(tmp_path: Path) -> None:
    steps = "[[steps]]\nname = {!r}\n"
    check = '[steps.healthcheck]\ncommand = "test -e /app/out.txt"\ninterval_sec = 0.01\n'
    write_task(
        tmp_path / "a",
        f"{OUT}{SEPARATE}{steps.format('one')}{steps.format('two')}{check}",
        steps__one__instruction_dot_md="Count.",
        steps__two__instruction_dot_md="Rest.",
    )
    factory = prepare(tmp_path)
    assert played(factory, gold)["a"].reward == 1
    idle = played(factory, acting("true", "submit", "true"))["a"]
    assert (idle.reward, idle.error) == (0, None)


def test_the_image_of_the_tests_is_the_one_that_harbor_takes(tmp_path: Path) -> None:
    image, named = '[environment]\ndocker_image = "agents"\n', 'docker_image = "of-the-tests"\n'
    step = f"[verifier.environment]\n{named}[[steps]]\nname = 'one'\n"
    write_task(tmp_path / "beside", OUT + SEPARATE + image, environment__Dockerfile=None)
    fresh = {"environment__Dockerfile": None, "tests__Dockerfile": None}
    write_task(tmp_path / "fresh", OUT + SEPARATE + image, **fresh)
    write_task(tmp_path / "named", f"{OUT}[verifier.environment]\n{named}")
    write_task(
        tmp_path / "step",
        OUT + step,
        steps__one__instruction_dot_md="Count.",
        steps__one__tests__Dockerfile="FROM other\n",
    )
    images = {}
    for record in read_directory(tmp_path):
        assert not isinstance(record, Unreadable)
        images[record["id"]] = record.get("rounds", [record])[0]["verify_image"]
    assert images == {
        "beside": "beside/tests/Dockerfile",
        "fresh": "task",
        "named": "of-the-tests",
        "step": "step/steps/one/tests/Dockerfile",
    }


def test_a_health_check_that_fails_is_a_fault_of_the_task(tmp_path: Path) -> None:
    never = '[environment.healthcheck]\ncommand = "exit 1"\ninterval_sec = 0\n'
    write_task(tmp_path / "one", OUT + SEPARATE + never)
    (episode,) = played(prepare(tmp_path), gold).values()
    assert episode.reward is None
    assert re.match("data: .*'exit 1' failed 3 times", str(episode.error))


def test_a_folder_among_the_artifacts_replaces_that_of_the_image(tmp_path: Path) -> None:
    write_task(
        tmp_path / "a",
        f'artifacts = ["/app"]\n{SEPARATE}[environment]\nworkdir = "/app"\n',
        tests__Dockerfile=None,
        tests__test_dot_sh=passing('"$PWD $(echo *)" = "/app out.txt"'),
        solution__solve_dot_sh="#!/bin/bash\nrm in.txt; mkdir sub; rmdir sub; echo 3 > out.txt\n",
    )
    factory = prepare(tmp_path)
    rewards = {}
    for action in ("rm in.txt; echo 3 > out.txt", "echo 3 > out.txt", "rm *", "rm -r /app"):
        rewards[action] = played(factory, acting(action))["a"].reward
    assert list(rewards.values()) == [1, 0, 0, 0]


def test_an_agent_cannot_stand_in_for_a_service(tmp_path: Path) -> None:
    source = '{source = "/logs/artifacts/db", service = "store"}'
    write_task(
        tmp_path / "a",
        f"artifacts = [{source}]\n{SEPARATE}",
        environment__compose_dot_yaml=COMPOSE,
        environment__store__Dockerfile=STORE.replace("/data", "/logs/artifacts/db"),
        environment__store__server_dot_py=SERVER.replace("/data", "/logs/artifacts/db"),
        solution__solve_dot_sh=f'#!/bin/bash\npython3 -c "{ASKS}"\n',
        tests__test_dot_sh=passing('"$(cat /logs/artifacts/db/asked)" = /3'),
    )
    factory = prepare(tmp_path)
    planted = acting("mkdir -p /logs/artifacts/db; echo /3 > /logs/artifacts/db/asked")
    assert played(factory, gold)["a"].reward == 1
    assert played(factory, planted)["a"].reward == 0


def test_a_hook_whose_folder_the_agent_removed_is_a_note(tmp_path: Path) -> None:
    write_task(
        tmp_path / "a",
        f'artifacts = ["/srv/out.txt"]\n{SEPARATE}{HOOK.format("true")}',
        tests__test_dot_sh=passing('"$(cat /srv/out.txt)" = 3'),
        solution__solve_dot_sh="#!/bin/bash\nwc -l < /app/in.txt > /srv/out.txt\n",
    )
    episode = played(prepare(tmp_path), acting("echo 3 > /srv/out.txt; rm -rf /app"))["a"]
    assert episode.reward == 1


def test_an_image_without_tests_is_a_fault_of_the_task(tmp_path: Path) -> None:
    write_task(tmp_path / "one", tests__Dockerfile="FROM debian:bookworm-slim\n")
    (episode,) = played(prepare(tmp_path), gold).values()
    assert (episode.reward, "has no /tests/test.sh" in str(episode.error)) == (None, True)


def test_a_fault_of_the_host_while_verifying_is_an_error(tmp_path: Path) -> None:
    mark = "sleep 61.75"
    slow = RIGHT.replace(
        "\n", f"\n[ -e /app/out.txt ] && [ $(cat /app/out.txt) = 4 ] && {mark}\n", 1
    )
    write_task(tmp_path / "one", tests__test_dot_sh=slow)
    with killing_the_wall_at(mark, times=1) as killed:
        (episode,) = played(prepare(tmp_path), acting("echo 4 > out.txt")).values()
    assert (len(killed), episode.reward) == (1, None)
    assert "sandbox" in str(episode.error)


# -- forgeries -------------------------------------------------------------------------------------

FORGERIES = {
    "tests' folder": "mkdir -p /tests; echo 'echo 1 > /logs/verifier/reward.txt' > /tests/test.sh",
    "verdict": "mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt",
    "verdict among artifacts": "echo 1 > /logs/artifacts/reward.txt; cp /logs/artifacts/* box",
    "artifact as a link": "ln -s /tests/answer.txt out.txt",
    "folders as links": "cd /; rm -r logs/artifacts app; "
    "ln -s /tests logs/artifacts; ln -s tests app",
    "link that leads out": "ln -s ../../tests/answer.txt box/a; ln -s box/a out.txt",
    "FIFO": "mkfifo out.txt box/fifo",
    "device": "mknod out.txt c 1 5; ln -s /dev/zero box/zero",
    "socket": """python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('out.txt')" """,
    "sparse files": "for i in 1 2 3 4; do truncate -s 900M box/$i; done; truncate -s 900M out.txt",
    "10 GiB": "head -c 10G /dev/zero > box/large",
    "many files": "cd box; python3 -c 'for i in range(150000): open(str(i), \"w\").close()'",
    "many names of a file": "head -c 90M /dev/zero > 0; for i in {1..99}; do ln 0 box/$i; done",
    "deep folders": "cd box; for i in {1..300}; do mkdir d; cd -P d; done",
    "long names": "n=$(printf %0200d 1); cd box; for i in {1..90}; do mkdir $n; cd -P $n; done; "
    "for i in {1..2000}; do : > $i; done",
    "names of test files": "echo 'raise SystemExit' | tee box/conftest.py box/sitecustomize.py",
    "process that stays": "(trap '' TERM HUP; while :; do echo 1 > /logs/verifier/reward.txt; "
    "done) > /dev/null 2>&1 & disown",
    "hook that waits": "mkfifo say",
    "hook that writes": "printf 'x%.0s' {1..99} > say; tail -f /dev/zero > say & disown",
    "unreadable": "echo 4 > out.txt; chmod 000 out.txt; mkdir -m 000 box/no",
    "set-uid": "cp /bin/bash box/bash; chmod 6755 box/bash; echo 4 > out.txt",
    "own bash": "printf '#!/bin/sh\necho 4 > /app/out.txt' > /usr/local/bin/bash; "
    "chmod +x /usr/local/bin/bash",
    "folder in place of the file": "mkdir out.txt; echo 3 > out.txt/3",
}


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[intercode.InterCodeEnv]:
    """A task whose tests look at a folder, and hold the answer."""
    folder = tmp_path_factory.mktemp("room")
    write_task(
        folder / "room",
        'artifacts = ["/app/out.txt", "/app/box"]\n'
        + SEPARATE
        + HOOK.format("[ -e /app/say ] && cat /app/say")
        + "timeout_sec = 2\n[environment]\nmemory_mb = 1024\nstorage_mb = 1024\n",
        environment__Dockerfile=FILES["environment/Dockerfile"] + "RUN mkdir /app/box\n",
        tests__answer_dot_txt="3\n",
        tests__test_dot_sh=passing(
            '"$(cat /app/out.txt)" = 3 -a -z "$(find /app/box -perm /6000)"'
        ),
    )
    with closing(prepare(folder)()) as env:
        yield env


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_earns_nothing_and_ends_soon(room: intercode.InterCodeEnv, name: str) -> None:
    room.reset(options={"task": "room"})
    began, memory = time.monotonic(), peak_memory()
    room.step(FORGERIES[name])
    _, reward, *_ = room.step("submit")
    assert reward == 0
    assert time.monotonic() - began < 60
    assert peak_memory() - memory < 300 << 20


def test_honest_work_earns_1_after_forgeries(room: intercode.InterCodeEnv) -> None:
    room.reset(options={"task": "room"})
    room.step(
        "sleep 99 & wc -l < in.txt > out.txt; ln -s ../out.txt box/up; ln -s x box/in; : > box/x"
    )
    assert room.step("submit")[1] == 1


def peak_memory() -> int:
    """Bytes that this process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


# -- reading ---------------------------------------------------------------------------------------


def test_settings_that_say_nothing_leave_out_their_task_alone(tmp_path: Path) -> None:
    write_task(tmp_path / "a-mode", '[verifier]\nenvironment_mode = "apart"\n')
    write_task(
        tmp_path / "b-both", '[verifier]\nenvironment_mode = "shared"\n[verifier.environment]\n'
    )
    write_task(tmp_path / "c-network", '[agent]\nnetwork_mode = "some"\n')
    write_task(tmp_path / "d-whole")
    *broken, whole = read_directory(tmp_path)
    assert whole["id"] == "d-whole"
    reasons = [entry.why for entry in broken if isinstance(entry, Unreadable)]
    assert "environment_mode is 'apart'; it can be shared, separate" in reasons[0]
    assert "[verifier.environment] needs environment_mode = 'separate'" in reasons[1]
    assert "network_mode is 'some'; it can be public, no-network, allowlist" in reasons[2]


def test_wrong_lists_leave_out_their_task_alone(tmp_path: Path) -> None:
    check = '[environment.healthcheck]\ncommand = "true"\n'
    write_task(tmp_path / "artifacts", f'artifacts = ["../x"]\n{SEPARATE}')
    write_task(tmp_path / "checks", f'{OUT}{SEPARATE}{check}retries = "many"\n')
    write_task(tmp_path / "collect", f"{OUT}{SEPARATE}[[verifier.collect]]\nrun = 3\n")
    write_task(tmp_path / "right")
    with pytest.warns(EntryLeftOut) as warned:
        factory = prepare(tmp_path)
    assert [task.id for task in factory.tasks] == ["right"]
    reasons = " ".join(str(warning.message) for warning in warned)
    assert all(f"field '{name}'" in reasons for name in ("artifacts", "healthchecks", "collect"))


def test_networks_of_agent_and_tests_may_differ(tmp_path: Path) -> None:
    closed = '[environment]\nnetwork_mode = "no-network"\n'
    lists = '[verifier]\nnetwork_mode = "allowlist"\n'
    write_task(tmp_path / "a", closed + '[agent]\nnetwork_mode = "public"\n')
    write_task(tmp_path / "b", closed + lists)
    write_task(tmp_path / "c", closed + "[verifier.environment]\n")
    write_task(tmp_path / "d", SEPARATE, tests__compose_dot_yaml=COMPOSE)
    reasons = [record["unplayable"] for record in read_directory(tmp_path)]
    assert [names and [why for why, _ in names] for names in reasons] == [
        ["its agent needs hosts on the internet (network_mode = public)"],
        ["its tests need hosts on the internet (network_mode = allowlist)"],
        None,
        ["its tests have containers of their own"],
    ]


@pytest.mark.parametrize(
    ("artifacts", "collect"),
    [(["../x"], []), (["/"], []), ([{"path": "/x"}], []), ([], [{"command": ""}]), ("/x", [])],
)
def test_wrong_artifacts_and_hooks_are_named(tmp_path: Path, artifacts: Any, collect: Any) -> None:
    row = {"query": "a", "verify": "exit 0", "verify_image": "task", "artifacts": artifacts}
    (tmp_path / "tasks.json").write_text(json.dumps([{**row, "collect": collect}]))
    with pytest.raises(DataError, match=r"field '(artifacts|collect)'"):
        intercode.prepare("bash", data=str(tmp_path / "tasks.json"))
