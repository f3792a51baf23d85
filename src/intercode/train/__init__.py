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

from intercode.runs.segments import Segment as Segment
from intercode.runs.segments import segments_of as segments_of
from intercode.train.chat import Chat as Chat
from intercode.train.chat import hf_chat as hf_chat
from intercode.train.dealing import Sampler as Sampler
from intercode.train.grouping import advantages as advantages
from intercode.train.grouping import by_group as by_group
from intercode.train.grouping import groups as groups
from intercode.train.grouping import shaped as shaped
from intercode.train.grouping import tree_advantages as tree_advantages
from intercode.train.jobs import Job as Job
from intercode.train.jobs import Rollout as Rollout
from intercode.train.lent import LentEpisode as LentEpisode
from intercode.train.pool import RolloutPool as RolloutPool
from intercode.train.pool import rollout as rollout
from intercode.train.sampling import RolloutLimits as RolloutLimits
from intercode.train.stats import PoolStats as PoolStats
from intercode.train.tree import Node as Node
from intercode.train.tree import Tree as Tree
