"""The persistent interpreter: what it keeps, what it shows, and what becomes of it when an action goes wrong."""

from __future__ import annotations

import pytest

from intercode.sandbox.local import LocalSandbox


def test_what_an_action_defines_is_there_for_the_next(python: LocalSandbox) -> None:
    python.exec("import math\ndef half(n): return n / 2")
    assert python.exec("half(3), math.floor(2.7)").output == "(1.5, 2)\n"


def test_the_value_of_a_last_expression_is_shown_as_an_interactive_session_shows_it(python: LocalSandbox) -> None:
    assert python.exec("1\n'two'").output == "'two'\n"
    assert python.exec("None").output == ""
    assert python.exec("x = 3").output == ""
    assert python.exec("for i in range(2): i").output == ""
    assert python.exec("3; _").output == "two\n".replace("two", "'two'")


def test_an_empty_action_and_one_of_comments_do_nothing(python: LocalSandbox) -> None:
    assert python.exec("").output == python.exec("# only a comment").output == ""


def test_imports_from_the_future_hold_for_later_actions(python: LocalSandbox) -> None:
    python.exec("from __future__ import annotations")
    assert python.exec("def f(x: not_defined_anywhere): pass").exit_code == 0


def test_output_comes_in_the_order_in_which_it_was_written(python: LocalSandbox) -> None:
    action = "import os, sys\nprint(1)\nos.system('echo 2')\nprint(3, file=sys.stderr)\nos.system('echo 4 >&2')\nprint(5)"
    assert python.exec(action).output.split() == ["1", "2", "3", "4", "5"]


def test_output_beyond_the_limit_is_known_by_its_digest(python: LocalSandbox) -> None:
    result = python.exec("import sys; n = sys.stdout.write('z' * 9_000_000)")
    assert len(result.output) == 8 << 20
    assert result.overflow


def test_an_error_shows_the_agents_own_lines_those_of_earlier_actions_too(python: LocalSandbox) -> None:
    python.exec("import json\ndef read(text):\n    return json.loads(text)  # here")
    result = python.exec("read('{')")
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "    return json.loads(text)  # here" in lines
    assert lines[-1].startswith("json.decoder.JSONDecodeError")
    assert "guest" not in result.output
    assert "/usr/lib" not in result.output


def test_errors_in_a_chain_are_shown_without_foreign_lines(python: LocalSandbox) -> None:
    shown = python.exec("try:\n    int('x')\nexcept ValueError as e:\n    raise KeyError('k') from e").output
    assert "direct cause" in shown
    assert shown.count('File "') == shown.count('File "<action 1>"')


@pytest.mark.parametrize("action", ["def f(:", "x = ", " x = 1", "'open", "\ufeff\u00a0x"])
def test_text_that_is_no_python_is_a_syntax_error(python: LocalSandbox, action: str) -> None:
    result = python.exec(action)
    assert result.exit_code == 1
    assert "Error" in result.output.splitlines()[-1]


def test_input_says_that_nobody_will_answer(python: LocalSandbox) -> None:
    assert "no standard input" in python.exec("input('name? ')").output


def test_a_value_that_cannot_be_shown_is_an_error_of_the_action(python: LocalSandbox) -> None:
    result = python.exec("class A:\n    def __repr__(self): raise ValueError('not me')\nA()")
    assert (result.exit_code, result.session_lost) == (1, False)
    assert "ValueError: not me" in result.output


@pytest.mark.parametrize(
    ("action", "status"),
    [
        ("exit(3)", 3),
        ("raise SystemExit", 0),
        ("import os; os._exit(4)", 4),
        ("import os; os.kill(os.getpid(), 11)", -11),
        ("import os; os.execv('/bin/true', ['true'])", 0),
    ],
)
def test_an_action_that_ends_the_interpreter_gets_a_new_one(python: LocalSandbox, action: str, status: int) -> None:
    python.exec("x = 1")
    result = python.exec(action)
    assert (result.exit_code, result.session_lost) == (status, True)
    assert "NameError" in python.exec("x").output
    assert python.exec("1 + 1").output == "2\n"


def test_what_exit_says_is_shown(python: LocalSandbox) -> None:
    assert python.exec("raise SystemExit('good bye')").output == "good bye\n"


@pytest.mark.parametrize("endless", ["while True: pass", "import time; time.sleep(60)", "[i for i in iter(int, 1)]"])
def test_an_action_out_of_time_is_interrupted_and_the_state_is_kept(python: LocalSandbox, endless: str) -> None:
    python.exec("x = 5")
    result = python.exec(endless, timeout=0.3)
    assert (result.timed_out, result.session_lost) == (True, False)
    assert "KeyboardInterrupt" in result.output
    assert python.exec("x").output == "5\n"


def test_an_action_that_ignores_interrupts_is_killed_and_the_state_is_lost(python: LocalSandbox) -> None:
    result = python.exec("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", timeout=0.3)
    assert (result.timed_out, result.session_lost) == (True, True)
    assert python.exec("1").output == "1\n"


