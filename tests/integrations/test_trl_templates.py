"""The agent `tools` with each chat template that TRL ships and that renders tools."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from call_forms import Conversations

from intercode.errors import UsageError

TRL = find_spec("trl")
pytestmark = [
    pytest.mark.integrations,
    pytest.mark.skipif(TRL is None, reason="trl is not installed: make integrations"),
]
TEMPLATES: dict[str, str] = {}
if TRL and TRL.submodule_search_locations:
    for path in sorted(Path(TRL.submodule_search_locations[0], "chat_templates").glob("*.jinja")):
        if "tools" in path.read_text():
            TEMPLATES[path.stem] = path.read_text()
DROPS_CALLS = {"lfm2", "lfm2_training"}


@pytest.mark.parametrize("name", TEMPLATES)
def test_tokens_are_those_that_the_template_writes_over_200_turns(name: str) -> None:
    if name in DROPS_CALLS:
        with pytest.raises(UsageError, match="does not render tool calls after tools"):
            Conversations(TEMPLATES[name])
        return
    conversations = Conversations(TEMPLATES[name])
    for _ in range(20):
        conversations.play(10)


def test_all_templates_are_there() -> None:
    assert len(TEMPLATES) == 46
