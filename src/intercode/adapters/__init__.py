"""Adapters: one file for each framework that trains or evaluates on intercode's environments.
`docs/adapters.md` shows each.

    trl.py          a `rollout_func` for TRL's GRPOTrainer
    inspect.py      a task for Inspect; inspect_sandbox.py: our sandboxes for its own tasks
    openenv.py      a server of the OpenEnv protocol
    ../../intercode_verifiers.py    a taskset and a harness for verifiers, which imports top-level
                                    modules only

Nothing else in the package imports an adapter or a framework. A framework gets success as its
reward, or with `shaped` the reward of the score. A fault of the machine or the model server never
becomes a reward.
"""
