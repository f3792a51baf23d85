"""What passed and failed tests are worth.

    exact    1 if all tests passed, the hidden ones too, else 0
    paper    the share of tests that ended as they end for the gold: passed or failed

`parts` tells the shares of public and hidden tests and each test by its number, from 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from intercode.types import Score


def python_exact(public: Sequence[bool], hidden: Sequence[bool]) -> Score:
    passed = [*public, *hidden]
    success = bool(passed) and all(passed)
    return Score(float(success), success, _parts(public, hidden))


def python_paper(agent: Sequence[bool], gold: Sequence[bool]) -> Score:
    """Appendix "Python" of the design: outcomes of the public tests, compared with the gold's."""
    same = [mine == its for mine, its in zip(agent, gold, strict=True)]
    reward = sum(same) / len(same) if same else 0.0
    return Score(reward, reward == 1, _parts(agent, ()))


def _parts(public: Sequence[bool], hidden: Sequence[bool]) -> dict[str, float]:
    shares = {name: sum(each) / len(each) for name, each in (("public", public), ("hidden", hidden)) if each}
    return {**shares, **{f"test {number}": float(each) for number, each in enumerate([*public, *hidden], start=1)}}
