"""What the functions and programs of the starter set for Python may be given: one draw for each
task, by its query and files.

A draw is a tuple of arguments, or the text that a program reads. Values lie where mistakes show: at
edges, in ties, empty. It is executed in the answer's interpreter, behind the wall; the tests of a
task are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from random import Random
from string import ascii_letters, digits
from typing import Any

Draw = Callable[[Random], Any]


def _text(draw: Random, signs: str, most: int) -> str:
    return "".join(_several(draw, list(signs), most))


def _several(draw: Random, values: Any, most: int, least: int = 0) -> list[Any]:
    return draw.choices(list(values), k=draw.randint(least, most))


def _day(draw: Random, first: int, last: int) -> date:
    start = date(first, 1, 1)
    return start + timedelta(draw.randrange((date(last, 12, 31) - start).days + 1))


def _lines(rows: list[str]) -> str:
    return "".join(f"{row}\n" for row in rows)


# -- the ropeway -----------------------------------------------------------------------------------


def _running_days(draw: Random) -> tuple[str, str]:
    first = _day(draw, 2015, 2030)
    return (
        first.isoformat(),
        (first + timedelta(draw.choice([-1, 0, 1, draw.randint(-5, 90), 400]))).isoformat(),
    )


def _quickest(draw: Random) -> tuple[str, str, list[str]]:
    stations = ["TA", "MO", "KA", "GR", "WE", "LI", "NE", "SP", "XX"]
    return draw.choice(stations), draw.choice(stations), _several(draw, stations, 2)


def _person(draw: Random) -> dict[str, Any]:
    name = draw.choice(["Jo", "jo", "Jon", "Ann", "ANN", "Zoe"])
    group = draw.choice(["", "", "x", "y"])
    return {"name": name, "group": group, "luggage": draw.random() < 0.3, "to": draw.randint(0, 2)}


def _timetable_day(draw: Random) -> tuple[str]:
    near = date(draw.randint(1900, 2100), 9, 26) + timedelta(draw.randint(0, 12))
    return (draw.choice([near, _day(draw, 1901, 2099)]).isoformat(),)


# -- the press -------------------------------------------------------------------------------------


def _proof(draw: Random) -> tuple[list[str], list[str]]:
    lines = [" ".join(_several(draw, ["a", "b", "Cc"], 4, 1)) for _ in range(draw.randint(1, 3))]
    return lines, [_mark(draw, lines) for _ in range(draw.randint(0, 6))]


def _mark(draw: Random, lines: list[str]) -> str:
    number = draw.randrange(len(lines))
    word = draw.randint(0, len(lines[number].split()))
    sign = draw.choice(["x", "= {}", "+ {}", "U", "/", "stet"]) if word else "+ {}"
    return f"{number + 1}.{word} {sign.format(draw.choice(['new', 'two words', 'k']))}"


def _word(draw: Random) -> tuple[str]:
    parts = [
        "ab",
        "at",
        "ca",
        "ck",
        "er",
        "ers",
        "erin",
        "in",
        "ing",
        "la",
        "lt",
        "nd",
        "ndl",
        "ner",
        "or",
    ]
    return (
        "".join(
            _several(draw, [*parts, "rt", "re", "red", "un", "rm", "ted", "t", "ul", "x", "o"], 5)
        ),
    )


def _order(draw: Random) -> tuple[str, str, int]:
    units = sorted(draw.sample(range(5), draw.randint(1, 4)))
    parts = [
        _counted(draw, ["bale", "ream", "quire", "sheet", ""][unit])
        for unit in units
        if unit != 3 or 4 not in units
    ]
    return " ".join(parts), draw.choice(["writing", "printing"]), draw.choice([0, 480, 1000, 999])


def _counted(draw: Random, unit: str) -> str:
    if unit in ("bale", "ream", "quire") and draw.random() < 0.3:
        return f"half a {unit}"
    number = draw.choice([0, 1, 2, 7, 13])
    return f"{number} {unit}{'' if number == 1 else 's'}" if unit else str(number)


def _names(draw: Random) -> tuple[list[str]]:
    parts = [
        "ch",
        "C",
        "h",
        "l",
        "ll",
        "L",
        "y",
        "i",
        "å",
        "Ä",
        "ö",
        "ß",
        "ss",
        "z",
        "a",
        "-",
        "'",
        "1",
    ]
    heads = ["", "", "The ", "St ", "the St "]
    return (
        [
            (draw.choice(heads) + " ".join(_word_of(draw, parts))).strip()
            for _ in range(draw.randint(0, 5))
        ],
    )


def _word_of(draw: Random, parts: list[str]) -> list[str]:
    return ["".join(_several(draw, parts, 3, 1)) for _ in range(draw.randint(1, 2))]


def _line_to_set(draw: Random) -> tuple[str]:
    return (
        _text(draw, draw.choice(["fi", "fio", "sht", "ste", "li", "thl", "eostx", "acehmno"]), 9),
    )


def _day_sheet(draw: Random) -> str:
    rows: list[str] = []
    for _ in range(draw.randint(0, 9)):
        after = any(row.startswith(("set", "print")) for row in map(str.strip, rows))
        rows.append(
            draw.choice(["", "", " "]) + _entry(draw, draw.choice("jjsssspp%" + "oov" * after))
        )
    return _lines(rows)


def _entry(draw: Random, kind: str) -> str:
    if kind == "j":
        return f"job {draw.choice([1, 2, 9, 10])} {draw.choice(['A', 'B', 'Two  words'])}"
    if kind == "s":
        return f"set {draw.choice([0, 1, 3, 10])}{draw.choice(['', ' at 5', ' at 101', ' at 0'])}"
    if kind == "p":
        return f"print {draw.choice([0, 1, 999, 1000, 1001, 2500])} {draw.randint(1, 3)}"
    return {
        "%": draw.choice(["% note", ""]),
        "o": f"off {draw.choice([0, 5, 10, 50, 100])}",
        "v": "void",
    }[kind]


def _standing(draw: Random) -> tuple[str, dict[str, str]]:
    parts = ["[", "]", "|", "[a", "[b|", "[a]", "[b|k]", "$0", "$1", "$2", "k", " "]
    return "".join(_several(draw, parts[:-4], 6)), {
        name: "".join(_several(draw, parts, 5)) for name in ("a", "b", "k", "")
    }


# -- anywhere --------------------------------------------------------------------------------------


def _queue(draw: Random) -> str:
    now, rows = 0, [str(draw.randint(1, 3))]
    for _ in range(draw.randint(0, 12)):
        now += draw.choice([0, 0, 1, 3])
        rows.append(f"{now} {draw.randint(1, 4)}")
    return _lines(rows)


def _numeral(draw: Random) -> str:
    whole, rest = _text(draw, "0123", 3), _text(draw, "045", 3)
    point = "." if rest else draw.choice([".", ""])
    return draw.choice(["", "+", "-"]) + (whole + point + rest if whole or rest else "7")


def _stack_program(draw: Random) -> str:
    if draw.random() < 0.2:
        return _lines(
            [
                f"push {draw.randint(1, 4)}",
                "dup",
                "print",
                "push 1",
                "sub",
                "dup",
                "zero 9",
                "jump 2",
                "print",
            ]
        )
    rows = [f"push {number}" for number in _several(draw, range(-9, 10), 5)]
    wrong = draw.choice(
        ["push", "print 3", "fly", "zero 0", "jump -1", "push +3", "push 1.5", "jump"]
    )
    for number in range(len(rows) + 1, len(rows) + draw.randint(1, 9)):
        ahead = number + draw.randint(1, 4)
        plain = [
            "add",
            "sub",
            "mul",
            "div",
            "div",
            "dup",
            "swap",
            "drop",
            f"jump {ahead}",
            f"zero {ahead}",
            "",
        ]
        rows.append(draw.choice([*plain, "push 0", *["print"] * 5, wrong]))
    return _lines(rows)


def _days(draw: Random) -> str:
    year, month = draw.choice([0, 1, 1900, 2000, 2023]), draw.randint(0, 13)
    odd = [f"{year:04}-{month:02}-{draw.choice([0, 1, 29, 31, 32]):02}"]
    return _lines(
        [
            draw.choice([*odd, f"2024-01-{draw.randint(1, 20):02}"])
            for _ in range(draw.randint(0, 7))
        ]
    )


def _sheet(draw: Random) -> str:
    width = draw.randint(1, 6)
    return _lines(
        ["".join(draw.choices("...##123459", k=width)) for _ in range(draw.randint(1, 4))]
    )


def _edits(draw: Random) -> str:
    words = [
        "add a",
        "add b c",
        "add ",
        "add  d",
        "cut 1",
        "cut 0",
        "cut 3",
        "undo",
        "undo",
        "undo",
        "redo",
        "redo",
        "show",
    ]
    return _lines([*_several(draw, words, 14), "show"])


def _busy(draw: Random) -> tuple[list[list[int]], int, int, int]:
    spans = [[start, start + draw.randint(-1, 5)] for start in _several(draw, range(-4, 15), 5)]
    return spans, draw.randint(0, 3), draw.randint(0, 12), draw.randint(1, 3)


def _needs(draw: Random) -> tuple[dict[str, list[str]]]:
    parts = draw.choice(["abc", "abcdef"])
    return (
        {
            part: _several(draw, parts, 2)
            for part in draw.sample(parts, draw.randint(0, len(parts)))
        },
    )


def _nth_word(draw: Random) -> tuple[int, int]:
    length = draw.choice([0, 1, 2, 3, 4, 6, 60])
    return length, draw.randint(0, 3**length)


def _handles(draw: Random) -> tuple[list[str]]:
    return (
        list(
            dict.fromkeys(
                draw.choice("abB") + _text(draw, "ab ", 3) for _ in range(draw.randint(0, 6))
            )
        ),
    )


def _lockers(draw: Random) -> tuple[int, int, list[list[str]]]:
    events = [
        [draw.choice(["in", "in", "out"]), draw.choice("abcd")] for _ in range(draw.randint(0, 14))
    ]
    return draw.randint(0, 3), draw.randint(0, 3), events


def _shares(draw: Random) -> tuple[int, list[int]]:
    weights = _several(draw, range(6), 5, 1)
    return draw.choice([draw.randint(-60, 60), 10**22 + 1]), weights if any(weights) else [1]


def _decimal(draw: Random) -> str:
    rest = _text(draw, "04599", 4)
    return draw.choice(["", "-"]) + (_text(draw, "0099", 3) or "5") + (f".{rest}" if rest else "")


def _results(draw: Random) -> tuple[list[tuple[str, str, int, int]]]:
    teams = "ABCDE"[: draw.randint(2, 5)]
    played = [draw.sample(teams, 2) for _ in range(draw.randint(0, 8))]
    return ([(home, away, draw.randint(0, 2), draw.randint(0, 2)) for home, away in played],)


def _data(draw: Random, depth: int = 3) -> Any:
    kind = draw.choice("dl" if depth == 3 else "dlvv")
    if depth == 0 or kind == "v":
        return draw.choice([1, None, "", False, (1, [2]), {}, []])
    if kind == "l":
        return [_data(draw, depth - 1) for _ in range(draw.randint(0, 3))]
    return {
        key: _data(draw, depth - 1)
        for key in _several(draw, ["a", "b.c", "[0]", "d\\e", "x]", "0"], 3)
    }


def _expression(draw: Random, depth: int = 3, bound: str = "") -> Any:
    sign = draw.choice(["leaf", "+", "*", "-", "if", "let", "let"])
    if depth == 0 or sign == "leaf":
        return draw.choice([0, 1, -2, 3, 0, 1, -1, 2, *bound * 6, draw.choice("xy")])
    if sign == "let":
        name, first = draw.choice("xy"), _expression(draw, depth - 1, bound)
        return [sign, name, first, _expression(draw, depth - 1, bound + name)]
    count = {"-": 2, "if": 3}.get(sign, draw.randint(0, 3))
    return [sign, *(_expression(draw, depth - 1, bound) for _ in range(count))]


def _fraction(draw: Random) -> tuple[int, int, int]:
    return (
        draw.randint(-60, 60),
        draw.choice([-1, 1]) * draw.randint(1, 60),
        draw.choice([2, 3, 6, 7, 10, 12, 1000]),
    )


def _balanced(draw: Random) -> tuple[int | str]:
    numbers: list[int | str] = [draw.randint(-70, 70), 7**30]
    return (draw.choice([*numbers, _text(draw, "ba012", 5), _text(draw, "ba0123-B", 4)]),)


def _bits(draw: Random) -> tuple[int, int]:
    size = draw.choice([1, 4, 10, 200])
    return draw.getrandbits(size), draw.getrandbits(size)


def _first_payment(draw: Random) -> tuple[str, int]:
    day = _day(draw, 2019, 2027)
    return draw.choice(
        [day, date(day.year, draw.choice([1, 3, 5, 12]), 31)]
    ).isoformat(), draw.randint(0, 14)


def _words(draw: Random) -> tuple[list[str], int]:
    return [_text(draw, "ab", 5) or "c" for _ in range(draw.randint(0, 8))], draw.randint(1, 10)


INPUTS: dict[str, Draw] = {
    "telegram-check": lambda draw: (_text(draw, digits + ascii_letters + "@[/:>;= ä²", 12),),
    "telegram-body": lambda draw: (_text(draw, "aAbB1==;;~~   ", 12),),
    "ride-fares": lambda draw: (
        _several(draw, [0, 5, 6, 14, 15, 40, 66, 67, 90], 20),
        draw.randint(1, 8),
        draw.choice([0, 9, 16, 17, 18, 23]),
    ),
    "running-days": _running_days,
    "bell-code": lambda draw: (_several(draw, range(1, 8), 12),),
    "wind-alarms": lambda draw: (
        _several(draw, [-5, -1, 0, 9, 10, 11, 11, 20], 14),
        draw.choice([0, 10]),
        draw.randint(1, 3),
    ),
    "quickest-ride": _quickest,
    "tower-logger": lambda draw: (draw.randbytes(draw.randint(0, 20)),),
    "seating": lambda draw: ([_person(draw) for _ in range(draw.randint(0, 7))],),
    "proof-marks": _proof,
    "sheet-layout": lambda draw: (draw.randint(0, 120),),
    "word-breaks": _word,
    "paper-price": _order,
    "register-order": _names,
    "docket-numbers": lambda draw: (draw.randint(1, draw.choice([20, 200, 2000, 20000])),),
    "type-case": _line_to_set,
    "day-sheet": _day_sheet,
    "standing-texts": _standing,
    "window-queue": _queue,
    "point-columns": lambda draw: _lines([_numeral(draw) for _ in range(draw.randint(1, 5))]),
    "stack-machine": _stack_program,
    "date-gaps": _days,
    "spreading-ink": _sheet,
    "line-editor": _edits,
    "free-slots": _busy,
    "work-and-rest": lambda draw: (_several(draw, range(-5, 9), 10),),
    "assembly-order": _needs,
    "nth-word": _nth_word,
    "short-handles": _handles,
    "drying-lockers": _lockers,
    "fair-shares": _shares,
    "nearest-fraction": lambda draw: (_decimal(draw), draw.randint(1, 30)),
    "significant-figures": lambda draw: (_decimal(draw), draw.randint(1, 5)),
    "scattered-bits": _bits,
    "even-lines": _words,
    "fidget-walks": lambda draw: (draw.randint(0, 14), draw.randint(1, 6)),
    "monthly-dates": _first_payment,
    "timetable-weeks": _timetable_day,
    "league-table": _results,
    "dotted-paths": lambda draw: (_data(draw),),
    "let-expressions": lambda draw: (_expression(draw),),
    "nested-quotes": lambda draw: (_text(draw, '"""aa (<\n', 10),),
    "period-lengths": _fraction,
    "balanced-five": _balanced,
}
