"""Tasks verified by tests: what reaches the tests, what does not, and whose fault a missing verdict
is. The hacks have controls: tasks whose tests the agent can reach, where they pay."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from base_image import base_image
from kept import needs_bwrap

import intercode
from intercode.errors import DataError, EntryLeftOut
from intercode.redteam.hacks import FORGERIES, HACKS
from intercode.validate.check import check

pytestmark = [pytest.mark.slow, pytest.mark.long]

PRINTS = "import sys\\nprint(int(sys.argv[1]) + int(sys.argv[2]))\\n"
WRITES = f"mkdir -p /app; printf '{PRINTS}' >/app/add.py"
DEFINES = "mkdir -p /app; printf 'def add(a, b):\\n    return a + b\\n' >/app/add.py"
SCRIPT = """
cd /tests
python3 -m pytest -q --junitxml=/logs/verifier/junit.xml /tests/test_add.py
if [ $? = 0 ]; then echo 1; else echo 0; fi >/logs/verifier/reward.txt
"""
WAITS = """
for _ in {1..50}; do [ "$(cat /logs/verifier/reward.txt)" = 1 ] && break; sleep 0.1; done
"""
OUTSIDE = """
import subprocess
def add(*words):
    command = ["/usr/bin/python3", "/app/add.py", *words]
    return subprocess.run(command, capture_output=True, text=True).stdout
def test_small():
    assert add("2", "3") == "5\\n"
def test_negative():
    assert add("-2", "3") == "1\\n"
"""
INSIDE = """
import sys
sys.path.insert(0, "/app")
from add import add
def test_small():
    assert add(2, 3) == 5
"""
IN_WORLD = "mkdir -p /srv/t; echo '[ \"$(python3 /app/add.py 2 3)\" = 5 ]' >/srv/t/test.sh"
TASKS = [
    {"id": "outside", "query": "Write /app/add.py.", "gold": WRITES, "verify": "outside"},
    {"id": "inside", "query": "Define add in /app/add.py.", "gold": DEFINES, "verify": "inside"},
    {
        "id": "inline",
        "query": "Define add in /app/add.py, for a command.",
        "gold": DEFINES,
        "verify": "cd /app; python3 -c 'from add import add; assert add(2, 3) == 5'\n",
    },
    {
        "id": "system",
        "query": "Write /app/add.py; all system folders are the subject.",
        "gold": WRITES,
        "verify": "outside",
        "verify_system": "agent",
    },
    {
        "id": "alive",
        "query": "Write /app/add.py, with processes.",
        "gold": WRITES,
        "verify": "waiting",
        "keep_processes": True,
    },
    {
        "id": "world",
        "query": "Write /app/add.py; the tests lie about.",
        "gold": WRITES,
        "verify": "bash /srv/t/test.sh\n",
    },
]
"""All have the setup `IN_WORLD`."""
PAYS_IN = {
    "overwritten tests": "world",
    "a planted conftest.py": "alive",
    "sitecustomize": "system",
    "programs earlier on PATH": "system",
    "replaced interpreters": "system",
    "a forked daemon": "alive",
    "a patched pytest": "system",
    "an early exit of the code under test": "inline",
    "code under test that patches the tests' process": "inside",
}
AS_THE_GOLD = "an early exit of code that the tests load"
"""A forgery that leaves the gold's work as it is where no code is loaded."""
"""Where each hack pays. LD_PRELOAD needs a compiler, and links and files that were there before
the tests are removed even where the tests run in the agent's sandbox."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verified")
    for name, text in (("outside", OUTSIDE), ("inside", INSIDE), ("waiting", OUTSIDE)):
        (folder / name).mkdir()
        (folder / name / "test.sh").write_text(SCRIPT + (WAITS if name == "waiting" else ""))
        (folder / name / "test_add.py").write_text(text)
    records = [{"setup": IN_WORLD, **task} for task in TASKS]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


@pytest.fixture(scope="module")
def env(folder: Path) -> Iterator[intercode.InterCodeEnv]:
    needs_bwrap()
    env = intercode.make("bash", data=str(folder), image=base_image(), max_turns=None)
    yield env
    env.close()


def writes(code: str) -> str:
    return f"mkdir -p /app; cat >/app/add.py <<'CODE'\n{code}\nCODE"


def played(env: intercode.InterCodeEnv, task: str, *actions: str) -> dict[str, Any]:
    """The last step's info."""
    env.reset(options={"task": task})
    for action in (*actions, "submit"):
        *_, info = env.step(action)
    return info


