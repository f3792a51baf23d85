"""Rollouts of tasks whose user can be asked: the user's words are tokens with mask 0."""

from __future__ import annotations

from policies import Policy, make_tokenizer

from intercode.factory import EnvFactory
from intercode.train import RolloutPool, groups, hf_chat

REPLY = "The files that begin with a vowel."
FACETS = [{"name": "which", "asks": ["which"], "reply": REPLY}]
TASKS = [
    {"id": str(n), "query": f"Number {n}: print names.", "gold": "ls /box/a*", "facets": FACETS}
    for n in range(4)
]


class Asking(Policy):
    """Asks first, then plays the gold."""

    codes = ("ask Which files?", "ls /box/a*", "submit")

    def reply(self, prompt: list[int]) -> tuple[list[int], list[float]]:
        text = self.tokenizer.decode(prompt)
        turn = text.count("<|im_start|>assistant") - 1
        ids = [*self.encode(f"```bash\n{self.codes[turn]}\n```"), *self.encode("<|im_end|>")]
        logprobs = [-self.chance.random() for _ in ids]
        self.sampled.setdefault(tuple(prompt), []).append((ids, logprobs))
        return ids, logprobs


def test_what_the_user_says_is_in_the_segment_and_is_not_trained(factory: EnvFactory) -> None:
    tokenizer = make_tokenizer()
    policy = Asking(tokenizer, factory.tasks)
    with RolloutPool(factory, envs=2) as pool:
        rollouts = pool.run_batch(
            groups([task.id for task in factory.tasks], 2), policy, hf_chat(tokenizer)
        )
    for rollout in rollouts:
        assert (rollout.reward, [turn.asked for turn in rollout.episode.turns]) == (
            1.0,
            ["which", None, None],
        )
        (segment,) = rollout.segments
        sampled = [turn.sample.token_ids for turn in rollout.episode.turns if turn.sample]
        trained = [id for id, mask in zip(segment.token_ids, segment.mask, strict=True) if mask]
        assert trained == [id for ids in sampled for id in ids]
        whole = [*segment.prompt_ids, *segment.token_ids]
        for turn in rollout.episode.turns:
            assert turn.sample
            prompt = turn.sample.prompt_ids
            assert tuple(whole[: len(prompt)]) == prompt
            assert (list(turn.sample.token_ids), list(turn.sample.logprobs)) in policy.sampled[
                prompt
            ]
        unmasked = [
            id for id, mask in zip(segment.token_ids, segment.mask, strict=True) if not mask
        ]
        assert REPLY in tokenizer.decode(unmasked)
        assert "you can ask the user about it" in tokenizer.decode(segment.prompt_ids)
