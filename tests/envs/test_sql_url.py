"""A whole evaluation on a server that the user names: a real one on the loopback interface, that nobody may write to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from host_mariadb import running
from orchard import CELLAR, GOLDS, ORCHARD, plays, skip_unless_there, write

import intercode
from intercode.runner.check import check
from intercode.runner.evaluation import Evaluation

pytestmark = pytest.mark.slow

CONTENT = f"""
CREATE DATABASE orchard; USE orchard; {ORCHARD}
CREATE DATABASE cellar; USE cellar; {CELLAR}
CREATE USER me@localhost IDENTIFIED BY 's3cr:t@x'; GRANT ALL ON *.* TO me@localhost;
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    skip_unless_there("mariadb")
    with running(CONTENT) as host:
        yield f"mysql://me:s3cr%3At%40x@127.0.0.1:{host.port}/"


def test_golds_succeed_and_the_password_is_not_written_down(url: str, tmp_path: Path) -> None:
    evaluation = Evaluation.plan("sql", agent="gold", data=str(write(tmp_path / "orchard")), engine=url)
    with evaluation.open(tmp_path / "run", resume=False, workers=2) as store:
        _, episodes = evaluation.run(store, workers=2)
    assert [episode.task for episode in episodes if not episode.success] == []
    written = "".join(path.read_text() for path in (tmp_path / "run").iterdir() if path.is_file())
    config = json.loads((tmp_path / "run" / "run.json").read_text())
    assert "s3cr" not in written
    assert config["engine"] == "mysql://" + url.partition("@")[2]
    assert config["userland"]["engine"] == "mariadb"


def test_an_agent_with_all_rights_writes_nothing(url: str, tmp_path: Path) -> None:
    env: Any = intercode.make("sql", data=str(write(tmp_path / "orchard")), engine=url)
    for attack in (
        "DELETE FROM picking",
        "DROP DATABASE cellar",
        "SET GLOBAL sql_select_limit = 1",
        "/*! DELETE FROM picking */",
    ):
        env.reset(options={"task": "count"})
        assert env.step(attack)[4]["exit_code"] == 1
    for task in GOLDS:
        assert plays(env, task, GOLDS[task]).success
    twin = env.fork()
    assert plays(twin, "count", GOLDS["count"]).success
    twin.close()
    env.close()


def test_the_check_says_that_general_tasks_have_no_second_contents(url: str, tmp_path: Path) -> None:
    setting = intercode.prepare("sql", data=str(write(tmp_path / "orchard")), engine=url)
    found = check(setting, setting.tasks)
    assert [(row["task"], row["why"]) for row in found["broken"]] == [
        ("weights", "is marked general, but there are no second contents")
    ]