@pytest.mark.parametrize("task", [str(task["id"]) for task in TASKS])
def test_the_gold_passes_and_doing_nothing_does_not(env: intercode.InterCodeEnv, task: str) -> None:
    gold = next(one.gold for one in env.tasks if one.id == task)
    assert played(env, task, gold)["score"].success
    info = played(env, task)
    assert info["score"].reward == 0
    assert info["outcomes"]["failed"] == ["tests"]
    said = info["outcomes"].get("verified", [])
    expected = {
        **dict.fromkeys(("inside", "inline"), "in-process"),
        "system": "system folders",
        "alive": "alive",
    }
    assert (expected[task] in said[0]) if task in expected else not said


@pytest.mark.parametrize("name", [name for name in {**HACKS, **FORGERIES} if name != AS_THE_GOLD])
def test_a_hack_pays_only_where_the_tests_can_be_reached(
    env: intercode.InterCodeEnv, name: str
) -> None:
    where = {task.id: task for task in env.tasks}
    control = PAYS_IN.get(name)
    # a forgery may win the race for the file of a verdict, so that "outside" is named in-process
    for task in ([] if name in FORGERIES else ["outside"]) + ([control] if control else []):
        action = (HACKS | FORGERIES)[name].replace(
            "@GOLD@", where[task].gold if name in FORGERIES else "true"
        )
        assert played(env, task, action)["score"].success is (task == control), task


def test_code_under_test_that_kills_the_tests_earns_nothing(env: intercode.InterCodeEnv) -> None:
    kills = "import os\nos.kill(os.getppid(), 9)\ndef add(*words): return 0"
    for _ in range(4):  # the shell above may or may not live to say it
        assert played(env, "inline", writes(kills))["score"].reward == 0


def test_a_failed_test_is_named_with_its_message(env: intercode.InterCodeEnv) -> None:
    outcomes = played(env, "outside", "mkdir /app; echo 'print(5)' >/app/add.py")["outcomes"]
    assert outcomes["rule"] == "did not pass: test_add::test_negative"
    failed, passed = outcomes["tests"]
    assert (failed["test"], failed["passed"]) == ("test_add::test_negative", False)
    assert "AssertionError: assert '5" in failed["agent"]
    assert (passed["test"], passed["passed"]) == ("test_add::test_small", True)
    assert "1 failed, 1 passed" in outcomes["output"]


# -- without an image: what is carried over, and whose fault a missing verdict is ------------------


SETUP = r"""
mkdir -p /srv/d/e /srv/data /srv/out /srv/bin /srv/job
echo 1 >/srv/d/gone; ln -s /etc /srv/l; chmod 555 /srv/d/e; ln -s /opt /srv/link
printf 'b\na\n' >/srv/data/x; printf 'check:\n\ttest -e done\n' >/srv/data/Makefile
"""
RECORDS: list[dict[str, Any]] = []


def record(**fields: Any) -> str:
    """Add a task to those of the environment `plain`; return its id."""
    id = f"t{len(RECORDS)}"
    RECORDS.append({"id": id, "query": f"Do it: {id}.", "setup": SETUP, **fields})
    return id


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[intercode.InterCodeEnv]:
    needs_bwrap()
    data = tmp_path_factory.mktemp("plain") / "tasks.jsonl"
    data.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    env = intercode.make("bash", data=str(data), max_turns=None)
    yield env
    env.close()


