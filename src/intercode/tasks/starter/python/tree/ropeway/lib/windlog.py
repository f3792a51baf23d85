"""Reads the wind log. Known to be wrong in places; the docstrings say what the code should do."""


def alarms(readings: list[int], limit: int, calm: int) -> list[tuple[int, int]]:
    """Spans of alarm as (index of the first reading, index of the last one), in order.

    An alarm begins with the second of two consecutive readings that are both above `limit`. It ends with the last
    reading before `calm` consecutive readings that are all at or below `limit`; fewer do not interrupt it.
    Readings below 0 are sensor faults: they are skipped as if they were not there, but they count in
    the indices. An alarm that has not ended yet ends with the last reading above `limit`. `calm` is at least 1.
    """
    found = []
    first = None
    quiet = 0
    for index, speed in enumerate(readings):
        if speed >= limit:
            if first is None:
                first = index
            quiet = 0
        elif first is not None:
            quiet += 1
            if quiet == calm:
                found.append((first, index - calm))
                first = None
    return found
