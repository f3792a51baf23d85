"""Python tasks in the layouts of published sets: right answers pass, wrong ones do not."""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap

import intercode
from intercode.env import InterCodeEnv
from intercode.envs.python.grading import same_words
from intercode.envs.python.suite import find_empty_tests, read_suite
from intercode.errors import DataError
from intercode.types import Task
from intercode.validate.check import check, with_passing_golds

ADD = "class Solution:\n    def add(self, a, b):\n        return a + b"
HIDDEN = json.dumps([{"input": "3\n", "output": "6\n", "testtype": "stdin"}])
STDIN = [{"input": "2\n", "output": "4\n", "testtype": "stdin"}]


def packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content)).decode()


def apps(id: str, cases: Any, *solutions: str) -> dict[str, Any]:
    return {
        "problem_id": id,
        "question": id,
        "solutions": json.dumps(solutions) if solutions else "",
        "input_output": json.dumps(cases) if cases else "",
    }


def livecodebench(id: str, public: Any, private: str, metadata: str = "{}") -> dict[str, Any]:
    return {
        "question_id": id,
        "question_content": id,
        "public_test_cases": json.dumps(public),
        "private_test_cases": private,
        "metadata": metadata,
    }


def bigcodebench(id: str, code: str, about: str, solution: str, test: str) -> dict[str, Any]:
    return {
        "task_id": id,
        "instruct_prompt": f"{about} Start with:\n```\n{code}```",
        "complete_prompt": f'{code}    """{about}"""\n',
        "code_prompt": code,
        "canonical_solution": solution,
        "test": f"import unittest\nfrom unittest import mock\n{test}",
        "entry_point": "task_func",
        "libs": "['os']",
        "doc_struct": "{}",
    }


