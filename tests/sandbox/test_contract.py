"""The local backend keeps the contract, in both sessions."""

from __future__ import annotations

from typing import cast

import pytest

from intercode.sandbox.base import Session
from intercode.sandbox.local import LocalSandbox
from intercode.sandbox.template import Template
from intercode.testing import check_sandbox


@pytest.mark.slow
@pytest.mark.parametrize("session", ["persistent", "stateless"])
def test_the_local_sandbox_keeps_the_contract(template: Template, session: str) -> None:
    check_sandbox(lambda: LocalSandbox(template, session=cast(Session, session)))


@pytest.mark.slow
def test_a_broken_clause_is_named(template: Template) -> None:
    class Forgetful(LocalSandbox):
        def diff(self) -> dict[str, object]:  # type: ignore[override]
            return {}

    with pytest.raises(AssertionError, match=r"(?s)breaks its contract.*diff: every path that was added") as caught:
        check_sandbox(lambda: Forgetful(template))
    assert "exec:" not in str(caught.value)
