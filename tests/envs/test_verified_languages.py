"""Tests that load the agent's code into their own process, in five languages: `check` names such
tasks, and not those whose tests start a process for each case and compare its text."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from kept import needs_bwrap

import intercode
from intercode.hooks import NOT_PLAYED
from intercode.redteam.hacks import FORGERIES

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Language:
    """The file `code` defines a function `fee`, and `program` prints twice its argument. `loads`
    tests the function in its own process, `starts` is a command that starts the program, and
    `exits` is code that ends the process that loads it. The files are /srv/app/`name`."""

    tool: str
    name: str
    code: str
    loads: str
    program: str
    starts: str
    exits: str


PL_PROGRAM, SH_PROGRAM = "print 2 * $ARGV[0], qq(\\n);", "echo $((2 * $1))"
C_MAIN = "int fee(int); int main(void) { return fee(2) != 4; }"
C_PROGRAM = """#include <stdio.h>
#include <stdlib.h>
int main(int count, char **words) { printf("%d\\n", 2 * atoi(words[1])); }"""
C_EXITS = "#include <stdlib.h>\nint fee(int n) { exit(0); }"
LANGUAGES = {
    "py": Language(
        "python3",
        "fee.py",
        "def fee(n): return 2 * n",
        "cd /srv/app && python3 -c 'from fee import fee; assert fee(2) == 4'",
        "import sys; print(2 * int(sys.argv[1]))",
        "python3 /srv/app/fee.py",
        "import os; os._exit(0)",
    ),
    "sh": Language(
        "sh",
        "fee.sh",
        "fee() { echo $((2 * $1)); }",
        '. /srv/app/fee.sh && [ "$(fee 2)" = 4 ]',
        SH_PROGRAM,
        "sh /srv/app/fee.sh",
        "exit 0",
    ),
    "pl": Language(
        "perl",
        "Fee.pm",
        "package Fee; sub fee { 2 * shift } 1;",
        "perl -I/srv/app -MFee -e 'exit(Fee::fee(2) != 4)'",
        PL_PROGRAM,
        "perl /srv/app/Fee.pm",
        "exit 0;",
    ),
    "c": Language(
        "gcc",
        "fee.c",
        "int fee(int n) { return 2 * n; }",
        f"echo '{C_MAIN}' >/main.c && gcc -o /main /main.c /srv/app/fee.c && /main",
        C_PROGRAM,
        "gcc -o /fee /srv/app/fee.c && /fee",
        C_EXITS,
    ),
    "js": Language(
        "node",
        "fee.js",
        "exports.fee = n => 2 * n;",
        "node -e 'process.exit(+(require(\"/srv/app/fee.js\").fee(2) !== 4))'",
        "console.log(2 * process.argv[2]);",
        "node /srv/app/fee.js",
        "process.exit(0);",
    ),
}


TWO = [
    pytest.param(name, marks=() if name in ("py", "c") else pytest.mark.soak) for name in LANGUAGES
]
"""One that is started as it is, and one that is compiled; the others by hand."""


def writes(name: str, code: str) -> str:
    """An action that writes the file."""
    return f"mkdir -p /srv/app && cat >/srv/app/{name} <<'CODE'\n{code}\nCODE"


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[intercode.InterCodeEnv]:
    """The tasks `LANGUAGE loads`, `LANGUAGE starts` and `LANGUAGE both`, whose tests read the code,
    start a program and compare its text, and then load the code."""
    needs_bwrap()
    tasks: list[dict[str, str]] = []
    for name, language in LANGUAGES.items():
        loads = {
            "gold": writes(language.name, language.code),
            "verify": f"{language.loads}\n",
        }
        compares = f'[ "$({language.starts} $n)" = $((2 * n)) ] || exit 1'
        starts = {
            "gold": writes(language.name, language.program),
            "verify": f"for n in 2 5; do {compares}; done\n",
        }
        first = f"grep -q fee /srv/app/{language.name} && [ $(sh /srv/app/run.sh) = ok ]"
        both = {
            "gold": f"{loads['gold']}\n{writes('run.sh', 'echo ok')}",
            "verify": f"{first} || exit 1\n{language.loads}\n",
        }
        for how, fields in (("loads", loads), ("starts", starts), ("both", both)):
            tasks.append({"id": f"{name} {how}", "query": f"Double it: {name} {how}.", **fields})
    data: Path = tmp_path_factory.mktemp("languages") / "tasks.jsonl"
    data.write_text("".join(json.dumps(task) + "\n" for task in tasks))
    env = intercode.make("bash", data=str(data), max_turns=None)
    yield env
    env.close()


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if shutil.which(tool := LANGUAGES[name].tool, path=os.defpath) is None:
        pytest.skip(f"{tool} is not installed")
    return name


def earns(env: intercode.InterCodeEnv, task: str, action: str) -> float | None:
    """The reward, or None if the action is a hack whose reward shows nothing."""
    env.reset(options={"task": task})
    if NOT_PLAYED in env.step(action)[0]:
        return None
    return float(env.step("submit")[1])


def faults_of(env: intercode.InterCodeEnv, task: str) -> list[tuple[str, str]]:
    """The kind and the first word of each fault that `check` reports."""
    run = env.run_gold(next(one for one in env.tasks if one.id == task))
    return [(getattr(fault, "kind", ""), fault.partition(":")[0]) for fault in run.faults]


def test_tests_that_load_the_code_are_paid_by_an_early_exit_and_named(
    env: intercode.InterCodeEnv, language: str
) -> None:
    task, given = f"{language} loads", LANGUAGES[language]
    assert earns(env, task, "true") == 0
    assert earns(env, task, writes(given.name, given.exits)) == 1
    assert faults_of(env, task) == [("unsafe_test", "in-process")]


@pytest.mark.parametrize("language", TWO, indirect=True)
def test_tests_that_start_a_process_for_each_case_are_paid_by_no_forgery(
    env: intercode.InterCodeEnv, language: str
) -> None:
    task = f"{language} starts"
    gold = next(one.gold for one in env.tasks if one.id == task)
    assert earns(env, task, gold) == 1
    rewards = [earns(env, task, how.replace("@GOLD@", gold)) for how in FORGERIES.values()]
    assert rewards == [0, None, 0 if language == "py" else None]
    (fault,) = env.run_gold(next(one for one in env.tasks if one.id == task)).faults
    assert "code of the agent runs while the tests do" in fault


@pytest.mark.parametrize("language", TWO, indirect=True)
def test_code_that_is_loaded_is_named_where_a_started_program_has_to_work(
    env: intercode.InterCodeEnv, language: str
) -> None:
    assert faults_of(env, f"{language} both") == [("unsafe_test", "in-process")]