FILES = record(
    gold="""
        rm /srv/d/gone /srv/l; mkdir /srv/l; echo in >/srv/l/passwd; chmod 750 /srv/l
        mkdir -p "/srv/a b"; echo x >"/srv/a b/$(printf 'n\\nl')"; ln -s nowhere /srv/dangling
        chmod 755 /srv/d/e; echo y >/srv/d/e/new; chmod 555 /srv/d/e
    """,
    verify="""
        test ! -e /srv/d/gone -a ! -L /srv/l -a "$(cat /srv/l/passwd)" = in &&
        test "$(stat -c %a /srv/l)" = 750 -a -s /etc/passwd &&
        test "$(cat "/srv/a b/$(printf 'n\\nl')")" = x &&
        test "$(readlink /srv/dangling)" = nowhere &&
        test "$(cat /srv/d/e/new)" = y -a "$(stat -c %a /srv/d/e)" = 555 &&
        test ! -e /tests/planted -a ! -e ~/.profile -a -z "$(cat /etc/planted)"
    """,
    verify_system=["/etc/allowed"],
)


def test_files_reach_the_tests_with_modes_links_and_removals(plain: intercode.InterCodeEnv) -> None:
    gold = next(task.gold for task in plain.tasks if task.id == FILES)
    plants = "mkdir -p /tests; touch /tests/planted ~/.profile; echo evil >>/etc/hosts"
    assert played(plain, FILES, gold, plants)["score"].success
    assert not played(plain, FILES)["score"].success


STEERS = (
    "CMakeLists.txt build.ninja gems.rb lib/Test/More.pm lib/rspec/core.rb check BUILD build.rs"
)
TRAVELS = "notes.txt lib/fee.rb lib/Test/Fee.pm main.rs builder checks.txt test/fee.rb"
MAKES = record(
    cwd="/srv/job",
    gold="echo 4 >answer",
    verify="printf 'check:\\n\\ttest -s answer\\n' >/Makefile; make -f /Makefile check\n",
)


def test_what_steers_a_runner_stays_behind_in_the_folder_where_tests_start(
    plain: intercode.InterCodeEnv,
) -> None:
    assert not played(plain, MAKES, "touch check")["score"].success
    plants = f"mkdir -p lib/Test lib/rspec test; touch {STEERS} {TRAVELS}"
    info = played(plain, MAKES, plants, "echo 4 >answer")
    assert info["score"].success
    left = [path.removeprefix("/srv/job/") for path in info["outcomes"]["left_behind"]]
    assert sorted(left) == sorted(STEERS.split())


SYSTEM = record(
    gold="mkdir /etc/app; echo on | tee /etc/app/conf /opt/it >/etc/other; echo x >>/etc/hosts",
    verify="test -e /etc/app/conf -a -e /opt/it -a ! -e /etc/other && ! grep x /etc/hosts\n",
    verify_system=["/etc//app/", "/srv/link/it"],
)
IN_FOLDER = record(
    cwd="/srv/job",
    gold="echo here >file; export SECRET=1",
    verify='test "$PWD" = /srv/job -a -e file -a "$LEVEL" = "a b" -a -z "$SECRET"\n',
    verify_env={"LEVEL": "a b"},
)


def test_the_record_names_what_is_the_subject_and_where_the_tests_start(
    plain: intercode.InterCodeEnv,
) -> None:
    for task in (SYSTEM, IN_FOLDER):
        plain.reset(options={"task": task})  # a gold that does not pass is an error


SERVE = "mkfifo /srv/ask /srv/answer; (setsid bash -c 'read x </srv/ask; echo $x$x >/srv/answer' &)"
ASKS = "echo 4 >/srv/ask; read x </srv/answer; test $x = 44\n"
SERVED = [
    record(gold=SERVE, verify=ASKS, keep_processes=keep, verify_seconds=20)
    for keep in (True, "auto")
]
NEEDLESS = record(gold="touch /srv/a", verify="test -e /srv/a\n", keep_processes="auto")


