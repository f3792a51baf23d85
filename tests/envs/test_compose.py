"""Compose files, and NYU CTF Bench's layout, whose servers become services."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from base_image import base_image
from kept import needs_bwrap

import intercode
from intercode.agents import gold, noop
from intercode.envs.compose import service_of
from intercode.interop.harbor.directory import read_directory
from intercode.runner.run import evaluate

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


def test_a_published_image_alone_names_no_command(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not say its command"):
        service_of(tmp_path / "compose.yaml", {"image": "postgres", "expose": [5432]}, "")


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
