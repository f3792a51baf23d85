"""Right answers that touch what decides which files reach the tests: each earns 1, or the path that
the tests did not get is named, beforehand and in the episode. Wrong answers earn nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from base_image import base_image
from kept import needs_bwrap

import intercode

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.rest]


@dataclass(frozen=True)
class Case:
    """A task, right answers besides the golds, and a wrong one. `behind` are paths that the tests
    do not get, by the right answer that needs one and so earns 0. `said`: what `check` says that
    the tests do not get."""

    verify: str
    golds: tuple[str, ...]
    right: tuple[str, ...]
    wrong: str
    setup: str = ":"
    files: dict[str, str] = field(default_factory=dict)
    """More files of the tests."""
    fields: dict[str, Any] = field(default_factory=dict)
    behind: dict[str, str] = field(default_factory=dict)
    said: str = ""
    weaker: str = ""
    """What the record says about the verdict on the gold."""


SUM = "printf 'import sys\\nprint(sum(map(int, sys.argv[1:])))\\n'"
PYTEST = "python3 -m pytest -q --junitxml=/logs/verifier/junit.xml"
IMPORTS = "printf 'from pkg.core import double\\ndef test():\\n    assert double(2) == 4\\n'"
PACKAGE = """
mkdir -p /srv/pkg/src/pkg; cd /srv/pkg; touch src/pkg/__init__.py
printf '[project]\\nname = "pkg"\\n' >pyproject.toml
printf '[tool.pytest.ini_options]\\npythonpath = ["src"]\\n' >>pyproject.toml
echo 'def double(x): return x' >src/pkg/core.py
"""
REPOSITORY = """
mkdir -p /srv/repo; cd /srv/repo; git init -q -b main
git config user.name a; git config user.email a@b; echo 1 >file; git add .; git commit -qm one
"""
PROJECT = """
mkdir -p /srv/app/src /srv/app/tests; cd /srv/app; echo limit=1 >settings.ini
printf 'all:\\n\\t@echo wrong\\n' >Makefile; echo 'echo $((1 + 1))' >src/run.sh
"""

CASES = {
    "a gold that also writes to a system folder": Case(
        verify="test $(cat /answer.txt) = 4\n",
        golds=("echo 4 >/answer.txt; echo 4 >/etc/motd",),
        right=("echo 4 >/answer.txt",),
        wrong="echo 4 >/etc/motd",
        said="/etc/motd",
    ),
    "a new file in /": Case(
        verify='test "$(cat /answer.txt)" = 4\n',
        golds=("echo 4 >/answer.txt",),
        right=("printf '%d\\n' $((2 + 2)) | tee /answer.txt",),
        wrong="echo 5 >/answer.txt",
    ),
    "another new file in /": Case(
        verify='test "$(bash /srv/run.sh)" = 4\n',
        golds=("echo 'echo 4' >/srv/run.sh",),
        right=(
            "echo 'echo 4' >/srv/run.sh; touch /notes",
            "echo 'cat /four' >/srv/run.sh; echo 4 >/four",
        ),
        wrong="echo 'echo 5' >/srv/run.sh",
        behind={"echo 'cat /.four' >/srv/run.sh; echo 4 >/.four": "/.four"},
    ),
    "a file of / is changed, another removed": Case(
        setup="echo 1 >/old; echo 1 >/count",
        verify="test ! -e /old -a $(cat /count) = 2\n",
        golds=("rm /old; echo 2 >/count",),
        right=("mv /old /count; sed -i s/1/2/ /count",),
        wrong="echo 2 >/count",
    ),
    "a link in /": Case(
        setup="mkdir -p /srv/data; echo 7 >/srv/data/x",
        verify="test -L /current -a $(cat /current/x) = 7\n",
        golds=("ln -s /srv/data /current",),
        right=("ln -s srv/data /current", "ln -s /srv/../srv/data /current"),
        wrong="ln -s /srv /current",
    ),
    "a new folder in /": Case(
        verify='test "$(python3 /app/add.py 2 3)" = 5\n',
        golds=(f"mkdir /app; {SUM} >/app/add.py",),
        right=(
            f"mkdir -p /app/lib; {SUM} >/app/lib/core.py; touch /app/pyproject.toml /app/.env\n"
            "echo 'import runpy; runpy.run_path(\"/app/lib/core.py\")' >/app/add.py",
        ),
        wrong="mkdir /app; echo 'print(6)' >/app/add.py",
    ),
    "configuration of the image, changed by the gold": Case(
        setup=PROJECT,
        verify='test "$(make -s)" = right\n',
        golds=("sed -i s/wrong/right/ Makefile",),
        right=("printf 'all:\\n\\t@echo right\\n' >new; mv new Makefile",),
        wrong="rm Makefile; printf 'all:\\n\\t@echo right\\n' >GNUmakefile",
        fields={"cwd": "/srv/app"},
    ),
    "configuration of the image, not changed by the gold": Case(
        setup=PROJECT + "echo '. ./settings.ini; echo $limit' >src/run.sh",
        verify='test "$(bash src/run.sh)" = 9\n',
        golds=("echo 'echo 9' >src/run.sh",),
        right=("echo 'echo $((3 * 3))' >src/run.sh; echo limit=3 >settings.ini",),
        wrong="echo 'echo 8' >src/run.sh",
        fields={"cwd": "/srv/app"},
        behind={"echo limit=9 >settings.ini": "/srv/app/settings.ini"},
    ),
    "configuration in a folder above the tests": Case(
        setup=PROJECT,
        verify=". ../settings.ini; test $limit = 2\n",
        golds=("sed -i s/1/2/ ../settings.ini",),
        right=("echo limit=2 >/srv/app/settings.ini",),
        wrong="echo limit=2 >settings.ini",
        fields={"cwd": "/srv/app/tests"},
    ),
    "configuration and hidden files in folders below": Case(
        setup=PROJECT,
        verify='test "$(bash src/run.sh)" = 9\n',
        golds=("echo 'echo 9' >src/run.sh",),
        right=(
            "echo '. src/run.ini; echo $x' >src/run.sh; echo x=9 >src/run.ini",
            "mkdir src/.d; echo '. src/.d/.rc; echo $x' >src/run.sh; echo x=9 >src/.d/.rc",
        ),
        wrong="echo x=9 >src/run.ini",
        fields={"cwd": "/srv/app"},
    ),
    "a script that changes the folder": Case(
        setup=PROJECT,
        verify='cd /srv/app && test "$(make -s)" = right\n',
        golds=("sed -i s/wrong/right/ /srv/app/Makefile",),
        right=("cd /srv/app; printf 'all:\\n\\t@echo right\\n' >Makefile; touch tox.ini",),
        wrong="touch /srv/app/right",
        behind={"printf 'all:\\n\\t@echo right\\n' >/srv/app/GNUmakefile": "/srv/app/GNUmakefile"},
    ),
    "golds that change different files": Case(
        setup=PROJECT,
        verify='test "$(make -s)" = right\n',
        golds=(
            "sed -i s/wrong/right/ Makefile",
            "printf 'all:\\n\\t@echo right\\n' >GNUmakefile",
        ),
        right=("sed s/wrong/right/ Makefile >GNUmakefile",),
        wrong="echo right >Makefile.txt",
        fields={"cwd": "/srv/app"},
    ),
    "links to files and folders that are carried along": Case(
        verify="test $(cat /srv/out/a) = 1 -a $(cat /srv/out/d/b) = 2\n",
        golds=("mkdir -p /srv/out/d; echo 1 >/srv/out/a; echo 2 >/srv/out/d/b",),
        right=(
            "mkdir -p /srv/out /srv/s/e; echo 1 >/srv/s/a; echo 2 >/srv/s/e/b\n"
            "ln -s /srv/s/a /srv/out/a; ln -s ../s/e /srv/out/d",
            "mkdir -p /srv/s/d; echo 1 >/srv/s/one; echo 2 >/srv/s/d/two; ln -s s /srv/out\n"
            "ln -s one /srv/s/a2; ln -s a2 /srv/s/a; ln -s two /srv/s/d/b",
        ),
        wrong="mkdir -p /srv/out; ln -s /etc/hostname /srv/out/a; ln -s /etc /srv/out/d",
    ),
    "a link to /dev/null": Case(
        setup="echo noise >/srv/log",
        verify='test -e /srv/log -a -z "$(cat /srv/log)"\n',
        golds=(": >/srv/log",),
        right=("ln -sf /dev/null /srv/log", "rm /srv/log; ln -s ../dev/null /srv/log"),
        wrong="rm /srv/log",
    ),
    "a link that leads nowhere": Case(
        verify="test -L /srv/l -a $(readlink -m /srv/l) = /srv/later\n",
        golds=("ln -s later /srv/l",),
        right=("ln -s later /srv/l", "ln -s /srv/later /srv/l", "ln -s ../srv/./later /srv/l"),
        wrong="ln -s other /srv/l",
        behind={"ln -s m /srv/l; ln -s later /srv/m": "/srv/m"},
    ),
    "a repository": Case(
        setup=REPOSITORY,
        verify="git -C /srv/repo log --format=%s | grep -qx two && cd /srv/repo && "
        'test $(cat file) = 2 -a -z "$(git status --porcelain)"\n',
        golds=("echo 2 >file; git commit -qam two",),
        right=(
            "git checkout -qb side; echo 2 >file; git add file; git commit -qm two; "
            "git checkout -q main; git merge -q side; git gc -q",
        ),
        wrong="echo 2 >file; git commit -qam three",
        fields={"cwd": "/srv/repo"},
    ),
    "a package with pyproject.toml of the image": Case(
        setup=PACKAGE + f"mkdir tests; {IMPORTS} >tests/test_core.py",
        verify=f"cd /srv/pkg; {PYTEST} tests\n",
        golds=("echo 'def double(x): return 2 * x' >/srv/pkg/src/pkg/core.py",),
        right=(
            "cd /srv/pkg; echo '__version__ = 2' >src/pkg/__init__.py\n"
            "echo 'def double(x): return x + x' >src/pkg/core.py; echo >>pyproject.toml",
        ),
        wrong="echo 'def double(x): return 3 * x' >/srv/pkg/src/pkg/core.py",
        weaker="in-process",
    ),
    "read-only folders": Case(
        setup="mkdir -p /srv/d/e; echo 1 >/srv/d/e/f; chmod 555 /srv/d/e /srv/d",
        verify="test $(cat /srv/d/e/f) = 2 -a $(stat -c %a /srv/d/e) = 555 -a ! -w /srv/d\n",
        golds=("chmod u+w /srv/d/e/f; echo 2 >/srv/d/e/f",),
        right=(
            "chmod u+w /srv/d /srv/d/e; rm -r /srv/d/e; mkdir /srv/d/e; echo 2 >/srv/d/e/f\n"
            "chmod 555 /srv/d/e /srv/d",
        ),
        wrong="chmod -R u+w /srv/d; echo 2 >/srv/d/e/f",
    ),
    "tests whose programs write caches beside them": Case(
        verify=f"cd /tests; echo >a; {PYTEST} test_a.py\n",
        files={"test_a.py": 'import b\ndef test():\n    assert open("/srv/a").read() == b.four\n'}
        | {"b.py": 'four = "4"\n'},
        golds=("printf 4 >/srv/a",),
        right=("echo -n $((2 + 2)) >/srv/a",),
        wrong="echo 4 >/srv/a",
    ),
    "tests that write beside themselves": Case(
        verify="echo 4 >/tests/expected && cmp /srv/a /tests/expected\n",
        golds=("echo 4 >/srv/a",),
        right=("echo $((2 + 2)) >/srv/a",),
        wrong="mkdir -p /tests; echo 5 | tee /srv/a >/tests/expected",
        weaker="could change the tests' files",
    ),
    "tests that start in the record's folder": Case(
        setup="mkdir -p '/srv/w x'",
        verify='test "$PWD" = "/srv/w x" -a "$(cat out.json)" = "[4]"\n',
        golds=("echo '[4]' >out.json",),
        right=("pwd >log; echo log >.gitignore; echo '[4]' >\"$PWD/out.json\"",),
        wrong="echo '[4]' >../out.json",
        fields={"cwd": "/srv/w x"},
    ),
    "files of a home": Case(
        verify="test $(cat ~/out) = 4\n",
        golds=("echo 4 >~/out",),
        right=("mkdir ~/w; echo 4 >~/w/o; ln -s w/o ~/out; touch ~/.cache.db",),
        wrong="echo 5 >~/out",
        behind={"mkdir ~/.w; echo 4 >~/.w/o; ln -s .w/o ~/out": "/.w/o"},
    ),
    "a system path that the record names": Case(
        setup="mkdir -p /srv/etc",
        verify="test $(cat /etc/app/conf) = 4\n",
        golds=("mkdir /etc/app; echo 4 >/etc/app/conf",),
        right=("mkdir /etc/app; echo 4 >/etc/app/real; ln -s real /etc/app/conf",),
        wrong="mkdir /etc/app; echo 5 >/etc/app/conf",
        fields={"verify_system": ["/etc/app"]},
        behind={
            "mkdir /etc/app; echo 4 >/etc/real; ln -s /etc/real /etc/app/conf": "/etc/app/conf"
        },
        weaker="also taken from the agent: /etc/app",
    ),
    "no gold, and the query names the path": Case(
        verify="test $(cat /answer.txt) = 4 && grep -q 4 /srv/app/setup.cfg\n",
        golds=(),
        right=("echo 4 | tee /answer.txt >>/srv/app/setup.cfg; touch /srv/app/tox.ini",),
        wrong="echo 5 | tee /answer.txt >>/srv/app/setup.cfg",
        setup=PROJECT,
        fields={
            "query": "Write 4 to /answer.txt, and to the project's setup.cfg.",
            "cwd": "/srv/app",
        },
    ),
}
IMAGE = (
    "a package with pyproject.toml of the image",
    "tests whose programs write caches beside them",
)
"""Cases that need an image with pytest."""


@pytest.fixture(scope="module")
def envs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[bool, intercode.InterCodeEnv]]:
    needs_bwrap()
    records = [
        {"id": name, "query": "Do it.", "setup": case.setup, "verify": case.verify}
        | {"golds": list(case.golds), **case.fields}
        for name, case in CASES.items()
    ]
    folder, made = tmp_path_factory.mktemp("honest"), {}
    for record in records:
        if files := CASES[record["id"]].files:
            tests = folder / record["id"].replace(" ", "-")
            tests.mkdir()
            for name, text in {**files, "test.sh": record["verify"]}.items():
                (tests / name).write_text(text)
            record["verify"] = tests.name
    for in_image in (False, True):
        data = folder / f"{in_image}.jsonl"
        chosen = [record for record in records if (record["id"] in IMAGE) == in_image]
        data.write_text("\n".join(map(json.dumps, chosen)))
        image = {"image": base_image()} if in_image else {}
        made[in_image] = intercode.make("bash", data=str(data), max_turns=None, **image)
    yield made
    for env in made.values():
        env.close()


@pytest.mark.parametrize("name", CASES)
def test_right_work_is_paid_or_what_stays_behind_is_named(
    envs: dict[bool, intercode.InterCodeEnv], name: str
) -> None:
    case, env = CASES[name], envs[name in IMAGE]

    def play(action: str) -> tuple[float, dict[str, Any]]:
        env.reset(options={"task": name})
        env.step(action)
        _, reward, *_, info = env.step("submit")
        return float(reward), info["outcomes"]

    for action in (*case.golds, *case.right):
        reward, outcomes = play(action)
        assert reward == 1, (action, outcomes)
        said = outcomes.get("verified", [])
        assert case.weaker in " ".join(said), action
        if not case.weaker:
            assert all("while the tests do" in weaker for weaker in said), action
    reward, outcomes = play(case.wrong)
    assert reward == 0, outcomes
    for action, path in case.behind.items():
        reward, outcomes = play(action)
        assert reward == 0, action
        assert any(left.endswith(path) for left in outcomes["left_behind"]), (action, outcomes)
    task = next(task for task in env.tasks if task.id == name)
    assert env.run_gold(task).stays_behind == case.said