def test_services_of_the_agent_can_be_asked_where_the_record_says_so(
    plain: intercode.InterCodeEnv,
) -> None:
    alive = ["processes of the agent were alive during scoring, among all its files"]
    for task in SERVED:
        info = played(plain, task, SERVE)
        assert (info["score"].success, info["outcomes"]["verified"]) == (True, alive)
    assert "verified" not in played(plain, NEEDLESS, "touch /srv/a")["outcomes"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"verify": "tests/none.sh"}, "there is no .*tests/none.sh"),
        ({"verify": "../"}, r"\.\.: leads out of /"),
        ({"verify": "true\n", "verify_files": ["none"]}, "/none: cannot be read .No such file"),
        ({"verify": "true\n", "verify_files": ["/etc/hostname"]}, "leads out of"),
        ({"verify_system": ["etc"]}, "write a list of absolute paths"),
        ({"verify_system": ["/srv/../etc"]}, "paths without '..'"),
        ({"keep_processes": "no"}, "write true, false or 'auto'"),
        ({"verify_memory": 0.5}, "write a whole number of MiB"),
    ],
)
def test_fields_without_a_meaning_are_refused(
    tmp_path: Path, fields: dict[str, Any], why: str
) -> None:
    data = tmp_path / "tasks.jsonl"
    data.write_text(json.dumps({"query": "Do it.", "gold": "true", "verify": "true\n", **fields}))
    with pytest.raises(DataError, match=why):
        intercode.prepare("bash", data=str(data))


@pytest.mark.parametrize(
    ("task", "why"),
    [
        (record(**{"gold": "touch /srv/a", **fields}), why)
        for fields, why in (
            ({"verify": "exit 3\n"}, "the tests end with status 3"),
            ({"verify": "true\n", "verdict": "reward"}, "neither reward.json nor reward.txt"),
            ({"verify": "echo often >/logs/verifier/reward.txt\n"}, "reward.txt is not a number"),
            ({"verify": "sleep 60\n", "verify_seconds": 0.3}, "the tests ran out of time"),
            (
                {"verify": "test -e /etc/x\n", "gold": "mkdir /etc/x; touch /etc/x/y /srv/a"},
                "status 1; the tests did not get the changes to /etc/x: .* in `verify_system`",
            ),
            ({"verify": "true\n", "cwd": "/srv/none"}, "'cwd': there is no folder /srv/none in"),
            (
                {"verify": "exit 3\n", "gold": None, "verdict": "reward"},
                "on untouched files, the tests",
            ),
        )
    ],
)
def test_a_verdict_that_the_gold_cannot_have_is_a_fault_of_the_data(
    plain: intercode.InterCodeEnv, task: str, why: str
) -> None:
    with pytest.raises(DataError, match=why):
        plain.reset(options={"task": task})


PREVENTED = record(
    gold="true",
    verify="""
        while [ -e /srv/hang ]; do sleep 0.1; done
        [ -e /srv/quiet ] || echo 1 >/logs/verifier/reward.txt
    """,
    verdict="reward",
    verify_seconds=6,
)
WITHOUT_GOLD = record(verify="test -e /srv/a\n")


def test_a_verdict_that_only_the_agent_prevents_is_a_failure(
    plain: intercode.InterCodeEnv,
) -> None:
    for action, why in (
        ("touch /srv/quiet", "the tests wrote neither"),
        ("touch /srv/hang", "the tests ran out of time"),
    ):
        info = played(plain, PREVENTED, action)
        assert (info["score"].reward, info["ended"]) == (0, "submit")
        assert why in info["score"].rule


def test_without_a_gold_the_tests_alone_decide(plain: intercode.InterCodeEnv) -> None:
    assert not played(plain, WITHOUT_GOLD)["score"].success
    assert played(plain, WITHOUT_GOLD, "touch /srv/a")["score"].success


def test_a_link_out_of_the_data_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "data" / "tests").mkdir(parents=True)
    (tmp_path / "data" / "tests" / "test.sh").write_text("true\n")
    (tmp_path / "data" / "tests" / "secret").symlink_to("/etc/hostname")
    data = tmp_path / "data" / "tasks.jsonl"
    data.write_text(json.dumps({"query": "Do it.", "gold": "true", "verify": "tests"}))
    with pytest.raises(DataError, match="leads out of"):
        intercode.prepare("bash", data=str(data))


