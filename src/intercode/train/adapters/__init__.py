"""Adapters: one file for each framework that trains or evaluates on intercode's environments.
`docs/adapters.md` shows each.

    trl.py          a `rollout_func` for TRL's GRPOTrainer
    inspect.py      a task for Inspect
    openenv.py      a server of the OpenEnv protocol
    verifiers.py    a taskset and a harness for verifiers

Nothing else in the package imports an adapter or a framework. A framework gets success as its
reward, or with `shaped` the reward of the score. A fault of the machine or the model server never
becomes a reward.
"""
