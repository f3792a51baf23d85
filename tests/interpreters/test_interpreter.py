"""The persistent interpreter: what it keeps, what it shows, and what becomes of it when an action
goes wrong."""

from __future__ import annotations

import pytest

from intercode_sandbox.local import LocalSandbox

SAME_ORDER = """
import subprocess, sys
other = subprocess.check_output([sys.executable, '-c', 'print(set("python"))'], text=True)
other == f"{set('python')}\\n"
"""
SESSION = [
    ("import math\ndef half(n): return n / 2", ""),
    ("half(3), math.floor(2.7)", "(1.5, 2)\n"),
    ("1\n'two'", "'two'\n"),
    ("None", ""),
    ("x = 3", ""),
    ("for i in range(2): i", ""),
    ("3; _", "'two'\n"),
    ("", ""),
    ("# only a comment", ""),
    ("from __future__ import annotations", ""),
    ("def f(x: not_defined_anywhere): pass", ""),
    (
        (
            "import os\nprint(1)\nos.system('echo 2')\nprint(3, file=sys.stderr)\n"
            "os.system('echo 4 >&2')\nprint(5)"
        ),
        "1\n2\n3\n4\n5\n",
    ),
    (
        (
            "import threading\ngo = threading.Event()\ndone = []\n"
            "def work(): go.wait(); done.append(1)"
        ),
        "",
    ),
    ("t = threading.Thread(target=work); t.start()", ""),
    ("go.set(); t.join(); done", "[1]\n"),
    ("pid = os.fork()\nif pid: _ = os.waitpid(pid, 0)", ""),
    ("pid > 0", "True\n"),
    ("os.makedirs('/desk'); os.chdir('/desk')\nn = open('mine.py', 'w').write('x = 8')", ""),
    ("import mine; mine.x", "8\n"),
    (f"x = '''{'é' * 3_000_000}'''\nlen(x)", "3000000\n"),
    (SAME_ORDER, "True\n"),
    ("import ctypes; n = ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # not dumpable", ""),
    ("'still there'", "'still there'\n"),
]
ERRORS = [
    ("def f(:", "SyntaxError"),
    ("'open", "SyntaxError"),
    (" x = 1", "IndentationError"),
    ("input('name? ')", "no standard input"),
    ("class A:\n    def __repr__(self): raise ValueError('not me')\nA()", "ValueError: not me"),
    ("import guest", "ModuleNotFoundError"),
    ("import intercode", "ModuleNotFoundError"),
    ("b = bytearray(1 << 34)", "MemoryError"),
    ("def f(n): return f(n + 1)\nf(0)", "RecursionError"),
    (
        (
            "import builtins, sys\nbuiltins.print = builtins.repr = None\n"
            "sys.stdout = sys.stderr = None\n1/0"
        ),
        "ZeroDivisionError",
    ),
]


def test_a_session_keeps_its_state_and_shows_what_an_interactive_one_shows(
    python: LocalSandbox,
) -> None:
    python.exec("import sys")
    for action, shown in SESSION:
        result = python.exec(action)
        assert (result.output, result.exit_code) == (shown, 0), action[:80]


def test_an_action_that_fails_shows_its_error_and_costs_no_state(python: LocalSandbox) -> None:
    python.exec("kept = 5")
    for action, words in ERRORS:
        result = python.exec(action)
        assert (result.exit_code, result.session_lost) == (1, False), action
        assert words in result.output
    assert python.exec("assert kept == 5").exit_code == 0


def test_an_error_shows_the_agents_own_lines_those_of_earlier_actions_too(
    python: LocalSandbox,
) -> None:
    python.exec("import json\ndef read(text):\n    return json.loads(text)  # here")
    shown = python.exec(
        "try:\n    read('{')\nexcept ValueError as error:\n    raise KeyError('k') from error"
    ).output
    lines = shown.splitlines()
    assert (lines[0], lines[-1]) == ("Traceback (most recent call last):", "KeyError: 'k'")
    assert "    return json.loads(text)  # here" in lines
    assert "direct cause" in shown
    assert shown.count('File "') == shown.count('File "<action ') == 3


