"""The example of a further language: an environment in one short file, used as its
reader would use it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from gymnasium.vector import SyncVectorEnv

import intercode
from intercode.errors import ForkError
from intercode.validate.check import check
from intercode_sandbox.base import Limits
from intercode_sandbox.local import LocalProvider, LocalSandbox

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "examples" / "perl"
WHERE: dict[str, Any] = {"env": "perl_env:PerlEnv", "data": str(FOLDER)}
needs_perl = pytest.mark.skipif(
    not (shutil.which("bwrap") and shutil.which("perl")), reason="needs bubblewrap and perl-base"
)


@pytest.fixture(autouse=True)
def _on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))


@pytest.fixture
def env() -> Iterator[Any]:
    with closing(intercode.make(**WHERE)) as made:
        made.reset(options={"task": "factorial"})
        yield made


def test_it_is_short() -> None:
    assert len((FOLDER / "perl_env.py").read_text().splitlines()) < 120


@needs_perl
def test_actions_share_variables_and_subs_and_errors_are_shown(env: Any) -> None:
    env.step("$by = 2; sub doubled { $by * shift }")
    assert env.step("print doubled(21)")[0] == "42"
    observation, _, _, _, info = env.step("die 'no'")
    assert observation.startswith("no at ")
    assert info["exit_code"] == 1
    assert "syntax error" in env.step("sub {{{")[0]
    assert env.step("print $by")[0] == "2"


@needs_perl
def test_a_sub_is_submitted_by_its_name(env: Any) -> None:
    env.step("sub f { my $n = shift; $n < 2 ? 1 : $n * f($n - 1) }")
    assert env.step("submit g")[:3] == ("There is no sub g.", 0.0, False)
    _, reward, terminated, _, info = env.step("submit f")
    assert (reward, terminated, info["score"].parts) == (1.0, True, {"calls": 1.0})
    env.reset(options={"task": "factorial"})
    env.step("sub f { 120 }")
    _, reward, _, _, info = env.step("submit f")
    assert (reward, info["score"].parts) == (0.0, {"calls": pytest.approx(1 / 3)})


@needs_perl
def test_a_time_out_keeps_the_state_and_an_end_is_told(env: Any) -> None:
    env.sandbox.close()
    env.sandbox = LocalSandbox(LocalProvider().prepare(), limits=Limits(seconds=1))
    env.reset()
    env.step("$x = 1")
    assert env.step("while (1) {}")[4]["timed_out"]
    assert env.step("print $x")[0] == "1"
    assert env.step("exit")[4]["session_lost"]
    assert env.step("print defined $x ? 'kept' : 'gone'")[0] == "gone"


@needs_perl
def test_a_fork_goes_its_own_way(env: Any) -> None:
    env.step("$n = 1; sub f { 1 }")
    with pytest.raises(ForkError, match="perl"):
        env.fork()
    with closing(env.fork(replay=True)) as twin:
        twin.step("$n++; sub f { my $all = 1; $all *= $_ for 1 .. shift; $all }")
        assert (twin.step("print $n")[0], env.step("print $n")[0]) == ("2", "1")
        assert (twin.step("submit f")[1], env.step("submit f")[1]) == (1.0, 0.0)


@needs_perl
@pytest.mark.journey
def test_golds_reach_every_task_and_the_data_check_finds_one_that_is_wrong(tmp_path: Path) -> None:
    bad = (
        '{"id": "bad", "query": "One.", "name": "one", "gold": "sub one { exit }", "calls": '
        '[["", "1"]]}\n'
    )
    (tmp_path / "tasks.jsonl").write_text(bad + (FOLDER / "tasks.jsonl").read_text())
    factory = intercode.prepare(**{**WHERE, "data": str(tmp_path)}, max_turns=None)
    found = check(factory, factory.tasks)
    assert [(each["task"], each["kind"]) for each in found["broken"]] == [("bad", "gold_fails")]
    assert "the gold fails" in found["broken"][0]["why"]
    assert (found["gold_ok"], found["noop_paid"]) == (len(factory.tasks) - 1, 0)


@needs_perl
def test_it_runs_in_a_vector() -> None:
    with closing(SyncVectorEnv([lambda: intercode.make(**WHERE)] * 2)) as both:
        both.reset(seed=0)
        assert both.step(("print 1", "print 2"))[0] == ("1", "2")