DOUBLE = {"inputs": ["1\n"], "outputs": ["2\n"]}
RECORDS: list[tuple[dict[str, Any], list[str], list[str]]] = [
    # ODEX: what the tests import is there for the answer; ids repeat
    *(
        (
            {
                "task_id": 5,
                "prompt": "def f_5(n):\n\treturn ",
                "suffix": "",
                "canonical_solution": f"datetime.date(2020, {month}, n).isoformat()",
                "test_start": "\nimport datetime\n\ndef check(candidate):",
                "test": [
                    f"\n    assert candidate({day}) == '2020-0{month}-0{day}'\n" for day in (1, 2)
                ],
                "entry_point": "f_5",
                "intent": f"ISO text of day `n` of month {month} of 2020",
                "library": ["datetime"],
            },
            [
                f"def f_5(n): return str(datetime.date(2020, {month}, n))",
            ],
            [f"def f_5(n): return '2020-0{month}-01'"],
        )
        for month in (1, 2)
    ),
    # HumanEval-X: the test's parameter has the function's name
    (
        {
            "task_id": "Python/1",
            "prompt": 'def half(x: int) -> float:\n    """Half of x."""\n',
            "declaration": "def half(x: int) -> float:\n",
            "canonical_solution": "    return x / 2\n",
            "test": "def check(half):\n    assert half(4) == 2\n    assert half(1) == 0.5\n\n"
            "check(half)\n",
            "example_test": "def check(half):\n    assert half(4) == 2\n\ncheck(half)\n",
            "text": "Half of x.",
        },
        ["def half(x): return math.fsum([x]) / 2", "    return x / 2"],
        ["def half(x): return 2"],
    ),
    # CodeContests: the first solution in Python 3; the private and generated tests are hidden
    (
        {
            "name": "7_A. Triple",
            "description": "Read n and print 3n.",
            "public_tests": {"input": ["1\n"], "output": ["3\n"]},
            "private_tests": {"input": ["2\n"], "output": ["6\n"]},
            "generated_tests": {"input": [], "output": []},
            "solutions": {
                "language": [2, 3],
                "solution": ["int main() {}", "print(3 * int(input()))"],
            },
            "input_file": "",
            "output_file": "",
        },
        ["n = int(input())\nprint(n + n + n)"],
        ["print(3)"],
    ),
    # HumanEval: the test may use what the prompt defines
    (
        {
            "task_id": "H/1",
            "prompt": "import math\n\ndef twice(x):\n    return 2 * x\n\ndef half(x):\n",
            "canonical_solution": "    return x / 2\n",
            "entry_point": "half",
            "test": "def check(candidate):\n    assert candidate(twice(3)) == math.sqrt(9)\n",
        },
        ["def half(x): return x / 2"],
        ["def half(x): return x", "class half:\n    __eq__ = lambda *_: True"],
    ),
    (
        {
            "task_id": "H+/1",
            "prompt": "def third(x):\n",
            "canonical_solution": "    return [x / 3]\n",
            "entry_point": "third",
            "base_input": [[3.0]],
            "plus_input": [[1e300], [float("inf")]],
            "atol": 1e-6,
        },
        ["def third(x): return [x * (1 / 3)]"],
        ["def third(x): return (x / 3,)", "def third(x): return [min(x, 9) / 3]"],
    ),
    # BigCodeBench: the tests replace what the answer calls; imports, helpers and completions count
    (
        bigcodebench(
            "B/1",
            "import os\n\ndef task_func(path):\n",
            "Return the names in path, sorted.",
            "    print(path)\n    return sorted(os.listdir(path))\n",
            "class TestCases(unittest.TestCase):\n"
            "    @mock.patch('os.listdir', return_value=['b', 'a'])\n"
            "    def test_order(self, listdir):\n"
            "        self.assertEqual(task_func('/x'), ['a', 'b'])\n"
            "        listdir.assert_called_once_with('/x')\n",
        ),
        [
            "def task_func(path):\n    return sorted(os.listdir(path))",
            "    print(path)\n    return sorted(os.listdir(path))",
        ],
        [
            "def task_func(path): return ['a', 'b']",
            "def task_func(path): return os.listdir(path)",
            "def task_func(path): raise SystemExit",
        ],
    ),
    (
        bigcodebench(
            "B/2",
            "import json\nfrom collections import Counter\nLIMIT = 2\n"
            "def words(text):\n    return text.split()\n\ndef task_func(text, most=LIMIT):\n",
            "Return the commonest words as JSON.",
            "    return json.dumps([w for w, _ in Counter(words(text)).most_common(most)])\n",
            "class TestCases(unittest.TestCase):\n"
            "    def setUp(self):\n        self.text = 'b a b c a b'\n"
            "    def test_two(self):\n"
            "        self.assertEqual(json.loads(task_func(self.text)), ['b', 'a'])\n"
            "    def test_one(self):\n"
            "        with self.subTest('one'):\n"
            "            self.assertEqual(task_func(self.text, most=1), '[\"b\"]')\n",
        ),
        [
            "def task_func(text, most=LIMIT):\n"
            "    return json.dumps([w for w, _ in Counter(words(text)).most_common(most)])",
        ],
        ['def task_func(text, most=2): return \'["b", "a"]\'', "def task_func(text): return 1 / 0"],
    ),
    (
        bigcodebench(
            "B/3",
            "import csv\nimport os\n\ndef task_func(path):\n",
            "Return the sum of the column n of a CSV file; ValueError if there is no file.",
            "    if not os.path.exists(path):\n        raise ValueError(path)\n"
            "    with open(path) as file:\n"
            "        return sum(int(row['n']) for row in csv.DictReader(file))\n",
            "import os, tempfile\nclass TestCases(unittest.TestCase):\n"
            "    def test_sum(self):\n"
            "        with tempfile.TemporaryDirectory() as folder:\n"
            "            path = os.path.join(folder, 'a.csv')\n"
            "            with open(path, 'w') as file:\n"
            "                file.write('n\\n1\\n2\\n')\n"
            "            self.assertEqual(task_func(path), 3)\n"
            "    def test_missing(self):\n"
            "        self.assertRaises(ValueError, task_func, '/nowhere')\n\n"
            "if __name__ == '__main__':\n    unittest.main()\n",
        ),
        [
            "def task_func(path):\n    try:\n        file = open(path)\n    except OSError:\n"
            "        raise ValueError\n    with file:\n        next(file)\n"
            "        return sum(map(int, file))",
        ],
        [
            "def task_func(path):\n    with open(path) as file:\n        next(file)\n"
            "        return sum(map(int, file))",
        ],
    ),
    # ClassEval: all classes of tests are run
    (
        {
            "task_id": "ClassEval_1",
            "skeleton": 'class Box:\n    def add(self, n):\n        """Add n, return all."""\n',
            "class_name": "Box",
            "import_statement": ["import math"],
            "solution_code": "class Box:\n    def __init__(self):\n        self.held = []\n"
            "    def add(self, n):\n        self.held.append(math.floor(n))\n"
            "        return sum(self.held)",
            "test_classes": ["BoxTestAdd", "BoxTestMain"],
            "test": "import unittest\nfrom unittest import TestCase\nclass BoxTestAdd(TestCase):\n"
            "    def setUp(self):\n        self.box = Box()\n"
            "    def test_add(self):\n        self.assertEqual(self.box.add(2.5), 2)\n"
            "class BoxTestMain(unittest.TestCase):\n    def test_main(self):\n"
            "        box = Box()\n        box.held = [1, 2]\n"
            "        self.assertEqual(box.add(3), 6)",
        },
        [
            "class Box:\n    held = ()\n    def add(self, n):\n"
            "        self.held = [*self.held, math.floor(n)]\n        return sum(self.held)",
        ],
        ["class Box:\n    def add(self, n): return math.floor(n)"],
    ),
    # MBPP+ compares these as sets
    (
        {
            "task_id": "M+/1",
            "prompt": '"""Common ones."""\n',
            "canonical_solution": "def similar_elements(a, b): return sorted(set(a) & set(b))\n",
            "entry_point": "similar_elements",
            "base_input": [[[1, 2, 3], [3, 1]]],
            "plus_input": [],
            "atol": 0,
        },
        ["def similar_elements(a, b): return [x for x in b if x in a]"],
        ["def similar_elements(a, b): return a"],
    ),
    (
        {
            "task_id": 11,
            "prompt": "Area.",
            "code": "def area(r): return 3.141592653589793 * r * r",
            "test_imports": ["import math"],
            "test_list": ["assert math.isclose(area(1), math.pi)"],
        },
        ["import math\ndef area(r): return math.pi * r * r"],
        ["def area(r): return 3 * r * r"],
    ),
    (
        apps("third", {"inputs": ["3\n"], "outputs": ["0.333333333\n\n7\n"]}),
        ["n = int(input())\nprint(1 / n)\nprint(' 7')"],
        ["print(0.3334)\nprint(7)", "print(0.333333333)\nprint(8)"],
    ),
    (
        apps("large", {"inputs": ["\n"], "outputs": ["10000001\n"]}, "print 1", "print(10000001)"),
        ["print('10000001 ')"],
        ["print(10000002)"],
    ),
    (
        apps("add", {"fn_name": "add", "inputs": [[1, 2]], "outputs": [[3]]}, ADD),
        ["def add(a, b): return a + b", ADD],
        ["def add(a, b): return a"],
    ),
    (
        apps("half", {"fn_name": "half", "inputs": [[1]], "outputs": [0.333333]}),
        ["def half(n): return n / 3"],
        ["def half(n): return 0.334"],
    ),
    (apps("wrong first", DOUBLE, "print(3)", "print(2)"), ["print(2)"], ["print(3)"]),
    (
        livecodebench("stdin", STDIN, packed(HIDDEN.encode())),
        ["print(int(input()) * 2)"],
        ["print(4)"],
    ),
    (
        livecodebench(
            "function",
            [{"input": "[1, 2]\n1", "output": "4", "testtype": "functional"}],
            json.dumps([{"input": "[4]\n0", "output": "4", "testtype": "functional"}]),
            '{"func_name": "total"}',
        ),
        ["class Solution:\n    def total(self, nums, more): return sum(nums) + more"],
        ["class Solution:\n    def total(self, nums, more): return 4 + 0 * more + (nums == [4])"],
    ),
]
UNPLAYABLE = [
    (livecodebench("pickled", STDIN, packed(pickle.dumps(HIDDEN))), "reading a pickle may run any"),
    (apps("no tests", ""), "has no tests"),
    (
        {
            "name": "7_B. File",
            "description": "Read n from n.txt.",
            "public_tests": {"input": ["1"], "output": ["1"]},
            "private_tests": None,
            "solutions": {"language": [], "solution": []},
            "input_file": "n.txt",
        },
        "write the file n.txt",
    ),
]


