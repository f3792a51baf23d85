"""A language of the user's own: an environment for awk, as docs/own-environment-rules.md has it."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap

import intercode
from intercode import BashEnv, InterCodeEnv, Language
from intercode.agents import gold, make_agent, noop
from intercode.envs import language_of
from intercode.errors import UsageError
from intercode.factory import EnvFactory
from intercode.language import PLAIN
from intercode.models import ScriptedModel
from intercode.redteam.run import attack
from intercode.runner.run import evaluate
from intercode.runs.signing import with_signature
from intercode.validate.check import check

BEDS = "crop: beans\\nwater: 4\\n", "crop: mint\\nwater: 12\\n"
SETUP = "mkdir /beds\n" + "".join(
    f"printf '{bed}' > /beds/{number}\n" for number, bed in enumerate(BEDS)
)
TASKS = [
    {"id": "sum", "query": "Add up the water.", "gold": "/water/ { s += $2 } END { print s }"},
    {"id": "dry", "query": "Print dry beds.", "gold": "/water/ && $2 < 5 { print FILENAME }"},
    {"id": "new", "query": "Write the crops to /crops.", "gold": '/crop/ { print $2 > "/crops" }'},
]  # fmt: skip


class AwkEnv(BashEnv):
    language = Language("awk", shell='BEGIN { system("echo {base64} | base64 -d | bash") }')
    data = "tasks.jsonl"

    def command(self, action: str) -> str:
        return f"awk {shlex.quote(action)} /beds/*"


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    needs_bwrap()
    folder = tmp_path_factory.mktemp("beds")
    (folder / "setup.sh").write_text(SETUP)
    (folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in TASKS))
    return {"data": str(folder / "tasks.jsonl"), "setup": str(folder / "setup.sh")}


@pytest.fixture(scope="module")
def factory(options: dict[str, Any]) -> EnvFactory:
    return intercode.prepare(f"{__name__}:AwkEnv", max_turns=None, **options)


def test_the_gold_is_executed_as_the_agents_action_is(factory: EnvFactory) -> None:
    assert [episode.success for episode in evaluate(factory, gold, tasks=factory.tasks)] == [
        True
    ] * 3
    assert [episode.success for episode in evaluate(factory, noop, tasks=factory.tasks)] == [
        False
    ] * 3
    found = check(factory, factory.tasks)
    assert (found["gold_ok"], found["broken"]) == (3, [])


def test_a_model_is_told_the_language_and_its_fences_are_read(factory: EnvFactory) -> None:
    agent = make_agent("try_again", tasks=factory.tasks, language=AwkEnv.language, turns=3)
    model = ScriptedModel(["```bash\nls\n```", f"```awk\n{TASKS[0]['gold']}\n```", "submit"])
    (episode,) = evaluate(factory, agent.strategy, model, tasks=factory.tasks[:1])
    assert [turn.action for turn in episode.turns] == [None, TASKS[0]["gold"], "submit"]
    assert episode.success
    assert episode.turns[0].ask
    system = str(episode.turns[0].ask[0]["content"])
    assert "code in awk" in system
    assert "```awk\n" in system
    assert "{" not in system


@pytest.mark.rest
@pytest.mark.slow
def test_the_attacks_on_the_sandbox_are_tried(options: dict[str, Any]) -> None:
    verdicts = attack(f"{__name__}:AwkEnv", workers=2, **options)
    assert [each for each in verdicts if not (each.held and each.tried)] == []
    assert {"a fork bomb", "mounting", "reading files", "a forged turn"} <= {
        each.exploit.name for each in verdicts
    }


class WrongShellEnv(AwkEnv):
    language = Language("awk", shell='BEGIN { system("echo {{base64}} | base64 -d | bash") }')


def test_a_wrong_shell_is_the_callers_fault(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"WrongShellEnv\.language\.shell does not execute Bash"):
        attack(f"{__name__}:WrongShellEnv", **options)


def test_only_a_run_that_the_user_signed_names_a_language_of_code(tmp_path: Path) -> None:
    settings = {"env": f"{__name__}:AwkEnv", "agent": "gold"}
    assert language_of(settings) == PLAIN
    assert language_of(with_signature(settings)).name == "awk"
    assert language_of(with_signature({**settings, "env": "no_such_module:Env"})) == PLAIN
    assert language_of({"env": "ctf"}).name == "ctf"


def test_it_is_found_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here_only.py").write_text(
        "from intercode import BashEnv, Language\n\n\n"
        "class Env(BashEnv):\n    language = Language('jq')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [place for place in sys.path if place])
    assert language_of(with_signature({"env": "here_only:Env"})).name == "jq"


def test_a_name_in_the_place_of_a_language_is_refused() -> None:
    with pytest.raises(UsageError, match=r"language = 'awk', but .*Language\(\"awk\"\)"):
        type("Named", (InterCodeEnv,), {"language": "awk"})


def test_a_language_needs_no_more_than_a_name() -> None:
    plain = Language("jq")
    assert (plain.fence, plain.tags) == ("jq", {"jq", "code"})
    assert (plain.printing("a 'b'"), plain.kind("."), plain.is_shell) == ("a 'b'", None, False)
    assert Language("sed", shell="1e {command}").printing("a b") == "1e printf '%s\\n' 'a b'"
