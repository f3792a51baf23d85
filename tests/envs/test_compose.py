"""Compose files, and NYU CTF Bench's layout, whose servers become services."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from base_image import base_image
from kept import needs_bwrap

import intercode
from intercode.agents import gold, noop
from intercode.envs.compose import containers_of, service_of
from intercode.interop.harbor.directory import read_directory
from intercode.runner.run import evaluate
from intercode.validate.check import check, check_texts
from intercode_sandbox import template
from intercode_sandbox.image import keep_image

ECHO = r"""
import pathlib, socketserver

class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        word = self.rfile.readline().strip().decode()
        known = word == pathlib.Path("word").read_text().strip()
        self.wfile.write(pathlib.Path("/flag.txt").read_bytes() if known else b"no\n")

socketserver.ThreadingTCPServer(("0.0.0.0", 1337), Echo).serve_forever()
"""
DOCKERFILE = """FROM ubuntu:20.04
WORKDIR /srv/echo
COPY echo.py word ./
RUN echo "flag{echo}" > /flag.txt
EXPOSE 1337
ENTRYPOINT ["python3"]
CMD ["echo.py"]
"""
SEND = """python3 -c 'import socket
line = socket.create_connection(("misc.example.org", 1337))
line.sendall(open("word.txt", "rb").read())
print(line.recv(100).decode())'"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "Dockerfile").write_text(DOCKERFILE)
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "Dockerfile").write_text(
        "FROM nginx\nCMD nginx \\\n  -g off\nEXPOSE 80/tcp"
    )
    return tmp_path


@pytest.mark.parametrize(
    ("container", "entry"),
    [
        (
            {"image": "llm/echo:latest", "restart": "always"},
            {"image": "t/Dockerfile", "command": "python3 echo.py", "port": 1337},
        ),
        (
            {
                "build": "./web",
                "ports": ["127.0.0.1:8080:8000"],
                "environment": {"A": 1, "B": None},
            },
            {
                "image": "t/web/Dockerfile",
                "command": "nginx    -g off",
                "port": 8000,
                "env": {"A": "1"},
            },
        ),
        (
            {
                "build": {"context": "web"},
                "command": ["run", "a b"],
                "healthcheck": {"test": ["CMD-SHELL", "curl -s localhost"]},
            },
            {
                "image": "t/web/Dockerfile",
                "command": "run 'a b'",
                "port": 80,
                "ready": "curl -s localhost",
            },
        ),
        (
            {"build": ".", "entrypoint": ["/start"], "expose": [80], "environment": ["A=x=y"]},
            {
                "image": "t/Dockerfile",
                "command": "/start",
                "port": 80,
                "env": {"A": "x=y"},
            },
        ),
        ({"build": "web", "volumes": ["./a:/a"], "privileged": True}, "has privileged, volumes"),
        (
            {"build": ".", "entrypoint": "/start -v", "command": "one 'two three'", "expose": [1]},
            {"image": "t/Dockerfile", "command": "/start -v one 'two three'", "port": 1},
        ),
        ({"build": "web", "environment": ["A=${KEY}"]}, r"needs \$\{KEY\} of the host"),
        ({"build": "web", "command": "run $PORT"}, r"needs \$PORT of the host"),
        ({"build": {"context": "web", "target": "x"}}, "is built with target"),
        ({"build": "web", "ports": ["80:80", "81:81"]}, "has 2 ports"),
        ({"build": "nowhere"}, "has no Dockerfile"),
        ({"build": "../.."}, "has no Dockerfile"),
        ({"build": {"context": ".", "dockerfile": "web/Dockerfile"}}, "outside the folder"),
        ({"build": "web", "ports": ["53:53/udp"]}, "has the port 53:53/udp"),
    ],
)
def test_containers_are_services_as_far_as_both_say_the_same(
    folder: Path, container: dict[str, Any], entry: dict[str, Any] | str
) -> None:
    file = folder / "docker-compose.yml"
    if isinstance(entry, dict):
        assert service_of(file, container, "t/") == entry
        return
    with pytest.raises(ValueError, match=entry):
        service_of(file, container, "t/")


