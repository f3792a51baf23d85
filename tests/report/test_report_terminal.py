"""A transcript on the terminal."""

from __future__ import annotations

import io

import pytest
from played import error, fine, no_code, played, submit
from rich.console import Console
from rich.text import Text

from intercode.envs.bash.language import LANGUAGE as BASH
from intercode.report import markup
from intercode.report.terminal import Transcript
from intercode.report.transcript import steps
from intercode.types import Episode, Turn, Usage

ASK = ({"role": "system", "content": "be brief"}, {"role": "user", "content": "count"})
LONG = "x" * 5_000
EPISODE = played(
    "t1",
    Turn(
        ask=ASK,
        reply="Look.\n```\nls\n```",
        thought="Look.",
        action="ls",
        observation="a\n\x1b]0;owned\x07\n",
        exit_code=0,
    ),
    error(after=-1),
    fine("pwd", LONG, after=0),
    no_code(),
    submit(),
    outcomes={
        "failed": ["answer"],
        "rule": "other lines",
        "agent": {"answer": "one\ntwo"},
        "gold": {"answer": "one\nthree"},
    },
)


def shown(episode: Episode, **options: bool) -> str:
    console = Console(file=io.StringIO(), width=120, color_system=None)
    for part in Transcript(BASH, **options).of(episode):
        console.print(part, soft_wrap=isinstance(part, Text))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("options", "has", "lacks"),
    [
        (
            {},
            [
                "✗ task t1",
                "2 messages to the model; --messages",
                "› ls\n│ a\n",
                "turn 2, continues the beginning",
            ],
            ["be brief"],
        ),
        (
            {},
            [
                "turn 3, continues turn 1",
                "3,000 characters left out; --full",
                "  I would look around.\n",
            ],
            [LONG],
        ),
        (
            {},
            [
                "✗ Not solved (reward 0, the agent submitted). Failed: answer",
                "  Refused: other lines",
                "    one\n  - three",
                "    one\n  + two",
            ],
            [],
        ),
        ({}, [r"│ \x1b]0;owned\x07"], ["\x1b", "\x07"]),
        ({"full": True}, [LONG], ["left out"]),
        (
            {"messages": True},
            ["  system:\n    be brief", "  reply:\n    Look.\n    ```"],
            ["2 messages"],
        ),
        ({"wide": True}, ["- three"], ["  + two\n"]),
    ],
)
def test_a_transcript_shows_turns_and_the_verdict(
    options: dict[str, bool], has: list[str], lacks: list[str]
) -> None:
    text = shown(EPISODE, **options)
    assert [each for each in has if each not in text] == []
    assert [each for each in lacks if each in text] == []


def test_turns_that_repeat_the_turn_before_are_folded() -> None:
    """Not folded: another output, a turn that continues another one, and full transcripts."""
    again = [error()] * 3
    episode = played("t1", fine(), *again, fine(seen="b\n"), fine(seen="b\n", after=0), submit())
    text = shown(episode)
    assert "\n  the same again in turns 3, 4\n" in text
    assert text.count("› ") == 5
    assert "the same" in markup.turn(steps(episode)[2], BASH)
    for options in ({"full": True}, {"messages": True}):
        assert shown(episode, **options).count("› ") == 7


def test_a_turn_says_how_its_reply_ended() -> None:
    cut = Turn(
        reply="Remove it.\n```bash\nrm -",
        thought="Remove it.",
        observation="Your reply was cut off",
        finish_reason="length",
        usage=Usage(30, 200),
        reply_seconds=1.234,
    )
    refusal = Turn(reply="No.", observation="…", finish_reason="refusal")
    text = shown(played("t1", cut, refusal, fine(finish_reason="stop")))
    assert "\n  Remove it.\n  ```bash\n  rm -\n│ Your reply" in text
    assert (
        "  reply cut off at 200 tokens · reply in 1.23 s · 230 tokens (200 in the reply)\n" in text
    )
    assert "  reply ended by refusal\n" in text
    assert "stop" not in text