@pytest.mark.rest
def test_check_names_hacks_that_pay_and_what_it_cannot_know_without_a_gold(tmp_path: Path) -> None:
    needs_bwrap()
    done = "test -e /srv/done\n"
    lies_about = f"mkdir -p /srv/t; echo '{done.strip()}' >/srv/t/test.sh"
    records = [
        {"id": "world", "gold": "touch /srv/done", "verify": "bash /srv/t/test.sh\n"},
        {"id": "bare", "verify": done},
    ]
    for record in records:
        record |= {"query": f"Make it {record['id']}.", "setup": lies_about}
    data = tmp_path / "tasks.jsonl"
    data.write_text("\n".join(map(json.dumps, records)))
    factory = intercode.prepare("bash", data=str(data), max_turns=None)
    findings = check(factory, factory.tasks, workers=os.cpu_count() or 1)
    assert (findings["gold_ok"], findings["noop_paid"]) == (1, 0)
    assert findings["hacks_paid"] == [{"task": "world", "hack": "overwritten tests"}]
    assert [(row["task"], row["kind"]) for row in findings["broken"]] == [("world", "hack_pays")]
    assert ("bare", "no_gold") in [(row["task"], row["kind"]) for row in findings["suspicious"]]


MADE = "#!/usr/bin/env python3\nimport os\nos.makedirs('/srv/made')\n"
SCRIPTS = [
    record(gold="touch /srv/a", verify="#!/bin/bash -e\ntest -f /srv/a\necho fine\n"),
    record(gold="touch /srv/a", verify="#!/usr/bin/env -S bash -e\r\ntest -f /srv/a\necho fine\n"),
    record(gold="touch /srv/a", verify='#!/bin/sh\n[ -z "${BASH_VERSION-}" ] && test -f /srv/a\n'),
    record(
        gold="ls /srv/made && touch /srv/a",
        verify="#!/usr/bin/env python3\nimport os, sys\nsys.exit(not os.path.exists('/srv/a'))\n",
        setup=MADE,
    ),
]
NO_SHELL = record(gold="touch /srv/a", verify="#!/usr/bin/no-such-shell\ntrue\n")


def test_the_first_line_of_a_script_decides_how_it_is_executed(
    plain: intercode.InterCodeEnv,
) -> None:
    for task in SCRIPTS:  # a gold that does not pass is an error
        assert not played(plain, task, "true")["score"].success, task
    with pytest.raises(DataError, match="no-such-shell"):
        plain.reset(options={"task": NO_SHELL})


SORTS = "sort /srv/data/x >/srv/out/names"
COMPARES = record(gold=SORTS, verify="sort /srv/data/x >/tmp/e; cmp /tmp/e /srv/out/names\n")
MISLEADS: list[tuple[str, str]] = [
    # files that the tests write themselves
    (COMPARES, "echo x >/srv/out/names; ln -s /srv/out/names /tmp/e"),
    (COMPARES, "echo x | tee /tmp/e /srv/out/names; chmod 444 /tmp/e"),
    # a folder that depends on the process
    (
        record(gold=SORTS, verify="cd /srv/data; sort x >names; cmp names /srv/out/names\n"),
        "rm -rf /srv/out; ln -s /proc/self/cwd /srv/out",
    ),
    # places of programs and of their settings
    (
        record(
            gold=SORTS,
            verify="sort /srv/data/x | cmp - /srv/out/names\n",
            verify_env={"PATH": "/srv/bin:/usr/bin:/bin"},
        ),
        "printf '#!/bin/sh\\nexit 0\\n' >/srv/bin/cmp; chmod 755 /srv/bin/cmp",
    ),
    *(
        (
            record(gold="touch /srv/data/done", verify=f"{start} check\n"),
            "printf 'check:\\n\\t@true\\n' >/srv/data/GNUmakefile",
        )
        for start in ("make -C /srv/data", "cd /srv; cd data && make")
    ),
    *(
        (
            record(
                gold="touch /srv/done",
                verify="python3 -c 'import json, os; assert os.path.exists(\"/srv/done\")'\n",
                cwd=cwd,
            ),
            f"printf 'import os\\nos._exit(0)\\n' >{cwd}/json.py",
        )
        for cwd in ("/", "/srv/job")
    ),
]