SCALARS = """
A: yes
B: on
C: true
D: 22:22
F: 1.10
G: 0777
H: 1_000
I: 0x1F
J: ~
K:
L: "True"
N: No
O: 0o17
P: 1e3
Q: .5
R: 1.0
S: 0b11
T: True
U: y
V: !!str 1.10
W: 08
X: 12345678901234567890
Y: -7
Z: "a b=c"
"""
READ = {
    "plain scalars": f"environment:{SCALARS}".replace("\n", "\n  "),
    "variables in a list": "environment: [A, B=, C=yes, 'D=1 2', A=3, 'E=$$F', '${Q:-G}=h']",
    "a quote in a word": "environment: {A: '${Q:-it\"s}x', B: '${Q:-a\\}b'}",
    "words for what is not set": "environment: {A: '${Q:-w}', B: '${Q-w}', C: '${Q:-}'}",
    "words for what is set": "environment: {A: '${Q:+w}x', B: '${Q+$$w}y', C: '${Q:+$P}'}",
    "braces in words": "environment: {A: 'x${FLAG:-flag{x}}y', B: '{${Q:-a}}', C: '{}'}",
    "words in words": "environment: {A: '${Q:-${R-${S:-z}}}', B: '${Q:-a${R:+b}c}'}",
    "dollar signs": "environment: {A: 'a$$b', B: 'P$$$$w', C: 'x$$', D: '$1', E: '${Q:-$$}'}",
    "a variable that the host must have": "environment: {A: '${Q:?say it}'}",
    "another": "command: echo ${Q?}",
    "a reference without its end": "command: echo ${Q:-a",
    "a name that is none": "command: echo ${A.b}",
    "command and entrypoint": "command: [a, 'b c', $$d]\nentrypoint: /e -x 'y z'",
    "a command as text": 'command: a \'b  c\' "d \\" e" f\\ g h=i #j',
    "a command of several lines": "command: |\n  a b\n  c",
    "an open quote": 'command: a "b',
    "another open quote": "command: it's",
    "operators of a shell": "command: cd /app && python3 a.py",
    "a redirection": "command: a b 2>&1",
    "operators in quotes": "command: sh -c 'cd /app; b > c' \";\"",
    "variables of the container": "command: echo $$HOME $${HOME}",
    "a command reset": "command: null",
    "an entrypoint reset": "entrypoint: []",
    "an entrypoint reset by a text": "entrypoint: ''\ncommand: b",
    "an entrypoint alone": "entrypoint: a b",
    "a port and the host's": "ports: ['127.0.0.1:8000:1337']",
    "a port and IPv6": "ports: ['[::1]:8000:1337']",
    "a port by a default": "ports: ['${PORT:-1337}:${PORT:-1337}/tcp']",
    "a port as number": "ports: [22]",
    "a port like a time": "ports: [22:22]",
    "a port as object": "ports: [{target: 80, published: '8080'}]",
    "one port twice": "ports: ['80:80', '8080:80', '80:80/udp']",
    "published before exposed": "ports: ['80:80']\nexpose: [81, 82]",
    "open inputs": "stdin_open: true",
    "terminals": "tty: true",
    "no terminals": "tty: false\nstdin_open: false",
    "a healthcheck as text": "healthcheck: {test: 'test -n $$HOME'}",
    "a healthcheck as list": "healthcheck: {test: [CMD, curl, 'a b'], interval: 5s}",
    "a healthcheck for a shell": "healthcheck: {test: [CMD-SHELL, 'a || b']}",
    "no healthcheck": "healthcheck: {test: [NONE]}",
    "a healthcheck switched off": "healthcheck: {test: a, disable: true}",
    "names": "hostname: shop.htb\nnetworks: {n: {aliases: [web.chal, Web_2]}, m: }",
}
"""Containers as text. Compose's own program decides how they are read."""


RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("compose_configs.json").read_text())
"""What `docker compose config` of version 2.40.3 says of each, null if it refuses."""


