"""The worlds of composed SQL and Python tasks: events of people or services, of several kinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from intercode.generate.draws import read_toml, word_lists
from intercode.generate.families import Draw, Parameters

PEOPLE, KINDS = 9, 5
COLUMNS = ("day", "who", "kind", "amount")
_DATA = read_toml("composed/worlds")
NAMES = word_lists(_DATA["names"])


def draw_world(draw: Draw) -> tuple[Parameters, Parameters]:
    """Return the names of the columns of a world, and its data: the values of the columns."""
    world = draw.choice(list(_DATA["worlds"].values()))
    year, month, days = draw.number(2015, 2030), draw.randint(1, 9), set()
    for _ in range(16):
        days.add(f"{year}-{month + draw.randrange(4):02}-{draw.randint(1, 28):02}")
    data = {
        **world,
        "whos": draw.words(NAMES[world.get("names", "surnames")], PEOPLE),
        "kinds": draw.sample(world["kinds"], KINDS),
        "days": sorted(days),
        "amounts": [draw.randint(5, 240) for _ in range(20)],
    }
    return {name: draw.choice(world[name]) for name in COLUMNS}, data


def draw_events(draw: Draw, data: Parameters, count: int) -> list[list[Any]]:
    """Return events (day, who, kind, amount). Some repeat another, or all but its amount."""
    events = list[list[Any]]()
    while len(events) < count:
        event = [draw.choice(data[name]) for name in ("days", "whos", "kinds", "amounts")]
        if events and draw.random() < 0.25:
            same = draw.choice((3, 4))
            event[:same] = draw.choice(events)[:same]
        events.append(event)
    return events


def limits(draw: Draw, numbers: Sequence[int]) -> Parameters:
    """Return limits from the lower and from the upper half of the numbers."""
    numbers, cut = sorted(numbers), len(numbers) // 2
    low, high = numbers[cut // 3 : cut + 1], numbers[cut : len(numbers) - cut // 3]
    return {
        "limit": [draw.limit(low) for _ in range(4)],
        "high": [draw.limit(high) for _ in range(4)],
    }