@pytest.fixture(scope="module")
def factory(tmp_path_factory: pytest.TempPathFactory) -> Any:
    needs_bwrap()
    file = tmp_path_factory.mktemp("layouts") / "tasks.jsonl"
    records = [record for record, *_ in (*RECORDS, *UNPLAYABLE)]
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return intercode.prepare("python", data=str(file))


@pytest.fixture(scope="module")
def env(factory: Any) -> Iterator[InterCodeEnv]:
    with factory() as env:
        yield env


def reward(env: InterCodeEnv, place: int, answer: str) -> float:
    env.reset(options={"task": place})
    env.step(answer)
    return float(env.step("submit")[1])


@pytest.mark.parametrize("place", range(len(RECORDS)), ids=[repr(row[0])[:30] for row in RECORDS])
def test_answers_get_the_verdict_of_the_set(env: InterCodeEnv, place: int) -> None:
    _, right, wrong = RECORDS[place]
    assert [reward(env, place, answer) for answer in right] == [1.0] * len(right)
    assert [reward(env, place, answer) for answer in wrong] == [0.0] * len(wrong)


def test_tasks_that_cannot_be_played_are_left_out_with_the_reason(factory: Any) -> None:
    reasons = [str(why) for _, why in factory.left_out]
    for (record, why), reason in zip(UNPLAYABLE, reasons, strict=True):
        assert why in reason, record


