"""Places and tests of the Python families. `questions/python-*.toml` contain the questions.

Each task asks for one function, which has the name of the question. At difficulty 3 the rule is
only in the file HANDBOOK of a site in the tree. The arguments of the tests are drawn, and the
results are the gold's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from intercode.generate.families import (
    NOUNS,
    PEOPLE,
    TOWNS,
    Draw,
    Family,
    Parameters,
    Place,
    text_of,
)

SIGNS = "#;|~^%&+=@!:?$*"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
TESTS = 8
"""The number of argument lists that are drawn for each task."""
Arguments = Sequence[tuple[Any, ...]]


def _words(draw: Draw, count: int) -> str:
    return " ".join(draw.choices(draw.part(NOUNS), k=count))


# -- python-text -----------------------------------------------------------------------------------


def _scribe(draw: Draw, name: str) -> Place:
    site, alphabet = f"/scribe/{name}", "".join(draw.sample(LETTERS, 26))
    weights = draw.sample(range(2, 40), 3)
    modulus = draw.randint(17, 26)
    signs = "".join(draw.sample(LETTERS.upper(), 26))
    place = Place(
        name,
        facts={
            "site": site,
            "alphabet": alphabet,
            "weights": weights,
            "modulus": modulus,
            "signs": signs[:modulus],
        },
    )
    place.write(
        f"{site}/HANDBOOK",
        f"SECRET WRITING\nThe small letters {LETTERS}\nare written as     {alphabet}\n"
        "All other characters stay.\n\nCHECK SIGN\n"
        f"Multiply the code point (ord) of the first character by {weights[0]}, of the second by "
        f"{weights[1]}, of the third by {weights[2]}, and so on again from {weights[0]}. "
        f"Add all products; r is the remainder after division by {modulus}.\n"
        f"The check sign is the letter at place r, counted from 0, of {signs[:modulus]}\n",
    )
    return place


def _script(draw: Draw, place: Place) -> Parameters:
    return {
        "width": draw.number(8, 90),
        "zeros": draw.number(3, 20),
        "sign": draw.word(SIGNS),
        "word": draw.word(NOUNS),
        "step": draw.number(2, 16),
        "start": draw.number(1, 20),
        "factor": draw.number(3, 90),
        "size": draw.number(60, 999),
        "run": draw.number(2, 12),
        "town": draw.word(TOWNS),
    }


def _texts(draw: Draw, kind: str, parameters: Parameters) -> Arguments:
    match kind:
        case "label":
            return [
                (_words(draw, draw.randint(1, 2)), draw.randint(0, 99999)) for _ in range(TESTS)
            ]
        case "pick":
            return [(_words(draw, draw.randint(30, 60)),) for _ in range(TESTS)]
        case "squeeze":
            runs = parameters["run"] + 3
            return [
                ("".join(letter * draw.randint(1, runs) for letter in draw.choices("abcxyz", k=6)),)
                for _ in range(TESTS)
            ]
    return [
        (f"{_words(draw, draw.randint(1, 9))} {draw.randint(0, 999)}{draw.choice(TOWNS)}",)
        for _ in range(TESTS)
    ]


# -- python-records --------------------------------------------------------------------------------


def _office(draw: Draw, name: str) -> Place:
    site = f"/office/{name}"
    towns = draw.words(TOWNS, 4)
    limits = sorted(draw.sample(range(50, 900), 2))
    fees = dict(zip(towns, draw.sample(range(10, 500), 4), strict=True))
    rebate = draw.randint(3, 40)
    rates = draw.sample(range(2, 60), 3)
    place = Place(
        name,
        facts={
            "site": site,
            "fees": fees,
            "towns": towns,
            "rates": rates,
            "limits": limits,
            "rebate": rebate,
        },
    )
    place.facts |= {"other": (other := draw.randint(500, 700)), "low": limits[0], "high": limits[1]}
    listed = "".join(f"{town}: {fee}\n" for town, fee in fees.items())
    place.write(
        f"{site}/HANDBOOK",
        f"FEES\n{listed}any other town: {other}\nFrom the third record of one name on, "
        f"in the order of the list, the fee is {rebate} less.\n\nDUTY\nAmounts up to and with "
        f"{limits[0]} bear no duty. The part above {limits[0]}, up to {limits[1]}, "
        f"bears {rates[0]} percent, and the part above {limits[1]} bears {rates[1]} percent. "
        f"Each part's duty is rounded down.\nIf the duty is not 0, add {rates[2]} for the paper.\n",
    )
    return place


def _ledger(draw: Draw, place: Place) -> Parameters:
    rates = dict(zip(("first", "second", "paper"), place.facts["rates"], strict=True))
    return {
        **rates,
        "town": draw.choice(place.facts["towns"]),
        "amount": draw.number(100, 900),
        "count": draw.number(2, 7),
        "units": draw.number(5, 80),
        "price": draw.number(10, 300),
        "more": draw.number(2, 200),
        "gap": draw.number(1, 30),
        "length": draw.number(3, 40),
        "least": draw.number(1, 4),
    }


def _records(draw: Draw, kind: str, parameters: Parameters) -> Arguments:
    match kind:
        case "tariff":
            limit = 2 * parameters["units"]
            return [
                (number,)
                for number in {
                    *draw.sample(range(3 * parameters["units"]), TESTS - 2),
                    limit,
                    limit + 1,
                }
            ]
        case "duty":
            limits = [
                parameters["low"] - parameters["more"],
                parameters["high"] - parameters["more"],
            ]
            drawn = draw.sample(range(2 * parameters["high"]), TESTS - 2)
            return [(number,) for number in {*drawn, *(limit for limit in limits if limit > 0)}]
        case "merge":
            starts = [draw.sample(range(300), draw.randint(5, 9)) for _ in range(TESTS - 1)]
            gap, length = parameters["gap"], parameters["length"]
            exact = [
                (900, 905),
                (905 + gap, 960),
                (961 + gap, 961 + gap + length),
                (600, 599 + length),
            ]
            return [
                ([(start, start + draw.randint(1, 50)) for start in row],) for row in starts
            ] + [(exact,)]
    towns = [*parameters["towns"], "Nowhere"]
    people = draw.words(PEOPLE, 5)
    amount = parameters["amount"]

    def record() -> tuple[str, str, int]:  # every other amount is at the limit
        near = draw.choice((draw.randint(1, 999), amount + draw.randint(-1, 1)))
        return draw.choice(people), draw.choice(towns), near

    drawn_records = [[record() for _ in range(draw.randint(9, 15))] for _ in range(TESTS)]
    ones = [(draw.choice(people), "Elsewhere", 1) for _ in range(parameters["least"] - 1)]
    # a sum at the limit
    drawn_records[-1] += [
        *ones,
        (draw.choice(people), "Elsewhere", amount - len(ones)),
    ]
    return [(records,) for records in drawn_records]


# -- python-parsing --------------------------------------------------------------------------------


def _station(draw: Draw, name: str) -> Place:
    site, fields = f"/station/{name}", draw.words(NOUNS, 3)
    widths, (letter, shift) = (
        draw.sample(range(2, 9), 3),
        (
            draw.choice(LETTERS.upper()),
            draw.randint(3, 30),
        ),
    )
    place = Place(
        name,
        facts={"site": site, "fields": fields, "widths": widths, "letter": letter, "shift": shift},
    )
    place.facts |= {"divisor": (divisor := draw.choice([7, 11, 13, 17, 19, 23]))}
    spans = "".join(
        f"{field}: {width} characters\n" for field, width in zip(fields, widths, strict=True)
    )
    place.write(
        f"{site}/HANDBOOK",
        "TELEGRAM\nA telegram consists of these fields, without anything between them:\n"
        f"{spans}Blanks around the text of a field do not belong to it. The value of {fields[2]} "
        f"is an integer and was raised by {shift} before it was sent.\n\nTICKET\nA ticket is valid "
        f"if it begins with {letter}, everything after this letter is digits (four or more), "
        f"and the sum of the digits, the last digit counted twice, can be divided by {divisor}.\n",
    )
    return place


def _message(draw: Draw, place: Place) -> Parameters:
    signs, words = draw.words(SIGNS, 3), draw.words(NOUNS, 2)
    fields, widths = place.facts["fields"], place.facts["widths"]
    return {
        "sign": signs[0],
        "remark": signs[1],
        "quote": signs[2],
        "cap": draw.number(50, 900),
        "one": words[0],
        "two": words[1],
        "small": draw.number(2, 60),
        "big": draw.number(100, 900),
        "place": draw.number(1, 20),
        "factor": draw.number(2, 40),
        **dict(zip(("field", "field2", "field3"), fields, strict=True)),
        "end": widths[0],
        "end2": widths[0] + widths[1],
        "end3": sum(widths),
    }


def _messages(draw: Draw, kind: str, parameters: Parameters) -> Arguments:
    sign, remark, quote = (parameters[name] for name in ("sign", "remark", "quote"))
    match kind:
        case "settings":
            texts = []
            for _ in range(TESTS):
                lines = [
                    f"{draw.choice(NOUNS)} {sign} {draw.randint(0, 1200)}"
                    for _ in range(draw.randint(3, 6))
                ]
                texts.append("\n".join([*lines[:2], f"{remark} {_words(draw, 2)}", "", *lines[2:]]))
            return [(text,) for text in texts]
        case "measure":
            return [
                (
                    (
                        f"{draw.randint(1, 30)} {parameters['one']} {draw.randint(0, 99)} "
                        f"{parameters['two']}"
                    ),
                )
                for _ in range(TESTS)
            ]
        case "fields":
            parts = [
                [
                    _words(draw, 1),
                    f"{quote}{draw.choice(NOUNS)}{sign}{draw.choice(NOUNS)}{quote}",
                    "",
                ]
                for _ in range(TESTS)
            ]
            return [
                (sign.join(draw.sample(row * 2, draw.randint(2, 5))) + sign + _words(draw, 1),)
                for row in parts
            ]
        case "calculate":
            sums = [
                [str(draw.randint(1, 99)) for _ in range(draw.randint(2, 5))] for _ in range(TESTS)
            ]
            return [
                (
                    row[0]
                    + "".join(f" {draw.choice((sign, remark))} {number}" for number in row[1:]),
                )
                for row in sums
            ]
        case "telegram":
            values = [
                (draw.choice(NOUNS), draw.choice(PEOPLE), str(draw.randint(0, 99)))
                for _ in range(TESTS)
            ]
            return [
                (
                    "".join(
                        value[:width].ljust(width)
                        for value, width in zip(row, parameters["widths"], strict=True)
                    ),
                )
                for row in values
            ]
    return [(_ticket(draw, parameters, fault),) for fault in (0, 1, 2, 3, 4, 0, 0, 0)]


def _ticket(draw: Draw, parameters: Parameters, fault: int) -> str:
    """Return a valid ticket, or one with a fault: 1 a wrong sum, 2 another letter, 3 a letter among
    the digits, 4 too short."""
    while True:
        digits = "".join(
            draw.choices("0123456789", k=3 if fault == 4 else draw.choice((4, draw.randint(4, 9))))
        )
        if ((sum(map(int, digits)) + int(digits[-1])) % parameters["divisor"] == 0) is (fault != 1):
            break
    letter = (
        draw.choice(LETTERS.upper().replace(parameters["letter"], ""))
        if fault == 2
        else parameters["letter"]
    )
    return letter + (f"{digits[:2]}x{digits[2:]}" if fault == 3 else digits)


FAMILIES = (
    Family(
        "python-text",
        "python",
        "make and encode text",
        _scribe,
        _script,
        _texts,
        tasks_per_place=5,
        answer=text_of,
    ),
    Family(
        "python-records",
        "python",
        "lists of records: filter, group, charge",
        _office,
        _ledger,
        _records,
        tasks_per_place=5,
        answer=text_of,
    ),
    Family(
        "python-parsing",
        "python",
        "read settings, measures, fields and telegrams",
        _station,
        _message,
        _messages,
        tasks_per_place=5,
        answer=text_of,
    ),
)