def write_compose(folder: Path, name: str) -> Path:
    text = "".join(f"    {line}\n" for line in READ[name].splitlines())
    file = folder / "docker-compose.yml"
    file.write_text(f"services:\n  web:\n    build: web\n{text}networks: {{n: {{}}, m: {{}}}}\n")
    return file


@pytest.mark.parametrize("name", READ)
def test_a_container_is_read_as_composes_program_reads_it(folder: Path, name: str) -> None:
    file, config = write_compose(folder, name), RECORDED[name]
    container = containers_of(file)["web"]
    if config is None:
        with pytest.raises(ValueError, match=r"needs|quotation"):
            service_of(file, container, "")
        return
    entry = service_of(file, container, "")
    entrypoint, command = config["entrypoint"] or [], config["command"]
    if command is None and not entrypoint:
        command = ["nginx", "-g", "off"]
    targets = {port["target"] for port in config.get("ports", []) if port["protocol"] == "tcp"}
    variables = config.get("environment", {}).items()
    network = config["networks"].get("n") or {}
    hostname = [config["hostname"]] if "hostname" in config else []
    assert shlex.split(entry["command"]) == entrypoint + (command or [])
    assert {entry["port"]} == (targets or {80})
    assert entry.get("env", {}) == {key: value for key, value in variables if value is not None}
    assert entry.get("stdin_open", False) == config.get("stdin_open", config.get("tty", False))
    assert entry.get("aliases", []) == [*hostname, *network.get("aliases", [])]
    assert entry.get("ready", "") == ready_by(config.get("healthcheck", {}))


@pytest.mark.soak
@pytest.mark.parametrize("name", READ)
def test_composes_program_says_what_is_recorded(folder: Path, name: str) -> None:
    file = write_compose(folder, name)
    own = shutil.which("docker-compose")
    command = [own] if own else ["docker", "compose"]
    version = subprocess.run([*command, "version"], capture_output=True, text=True)
    if version.returncode or "Docker Compose version v" not in version.stdout:
        pytest.skip("Docker Compose 2 or newer is not installed")
    done = subprocess.run(
        [*command, "-f", str(file), "config", "--format", "json"],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
    )
    if done.returncode:
        assert RECORDED[name] is None, done.stderr
        return
    config = json.loads(done.stdout.replace("$$", "$"))["services"]["web"]
    del config["build"]
    assert config == RECORDED[name]


def ready_by(healthcheck: dict[str, Any]) -> str:
    kind, *words = (not healthcheck.get("disable") and healthcheck.get("test")) or [""]
    return shlex.join(words) if kind == "CMD" else "".join(words)


