"""A `rollout_func` for TRL's GRPOTrainer: whole episodes, of which only the sampled tokens are
trained.

    rollouts = Rollouts(intercode.prepare("bash", data="tasks.jsonl"))
    data = rollouts.dataset()
    GRPOTrainer(model, rollouts.reward, args, train_dataset=data, rollout_func=rollouts).train()

TRL passes no row of the data set to a `rollout_func`, so the prompt of a row is the id of a task;
our agent writes the prompt that the policy sees. The episodes of a step are played together, and
the trainer's model, with vLLM or without, answers all that wait. After a fault the reward is None,
which TRL leaves out of the group, and no token is trained. The pool's figures are among the
trainer's metrics, as `intercode/…`.

With a `Sampler`, the rows only say how many groups a step has: their tasks are those that it deals,
and groups without variance are replaced.

    sampler = Sampler([(files, 2), (shop, 1)])
    rollouts = Rollouts([files, shop], sampler=sampler)

`environments` returns an `environment_factory` instead, which TRL recommends: the policy calls the
tools `execute` and `submit`, and TRL writes the prompt from its chat template.

    train_on, make = environments(intercode.prepare("bash", data="tasks.jsonl"))
    GRPOTrainer(model, None, args, train_dataset=train_on, environment_factory=make).train()
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from datasets import Dataset

from intercode.agents.code import asking, unfenced
from intercode.env import InterCodeEnv
from intercode.errors import IntercodeError, UsageError
from intercode.factory import EnvFactory
from intercode.runner.episode import UNSCORED
from intercode.submission import submitting
from intercode.train import Chat, Job, Rollout, RolloutLimits, RolloutPool, Sampler, hf_chat
from intercode.train.settings import AnyAgent
from intercode.train.shaping import training_reward, warn_of_shaped
from intercode.types import Task
from intercode.user import facets_of


class Rollouts:
    """`limits`, and the trainer's `max_completion_length` after the first prompt, end an episode,
    which is then scored. `chat` replaces `hf_chat` of the trainer's tokenizer. `shaped` is as for
    `RolloutPool`. `sampler` deals the tasks of training; evaluations play those of their rows."""

    def __init__(
        self,
        factory: EnvFactory | Sequence[EnvFactory],
        agent: AnyAgent = "try_again",
        *,
        limits: RolloutLimits | None = None,
        chat: Chat | None = None,
        shaped: bool = False,
        sampler: Sampler | None = None,
    ) -> None:
        self.seed, self.chat, self.sampler = 0, chat, sampler
        limits = limits or RolloutLimits(reply_tokens=512)
        self.pool = RolloutPool(factory, agent, limits=limits, shaped=shaped)
        self.tasks = list[Task]()
        for setting in self.pool.settings:
            self.tasks += setting.tasks

    def dataset(self) -> Any:
        return Dataset.from_list([{"prompt": task.id} for task in self.tasks])

    def __call__(self, prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        """Return a sequence for each prompt, in order, as TRL wants them."""
        longest = trainer.args.max_completion_length
        reply = min(self.pool.limits.reply_tokens or longest, longest)
        limits = replace(self.pool.limits, reply_tokens=reply, tokens=longest)
        if trainer.use_vllm:
            trainer.vllm_generation.max_completion_length = reply
        else:
            trainer.generation_config.max_new_tokens = reply

        def generate(asked: list[list[int]]) -> Any:
            ids, logprobs = trainer._generate_single_turn(asked, None, {}, 1)
            return list(zip(ids, logprobs or [[]] * len(ids), strict=True))

        self.chat = self.chat or hf_chat(trainer._tokenizer)
        play = partial(self.pool.run_batch, generate=generate, chat=self.chat, limits=limits)
        if self.sampler and trainer.model.training:
            groups, incomplete = divmod(len(prompts), trainer.num_generations)
            if incomplete:
                raise UsageError(
                    f"{len(prompts)} prompts of a process are no whole groups of "
                    f"{trainer.num_generations}; a sampler needs whole groups"
                )
            played = self.sampler.batch(play, groups, trainer.num_generations)
        else:
            played = play([Job(prompt, self.seed + n) for n, prompt in enumerate(prompts)])
            self.seed += len(played)
        names = "prompt_ids", "completion_ids", "env_mask", "logprobs"
        batch: dict[str, Any] = {name: [] for name in names}
        for rollout in played:
            for name, values in zip(names, _sequence(rollout, trainer), strict=True):
                batch[name].append(list(values))
        if not all(batch["logprobs"]):
            batch["logprobs"] = None
        return {**batch, "reward": [rollout.reward for rollout in played]}

    def reward(
        self,
        reward: Sequence[float | None],
        log_metric: Callable[[str, float], None] | None = None,
        **_: Any,
    ) -> list[float | None]:
        """Return the rewards of the episodes, as one of the trainer's `reward_funcs`; add the
        figures of the pool, and of the sampler if there is one, to the trainer's metrics."""
        if log_metric:
            numbers = self.pool.stats().numbers()
            if self.sampler:
                numbers |= self.sampler.numbers()
            for name, number in numbers.items():
                log_metric(f"intercode/{name}", number)
        return list(reward)


