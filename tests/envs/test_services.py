"""Services of a task: reached by name on one port, fresh in each episode, and no fault of the
machine when they end."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from base_image import base_image, require_builder
from families import commands, walls
from kept import needs_bwrap

import intercode
from intercode.agents import gold, noop
from intercode.envs.services import LOG
from intercode.errors import DataError, ForkError, SandboxDied
from intercode.factory import EnvFactory
from intercode.models import ScriptedModel
from intercode.runner.run import evaluate
from intercode.train import RolloutPool, groups

SHOP = r"""
import http.server, os, sqlite3, urllib.parse
goods = sqlite3.connect(":memory:", check_same_thread=False)
goods.execute("CREATE TABLE goods AS SELECT 'pear' AS name, 3 AS price")
goods.execute("CREATE TABLE notes (note)")
goods.execute("INSERT INTO notes VALUES (?)", [open("/flag.txt").read().strip()])
asked = []

class Shop(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def do_GET(self):
        asked.append(self.path)
        place = urllib.parse.urlsplit(self.path)
        if place.path == "/die":
            os._exit(1)
        if place.path == "/fork":
            while True:
                os.fork()
        name = urllib.parse.parse_qs(place.query).get("name", [""])[0]
        rows = goods.execute(f"SELECT name, price FROM goods WHERE name = '{name}'").fetchall()
        lines = [f"{word} {price}" for word, price in rows] or [f"asked {len(asked)} times"]
        self.send_response(200)
        self.end_headers()
        self.wfile.write("\n".join(lines).encode() + b"\n")

http.server.ThreadingHTTPServer(("127.0.0.1", 80), Shop).serve_forever()
"""
GUESS = r"""
import random, socketserver

class Guess(socketserver.StreamRequestHandler):
    def handle(self):
        number = random.randrange(1000)
        for line in self.rfile:
            sign = (int(line) > number) - (int(line) < number)
            said = {1: b"lower\n", -1: b"higher\n", 0: open("/flag.txt", "rb").read()}[sign]
            self.wfile.write(said)

class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True

Server(("127.0.0.1", 80), Guess).serve_forever()
"""
BISECT = r"""python3 - <<'END'
import socket
game = socket.create_connection(("guess", 80)).makefile("rw")
low, high = 0, 999
while low <= high:
    middle = (low + high) // 2
    print(middle, file=game, flush=True)
    said = game.readline().strip()
    if said == "higher":
        low = middle + 1
    elif said == "lower":
        high = middle - 1
    else:
        print(said)
        break
END"""
INJECT = """curl -s --get http://shop/ --data-urlencode \\
    "name=' UNION SELECT note, 1 FROM notes --" | cut -d ' ' -f 1"""


def service(program: str, flag: str, **more: Any) -> dict[str, Any]:
    files = {"/srv/program.py": program, "/flag.txt": flag + "\n"}
    return {"command": "exec python3 /srv/program.py", "port": 80, "files": files, **more}


VAULT = "import http.server; http.server.test(http.server.SimpleHTTPRequestHandler, port=8000)"
TASKS: list[dict[str, Any]] = [
    {
        "id": "shop",
        "query": "A shop answers at http://shop/?name=pear. What is in its table notes?",
        "gold": INJECT,
        "gold_is": "script",
        "services": {"shop": service(SHOP, "tag{union}")},
    },
    {
        "id": "guess",
        "query": "Guess the number at port 80 of the host guess, from 0 to 999.",
        "gold": BISECT,
        "gold_is": "script",
        "services": {"guess": service(GUESS, "tag{half}"), "shop": service(SHOP, "tag{other}")},
    },
    {
        "id": "vault",
        "query": "The host vault shows its folder at port 8000 to who knows the name in /ctf/name.",
        "gold": 'curl -s "http://vault:8000/$(cat name)"',
        "gold_is": "script",
        "services": {
            "vault": {
                "command": "cd /srv && python3 -c '" + VAULT + "'",
                "port": 8000,
                "tree": "vault",
            }
        },
    },
]


@pytest.fixture(scope="module")
def factory(tmp_path_factory: pytest.TempPathFactory) -> EnvFactory:
    needs_bwrap()
    folder = tmp_path_factory.mktemp("services")
    (folder / "vault" / "srv").mkdir(parents=True)
    (folder / "vault" / "srv" / "8d1f").write_text("tag{name}\n")
    (folder / "assets" / "vault").mkdir(parents=True)
    (folder / "assets" / "vault" / "name").write_text("8d1f\n")
    (folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in TASKS))
    return intercode.prepare("ctf", data=str(folder))


@pytest.fixture
def env(factory: EnvFactory) -> Iterator[Any]:
    with closing(factory()) as env:
        yield env


def start(env: Any, task: str) -> Any:
    env.reset(options={"task": task})
    return lambda action: env.step(action)[0]


def test_golds_reach_services_by_name_and_doing_nothing_does_not_pay(factory: EnvFactory) -> None:
    assert [task.id for task in factory.tasks] == ["shop", "guess", "vault"]
    assert [episode.success for episode in evaluate(factory, gold, tasks=factory.tasks)] == [
        True
    ] * 3
    assert [episode.reward for episode in evaluate(factory, noop, tasks=factory.tasks)] == [0.0] * 3
    assert set(factory.facts()["service_files"]) == {"vault"}


def test_flags_and_files_of_a_service_are_not_in_the_agents_sandbox(env: Any) -> None:
    act = start(env, "guess")
    assert "127.0.0.2 guess\n127.0.0.3 shop\n" in act("cat /etc/hosts")
    for place in ("/flag.txt", "/srv/program.py"):
        assert "No such file" in act(f"cat {place}")
    search = "grep -rlE 'tag.(half|other)' / --exclude-dir={proc,sys,usr,dev} 2> /dev/null"
    assert act(search) == ""
    processes = "cat /proc/*/{environ,cmdline} 2> /dev/null | tr '\\0' '\\n' | grep -c 'tag[{]'"
    assert act(processes) == "0\n"
    # the other's port, by each address and none else
    assert act("curl -s http://shop/?name=pear") == "pear 3\n"
    reached = "for n in 127.0.0.{1..9}; do (echo > /dev/tcp/$n/80) 2> /dev/null && echo $n; done"
    assert act(reached) == "127.0.0.2\n127.0.0.3\n"
    assert "refused" in act("echo > /dev/tcp/shop/8000")


def test_each_episode_has_fresh_services_and_their_logs(env: Any) -> None:
    for _ in range(2):
        act = start(env, "shop")
        assert act("curl -s http://shop/") == "asked 1 times\n"
        assert act("curl -s http://shop/") == "asked 2 times\n"
    *_, info = env.step("submit tag{union}")
    assert info["outcomes"]["services"]["shop"].count('"GET / HTTP') == 2


def test_a_service_that_the_agent_ends_is_gone_and_nothing_is_at_fault(env: Any) -> None:
    act = start(env, "shop")
    act("curl -s http://shop/die")
    assert act("curl -s http://shop/; echo $?") in ("52\n", "56\n")
    *_, info = env.step("submit tag{guessed}")
    assert (info["score"].reward, info["ended"]) == (0.0, "submit")
    assert start(env, "shop")("curl -s http://shop/?name=pear") == "pear 3\n"


def test_the_machine_that_ends_a_services_sandbox_is_at_fault(env: Any) -> None:
    act = start(env, "shop")
    (wall,) = [pid for pid in walls() if any("/srv/program.py" in one for one in commands(pid))]
    os.kill(wall, signal.SIGKILL)
    assert act("curl -s http://shop/?name=pear; echo $?") in ("52\n", "56\n")
    with pytest.raises(SandboxDied, match="it did not happen again"):
        env.step("submit tag{guessed}")
    assert start(env, "shop")("curl -s http://shop/?name=pear") == "pear 3\n"


def test_a_log_that_is_a_fifo_costs_no_wait(tmp_path: Path) -> None:
    needs_bwrap()
    swaps = f"import os; os.remove('{LOG}'); os.mkfifo('{LOG}')\n"
    task = {
        "query": "Print the price list's line.",
        "gold": "curl -s http://shop/?name=pear",
        "services": {"shop": service(swaps + SHOP, "tag{}", action_seconds=3600.0)},
    }
    (tmp_path / "tasks.jsonl").write_text(json.dumps(task))
    with closing(intercode.make("bash", data=str(tmp_path / "tasks.jsonl"))) as made:
        made.reset()
        made.step(task["gold"])
        *_, info = made.step("submit")
    assert (info["score"].success, info["outcomes"]["services"]) == (True, {"shop": ""})


def test_floods_and_forks_stay_within_the_services_limits(env: Any) -> None:
    act = start(env, "shop")
    flood = "import socket; a = [socket.create_connection(('shop', 80)) for _ in range(100)]"
    assert act(f'python3 -c "{flood}; print(len(a))"') == "100\n"
    assert act("curl -s http://shop/?name=pear") == "pear 3\n"
    act("curl -s -m 2 http://shop/fork")
    assert act("for n in {1..20}; do /bin/true & done; wait; echo well") == "well\n"
    assert start(env, "shop")("curl -s http://shop/?name=pear") == "pear 3\n"


def test_a_world_with_services_is_forked_by_replaying_only(env: Any) -> None:
    act = start(env, "shop")
    act("curl -s http://shop/")
    with pytest.raises(ForkError, match="services"):
        env.fork()
    with closing(env.fork(replay=True)) as other:
        assert other.step("curl -s http://shop/")[0] == "asked 2 times\n"
        assert act("curl -s http://shop/") == "asked 2 times\n"


def test_many_episodes_have_services_of_their_own(factory: EnvFactory) -> None:
    action = "```bash\ncurl -s http://shop/; curl -s http://shop/\n```"
    policy = ScriptedModel([action, "```bash\nsubmit x\n```"])
    with RolloutPool(factory, envs=3) as pool:
        rollouts = list(pool.run(groups(["shop"], 5), policy))
    seen = {rollout.episode.turns[0].observation for rollout in rollouts}
    assert seen == {"asked 1 times\nasked 2 times\n"}


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"command": "echo no; exit 3"}, "shop ended; its output ends:\nno"),
    ({"command": "sleep 60", "ready_seconds": 0.5}, "shop was not ready within 0.5 s"),
    ({"command": "sleep 60", "ready": "false", "ready_seconds": 0.2}, "not ready within 0.2 s"),
    ({"command": "x", "aliases": ["a b"]}, "its names are letters"),
    ({"command": "x", "stdin_open": 1}, "stdin_open is 1"),
    ({"command": "x", "image": "nowhere"}, "field 'services': shop: "),
    ({"command": ""}, "needs a command, and a port"),
    ({"command": "x", "port": 0}, "needs a command, and a port"),
    ({"command": "x", "port": "80"}, "port is '80'"),
    ({"command": "x", "files": {"/a": 1}}, "files is"),
    ({"command": "x", "ports": 80}, "has a field 'ports'"),
    ({"command": "x", "memory": "much"}, "memory"),
]


@pytest.mark.parametrize(
    ("env", "entry", "message"),
    [("ctf", *FAULTS[0]), ("ctf", *FAULTS[4]), *(("bash", *fault) for fault in FAULTS)],
)
def test_what_does_not_start_is_a_fault_of_the_data(
    tmp_path: Path, env: str, entry: dict[str, Any], message: str
) -> None:
    needs_bwrap()
    task = {"query": "Ask shop.", "gold": "true", "services": {"shop": {"port": 80, **entry}}}
    data = tmp_path / "tasks.jsonl"
    data.write_text(json.dumps(task))
    with pytest.raises(DataError) as raised, closing(intercode.make(env, data=str(data))) as made:
        made.reset()
    assert message in str(raised.value)


ONCE = r"""
import socket, sys, time
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
listener = socket.create_server((sys.argv[1], int(sys.argv[2])), family=family)
stream, _ = listener.accept()
listener.close()
stream.sendall(b"hello\n")
stream.recv(1)
"""


def once(address: str, port: int) -> dict[str, Any]:
    """A server that takes one connection."""
    command = f"exec python3 /once.py {address} {port}"
    return {"command": command, "port": 80, "files": {"/once.py": ONCE}}


def opened(tmp_path: Path, services: dict[str, Any]) -> Any:
    task = {"query": "Ask.", "gold": "true", "services": services}
    (tmp_path / "tasks.jsonl").write_text(json.dumps(task))
    return closing(intercode.make("bash", data=str(tmp_path / "tasks.jsonl")))


HELLO = "exec 3<> /dev/tcp/shop/80; read -r line <&3; echo $line"


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1", "::"])
def test_a_server_for_one_connection_still_has_it(tmp_path: Path, address: str) -> None:
    needs_bwrap()
    with opened(tmp_path, {"shop": once(address, 80)}) as env:
        assert start(env, "0")(f"{HELLO}; {HELLO}") == "hello\n\n"


def test_a_server_on_another_port_is_told(tmp_path: Path) -> None:
    needs_bwrap()
    shop = {**once("127.0.0.1", 8080), "ready_seconds": 5.0}
    with opened(tmp_path, {"shop": shop}) as env, pytest.raises(DataError) as raised:
        env.reset()
    assert "not ready within 5 s: nothing listens on 80; it listens on 8080" in str(raised.value)


def test_a_service_has_all_the_names_that_compose_takes(tmp_path: Path) -> None:
    needs_bwrap()
    shop = {**service(SHOP, "tag{}"), "aliases": ["Shop.Example.org", "the_shop"]}
    with opened(tmp_path, {"Web_App.1": shop}) as env:
        act = start(env, "0")
        for name in ("Web_App.1", "shop.example.org", "the_shop"):
            assert act(f"curl -s http://{name}/?name=pear") == "pear 3\n"


def test_an_open_stdin_keeps_a_service_that_reads_it(tmp_path: Path) -> None:
    needs_bwrap()
    shop = once("127.0.0.1", 80)
    shop["command"] = f"{shop['command'].removeprefix('exec ')} & read -r line; kill $!"
    with opened(tmp_path, {"shop": {**shop, "stdin_open": True}}) as env:
        assert start(env, "0")(f"sleep .5; {HELLO}") == "hello\n"
    shop["command"] = "python3 -c 'input()' || exit 3"
    with opened(tmp_path, {"shop": shop}) as env, pytest.raises(DataError, match=r"(?s)ended.*EOF"):
        env.reset()


def test_an_image_names_the_command_of_a_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_builder("buildah", monkeypatch)
    (tmp_path / "once.py").write_text(ONCE)
    (tmp_path / "Dockerfile").write_text(
        "FROM debian AS base\nCOPY once.py /srv/\n"
        'ENTRYPOINT ["python3", "/srv/once.py"]\nCMD ["::", "80"]\nFROM base\n'
    )
    (tmp_path / "nothing").mkdir()
    (tmp_path / "nothing" / "Dockerfile").write_text("FROM debian\n")
    records = [
        {"query": "Ask.", "gold": HELLO, "services": {"shop": {"image": image, "port": 80}}}
        for image in ("Dockerfile", "nothing/Dockerfile")
    ]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in records))
    bash = intercode.prepare("bash", data=str(tmp_path / "tasks.jsonl"), image=base_image())
    works, lacks = evaluate(bash, gold, tasks=bash.tasks)
    assert works.error is None
    assert works.turns[0].observation == "hello\n"
    assert "shop has no command, and its image names none" in str(lacks.error)


def test_tests_reach_the_services_of_the_task_and_not_what_an_agent_puts_in_their_place(
    tmp_path: Path,
) -> None:
    needs_bwrap()
    asks = 'test "$(curl -s http://shop/)" = "asked 3 times"'
    task = {"query": "Ask shop twice.", "gold": "curl -s http://shop/; curl -s http://shop/"}
    own = "cd /tmp && echo asked 3 times > index.html && echo 127.0.0.9 shop > /etc/hosts"
    server = "(setsid python3 -m http.server 80 --bind 127.0.0.9 > /dev/null 2>&1 &) && sleep 1"
    for alive in (False, True):
        record = {**task, "verify": asks, "keep_processes": alive}
        record["services"] = {"shop": service(SHOP, "tag{}")}
        (tmp_path / "tasks.jsonl").write_text(json.dumps(record))
        with closing(intercode.make("bash", data=str(tmp_path / "tasks.jsonl"))) as env:
            for action, reward in ((task["gold"], 1.0), (f"{own} && {server}", 0.0)):
                env.reset()
                env.step(action)
                assert env.step("submit")[1] == reward


def test_a_slow_service_is_waited_for_and_bash_tasks_have_services_too(tmp_path: Path) -> None:
    needs_bwrap()
    slow = service(SHOP, "tag{}", ready="curl -s http://127.0.0.1/ > /dev/null")
    slow["command"] = "sleep 1; " + slow["command"]
    asks = "curl -s http://shop/?name=pear"
    task = {"query": "Print the price list's line.", "gold": asks, "services": {"shop": slow}}
    (tmp_path / "tasks.jsonl").write_text(json.dumps(task))
    bash = intercode.prepare("bash", data=str(tmp_path / "tasks.jsonl"))
    (episode,) = evaluate(bash, gold, tasks=bash.tasks)
    assert (episode.success, episode.turns[0].observation) == (True, "pear 3\n")
