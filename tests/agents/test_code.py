"""What counts as the action in a model's reply: the golden file, and a few rules that hold for any
text."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from intercode.agents.code import split_reply
from intercode.envs import language_of
from intercode.submission import is_submission

BASH = language_of({"env": "bash"})
GOLDEN = json.loads((Path(__file__).parent / "replies.json").read_text("utf-8"))


@pytest.mark.parametrize("case", GOLDEN, ids=[case["name"] for case in GOLDEN])
def test_golden_replies(case: dict[str, str | None]) -> None:
    code, _ = split_reply(case["reply"] or "", language_of({"env": case.get("language") or "bash"}))
    assert code == case["code"]


def test_the_words_around_the_code_are_the_thought() -> None:
    code, thought = split_reply(
        "<think>hm</think>First I look.\n```bash\nls\n```\nThen more.", BASH
    )
    assert code == "ls"
    assert all(words in thought for words in ("First I look.", "Then more.", "hm"))
    assert "```" not in thought
    for marked in ("Action: execute[ls]", "<bash>\nls\n</bash>"):
        assert split_reply(f"Thought: I look.\n{marked}", BASH) == ("ls", "Thought: I look.")
    assert split_reply("ls -la | wc -l", BASH) == ("ls -la | wc -l", "")
    assert split_reply("I am not sure what to do.", BASH) == (None, "I am not sure what to do.")


LINES = [
    "```\n",
    "```bash\n",
    "<bash>",
    "Action: execute[",
    "Action:\n",
    "]\n",
    "`",
    "<think>",
    "submit[",
]
FILLED = [
    "```{}`",
    "~~~{}`",
    "Sure.\n{}x",
    "submit {}\nx",
    "```\n{}\n```",
    "<bash>{}",
    "Action: {}x",
]


@pytest.mark.parametrize(
    "text",
    [
        *(("execute[" * (line == "]\n") + line * 4000) for line in LINES),
        *(text.format(" " * 20_000) for text in FILLED),
    ],
    ids=[*LINES, *FILLED],
)
def test_a_model_that_runs_wild_costs_no_time(text: str) -> None:
    """A parser that goes back at every line takes minutes for these."""
    started = time.process_time()
    for env in ("bash", "ctf", "python"):
        split_reply(text, language_of({"env": env}))
    assert not is_submission("submit" + " " * 100_000 + "x\ny", BASH.submission)
    assert time.process_time() - started < 15


@pytest.mark.parametrize(
    ("env", "reply", "action"),
    [
        ("bash", "I should not submit() yet. First I look around.", None),
        ("bash", 'I will not run execute(code="rm -r /srv"), since it is dangerous.', None),
        ("python", "import q\ncon = q.connect()\nprint(con.execute('SELECT 1'))", "import q"),
        ("python", "class Form:\n    pass\nform = Form()\nform.submit()", "class Form"),
        ("bash", '```python\ncon.execute("touch /srv/x")\n```', None),
        ("sql", '```python\ncon.execute("DELETE FROM users")\n```', None),
        ("bash", "cat > a.py <<'EOF'\ncon.execute('rm -r /srv')\nEOF", "cat > a.py"),
        ("bash", "I count the <reason> elements:\n```bash\nls /srv\n```", "ls /srv"),
        ("bash", "I count the <think> elements:\n```bash\nls /srv\n```", "ls /srv"),
        ("bash", "cat > a.xml <<'EOF'\n<reason>x</reason>\nEOF", "cat > a.xml <<'EOF'\n<reason>"),
        ("bash", "<think>hm\n```bash\nrm x\n```", None),
        ("bash", '[execute(code="ls"), execute(code="pwd")]', "ls"),
        ("bash", '```tool_code\nprint(default_api.execute(code="ls"))\n```', "ls"),
        ("python", 'execute(code="print(1)")', "print(1)"),
        ("bash", "I look first.\nexecute(code='ls')", "ls"),
    ],
)
def test_a_call_that_is_only_mentioned_is_text(env: str, reply: str, action: str | None) -> None:
    code = split_reply(reply, language_of({"env": env}))[0]
    assert code is None if action is None else code is not None and code.startswith(action)
