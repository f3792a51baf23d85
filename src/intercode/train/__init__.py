"""Rollouts for training: episodes with the tokens that the policy sampled, from environments that
stay warm over all steps.

    jobs = groups(tasks, size=8) ──► RolloutPool
      ├─ run(jobs, model) ────────────────► Rollout, Rollout, … as they finish
      ├─ run_batch(jobs, generate, chat) ─► [Rollout, …] in the order of the jobs
      ├─ await play(job, …) ──────────────► Rollout
      ├─ episode(job, chat) ──────────────► LentEpisode, which the trainer drives
      └─ trees(jobs, …) ──────────────────► [Tree, …] of forked episodes

    Rollout ──► Segment = prompt │ sampled, observed, sampled, …    the mask is 1 for what the
       │                                                            policy sampled
       └──────► reward: success, None after a fault ──► advantages(rewards, size)

No trainer and no deep-learning library is imported here. `docs/training.md` shows the way from
tasks to a rising curve.
"""

from __future__ import annotations

from intercode.runs.segments import Segment, segments_of
from intercode.train.chat import Chat, hf_chat
from intercode.train.dealing import Sampler
from intercode.train.grouping import advantages, by_group, groups, shaped, tree_advantages
from intercode.train.jobs import Job, Rollout
from intercode.train.lent import LentEpisode
from intercode.train.pool import RolloutPool, rollout
from intercode.train.sampling import RolloutLimits
from intercode.train.stats import PoolStats
from intercode.train.tree import Node, Tree

__all__ = [
    "Chat", "Job", "LentEpisode", "Node", "PoolStats", "Rollout", "RolloutLimits", "RolloutPool",
    "Sampler", "Segment", "Tree", "advantages", "by_group", "groups", "hf_chat", "rollout",
    "segments_of", "shaped", "tree_advantages",
]  # fmt: skip