def test_a_published_image_alone_names_no_command(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not say its command"):
        service_of(tmp_path / "compose.yaml", {"image": "postgres", "expose": [5432]}, "")


def test_an_image_that_is_kept_names_its_command(tmp_path: Path, empty_cache: Path) -> None:
    def fill(folder: Path) -> None:
        template.new_tree(folder)
        settings = template.settings_of({"Entrypoint": ["/run"], "Cmd": ["a b"]})
        template.write_settings(folder, settings)

    keep_image("serve", fill, force=False)
    container = {"image": "registry.example/Ours/Serve:latest", "expose": [80]}
    entry = service_of(tmp_path / "compose.yaml", container, "")
    assert entry == {"image": "serve", "port": 80}
    assert template.base("serve").command == ["/run", "a b"]


def test_dates_are_texts(folder: Path) -> None:
    """Compose's own program refuses them where a variable needs a text."""
    file = folder / "compose.yaml"
    dates = "{A: 2020-01-01, B: 2001-12-14t21:59:43.10-05:00}"
    file.write_text(f"services: {{web: {{build: web, environment: {dates}}}}}")
    entry = service_of(file, containers_of(file)["web"], "")
    assert entry["env"] == {"A": "2020-01-01", "B": "2001-12-14t21:59:43.10-05:00"}


def test_containers_beside_harbors_main_one_are_services(folder: Path) -> None:
    task = folder / "task"
    for name in ("environment", "tests", "solution"):
        (task / name).mkdir(parents=True)
    (task / "task.toml").write_text("version = '1.0'\n")
    (task / "instruction.md").write_text("Ask the host echo.")
    (task / "tests" / "test.sh").write_text("true\n")
    (task / "environment" / "Dockerfile").write_text("FROM debian\n")
    (task / "environment" / "docker-compose.yaml").write_text(
        "services:\n  main: {}\n  echo: {image: e, command: [serve], expose: [7]}\n"
    )
    (record,) = read_directory(task)
    assert record["services"] == {
        "echo": {"image": "environment/Dockerfile", "command": "serve", "port": 7}
    }
    assert record["unplayable"] is None


def test_nyus_challenges_are_played_from_their_folders(tmp_path: Path) -> None:
    needs_bwrap()
    echo, rev, big = (tmp_path / "2026q" / name for name in ("misc/echo", "rev/vault", "pwn/big"))
    files = {
        echo / "challenge.json": json.dumps(
            {
                "name": "echo",
                "description": "Say the word.",
                "category": "misc",
                "flag": "flag{echo}",
                "files": ["word.txt"],
                "box": "misc.example.org",
                "internal_port": 1337,
                "compose": True,
            }
        ),
        echo / "docker-compose.yml": "services: {game: {build: ., networks: {net: {}}}}\n",
        echo / "Dockerfile": DOCKERFILE,
        echo / "echo.py": ECHO,
        echo / "word": "pear\n",
        echo / "word.txt": "pear\n",
        echo / "solve.py": "print('flag{echo}')\n",
        rev / "challenge.json": json.dumps(
            {"description": "Reverse it.", "flag": "csawctf{v}", "files": ["vault.py"]}
        ),
        rev / "vault.py": "print(1)\n",
        big / "challenge.json": json.dumps(
            {"description": "Break it.", "flag": "flag{b}", "files": ["lost"], "compose": True}
        ),
    }
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    factory = intercode.prepare("ctf", data=str(tmp_path), image=base_image())
    assert [task.id for task in factory.tasks] == ["2026q-misc-echo", "2026q-rev-vault"]
    assert [str(why) for _, why in factory.left_out] == ["its server needs 0 containers, not one"]
    assert "at the host misc.example.org, port 1337" in factory.tasks[0].query
    assert factory.tasks[1].query.endswith("The flag has the form csawctf{…}.")
    for agent, success in ((gold, True), (noop, False)):
        played = evaluate(factory, agent, tasks=factory.tasks)
        assert [(episode.success, episode.error) for episode in played] == [(success, None)] * 2
    with closing(factory()) as env:
        env.reset(options={"task": "2026q-misc-echo"})
        assert env.step("ls")[0] == "word.txt\n"
        assert env.step(SEND)[0].strip() == "flag{echo}"


PAGE = "https://en.wikipedia.org/wiki/Key"
SERVER = {"compose": True, "box": "misc.chal.example", "internal_port": 1337}
SHAPES: dict[str, tuple[dict[str, Any], str, str]] = {
    "socket": (
        {**SERVER},
        "{build: ., volumes: ['/var/run/docker.sock:/var/run/docker.sock:ro'], ports: ['1:1337']}",
        "",
    ),
    "another volume": (
        {**SERVER},
        "{build: ., volumes: ['./word:/word', '/var/run/docker.sock:/d']}",
        "has volumes",
    ),
    "placeholders": (
        {**SERVER, "description": "See http://{box}:{port}/a.png and `nc {box} {port}`."},
        "{build: .}",
        "",
    ),
    "placeholders without a server": (
        {"description": "See http://{box}:{port}", "box": "b.chal.example", "internal_port": 80},
        "",
        "its server needs 0 containers, not one",
    ),
    "mention": ({"description": f"See {PAGE}; or {PAGE}.html.", "files": ["word"]}, "", ""),
    "mention beside a server": ({**SERVER, "description": f"See {PAGE}."}, "{build: .}", ""),
    "download": ({"description": f"Get {PAGE}/a.zip.", "files": ["word"]}, "", f"({PAGE}/a.zip)"),
    "download beside a server": (
        {**SERVER, "description": f"Get {PAGE}/a.zip."},
        "{build: .}",
        f"needs the network ({PAGE}/a.zip)",
    ),
    "names": ({"compose": True, "box": "Web_App.Chal"}, "{build: ., hostname: a_B}", ""),
    "port as text": ({**SERVER, "internal_port": "1337"}, "{build: .}", ""),
    "port under another name": ({"compose": True, "port": 1337}, "{build: ., ports: [1, 2]}", ""),
    "one published port of several": (
        {"compose": True},
        "{build: ., ports: ['8000:1337', '8001:1337/tcp', '1:1/udp'], expose: [22, 1337]}",
        "",
    ),
    "command of the image": ({**SERVER}, "{build: {context: ., dockerfile: bare.dockerfile}}", ""),
    "missing file": ({"files": ["word", "lost.bin"]}, "", "names 'lost.bin', which is not in its"),
}


@pytest.fixture
def shapes(tmp_path: Path) -> Path:
    for name, (about, container, _) in SHAPES.items():
        challenge = tmp_path / "set" / name.replace(" ", "_")
        challenge.mkdir(parents=True)
        given = {"description": "Say the word.", "flag": "flag{echo}", **about}
        (challenge / "challenge.json").write_text(json.dumps(given))
        if container:
            (challenge / "docker-compose.yml").write_text(f"services: {{Game_1: {container}}}\n")
        (challenge / "Dockerfile").write_text(DOCKERFILE)
        (challenge / "bare.dockerfile").write_text(DOCKERFILE.partition("ENTRY")[0])
        (challenge / "echo.py").write_text(ECHO)
        (challenge / "word").write_text("pear\n")
    return tmp_path / "set"


def test_challenges_are_left_out_for_true_reasons_only(shapes: Path) -> None:
    factory = intercode.prepare("ctf", data=str(shapes))
    reasons = {task.id: str(why) for task, why in factory.left_out}
    for name, (_, _, reason) in SHAPES.items():
        why = reasons.get(name.replace(" ", "_"), "")
        assert (reason in why) if reason else why == "", name
    tasks = {task.id: task for task in factory.tasks}
    text = "See http://misc.chal.example:1337/a.png and `nc misc.chal.example 1337`."
    assert text in tasks["placeholders"].query
    assert tasks["names"].extra["services"]["Web_App.Chal"]["aliases"] == ["Game_1", "a_B"]
    services = [task.extra.get("services", {}) for task in factory.tasks]
    assert {entry["port"] for service in services for entry in service.values()} == {1337}


def test_what_a_server_does_not_get_is_told_by_check(shapes: Path) -> None:
    told = {(row["task"], row["why"]) for row in check_texts("ctf", data=shapes)["suspicious"]}
    assert told == {("socket", "its server is started without the Docker socket")}


def test_a_missing_file_leaves_the_others(shapes: Path) -> None:
    needs_bwrap()
    with closing(intercode.make("ctf", data=str(shapes), everything=True)) as env:
        env.reset(options={"task": "missing_file"})
        assert env.step("ls")[0] == "word\n"


def test_servers_are_played_and_one_that_does_not_build_is_a_kind_of_its_own(shapes: Path) -> None:
    needs_bwrap()
    (shapes / "names" / "Dockerfile").write_text(f"{DOCKERFILE}RUN false\n")
    factory = intercode.prepare("ctf", data=str(shapes), image=base_image())
    assert factory.facts()["service_files"]["of task names"] == "cannot be made"
    tasks = [task for task in factory.tasks if task.id in ("socket", "names")]
    with closing(factory()) as env:
        env.reset(options={"task": "socket"})
        for host in ("misc.chal.example", "Game_1"):
            send = SEND.replace("misc.example.org", host).replace('"word.txt", "rb"', '"word"')
            env.step("echo pear > word")
            assert env.step(send.replace(".read()", ".read().encode()"))[0].strip() == "flag{echo}"
    found_by_check = check(factory, tasks)
    assert [(row["task"], row["kind"]) for row in found_by_check["broken"]] == [
        ("names", "no_build")
    ]