def test_threads_of_an_action_do_not_outlive_its_time(python: LocalSandbox) -> None:
    start = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\n"
    result = python.exec(start + "time.sleep(60)", timeout=0.3)
    assert (result.timed_out, result.session_lost) == (True, True)


def test_processes_of_an_action_do_not_outlive_its_time(python: LocalSandbox) -> None:
    python.exec("import subprocess\nsubprocess.run(['sleep', '60'])", timeout=0.3)
    assert python.exec("import os; [p for p in os.listdir('/proc') if p.isdigit() and int(p) > 1]").output.count(",") <= 1


def test_a_thread_may_live_on_between_actions(python: LocalSandbox) -> None:
    python.exec("import threading\ngo = threading.Event()\ndone = []\ndef work(): go.wait(); done.append(1)")
    python.exec("t = threading.Thread(target=work); t.start()")
    assert python.exec("go.set(); t.join(); done").output == "[1]\n"


def test_a_forked_child_does_not_become_a_second_interpreter(python: LocalSandbox) -> None:
    python.exec("import os\npid = os.fork()\nif pid: _ = os.waitpid(pid, 0)")
    assert python.exec("pid > 0").output == "True\n"


def test_closing_the_interpreters_own_line_costs_the_state_and_no_more(python: LocalSandbox) -> None:
    assert python.exec("import os; os.closerange(3, 4096)").session_lost
    assert python.exec("2").output == "2\n"


def test_memory_beyond_the_limit_is_an_error_or_the_end_of_the_interpreter(python: LocalSandbox) -> None:
    assert "MemoryError" in python.exec("b = bytearray(1 << 34)").output
    result = python.exec("keep = []\nwhile True: keep.append(bytearray(1 << 22))")
    assert "MemoryError" in result.output or "memory limit" in result.output
    assert python.exec("1").exit_code == 0


def test_endless_recursion_is_an_error_or_the_end_of_the_interpreter(python: LocalSandbox) -> None:
    assert "RecursionError" in python.exec("def f(n): return f(n + 1)\nf(0)").output
    python.exec("import sys; sys.setrecursionlimit(10**8)\nf(0)", timeout=5)
    assert python.exec("1").output == "1\n"


def test_streams_that_an_action_replaced_do_not_hide_errors(python: LocalSandbox) -> None:
    python.exec("import builtins, sys\nbuiltins.print = builtins.repr = None\nsys.stdout = sys.stderr = None")
    assert "ZeroDivisionError" in python.exec("1/0").output


def test_an_action_that_breaks_the_interpreter_gets_a_new_one(python: LocalSandbox) -> None:
    python.exec("import builtins\nbuiltins.len = builtins.eval = builtins.compile = None")
    assert python.exec("1/0").session_lost
    assert python.exec("len('two')").output == "3\n"


def test_the_interpreter_has_no_rights_and_no_descriptors_of_the_cells(python: LocalSandbox) -> None:
    status = python.exec("print(open('/proc/self/status').read())").output
    rights = {line.split(":")[0]: line.split()[1] for line in status.splitlines() if line.startswith("Cap")}
    assert set(rights.values()) == {"0" * 16}
    assert "Seccomp:\t2" in status
    assert python.exec("import os; sorted(map(int, os.listdir('/proc/self/fd')))[:4]").output == "[0, 1, 2, 3]\n"
    assert python.exec("import os; max(map(int, os.listdir('/proc/self/fd')))").output == "200\n"


def test_nothing_of_the_guest_can_be_imported(python: LocalSandbox) -> None:
    assert "ModuleNotFoundError" in python.exec("import guest").output
    assert "ModuleNotFoundError" in python.exec("import intercode").output


def test_modules_of_the_agents_own_can_be_imported_from_its_folder(python: LocalSandbox) -> None:
    python.exec("import os; os.makedirs('/desk'); os.chdir('/desk')\nn = open('mine.py', 'w').write('x = 8')")
    assert python.exec("import mine; mine.x").output == "8\n"


def test_sets_of_texts_come_in_the_same_order_in_every_interpreter(python: LocalSandbox) -> None:
    action = (
        "import subprocess, sys\nprint(set('python'))\nx = subprocess.run([sys.executable, '-c', 'print(set(\"python\"))'])"
    )
    first, second = python.exec(action).output.splitlines()
    assert first == second


def test_random_numbers_differ_between_episodes(python: LocalSandbox) -> None:
    first = python.exec("import random; random.random()").output
    python.reset()
    assert python.exec("import random; random.random()").output != first


def test_a_reset_leaves_nothing(python: LocalSandbox) -> None:
    python.exec("x = 1\nn = open('/left', 'w').write('x')")
    python.reset()
    assert "NameError" in python.exec("x").output
    assert "FileNotFoundError" in python.exec("open('/left')").output


def test_a_long_action_arrives_whole(python: LocalSandbox) -> None:
    assert python.exec(f"x = '''{'é' * 3_000_000}'''\nlen(x)").output == "3000000\n"
