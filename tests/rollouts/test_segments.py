"""Tokens of an episode, joined into sequences."""

from __future__ import annotations

from intercode.train import Segment, segments_of
from intercode.types import Sample, Turn


def turn(prompt: str, reply: str, logprobs: bool = True) -> Turn:
    ids = tuple(map(ord, reply))
    return Turn(
        (),
        reply,
        sample=Sample(
            ids, (-0.5,) * len(ids) if logprobs else (), prompt_ids=tuple(map(ord, prompt))
        ),
    )


def text(segment: Segment) -> tuple[str, str, str, tuple[int, ...]]:
    prompt, tokens = ("".join(map(chr, ids)) for ids in (segment.prompt_ids, segment.token_ids))
    return prompt, tokens, "".join(map(str, segment.mask)), segment.turns


def test_a_conversation_that_goes_on_is_one_segment() -> None:
    (segment,) = segments_of(
        [turn("ab", "cd"), Turn(action="ls", observation="x"), turn("abcdxy", "e")]
    )
    assert text(segment) == ("ab", "cdxye", "11001", (0, 2))
    assert segment.logprobs == (-0.5, -0.5, 0.0, 0.0, -0.5)


def test_a_history_that_is_rewritten_begins_a_segment_and_each_sampled_token_is_in_one() -> None:
    rewritten = [turn("ab", "cd"), turn("ab..xy", "e"), turn("ab..xyez", "f")]
    assert [text(each) for each in segments_of(rewritten)] == [
        ("ab", "cd", "11", (0,)),
        ("ab..xy", "ezf", "101", (1, 2)),
    ]
    draws = [
        turn("ab", "cd"),
        turn("ab", "ce"),
        turn("abcex", "g"),
        turn("abcdx", "h"),
        turn("abcdy", "i"),
    ]
    found = [text(each) for each in segments_of(draws)]
    assert found == [
        ("ab", "cdxh", "1101", (0, 3)),
        ("ab", "cexg", "1101", (1, 2)),
        ("abcdy", "i", "1", (4,)),
    ]
    assert [text(each) for each in segments_of(draws, [2, 3])] == [
        ("abcex", "g", "1", (2,)),
        ("abcdx", "h", "1", (3,)),
    ]


def test_replies_without_tokens_are_left_out_and_log_probabilities_are_whole_or_absent() -> None:
    assert segments_of([Turn((), "a"), Turn((), "b", sample=Sample((1,), (-1.0,), "stop"))]) == ()
    (segment,) = segments_of([turn("ab", "c"), turn("abcx", "d", logprobs=False)])
    assert (text(segment), segment.logprobs) == (("ab", "cxd", "101", (0, 1)), ())
