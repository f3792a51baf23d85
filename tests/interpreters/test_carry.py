"""A copy of an interpreter: what it takes along, and what stands in its way."""

from __future__ import annotations

import pytest

from intercode.errors import ForkError
from intercode.sandbox.local import LocalSandbox

KEPT = {
    "a = b = [1]; a.append(a)": ("a is b, a[1] is a", "(True, True)"),
    "def f(n, k=2, *, m=3): return n + k + m": ("f(1), f(1, 1, m=1)", "(6, 3)"),
    "def fact(n): return 1 if n < 2 else n * fact(n - 1)": ("fact(5)", "120"),
    "def outer():\n    c = 0\n    def inner():\n        nonlocal c\n        c += 1\n        return c\n    return inner\n"
    "count = outer(); count()": ("count()", "2"),
    "square = lambda x: x * x": ("square(4)", "16"),
    "import math, os.path as p": ("math.pi > 3, p.join('a', 'b')", "(True, 'a/b')"),
    "class A:\n    def __init__(self, x): self.x = x\n    def __repr__(self): return f'A({self.x})'\n"
    "class B(A):\n    def __init__(self, x): super().__init__(x + 1)\nb = B(1)": (
        "b, B(5), isinstance(b, A)",
        "(A(2), A(6), True)",
    ),
    "class T:\n    made = 0\n    @property\n    def n(self): return 7\n    @staticmethod\n    def s(): return 8\n"
    "    @classmethod\n    def c(cls): return cls.__name__": ("T().n, T.s(), T.c()", "(7, 8, 'T')"),
    "class S:\n    __slots__ = ('u',)\ns = S(); s.u = 3": ("s.u", "3"),
    "import dataclasses\n@dataclasses.dataclass(order=True)\nclass D:\n    x: int = 1\n"
    "    l: list = dataclasses.field(default_factory=list)\nd = D(3)": ("d, D() < d", "(D(x=3, l=[]), True)"),
    "import enum\nclass C(enum.Enum):\n    RED = 1\n    def low(self): return self.name.lower()\nr = C.RED": (
        "r is C.RED, r.low(), C(1)",
        "(True, 'red', <C.RED: 1>)",
    ),
    "from typing import NamedTuple\nclass N(NamedTuple):\n    a: int\n    b: str = 'z'\nn = N(1)": (
        "n == N(1), n",
        "(True, N(a=1, b='z'))",
    ),
    "import abc\nclass M(abc.ABC):\n    @abc.abstractmethod\n    def m(self): ...\nclass I(M):\n    def m(self): return 1": (
        "I().m(), M.__abstractmethods__",
        "(1, frozenset({'m'}))",
    ),
    "import functools\n@functools.lru_cache(None)\ndef fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)": (
        "fib(50)",
        "12586269025",
    ),
    "import functools\ndef deco(f):\n    @functools.wraps(f)\n    def w(*a): return f(*a) + 1\n    return w\n"
    "@deco\ndef one(): return 1": ("one()", "2"),
    "import os; os.environ['K'] = 'v'; os.chdir('/tmp'); n = open('f', 'w').write('hey')": (
        "os.environ['K'], os.getcwd(), open('/tmp/f').read()",
        "('v', '/tmp', 'hey')",
    ),
    "import random; random.seed(1); state = random.getstate()": ("random.getstate() == state", "True"),
}


@pytest.mark.parametrize("action", KEPT, ids=lambda text: text.split("\n")[0][:30])
def test_a_copy_takes_along(python: LocalSandbox, action: str) -> None:
    question, answer = KEPT[action]
    assert python.exec(action).exit_code == 0
    with python.fork() as twin:
        assert twin.exec(question).output == answer + "\n"


def test_a_copy_and_its_origin_go_different_ways(python: LocalSandbox) -> None:
    python.exec("x = [1]")
    with python.fork() as twin:
        twin.exec("x.append(2)")
        assert python.exec("x").output == "[1]\n"
        with twin.fork() as third:
            assert third.exec("x").output == "[1, 2]\n"


def test_a_copy_shows_the_lines_of_earlier_actions(python: LocalSandbox) -> None:
    python.exec("def f(n):\n    return 1 / n  # this line")
    with python.fork() as twin:
        assert "# this line" in twin.exec("f(0)").output


@pytest.mark.parametrize(
    ("action", "named"),
    [
        ("g = (i for i in range(3))", "variable g"),
        ("fh = open('/etc/passwd')", "descriptor 3"),
        ("import threading; lock = threading.Lock()", "variable lock"),
        ("import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()", "1 running thread"),
        ("import subprocess; p = subprocess.Popen(['sleep', '60'])", "sleep"),
    ],
)
def test_what_cannot_be_copied_is_named(python: LocalSandbox, action: str, named: str) -> None:
    python.exec(action)
    with pytest.raises(ForkError, match=named):
        python.fork()
    assert python.exec("1").output == "1\n"


def test_a_state_that_refuses_to_come_back_is_an_error_of_the_copy(python: LocalSandbox) -> None:
    python.exec("class A:\n    def __reduce__(self): return (int, ('x',))\na = A()")
    with pytest.raises(ForkError, match="ValueError"):
        python.fork()
    assert python.exec("1").output == "1\n"


@pytest.mark.parametrize(
    "words", ["'garbage'", "'7'", "'[' * 100_000", "'[' + '7,' * 40_000_000 + '7]'", "None"], ids=lambda words: words[:12]
)
def test_what_an_interpreter_says_instead_of_its_state_is_taken_with_care(python: LocalSandbox, words: str) -> None:
    python.exec(f"import json\njson.dumps = lambda *a, **k: {words}\ng, x = (i for i in range(3)), 7")
    with pytest.raises(ForkError):
        python.fork()
    assert python.exec("1").output == "1\n"


def test_a_state_that_is_too_large_is_refused_and_stays(python: LocalSandbox) -> None:
    python.exec("x = bytes(257 << 20)")
    with pytest.raises(ForkError, match="more than 256 MiB"):
        python.fork()
    assert python.exec("len(x) >> 20").output == "257\n"
