"""Join the samples of an episode into segments: sequences of tokens whose prefix is never
rewritten.

    question 1    p p p p
    reply 1               s s s
    question 2    p p p p s s s o o            its prompt begins with everything before it …
    reply 2                         s s
    segment       p p p p│s s s o o s s        … so the segment goes on; `mask`: 1 for s, 0 for o
                         │1 1 1 0 0 1 1

A question that does not begin with a known sequence (an agent that rewrites its history, a fork, a
server that tokenizes the conversation differently) begins a new segment. Each sampled token is in
exactly one segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from intercode.types import Turn


@dataclass(frozen=True, slots=True)
class Segment:
    """The tokens of one conversation: `prompt_ids`, then `token_ids`.

    `mask` contains, for each of the `token_ids`, 1 if the policy sampled it and 0 if it is an
    observation. `logprobs` contains the log-probability of each sampled token and 0.0 elsewhere; it
    is empty if the server did not return one for every reply. `turns` are the positions in the
    episode of the turns whose replies are in the segment. `policy_versions` contains, for each of
    the `token_ids`, the version of the policy that sampled it, and None for an observation; it is
    empty if no reply has a version.
    """

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    mask: tuple[int, ...]
    logprobs: tuple[float, ...]
    turns: tuple[int, ...]
    policy_versions: tuple[str | int | None, ...] = ()


@dataclass
class _Draft:
    prompt: tuple[int, ...]
    ids: list[int]
    """The prompt and all tokens after it."""
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    versions: list[str | int | None] = field(default_factory=list)
    complete: bool = True


def segments_of(turns: Sequence[Turn], places: Sequence[int] | None = None) -> tuple[Segment, ...]:
    """Return the segments of an episode's turns. Replies without the ids of their prompts are left
    out, and so are empty ones, unless it is the first: its segment is a prompt alone.

    `places` names the positions of the turns to use; tokens that were sampled elsewhere are then
    part of a prompt.
    """
    drafts: list[_Draft] = []
    for place, turn in enumerate(turns):
        sample = turn.sample
        if sample is None or (places is not None and place not in places):
            continue
        prompt = sample.prompt_ids
        if not prompt or not (sample.token_ids or not drafts):
            continue
        draft: _Draft | None = None
        for earlier in drafts:
            length = len(earlier.ids)
            if tuple(earlier.ids) == prompt[:length] and (not draft or length > len(draft.ids)):
                draft = earlier
        if not draft:
            draft = _Draft(prompt, list(prompt))
            drafts.append(draft)
        observed = prompt[len(draft.ids) :]
        draft.complete &= len(sample.logprobs) == len(sample.token_ids)
        draft.ids += [*observed, *sample.token_ids]
        draft.mask += [0] * len(observed) + [1] * len(sample.token_ids)
        draft.logprobs += [*[0.0] * len(observed), *sample.logprobs]
        draft.turns.append(place)
        draft.versions += [None] * len(observed)
        draft.versions += [sample.policy_version] * len(sample.token_ids)
    return tuple(
        Segment(
            draft.prompt,
            tuple(draft.ids[len(draft.prompt) :]),
            tuple(draft.mask),
            tuple(draft.logprobs) if draft.complete else (),
            tuple(draft.turns),
            tuple(draft.versions) if set(draft.versions) - {None} else (),
        )
        for draft in drafts
    )
