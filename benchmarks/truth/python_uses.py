"""How the classes, generators and decorators of the starter set for Python are used: by chance,
within what their queries say.

A use gets chance and what was submitted, and yields what could be seen, step by step. It is
executed in the answer's interpreter, behind the wall; the tests of a task are not looked at.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from itertools import islice
from random import Random
from typing import Any

Seen = Iterator[Any]
Use = Callable[[Random, Any], Seen]


def _tried(call: Callable[..., Any], *given: Any) -> Any:
    """What came of a call: a value, or the type of what it raised."""
    try:
        return call(*given)
    except Exception as error:
        return type(error).__name__


def cabin(draw: Random, Cabin: Any) -> Seen:
    yield _tried(lambda *given: repr(Cabin(*given)), draw.randint(-1, 1), draw.randint(-1, 1))
    one, other = Cabin(draw.randint(1, 4), draw.choice([100, 150, 250])), Cabin(5, 500)
    for _ in range(14):
        mine, name = draw.choice([one, one, other]), draw.choice("abcd")
        goes = draw.random() < 0.3
        yield (
            _tried(mine.leave, name)
            if goes
            else _tried(mine.board, name, draw.choice([25, 50, 75, 200]))
        )
        yield (
            repr(mine),
            len(mine),
            list(mine),
            name in mine,
            bool(mine),
            mine.load,
            one == other,
            one != other,
        )
    yield one == list(one), _tried(hash, one), _tried(setattr, one, "load", 1)


def weight_cache(draw: Random, Shelf: Any) -> Seen:
    limit = draw.randint(3, 8)
    shelf, other = Shelf(limit), Shelf(limit)
    for number in range(16):
        key = draw.choice("abcd")
        call = draw.choice([shelf.get, shelf.__contains__, None, None])
        yield (
            _tried(call, key)
            if call
            else _tried(shelf.put, key, number, draw.randint(-1, limit + 1))
        )
        yield list(shelf), len(shelf), shelf.weight
    yield list(other), other.weight


def span_set(draw: Random, Spans: Any) -> Seen:
    sets = [Spans(), Spans()]
    for _ in range(12):
        spans, first = draw.choice(sets), draw.randint(-6, 12)
        last = draw.choice([first, first + draw.randint(-2, 5), first + 10**15])
        yield draw.choice([spans.add, spans.add, spans.remove])(first, last)
        yield spans.text(), len(spans), [number in spans for number in range(-8, 15)]
    both = sets[0] | sets[1]
    yield both.text(), len(both), both.add(-20, -18), [spans.text() for spans in sets]


def nested_drafts(draw: Random, Drafts: Any) -> Seen:
    drafts, other = Drafts(), Drafts()
    for _ in range(20):
        key, value = draw.choice("abc"), draw.choice([None, 0, 1, 2])
        calls: list[tuple[Any, ...]] = [
            (drafts.set, key, value),
            (drafts.delete, key),
            (drafts.begin,),
        ]
        yield _tried(
            *draw.choice(
                [*calls * 2, (drafts.set, key, value), (drafts.commit,), (drafts.rollback,)]
            )
        )
        yield len(drafts), [drafts.get(each) for each in "abc"], drafts.get(key, "none")
    yield len(other), other.get("a")


def root_two(draw: Random, Surd: Any) -> Seen:
    def number() -> Any:
        return Surd(draw.randint(-4, 4), draw.choice([0, draw.randint(-3, 3)]))

    one, others = number(), [number(), draw.randint(-3, 3), 10**20, "1", 0.5, None]
    yield (
        str(one),
        str(-one),
        str(abs(one)),
        one.norm(),
        hash(one) == hash(Surd(*_pair(one, Surd))),
        str(Surd(7)),
    )
    for other in others:
        for name in ("__add__", "__sub__", "__mul__", "__lt__", "__le__", "__gt__", "__ge__"):
            operation = _OPERATIONS[name]
            yield str(_tried(operation, one, other)), str(_tried(operation, other, one))
        yield one == other, one != other, one == other and hash(one) == hash(other)
    yield one == Surd(1), hash(Surd(3)) == hash(3), str(one)


_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "__add__": lambda a, b: a + b,
    "__sub__": lambda a, b: a - b,
    "__mul__": lambda a, b: a * b,
    "__lt__": lambda a, b: a < b,
    "__le__": lambda a, b: a <= b,
    "__gt__": lambda a, b: a > b,
    "__ge__": lambda a, b: a >= b,
}


def _pair(number: Any, Surd: Any) -> tuple[int, int]:
    return next((a, b) for a in range(-4, 5) for b in range(-3, 4) if Surd(a, b) == number)


def code_safe(draw: Random, Safe: Any) -> Seen:
    yield [
        isinstance(_tried(Safe, *given), str)
        for given in [("", 1), ("1a", 1), ("12", 0), ("12", -1), ("0", 1)]
    ]
    code = draw.choice(["1", "12", "00", "121"])
    safe, other = Safe(code, draw.randint(1, 3)), Safe("1", 1)
    keys = [
        *code,
        "#",
        "1",
        "2",
        "#",
        "2#",
        "*****",
        "****x*",
        "****",
        "x",
        "",
        "12",
        f"{code}#",
        f"*{code}#",
        "1#2#2#",
    ]
    for word in draw.choices(keys, k=14):
        for key in [word] if word in ("", "12") else word:
            yield _tried(safe.press, key), safe.failures
    yield other.press("1"), other.failures, _tried(setattr, safe, "failures", 0)


def outline(draw: Random, Outline: Any) -> Seen:
    headings, other = Outline(), Outline()
    for text in draw.choices("abcdefgh", k=16):
        numbers = [line.split()[0] for line in headings.lines()] + ["9", "1.9"]
        call = draw.choice(
            [
                headings.remove,
                headings.indent,
                headings.indent,
                headings.text,
                None,
                None,
                None,
                None,
            ]
        )
        yield (
            _tried(call, draw.choice(numbers))
            if call
            else _tried(headings.add, draw.choice([1, 1, 2, 2, 3, 0, 4]), text)
        )
        yield headings.lines()
    yield other.lines()


def median_window(draw: Random, Middle: Any) -> Seen:
    stream, other = Middle(draw.randint(1, 5)), Middle(2)
    for _ in range(14):
        number = draw.choice([*range(-3, 4), 10**31])
        yield draw.choice([stream.add, stream.add, stream.drop])(number)
        yield _tried(stream.median), len(stream)
    yield len(other), _tried(other.median)


def stacker(draw: Random, piles: Any) -> Seen:
    taken: list[int] = []

    def belt() -> Iterator[int]:
        for height in draw.choices(
            [5, 10, 20, 20, 30, 45, 50, 60, 100, 120], k=draw.randint(0, 12)
        ):
            taken.append(height)
            yield height

    for pile in piles(belt(), draw.randint(1, 5)):
        yield list(pile), len(taken)
        pile.clear()


def rising_turns(draw: Random, in_turns: Any) -> Seen:
    taken: list[int] = []

    def source(name: int) -> Iterator[int]:
        for number in draw.choices(range(5), k=draw.randint(0, 6)):
            taken.append(name)
            yield number

    merged = in_turns(
        *[
            list(source(place)) if draw.random() < 0.2 else source(place)
            for place in range(draw.randint(0, 3))
        ]
    )
    yield list(taken)
    for number in islice(merged, 30):
        yield number, list(taken)


def resettable_meter(draw: Random, meter: Any) -> Seen:
    printed = io.StringIO()
    with redirect_stdout(printed):
        fed = meter(draw.randint(0, 9))
        yield _ended(fed.__next__)
        for _ in range(12):
            call = draw.choice([fed.send, fed.send, fed.send, fed.throw, fed.__next__])
            sent = [None, -2, 0, 1, 2, 5]
            thrown = [ValueError(), ValueError(), KeyError(), KeyError(), IndexError()]
            given: list[Any] = sent if call == fed.send else thrown if call == fed.throw else []
            yield _ended(call, *([draw.choice(given)] if given else []))
        fed.close()
    yield printed.getvalue()


def _ended(call: Callable[..., Any], *given: Any) -> Any:
    """As `_tried`, with what a generator returned."""
    try:
        return call(*given)
    except StopIteration as error:
        return "returned", error.value
    except Exception as error:
        return type(error).__name__


def pruned_walk(draw: Random, walk: Any) -> Seen:
    tree = _tree(draw, 3)
    walked, answer = walk(tree), None
    for _ in range(20):
        yield _ended(walked.send, answer)
        answer = draw.choice(
            [None] * 7
            + ["skip", "skip", "leave", "again", "again", draw.choice(["stop", "other", "leave"])]
        )


def _tree(draw: Random, depth: int) -> dict[str, Any]:
    return {
        name: _tree(draw, depth - 1)
        for name in draw.sample("abc", draw.randint(depth > 2, 3) if depth else 0)
    }


def again_decorator(draw: Random, again: Any) -> Seen:
    yield isinstance(_tried(again, draw.choice([0, -1, 1])), str)
    kinds = draw.choice([(), (LookupError,), (LookupError, OSError)])
    raised: list[Any] = []

    def work(*given: Any, **named: Any) -> Any:
        """Works."""
        if raised and (error := raised.pop()):
            raise error
        return given, named

    works, idle = again(draw.randint(1, 4), *kinds)(work), again(2)(work)
    for number in range(6):
        errors = draw.choices(
            [KeyError, IndexError, FileNotFoundError, ValueError], k=draw.randint(0, 5)
        )
        raised[:] = [error(place) for place, error in enumerate(errors)]
        yield _raised(works, number, named=1), list(works.calls), len(raised)
    yield works.__name__, works.__doc__, idle.calls


def _raised(call: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """As `_tried`, with what is known of what was raised."""
    try:
        return call(*given, **named)
    except BaseException as error:
        context = error.__context__
        return type(error).__name__, str(error), repr(context), getattr(error, "__notes__", [])


def memo_by_key(draw: Random, memo: Any) -> Seen:
    calls: list[Any] = []

    def work(*given: Any, **named: Any) -> Any:
        calls.append(given)
        if given and given[0] == 3:
            raise LookupError
        if given and given[0] == 2 and len(calls) < 9:
            works(1, 1)
        return None if len(given) == 2 else len(calls)

    def mark(*given: Any, **named: Any) -> Any:
        return given[0] % 3 if given[0] != 4 else 1 / named.get("by", 0)

    works, others = memo(mark)(work), memo(mark)(work)
    for _ in range(14):
        one = draw.choice([works, works, works, others, works.forget])
        yield (
            _tried(one, draw.choice([0, 1, 2, 3, 4, 5, 6, "x", None]), *draw.choice([(), (1,)])),
            len(calls),
        )
        yield works.kept(), others.kept()
    yield works.__name__


def span_of_time(draw: Random, seconds: Any) -> Seen:
    for _ in range(6):
        parts = ["1d", "2h", "30m", "4s", "1h", " ", "  ", "7", "h", "x", "²", "\t", "-", "0s"]
        right = [
            f"{draw.randint(0, 99)}{unit}{draw.choice(['', '', ' '])}"
            for unit in "dhms"
            if draw.random() < 0.6
        ]
        text = "".join(
            draw.choice(
                [right, draw.choices(parts, k=draw.randint(0, 4)), [*right, draw.choice(parts)]]
            )
        )
        yield _told(seconds, text)
    yield _told(seconds, draw.choice([None, 5, b"1h"]))[0]


def _told(call: Callable[..., Any], *given: Any) -> Any:
    try:
        return "value", call(*given)
    except Exception as error:
        return type(error).__name__, error.args


def all_complaints(draw: Random, check_all: Any) -> Seen:
    group = ExceptionGroup("g", [KeyError(1), ExceptionGroup("h", [OSError(2)])])
    kinds = [None, None, ValueError(1), KeyError(2), group, SystemExit(3), KeyboardInterrupt()]
    errors = draw.choices(kinds, k=draw.randint(0, 4))
    called: list[int] = []

    def check(place: int) -> Callable[[Any], None]:
        def checked(value: Any) -> None:
            called.append(place)
            if (error := errors[place]) is not None:
                raise error

        return checked

    try:
        yield check_all("v", [check(place) for place in range(len(errors))])
    except BaseException as error:
        members = getattr(error, "exceptions", ())
        yield (
            type(error).__name__,
            str(error),
            repr(members),
            getattr(error, "__notes__", []),
            error in errors,
        )
        if hasattr(error, "__notes__"):
            del error.__notes__
    yield called


def changed_for_a_while(draw: Random, changed: Any) -> Seen:
    mapping = {key: draw.choice([1, 2, None]) for key in draw.sample("abcd", draw.randint(0, 4))}
    blocks = [
        changed(
            mapping,
            **{key: draw.choice([..., 5, None]) for key in draw.sample("abcd", draw.randint(0, 3))},
        )
    ]
    blocks.append(draw.choice([blocks[0], changed(mapping, a=..., d=7, self=1, mapping=2)]))
    for block in draw.choices(blocks, k=3):
        yield from _block(draw, mapping, block, draw.choice(blocks))
        mapping[draw.choice("abcd")] = 8
        yield list(mapping.items())


def _block(draw: Random, mapping: dict[str, Any], block: Any, inner: Any) -> Seen:
    try:
        with block as seen:
            yield seen is mapping, list(mapping.items())
            mapping.pop(draw.choice("abcd"), None)
            mapping[draw.choice("abcdz")] = 9
            if draw.random() < 0.4:
                with inner:
                    yield list(mapping.items())
                yield list(mapping.items())
            if draw.random() < 0.3:
                raise LookupError
    except LookupError:
        yield "raised"
    yield list(mapping.items())


def price_rules(draw: Random, rules_of: Any) -> Seen:
    amounts = {
        "off": lambda: draw.randint(0, 60),
        "percent": lambda: draw.choice([0, 10, 33, 50, 100]),
    }
    table: list[list[Any]] = []
    for name in draw.choices("abcde", k=draw.randint(0, 6)):
        kind = draw.choice(["off", "percent", "then", "then"] + ["double"] * (draw.random() < 0.05))
        table.append(
            [name, kind, amounts.get(kind, lambda: draw.choices("abcdef", k=draw.randint(0, 3)))()]
        )
    rules = _tried(rules_of, table)
    if isinstance(rules, str):
        yield rules
        return
    for row in table:
        if draw.random() < 0.3:
            row[2] = row[2] + ["f"] if row[1] == "then" else 1
            row[0] = "z"
    kept = dict(rules)
    for name in draw.sample(sorted(rules), min(len(rules), 1)):
        del rules[name]
    yield (
        sorted(kept),
        {
            name: [_tried(rule, price) for price in (0, 1, 99, 1000, 10**20)]
            for name, rule in sorted(kept.items())
        },
    )


USES: dict[str, Use] = {
    "cabin": cabin,
    "stacker": stacker,
    "weight-cache": weight_cache,
    "span-set": span_set,
    "nested-drafts": nested_drafts,
    "root-two": root_two,
    "code-safe": code_safe,
    "outline": outline,
    "median-window": median_window,
    "rising-turns": rising_turns,
    "resettable-meter": resettable_meter,
    "pruned-walk": pruned_walk,
    "again-decorator": again_decorator,
    "memo-by-key": memo_by_key,
    "span-of-time": span_of_time,
    "all-complaints": all_complaints,
    "changed-for-a-while": changed_for_a_while,
    "price-rules": price_rules,
}