def test_output_beyond_the_limit_is_cut_and_known_by_its_digest(python: LocalSandbox) -> None:
    result = python.exec("import sys; n = sys.stdout.write('z' * 9_000_000)")
    assert len(result.output) == 8 << 20
    assert result.overflow


@pytest.mark.parametrize(
    ("action", "status", "shown"),
    [
        ("exit(3)", 3, "[exit status 3]\n"),
        ("raise SystemExit('good bye')", 1, "good bye\n[exit status 1]\n"),
        ("import sys\ny = 2\nprint(y)\nsys.exit()", 0, "2\n[exit status 0]\n"),
        (
            "import unittest as u\nclass T(u.TestCase):\n  def test(self): 1/0\nu.main(argv=['t'])",
            1,
            None,
        ),
        ("import os\nif os.fork() == 0: exit(7)\nprint(os.wait()[1] >> 8)", 0, "7\n"),
    ],
)
def test_what_was_defined_stays_after_an_exit(
    python: LocalSandbox, action: str, status: int, shown: str | None
) -> None:
    python.exec("x = 1")
    result = python.exec(action)
    assert (result.exit_code, result.session_lost) == (status, False)
    assert shown in (None, result.output)
    assert python.exec("x").output == "1\n"


@pytest.mark.parametrize(
    ("action", "status", "shown"),
    [
        ("import os; os.kill(os.getpid(), 11)", -11, ""),
        ("import os; os.execv('/bin/true', ['true'])", 0, ""),
        ("import os; os.closerange(3, 4096)", None, ""),
    ],
)
def test_an_action_that_ends_the_interpreter_gets_a_new_one(
    python: LocalSandbox, action: str, status: int | None, shown: str
) -> None:
    python.exec("x = 1")
    result = python.exec(action)
    assert result.session_lost
    assert status in (None, result.exit_code)
    assert result.output.startswith(shown)
    assert "NameError" in python.exec("x").output


@pytest.mark.parametrize(
    ("endless", "lost"),
    [
        ("while True: pass", False),
        ("import time; time.sleep(60)", False),
        ("import subprocess; subprocess.run(['sleep', '60'])", False),
        ("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", True),
        (
            (
                "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\n"
                "time.sleep(60)"
            ),
            True,
        ),
    ],
)
def test_an_action_out_of_time_is_interrupted_or_killed_with_what_it_started(
    python: LocalSandbox, endless: str, lost: bool
) -> None:
    python.exec("x = 5")
    result = python.exec(endless, timeout=0.3)
    assert (result.timed_out, result.session_lost) == (True, lost)
    assert lost or "KeyboardInterrupt" in result.output
    assert ("NameError" in python.exec("x").output) is lost
    assert (
        python.exec(
            "import os; [p for p in os.listdir('/proc') if p.isdigit() and int(p) > 1]"
        ).output.count(",")
        <= 1
    )


@pytest.mark.parametrize(
    "action",
    [
        "keep = []\nwhile True: keep.append(bytearray(1 << 22))",
        "import sys; sys.setrecursionlimit(10**8)\ndef f(): f()\nf()",
    ],
)
def test_an_action_that_takes_all_memory_may_end_the_interpreter_and_no_more(
    python: LocalSandbox, action: str
) -> None:
    result = python.exec(action, timeout=5)
    assert result.exit_code != 0
    assert python.exec("1").output == "1\n"


def test_the_interpreter_has_no_rights_and_no_descriptors_of_the_cells(
    python: LocalSandbox,
) -> None:
    status = python.exec("print(open('/proc/self/status').read())").output
    assert {line.split()[1] for line in status.splitlines() if line.startswith("Cap")} == {"0" * 16}
    assert "Seccomp:\t2" in status
    assert (
        python.exec("import os; sorted(map(int, os.listdir('/proc/self/fd')))").output
        == "[0, 1, 2, 3, 200]\n"
    )


def test_a_reset_leaves_nothing_and_random_numbers_differ(python: LocalSandbox) -> None:
    first = python.exec(
        "x = 1\nn = open('/left', 'w').write('x')\nimport random; random.random()"
    ).output
    python.reset()
    assert "NameError" in python.exec("x").output
    assert "FileNotFoundError" in python.exec("open('/left')").output
    assert python.exec("import random; random.random()").output != first
