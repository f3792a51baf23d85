"""How long an evaluation waits for one reply of its model."""

from __future__ import annotations

import pytest
from kept import needs_bwrap

from intercode.models import OpenAIModel
from intercode.runner.evaluation import Evaluation


@pytest.mark.slow
@pytest.mark.parametrize(("run", "patience"), [(None, 600), (20.0, 20)])
def test_a_reply_may_take_as_long_as_was_said_and_never_longer_than_the_run(
    monkeypatch: pytest.MonkeyPatch, run: float | None, patience: float
) -> None:
    needs_bwrap()
    monkeypatch.setenv("INTERCODE_BASE_URL", "http://127.0.0.1:9/v1")
    evaluation = Evaluation.plan("bash", agent="try_again", model="tiny", reply_seconds=600.0, max_seconds=run)
    assert isinstance(evaluation.model, OpenAIModel)
    assert evaluation.model._client.timeout == patience
