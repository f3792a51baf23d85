"""Every backend keeps the contract, in both sessions."""

from __future__ import annotations

import pytest

from intercode.testing import check_sandbox
from intercode_sandbox.base import Session, provider
from intercode_sandbox.host import Host
from intercode_sandbox.local import LocalSandbox
from intercode_sandbox.template import Template

pytestmark = pytest.mark.alone

_STARTS = {"template": "local", "image": "docker"}


@pytest.mark.slow
@pytest.mark.parametrize("session", ["persistent", "stateless"])
@pytest.mark.parametrize("start", _STARTS, ids=_STARTS.get)
def test_the_sandbox_keeps_the_contract(
    request: pytest.FixtureRequest, start: str, session: Session
) -> None:
    begin = request.getfixturevalue(start)
    kind = provider(_STARTS[start])
    check_sandbox(lambda: kind.sandbox(begin, session=session))


@pytest.mark.slow
def test_sandboxes_with_copied_files_keep_the_contract(
    template: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Host, "force_copy", True)
    check_sandbox(lambda: LocalSandbox(template))


@pytest.mark.rest
@pytest.mark.slow
def test_a_broken_clause_is_named(template: Template) -> None:
    class Forgetful(LocalSandbox):
        def diff(self) -> dict[str, object]:  # type: ignore[override]
            return {}

    with pytest.raises(
        AssertionError, match=r"(?s)breaks its contract.*diff: every path that was added"
    ) as caught:
        check_sandbox(lambda: Forgetful(template))
    assert "exec:" not in str(caught.value)
