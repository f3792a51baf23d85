"""The fog horn sounds at the beginning of each period, as long as there is fog."""


def blasts(minutes, period):
    """Return how often the horn sounds in `minutes` of fog, with `period` minutes between two."""
    return minutes // period