def environments(
    factory: EnvFactory, *, shaped: bool = False
) -> tuple[Any, Callable[[], ToolEnvironment]]:
    """Return the data set of a factory's tasks, and an `environment_factory` that plays them.
    `shaped` is as for `RolloutPool`."""
    if shaped:
        warn_of_shaped()
    rows = [
        {"prompt": [{"role": "user", "content": task.query}], "task": task.id}
        for task in factory.tasks
    ]
    kind = ToolEnvironment
    if any(facets_of(task.extra) for task in factory.tasks):
        kind = AskingEnvironment
    return Dataset.from_list(rows), partial(kind, factory, shaped)


class ToolEnvironment:
    """An environment whose public methods are the policy's tools. TRL reuses it, and never closes
    it: its sandbox ends with it."""

    def __init__(self, factory: EnvFactory, shaped: bool = False) -> None:
        self._factory, self._shaped, self._over = factory, shaped, True
        self._env: InterCodeEnv | None = None
        self._reward: float | None = None

    def reset(self, task: str, **_: Any) -> None:
        """Begin an episode of the data set's row."""
        self._reward, self._over = None, False
        self._use(lambda env: env.reset(seed=0, options={"task": task}))

    def execute(self, code: str) -> str:
        """Execute code and return what it prints.

        Args:
            code: The code to run.

        Returns:
            What the code printed.
        """
        return self._step(lambda env: unfenced(str(code)))

    def submit(self, answer: str = "") -> str:
        """Submit the work and finish.

        Args:
            answer: The answer or the name to submit; empty if none is needed.

        Returns:
            Whether the submission was accepted.
        """

        def action(env: InterCodeEnv) -> str:
            return submitting(answer, env.language.submission, takes_answer=env.takes_answer)

        return self._step(action) or "Submitted."

    def get_reward(self) -> float | None:
        """Return the reward of the episode, which is scored as it is if it has no end yet; None
        after a fault."""
        while not self._over:
            self._step(lambda env: "submit")
        return self._reward

    def _step(self, action: Callable[[InterCodeEnv], str]) -> str:
        if self._over:
            return "The episode has ended."

        def step(env: InterCodeEnv) -> str:
            observation, _, terminated, truncated, info = env.step(action(env))
            if terminated or truncated:
                self._over = True
                self._reward = training_reward(info.get("score", UNSCORED), shaped=self._shaped)
            return observation

        return self._use(step) or ""

    def _use(self, call: Callable[[InterCodeEnv], Any]) -> Any:
        """Return what a call of the environment returns; after a fault the episode is over, and
        the next one gets a new environment."""
        try:
            if self._env is None:
                self._env = self._factory()
                self._close = weakref.finalize(self, self._env.close)
            return call(self._env)
        except UsageError:
            raise
        except IntercodeError as fault:
            logging.getLogger(__name__).warning("an episode has no reward: %s", fault)
            env, self._env, self._over = self._env, None, True
            if env:
                with suppress(IntercodeError):
                    self._close()
            return None


class AskingEnvironment(ToolEnvironment):
    """An environment of tasks whose user can be asked: `ask` is a tool too."""

    def ask(self, question: str) -> str:
        """Ask the user one question about the task.

        Args:
            question: The question.

        Returns:
            What the user says.
        """
        return self._step(lambda env: asking({"question": question}) or "ask ?")


def _sequence(rollout: Rollout, trainer: Any) -> tuple[Sequence[float], ...]:
    """Return prompt, completion, mask and log-probabilities; after a fault, or without a reply, one
    token that is not trained."""
    end = trainer.eos_token_ids[0]
    if rollout.reward is None or not rollout.segments:
        return [end], [end], [0], [0.0]
    if len(rollout.segments) > 1:
        raise UsageError(
            "TRL trains one sequence per rollout; "
            "use an agent that continues one conversation, such as try_again"
        )
    (segment,) = rollout.segments
    if not segment.token_ids:  # TRL cannot train an empty completion
        return segment.prompt_ids, [end], [0], [0.0]
    return segment.prompt_ids, segment.token_ids, segment.mask, segment.logprobs
