"""Tests that download: they fetch once from an index on loopback, and then run without one."""

from __future__ import annotations

import functools
import re
import shutil
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from base_image import base_image
from click.testing import CliRunner
from kept import needs_bwrap
from test_harbor import TASKS, acting

import intercode
from intercode.agents import gold, noop
from intercode.cli import main
from intercode.errors import UsageError
from intercode.runner.run import evaluate

TEST = r"""#!/bin/bash
if command -v uv; then
    uv pip install --system --break-system-packages adder==1.0
else
    pip install --break-system-packages --root-user-action ignore adder==1.0
fi
# nothing of an earlier run is here
[[ -e /srv/seen || -e out/seen || -e /tmp/seen ]] && exit
touch /srv/seen out/seen
echo seen > /tmp/seen
sum=$(cd / && python3 -c 'import adder; print(adder.total("/desk/ledger.csv"))')
if [[ $sum && $sum = $(cat out/total.txt) ]]
then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""
ADDER = """
def total(path):
    return sum(int(line.split(",")[1]) for line in open(path).readlines()[1:])
"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def index(folder: Path) -> Iterator[str]:
    """An index of packages with one wheel."""
    place = folder / "simple" / "adder"
    place.mkdir(parents=True)
    with zipfile.ZipFile(place / "adder-1.0-py3-none-any.whl", "w") as wheel:
        about = "adder-1.0.dist-info"
        wheel.writestr("adder.py", ADDER)
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: adder\nVersion: 1.0\n")
        wheel.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        names = ("adder.py", f"{about}/METADATA", f"{about}/WHEEL", f"{about}/RECORD")
        wheel.writestr(f"{about}/RECORD", "".join(f"{name},,\n" for name in names))
    (place / "index.html").write_text('<a href="adder-1.0-py3-none-any.whl">adder</a>')
    handler = functools.partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/simple"
        server.shutdown()


def downloading(folder: Path, address: str) -> list[str]:
    """Write the task; return options of commands that name it."""
    task = folder / "adding"
    shutil.copytree(TASKS / "total", task)
    (task / "tests" / "test.sh").write_text(TEST)
    build = task / "environment" / "Dockerfile"  # from the image that has pip, with any builder
    build.write_text(build.read_text().replace("debian:bookworm-slim", "of-the-tests/base"))
    with open(task / "task.toml", "a") as file:
        file.write(f'[verifier.env]\nPIP_INDEX_URL = "{address}"\nUV_INDEX_URL = "{address}"\n')
    return ["harbor", "--data", str(folder), "--image", base_image(), "--json"]


@pytest.mark.slow
@pytest.mark.long
def test_tests_fetch_once_and_then_run_without_a_network(tmp_path: Path) -> None:
    needs_bwrap()
    with index(tmp_path) as address:
        options = downloading(tmp_path / "tasks", address)
        data, image = options[2], options[4]
        why = r"its tests download \(uv pip install .*\): .*`intercode check harbor .* --warm` once"
        with pytest.raises(UsageError, match=why):
            intercode.prepare("harbor", data=data, image=image)
        checked = CliRunner().invoke(main, ["check", *options, "--warm"])
        assert checked.exit_code == 0, checked.output
    factory = intercode.prepare("harbor", data=data, image=image)
    with factory() as env:
        env.reset(seed=0)
        looked = env.step("python3 -c 'import adder'; ls /srv /tmp out; pip list | grep -c adder")[
            0
        ]
        assert re.search(r"No module named 'adder'(?s:.*)\n0\n", looked)
        assert "seen" not in looked
    leaving = acting("cd out; python3 -c 'print(235)' > total.txt; ls")
    for agent, reward in ((gold, 1), (noop, 0), (leaving, 1)):
        (episode,) = evaluate(factory, agent, tasks=factory.tasks)
        assert (episode.reward, episode.error) == (reward, None), episode.outcomes
    test = tmp_path / "tasks" / "adding" / "tests" / "test.sh"
    test.write_text(f"{test.read_text()}\n# another text\n")
    with pytest.raises(UsageError, match="its tests download"):
        intercode.prepare("harbor", data=data, image=image)


@pytest.mark.slow
def test_what_was_not_fetched_is_not_kept(tmp_path: Path) -> None:
    needs_bwrap()
    options = downloading(tmp_path / "tasks", "http://127.0.0.1:9/simple")
    checked = CliRunner().invoke(main, ["check", *options, "--warm"])
    assert checked.exit_code == 1
    assert re.search(r"does not pass its tests: .*No matching distribution", checked.output)
    with pytest.raises(UsageError, match="its tests download"):
        intercode.prepare("harbor", data=options[2], image=options[4])
