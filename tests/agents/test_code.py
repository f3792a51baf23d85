"""What counts as the action in a model's reply: the golden file, and a few rules that hold for any text."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from intercode.agents.code import split_reply
from intercode.submission import is_submission, pattern_for

GOLDEN = json.loads((Path(__file__).parent / "replies.json").read_text("utf-8"))


@pytest.mark.parametrize("case", GOLDEN, ids=[case["name"] for case in GOLDEN])
def test_golden_replies(case: dict[str, str | None]) -> None:
    code, _ = split_reply(case["reply"] or "", case.get("language") or "bash")
    assert code == case["code"]


def test_the_golden_file_is_large_enough() -> None:
    assert len(GOLDEN) >= 120
    assert sum(case["code"] is None for case in GOLDEN) >= 20


def test_the_words_around_the_code_are_the_thought() -> None:
    code, thought = split_reply("<think>hm</think>First I look.\n```bash\nls\n```\nThen more.")
    assert code == "ls"
    assert "First I look." in thought
    assert "Then more." in thought
    assert "hm" in thought
    assert "```" not in thought


@pytest.mark.parametrize("reply", ["Thought: I look.\nAction: execute[ls]", "Thought: I look.\n<bash>\nls\n</bash>"])
def test_marks_around_the_code_are_no_thought(reply: str) -> None:
    assert split_reply(reply) == ("ls", "Thought: I look.")


def test_a_bare_command_has_no_thought() -> None:
    assert split_reply("ls -la | wc -l") == ("ls -la | wc -l", "")


def test_a_reply_without_code_is_all_thought() -> None:
    assert split_reply("I am not sure what to do.") == (None, "I am not sure what to do.")


@pytest.mark.parametrize("text", ["", "`", "```", "````\n```", "~~~", "<think>", "\n\n", "``````", "\x00", "```\n```\n```"])
def test_no_text_breaks_it(text: str) -> None:
    split_reply(text)


@pytest.mark.parametrize(
    "text",
    ["```\n", "```bash\n", "<bash>", "Action: execute[", "Action:\n", "]\n", "`", "{", "<think>", "> ", "submit[", "$ ", "* "],
)
def test_a_model_that_runs_wild_costs_no_time(text: str) -> None:
    """A parser that goes back at every line takes minutes for these."""
    started = time.process_time()
    for language in ("bash", "python"):
        split_reply("execute[" * (text == "]\n") + text * 20_000, language)
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    "text",
    ["```{}`", "~~~{}`", "Sure.\n{}x", "submit {}\nx", "```\n{}\n```", "<bash>{}", "Action: {}x"],
)
@pytest.mark.parametrize("filling", [" ", "\t", "~", "# "])
def test_nor_does_one_that_fills_a_line(text: str, filling: str) -> None:
    started = time.process_time()
    for language in ("bash", "ctf", "python"):
        split_reply(text.format(filling * 20_000), language)
    assert time.process_time() - started < 1


@pytest.mark.parametrize("language", ["bash", "ctf", "python", "sql", "perl"])
def test_whether_a_long_action_submits_is_told_at_once(language: str) -> None:
    started = time.process_time()
    assert not is_submission("submit" + " " * 100_000 + "x\ny", pattern_for(language))
    assert time.process_time() - started < 1
