"""A program is tested as a judge tests it: each test finds a new interpreter and first files."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from kept import needs_bwrap

import intercode

SUM = "n = int(input())\nprint(sum(map(int, input().split())))"
FUNCTION = "def main():\n    n = int(input())\n    print(sum(map(int, input().split())))"
TASK = {
    "id": "sum",
    "query": "Read n and then n integers on one line; print their sum.",
    "gold": SUM,
    "cases": {"inputs": ["3\n1 2 3\n", "1\n5", "2\n4 4\n"], "outputs": ["6\n", "5", "8"]},
}
STARTS = {
    "streams": "import os, sys\nsys.stdin = os.fdopen(0)\nsys.stdout = open(1, 'w')",
    "folder": "import os\nos.mkdir('/tmp/work')",
    "log": "open('/root/log', 'x').write('begun')",
    "first file": "import os\nos.rename('/etc/hostname', '/etc/name')",
    "database": "import sqlite3\nsqlite3.connect('/tmp/d').execute('CREATE TABLE t (n)')",
    "file": (
        "import inspect, os\ndef f(): pass\nassert os.path.dirname(os.path.abspath(__file__))\n"
        "assert inspect.getsource(f) == 'def f(): pass\\n'"
    ),
    "start method": "import multiprocessing\nmultiprocessing.set_start_method('fork')",
    "shared memory": (
        "from multiprocessing import resource_tracker\n"
        "from multiprocessing.shared_memory import SharedMemory\n"
        "m = SharedMemory('kept', create=True, size=9)\n"
        "resource_tracker.unregister(m._name, 'shared_memory')"
    ),
    "socket": (
        "import os, socket\ns = socket.socket(socket.AF_UNIX)\ns.bind('\\0one')\ns.listen()\n"
        "if not os.fork():\n    import time\n    time.sleep(60)"
    ),
    "module": "import math\nassert not hasattr(math, 'mark')\nmath.mark = 1",
    "context": (
        "import decimal\nassert decimal.getcontext().prec == 28\ndecimal.getcontext().prec = 3"
    ),
    "limit": (
        "import resource, sys\nassert resource.getrlimit(resource.RLIMIT_NOFILE)[1] > 40\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))"
    ),
    "alarm": (
        "import signal\nassert not signal.alarm(50)\n"
        "assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL\n"
        "signal.signal(signal.SIGALRM, signal.SIG_IGN)"
    ),
    "end": "import atexit\natexit.register(print)",
}


def make(tmp_path: Path, **options: object) -> intercode.InterCodeEnv:
    needs_bwrap()
    data = tmp_path / "tasks.jsonl"
    data.write_text(json.dumps(TASK))
    return intercode.make("python", data=str(data), max_turns=None, **options)


def test_no_test_sees_what_an_action_or_another_test_has_changed(tmp_path: Path) -> None:
    with closing(make(tmp_path)) as env:
        for what, start in STARTS.items():
            env.reset()
            env.step(f"{start}\n{SUM}")
            env.step(f"{start}\n{SUM}")
            assert env.step("submit")[1] == 1, what
            assert not env.run_gold(env.tasks[0]).faults


def test_a_program_may_need_the_files_that_the_agent_prepared(tmp_path: Path) -> None:
    with closing(make(tmp_path)) as env:
        for answer, reward in (
            ("from adding import run\nrun()", 1),
            ("exec(open('adding.py').read())\nrun()", 1),
            ("from adding import run\nrun()\nrun()", 0),
            ("print(6)", 0),
        ):
            env.reset()
            env.step("import os\nos.chdir('/tmp')")
            env.step(f"_ = open('adding.py', 'w').write({FUNCTION.replace('main', 'run')!r})")
            env.step(answer)
            assert env.step("submit")[1] == reward, answer


def test_a_program_may_spawn_processes_of_its_own_functions(tmp_path: Path) -> None:
    program = (
        "import multiprocessing\ndef total(line):\n    return sum(map(int, line.split()))\n"
        "if __name__ == '__main__':\n    multiprocessing.set_start_method('spawn')\n    input()\n"
        "    with multiprocessing.Pool(1) as pool:\n        print(pool.apply(total, (input(),)))"
    )
    with closing(make(tmp_path)) as env:
        env.reset()
        env.step(program)
        assert env.step("submit")[1] == 1


def test_a_program_cannot_count_the_tests(tmp_path: Path) -> None:
    counting = (
        "with open('/tmp/k', 'a+') as f:\n    f.write('.')\n    n = f.tell()\n"
        "print(('6', '5', '8')[n - 1 - {before}])"
    )
    with closing(make(tmp_path)) as env:
        for before in (0, 1):
            env.reset()
            env.step(counting.format(before=before))
            assert env.step("submit")[1] == 0


def test_a_program_that_kills_what_it_can_harms_no_later_episode(tmp_path: Path) -> None:
    killing = (
        "import os, signal\nfor pid in map(int, filter(str.isdigit, os.listdir('/proc'))):\n"
        "    if pid not in (1, os.getpid(), os.getppid()):\n        os.kill(pid, 9)"
    )
    with closing(make(tmp_path)) as env:
        env.reset()
        env.step(f"try:\n    input()\nexcept EOFError: raise\n{killing}")
        env.step("submit")
        env.reset()
        env.step(SUM)
        assert env.step("submit")[1] == 1


@pytest.mark.parametrize("stream", ["sys.stdin = open(0)", "sys.stdout = open(1, 'w')"])
def test_a_function_is_tested_though_the_agent_replaced_the_streams(
    tmp_path: Path, stream: str
) -> None:
    with closing(make(tmp_path)) as env:
        env.reset()
        env.step(f"import sys\n{stream}\n{FUNCTION}")
        assert env.step("submit main")[1] == 1


@pytest.mark.parametrize(
    "inside", ["SUM\nsubmit", "SUM; submit;", "SUM\n\nsubmit  # done", "submit\nSUM", "submit;"]
)
def test_a_submission_inside_an_action_is_no_part_of_the_program(
    tmp_path: Path, inside: str
) -> None:
    with closing(make(tmp_path)) as env:
        env.reset()
        env.step(SUM)
        assert "action of its own" in env.step(inside.replace("SUM", SUM))[0]
        assert env.step("submit")[1] == 1


def test_a_program_may_define_print_and_mention_submit(tmp_path: Path) -> None:
    for program in (
        FUNCTION.replace("main", "submit") + "\nsubmit()",
        f"{FUNCTION}\nsubmit = main\nsubmit()",
        f"menu = '''add\nsubmit\nquit'''\nassert menu.split() == ['add', 'submit', 'quit']\n{SUM}",
        f"try:\n    submit\nexcept NameError:\n    pass\n{SUM}",
    ):
        with closing(make(tmp_path)) as env:
            env.reset()
            env.step(program)
            assert env.step("submit")[1] == 1, program


@pytest.mark.parametrize("said", ["Answer: 6", "6", "**6**", "done", "完成", "- 6", "The sum is 6"])
def test_a_sentence_or_a_value_does_not_replace_a_program(tmp_path: Path, said: str) -> None:
    with closing(make(tmp_path)) as env:
        env.reset()
        env.step(SUM)
        env.step(said)
        assert env.step("submit")[1] == 1
