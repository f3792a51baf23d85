"""Hostile actions: each fails, the next honest command works, nothing survives; and each succeeds
where its protection is off.

The actions are in `intercode_sandbox.attacks`; controls that would hurt run in an outer sandbox
(`outer.py`).
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import families
import outer
import pytest
from families import mounts

from intercode.errors import SandboxDied
from intercode_sandbox import attacks
from intercode_sandbox.attacks import LIMITS, SandboxAttack, host_targets
from intercode_sandbox.identity import identity
from intercode_sandbox.local import LocalSandbox
from intercode_sandbox.template import Template

HONEST = "echo honest $((6 * 7)); (exit 5)"


def named(*tables: list[SandboxAttack]) -> pytest.MarkDecorator:
    """All attacks of the tables; `make test` runs the first against each set of protections."""
    cases, seen = [], set()
    for attack in (attack for table in tables for attack in table):
        against = (attack.limits, attack.calls, attack.protections)
        marks = pytest.mark.rest if against in seen else ()
        if any(against):
            seen.add(against)
        cases.append(pytest.param(attack, marks=marks, id=attack.name.replace(" ", "-")))
    return pytest.mark.parametrize("attack", cases)


@pytest.fixture(scope="module", params=["agent", pytest.param("root", marks=pytest.mark.soak)])
def shared(template: Template, request: pytest.FixtureRequest) -> Iterator[LocalSandbox]:
    """A small sandbox for all attacks; at its end nothing of it may be left on this machine."""
    before = mounts()
    with LocalSandbox(template, limits=LIMITS, root=request.param == "root") as made:
        yield made
        spaces = families.spaces(made.host._process.pid)
    assert spaces
    assert families.left_in(spaces) == set()
    assert mounts() == before


@pytest.fixture
def sandbox(shared: LocalSandbox) -> LocalSandbox:
    shared.reset()
    return shared


def suffer(sandbox: LocalSandbox, action: str, timeout: float = 2.0) -> str:
    """What a hostile action prints. It may cost its own sandbox."""
    try:
        return sandbox.exec(action, timeout=timeout).output
    except SandboxDied:
        sandbox.reset()
        return ""


def works(sandbox: LocalSandbox) -> bool:
    """Whether an honest command works, at once or after the loss of the session was announced."""
    for _ in range(3):
        try:
            result = sandbox.exec(HONEST, timeout=4)
        except SandboxDied:
            sandbox.reset()
            continue
        if not result.session_lost:
            return "honest 42\n" in result.output and result.exit_code == 5
    return False


def test_the_variables_of_the_host_are_not_inside(
    template: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOST_KEY", "planted")
    with LocalSandbox(template) as sandbox:
        assert "HOST_KEY" not in sandbox.exec("env; cat /proc/[0-9]*/environ").output


@pytest.mark.slow
class TestAHostileAction:
    @named(attacks.EXHAUSTION, attacks.KERNEL, attacks.SHELL, attacks.GUEST)
    def test_fails_and_the_next_command_works(
        self, sandbox: LocalSandbox, attack: SandboxAttack
    ) -> None:
        assert "BREACH" not in suffer(
            sandbox, attack.action, timeout=4 if attack in attacks.EXHAUSTION else 0.5
        )
        assert works(sandbox)
        sandbox.reset()
        assert works(sandbox)
        assert sandbox.diff() == {}

    @named([attack for attack in attacks.EXHAUSTION if "attached" in attack.protections])
    def test_exceeds_a_limit_by_what_hangs_on_its_descriptors(
        self, sandbox: LocalSandbox, attack: SandboxAttack
    ) -> None:
        assert sandbox.exec(attack.action, timeout=600).limits == ("memory",)
        assert works(sandbox)

    @pytest.mark.parametrize("shared", ["agent"], indirect=True)  # root may read all the same
    @named(attacks.FATAL)
    def test_that_no_shell_survives_is_announced_until_the_reset(
        self, sandbox: LocalSandbox, attack: SandboxAttack
    ) -> None:
        assert sandbox.exec(attack.action, timeout=60).session_lost  # over each file of a lent /usr
        for _ in range(3):
            lost = sandbox.exec(HONEST)
            assert lost.session_lost
            assert lost.exit_code in (None, 127)
        assert sandbox.exec("", argv=["true"]).exit_code in (126, 127)
        assert sandbox.diff()
        sandbox.reset()
        assert works(sandbox)

    @named(attacks.OUTSIDE)
    def test_does_not_reach_what_is_outside(
        self, sandbox: LocalSandbox, attack: SandboxAttack
    ) -> None:
        with host_targets(**identity().popen()) as there:
            assert "BREACH" not in suffer(sandbox, there.fill(attack.action))
            assert not there.killed()
        assert works(sandbox)

    @named(attacks.LEFT)
    def test_leaves_nothing_for_the_next_episode(
        self, sandbox: LocalSandbox, attack: SandboxAttack
    ) -> None:
        suffer(sandbox, attack.action, timeout=4)
        sandbox.reset()
        assert "BREACH" not in sandbox.exec(attack.after).output
        assert works(sandbox)
        assert sandbox.diff() == {}


@pytest.mark.slow
class TestAHostileNeighbour:
    @named(attacks.NEIGHBOURS)
    def test_leaves_room_for_the_server_and_the_programs_of_another_sandbox(
        self, attack: SandboxAttack
    ) -> None:
        beside = outer.beside(attack.name, controlled=False)
        assert "BREACH" not in beside["output"]
        assert beside["output"].endswith("3\n")

    @named([attack for attack in attacks.NEIGHBOURS if attack.protections])
    def test_takes_it_where_the_protection_is_off(self, attack: SandboxAttack) -> None:
        beside = outer.beside(attack.name, controlled=True)
        assert "BREACH" in beside["output"] or "Too many references" in beside["output"]


@pytest.mark.slow
class TestTheControl:
    @named(attacks.EXHAUSTION, attacks.KERNEL, attacks.OUTSIDE)
    def test_succeeds_where_the_protection_is_off(
        self, template: Template, attack: SandboxAttack
    ) -> None:
        said = outer.control(attack.name)["output"]
        if "BREACH" not in said and not attack.every_kernel:
            pytest.skip(f"this kernel does not offer it: {said[-100:]}")
        assert "BREACH" in said

    @named(attacks.LEFT)
    def test_sees_what_was_left_where_there_is_no_reset(
        self, sandbox: LocalSandbox, attack: SandboxAttack
    ) -> None:
        sandbox.exec(attack.action, timeout=4)
        looks = (sandbox.exec(f"sleep {seconds}; {attack.after}") for seconds in (0, 0.1, 1, 3))
        assert any("BREACH" in look.output for look in looks)

    @named(attacks.SHELL)
    def test_loses_the_next_command_in_a_shell_fed_through_its_input(
        self, attack: SandboxAttack
    ) -> None:
        shell = ["timeout", "-s", "KILL", "0.5", "bash", "--norc"]
        said = subprocess.run(
            shell,
            input=f"{attack.action}\n{HONEST}\n",
            capture_output=True,
            text=True,
            check=False,
            start_new_session=True,
        )
        assert "honest 42" not in said.stdout.splitlines()

    @pytest.mark.parametrize(
        ("actions", "printed"),
        [
            (["true", "(exit 3)", "echo x"], "x\ndone 0\ndone 3\ndone 0\n"),  # honest actions
            (["echo done 0 >&62; sleep 60"], "done 0\n"),  # a completion is forged
            (["(sleep 0.1; echo done 0 >&62) &", "sleep 60"], "done 0\ndone 0\n"),  # a later one
            (["exec 62>&-", "true", "true"], ""),  # a closed line never reports again
            (["cat <&63 > /dev/null", "echo honest"], "done 0\n"),  # the next action is swallowed
        ],
    )
    def test_of_the_guest_succeeds_where_its_lines_are_open_and_bear_no_token(
        self, actions: list[str], printed: str
    ) -> None:
        """A loop as the guest's, and what it and its actions print in half a second."""
        lines = "exec 62> /dev/fd/2 63<&0 0< /dev/null"
        loop = (
            f"{lines}; while IFS= read -r -d '' -u 63 action; do eval \"$action\"; echo done $? "
            ">&62; done 2> /dev/null"
        )
        text = "".join(f"{action}\0" for action in actions)
        command = ["timeout", "-s", "KILL", "0.5", "bash", "-c", loop]
        said = subprocess.run(
            command, input=text, capture_output=True, text=True, check=False, start_new_session=True
        )
        assert said.stdout + said.stderr == printed


@pytest.mark.slow
class TestOutput:
    def test_is_never_taken_for_a_completion(self, sandbox: LocalSandbox) -> None:
        for marker in ("0 1\n", "\x00", "DONE 0\n", "0 2\n0 3\n"):
            sandbox.write("/tmp/marker", marker.encode())
            result = sandbox.exec(
                "cat /tmp/marker; cat /tmp/marker >&2; sleep 0.1; echo end; (exit 9)"
            )
            assert (result.output, result.exit_code) == (marker * 2 + "end\n", 9)