@pytest.mark.parametrize(("task", "action"), MISLEADS)
def test_what_would_mislead_the_tests_stays_behind(
    plain: intercode.InterCodeEnv, task: str, action: str
) -> None:
    info = played(plain, task, action)
    assert info["score"].reward == 0
    assert info["outcomes"]["left_behind"]


TWELVE = record(
    gold="printf '#!/bin/sh\\necho 12\\n' >/srv/run; chmod 755 /srv/run",
    verify='[ "$(/srv/run)" = 12 ]\n',
)
IDLE = record(gold="touch a", verify="test -e /srv/job/a\n", cwd="/srv/job")
TOUCHES = record(
    gold="touch /srv/a",
    verify="! touch /srv/job/b || test -e /srv/a",
    keep_processes=True,
)


def test_a_program_that_breaks_the_loader_is_an_outcome(plain: intercode.InterCodeEnv) -> None:
    breaks = "echo x >/etc/ld.so.preload; echo 3"
    action = f"printf '#!/bin/sh\\n{breaks}\\n' >/srv/run; chmod 755 /srv/run"
    assert played(plain, TWELVE, action)["score"].reward == 0


def test_an_episode_without_an_action_leaves_nothing_to_the_next(
    plain: intercode.InterCodeEnv,
) -> None:
    for actions in ([], [], ["true"]):
        info = played(plain, IDLE, *actions)
        assert not info["session_lost"]
    plain.reset(options={"task": IDLE})
    assert plain.step("true")[0] == ""
    played(plain, TOUCHES)
    plain.reset(options={"task": TOUCHES})
    assert plain.step("ls /srv/job")[0] == ""


def test_a_script_with_the_line_ends_of_windows_is_read(tmp_path: Path) -> None:
    needs_bwrap()
    (tmp_path / "check").mkdir()
    (tmp_path / "check" / "test.sh").write_bytes(
        b"if test -f /srv/x; then\r\n true\r\nelse false\r\nfi\r\n"
    )
    record = {"query": "Make /srv/x.", "gold": "touch /srv/x", "verify": "check"}
    (tmp_path / "t.jsonl").write_text(json.dumps(record))
    with intercode.make("bash", data=str(tmp_path / "t.jsonl")) as env:
        for action, reward in (("touch /srv/x", 1.0), ("true", 0.0)):
            env.reset()
            env.step(action)
            assert env.step("submit")[1] == reward


def test_a_line_that_ends_so_on_purpose_stays(tmp_path: Path) -> None:
    needs_bwrap()
    test = "cmp /srv/x - <<'END'\na\r\nEND\n"
    record = {"query": "Write /srv/x.", "gold": "printf 'a\\r\\n' > /srv/x", "verify": test}
    (tmp_path / "t.jsonl").write_text(json.dumps(record))
    with intercode.make("bash", data=str(tmp_path / "t.jsonl")) as env:
        env.reset()
        env.step(record["gold"])
        assert env.step("submit")[1] == 1.0


def test_tests_that_cannot_be_read_hide_no_other_tasks(tmp_path: Path) -> None:
    records = []
    for name in ("sound", "loop", "unread"):
        records.append({"id": name, "query": "Make /srv/x.", "gold": "touch /srv/x"})
        records[-1]["verify"] = name
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    for name in ("sound", "loop"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "test.sh").write_text("test -f /srv/x\n")
    (tmp_path / "loop" / "loop").symlink_to("loop")
    (tmp_path / "unread").symlink_to("unread")
    with pytest.warns(EntryLeftOut) as named:
        factory = intercode.prepare("bash", data=tmp_path / "t.jsonl")
    assert [task.id for task in factory.tasks] == ["sound", "loop"]
    assert [(task.id, issue.kind) for task, issue in factory.left_out] == [("unread", "no_tests")]
    link = tmp_path / "loop" / "loop"
    assert str(named[0].message) == f"left out: {link}: the link leads nowhere"
    assert str(named[1].message).startswith("left out: task unread: field 'verify': there is no")
