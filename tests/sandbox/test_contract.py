"""Every backend keeps the contract, in both sessions; but for clauses that it is excused from, which it must really break."""

from __future__ import annotations

import pytest

from intercode.sandbox.base import Session
from intercode.sandbox.build import open_sandbox
from intercode.sandbox.chroot import EXCUSED
from intercode.sandbox.local import LocalSandbox
from intercode.sandbox.template import Template
from intercode.testing import check_sandbox

_STARTS = {"template": "local", "image": "docker", "tree": "chroot"}


@pytest.mark.slow
@pytest.mark.parametrize("session", ["persistent", "stateless"])
@pytest.mark.parametrize("start", _STARTS, ids=_STARTS.get)
def test_the_sandbox_keeps_the_contract(request: pytest.FixtureRequest, start: str, session: Session) -> None:
    begin = request.getfixturevalue(start)
    excused = EXCUSED if start == "tree" else {}
    check_sandbox(lambda: open_sandbox(begin, session=session, limits=None, environment=None), excused=excused)


@pytest.mark.slow
def test_a_broken_clause_is_named(template: Template) -> None:
    class Forgetful(LocalSandbox):
        def diff(self) -> dict[str, object]:  # type: ignore[override]
            return {}

    with pytest.raises(AssertionError, match=r"(?s)breaks its contract.*diff: every path that was added") as caught:
        check_sandbox(lambda: Forgetful(template))
    assert "exec:" not in str(caught.value)


@pytest.mark.slow
def test_an_excuse_for_nothing_is_named(template: Template) -> None:
    with pytest.raises(AssertionError, match=r"\[sees_any_name\] holds, but is excused: it is said so") as caught:
        check_sandbox(lambda: LocalSandbox(template), excused={"sees_any_name": "it is said so"})
    assert str(caught.value).count("  - ") == 1
