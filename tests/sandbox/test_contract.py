"""Every backend keeps the contract, and the local one in both sessions, which are the guest's."""

from __future__ import annotations

import pytest

from intercode.testing import check_sandbox
from intercode_sandbox.base import Session, provider
from intercode_sandbox.host import Host
from intercode_sandbox.local import LocalSandbox
from intercode_sandbox.template import Template

pytestmark = pytest.mark.alone

_STARTS = {"local": "template", "docker": "image"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "session"),
    [("local", "persistent"), ("local", "stateless"), ("docker", "persistent")],
)
def test_the_sandbox_keeps_the_contract(
    request: pytest.FixtureRequest, name: str, session: Session
) -> None:
    begin = request.getfixturevalue(_STARTS[name])
    kind = provider(name)
    check_sandbox(lambda: kind.sandbox(begin, session=session))


@pytest.mark.slow
def test_sandboxes_with_copied_files_keep_the_contract(
    template: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Host, "force_copy", True)
    check_sandbox(lambda: LocalSandbox(template, session="stateless"))


@pytest.mark.rest
@pytest.mark.slow
def test_a_broken_clause_is_named(template: Template) -> None:
    class Forgetful(LocalSandbox):
        def diff(self) -> dict[str, object]:  # type: ignore[override]
            return {}

    with pytest.raises(
        AssertionError, match=r"(?s)breaks its contract.*diff: every path that was added"
    ) as caught:
        check_sandbox(lambda: Forgetful(template, session="stateless"))
    assert "exec:" not in str(caught.value)