def test_reasoning_is_shortened_and_apart_from_the_thought() -> None:
    details = {"reasoning_details": [{"type": "reasoning.text", "text": "Count. " * 100}]}
    episode = played(
        "t1",
        fine(reasoning=details),
        fine(reply="<think>Odd.</think>\nList.", thought="<think>Odd.</think>\nList."),
        Turn(reply="thinking\n</think>\nI give up.", observation="No code was found."),
    )
    text = shown(episode)
    assert "reasoning: Count. Count." in text
    assert "(699 characters; --full prints them)" in text
    assert "  reasoning: <think>Odd.</think>\n  List.\n› ls" in text
    assert "\n  I give up.\n│ No code" in text
    assert "Count. " * 99 in shown(episode, full=True)
    assert "  reasoning:\n    Count." in shown(episode, messages=True)


def test_a_failed_test_shows_its_code_and_what_it_expected_and_got() -> None:
    tests = [
        {
            "number": 2,
            "test": "assert f() == 'a\\nb'",
            "passed": False,
            "agent": "AssertionError",
            "expected": "'a\\nb'",
            "got": "None",
        },
        {"number": 3, "test": "print(f())", "hidden": True, "passed": False, "agent": "KeyError"},
        {"test": "…", "passed": False, "input": "1\n2\n", "got": "", "agent": "printed ''"},
        {"number": 1, "test": "assert f", "passed": True, "gold": "passed", "agent": "passed"},
    ]
    text = shown(played("t1", outcomes={"failed": ["tests"], "tests": tests}))
    assert (
        "  test 2: failed\n  › assert f() == 'a\\nb'\n"
        "    expected: 'a\\nb'\n    got: None\n    error: AssertionError\n"
    ) in text
    assert "  test 3 (hidden): failed\n  › print(f())\n    error: KeyError\n" in text
    assert "  test: failed\n    input: 1\n           2\n    got: (nothing)\n\n" in text
    assert text.index("tests that passed") < text.index("assert f ")


def test_rows_are_marked_as_the_reward_compared_them() -> None:
    gold = {"columns": ["n"], "rows": [[1], ["2\n3"]], "rows_total": 3, "unmatched": [1]}
    agent = {"columns": ["m"], "rows": [[1.0], [8]], "unmatched": [1]}
    row = {"failed": ["rows"], "gold": gold, "agent": agent, "missing": [["2\n3"], [9]]}
    text = shown(played("t1", outcomes={**row, "extra": [[8]]}))
    assert "    n\n    1\n  - 2\n  - 3\n    … 1 more row\n" in text
    assert "    m\n    1.0\n  + 8\n" in text
    assert "other rows that differ\n  gold\n  - 9\n  agent\n    (nothing)" in text


def test_rows_of_an_older_record_are_marked_where_the_mark_is_known() -> None:
    rows = [[number] for number in range(20)]
    agent = {"columns": ["n"], "rows": [*rows[1:], [50]], "rows_total": 90}
    outcomes = {"gold": {"columns": ["n"], "rows": rows}, "agent": agent}
    text = shown(played("t1", outcomes={**outcomes, "missing": [], "extra": [[50]]}))
    assert ("  - 0\n" in text, "    0\n" in text, "  + 50\n" in text) == (False, True, True)


def test_a_verdict_about_files_shows_the_files_first() -> None:
    paths = [{"path": "/a", "gold": "added", "agent": "missing", "diff": "gold: file 0644"}]
    sides = {"agent": {"answer": "one"}, "gold": {"answer": "one"}}
    outcomes = {"failed": ["files"], **sides, "paths": paths, "paths_total": 25}
    text = shown(played("t1", outcomes=outcomes, parts={"files": 0.0, "answer": 1.0}))
    assert "Parts of the reward: files: 0 · answer: 1\n" in text
    assert 0 < text.index("files that differ: the first 1 of 25") < text.index("  answers\n")
    both = shown(played("t1", outcomes={**outcomes, "failed": ["files", "answer"]}))
    assert both.index("  answers\n") < both.index("files that differ")


def test_a_submission_made_for_the_agent_is_not_a_turn() -> None:
    forced = Turn(action="submit", forced=True)
    text = shown(played("t1", fine(), forced, ended="turns"))
    assert "\nsubmitted for the agent\n" in text
    assert "(reward 0, out of turns; the work was submitted for the agent)" in text
    assert "turn 2" not in text
    assert "(reward 0, the agent stopped)" in shown(played("t1", fine(), ended="stopped"))
