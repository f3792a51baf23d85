"""Whether one answer has most of what another says: a wrong answer that does is ambiguous, and a judge may be asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable


def mostly_in(theirs: Iterable[Hashable], ours: Iterable[Hashable]) -> bool:
    """Whether more than half of their things, each as often as they have it, are among ours."""
    wanted = Counter(theirs)
    return 2 * (wanted & Counter(ours)).total() > wanted.total()