def test_a_failed_unittest_is_named(env: InterCodeEnv) -> None:
    place = next(at for at, (record, *_) in enumerate(RECORDS) if record.get("task_id") == "B/2")
    env.reset(options={"task": place})
    env.step("def task_func(text, most=2): return '[]'")
    *_, info = env.step("submit")
    assert "test_one" in str(info)
    assert "AssertionError" in str(info)


def test_check_takes_any_solution_and_says_what_it_cannot_know(factory: Any) -> None:
    without = {task.id for task in factory.tasks if not task.gold}
    tasks = [task for task in factory.tasks if task.id in {*without, "wrong first"}]
    result = check(factory, tasks, left_out=factory.left_out, workers=2)
    assert {(row["task"], row["kind"]) for row in result["broken"]} == {
        ("pickled", "no_tests"),
        ("no tests", "no_tests"),
        ("7_B. File", "no_tests"),
    }
    unknown = {row["task"] for row in result["suspicious"] if row["kind"] == "no_gold"}
    assert unknown == without == {"third", "half", "stdin", "function"}
    golds = {task.id: task.gold for task in with_passing_golds(factory, tasks)}
    assert golds["wrong first"].endswith("print(2)")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"solutions": "[bad"}, "which is not JSON"),
        ({"question": 5}, "`question` is 5; a text is expected"),
    ],
)
def test_a_record_that_is_no_such_layout_is_the_datas_fault(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    (tmp_path / "t.json").write_text(json.dumps([{**apps("a", DOUBLE, "print(2)"), **changes}]))
    with pytest.raises(DataError, match=rf"t\.json: record 1: .*{words}"):
        intercode.prepare("python", data=str(tmp_path / "t.json"))


WORDS: list[tuple[str, str, bool]] = [
    ("YES", "Yes", False),
    ("1 2\n3", "1 2 3", False),
    ("3.0", "3", True),
    ("-0.0", "0.0", True),
    ("nan", "NaN", False),
    ("1" * 5000, "1" * 4999 + "2", False),
    ("1e400", "1e400 ", True),
    # an expected whole number has one value
    ("1000002.0", "1000001", False),
    ("1.00000e+06", "1000001", False),
    ("1000001.000001", "1000001", False),
    ("1e6", "1000000", True),
    ("9007199254740993.0", "9007199254740993", True),
    ("9007199254740992.0", "9007199254740993", False),
    ("-7.0", "-7", True),
    ("7", "-7", False),
    ("1e9999999999999999999", "7", False),
    # the last digits of a decimal number do not count
    ("1000002", "1000001.0", True),
    ("1000002", "1.000001e6", True),
    ("0.33333333", "0.333333", True),
    ("0.334", "0.333333", False),
    # no numbers, but bits, codes and signs
    ("11", "0011", False),
    ("007", "7", False),
    ("+7", "7", False),
    ("7", "+7", False),
    ("", "\n", True),
]


@pytest.mark.parametrize(("printed", "expected", "same"), WORDS)
def test_words_are_compared_as_text_or_numbers(printed: str, expected: str, same: bool) -> None:
    assert same_words(printed, expected) is same


ODD: list[tuple[dict[str, Any], str]] = [
    (
        {
            "task_id": "Go/1",
            **dict.fromkeys(("prompt", "declaration", "canonical_solution", "test"), "x"),
            "example_test": "",
        },
        "line 1: is for Go, and here answers are Python",
    ),
    # MBXP, MultiPL-E
    (
        {
            "task_id": "MBJSP/1",
            "language": "javascript",
            **dict.fromkeys(("prompt", "entry_point", "canonical_solution", "test"), "x"),
        },
        "line 1: is for javascript, and here answers are Python",
    ),
    (
        {"name": "HumanEval_0_f", "language": "rb", "prompt": "def f\n", "tests": "f"},
        "line 1: is for rb, and here answers are Python",
    ),
    (
        {"description": "d", "public_tests": 1, "private_tests": 1, "solutions": 1},
        r"line 1: has the fields of a published layout \(description, .*, but not their form",
    ),
]


@pytest.mark.parametrize(("record", "words"), ODD)
def test_another_language_and_another_form_are_told(
    tmp_path: Path, record: dict[str, Any], words: str
) -> None:
    (tmp_path / "t.jsonl").write_text(json.dumps(record))
    with pytest.raises(DataError, match=words):
        intercode.prepare("python", data=str(tmp_path / "t.jsonl"))


def test_a_parameter_called_like_the_answer_does_not_hide_it() -> None:
    hidden = "def check(add):\n    assert add(1) == 2\n"
    for test, empty in ((f"{hidden}check(add)", []), (f"{hidden}check(lambda x: 2)", [1])):
        task = Task("t", "q", "def add(x): return x + 1", {"tests": [test], "name": "add"})
        assert list(find_empty_tests(read_suite(task))) == empty
