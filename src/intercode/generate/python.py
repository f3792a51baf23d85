"""Places and tests of the Python families. `questions/python-*.toml` contain the questions.

Each task asks for one function, which has the name of the question. At difficulty 2 words in the
query decide on parts of the function; at difficulty 3 the rule is only in the file HANDBOOK of a
site in the tree. The arguments of the tests are drawn, with those at limits, empty ones, ties and
repeated items among them, and the results are the gold's.
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
    signs = "".join(draw.sample(LETTERS.upper(), modulus))
    beat = draw.randint(3, 7)
    first = draw.randint(2, beat)
    place = Place(
        name,
        facts={
            "site": site,
            "alphabet": alphabet,
            "weights": weights,
            "modulus": modulus,
            "signs": signs,
            "beat": beat,
            "first": first,
        },
    )
    place.explain(
        f"{site}/HANDBOOK",
        f"SECRET WRITING\nThe small letters {LETTERS}\nare written as     {alphabet}\n"
        "All other characters stay.\n\nCHECK SIGN\n"
        f"Multiply the code point (ord) of the first character by {weights[0]}, of the second by "
        f"{weights[1]}, of the third by {weights[2]}, and so on again from {weights[0]}. "
        f"Add all products; r is the remainder after division by {modulus}.\n"
        f"The check sign is the letter at place r, counted from 0, of {signs}\n\nSTRESS\n"
        f"The first stressed character of a text is character number {first}, counted from 1; "
        f"after it, every further one at a distance of {beat} is stressed. Spaces count too.\n",
    )
    return place


def _script(draw: Draw, place: Place) -> Parameters:
    return {
        "width": draw.number(6, 40),
        "zeros": draw.number(3, 12),
        "word": draw.word(NOUNS),
        "step": draw.number(2, 16),
        "start": draw.number(2, 20),
        "factor": draw.number(3, 90),
        "size": draw.number(60, 999),
        "run": draw.number(2, 9),
        "columns": draw.number(9, 40),
    }


def _texts(draw: Draw, kind: str, parameters: Parameters) -> Arguments:
    run = parameters["run"]
    match kind:
        case "label":
            width, zeros = parameters["width"], parameters["zeros"]
            lengths = [0, width - 1, width, width + 1, width + 5, draw.randint(1, width), 3, 1]
            digits = [1, zeros + 1, zeros, zeros - 1, zeros + 3, draw.randint(1, zeros), 2, 1]
            return [
                (_words(draw, 12)[:length], draw.randint(10 ** (count - 1), 10**count - 1))
                for length, count in zip(draw.sample(lengths, 8), digits, strict=True)
            ]
        case "pick":
            start, step = parameters["start"], parameters["step"]
            counts = [start - 1, start, start + step - 1, start + step, start + 3 * step]
            counts = [*counts, *(draw.randint(30, 60) for _ in range(3))]
            return [
                (
                    "".join(
                        f"{word}{draw.choice((' ', ' ', '  '))}"
                        for word in _words(draw, count).split()
                    ).rstrip(),
                )
                for count in draw.sample(counts, 8)
            ]
        case "shout":
            texts = []
            for _ in range(TESTS):
                words = [
                    *draw.choices(draw.part(NOUNS), k=draw.randint(2, 6)),
                    *_words(draw, 2).title().split(),
                ]
                words += [("".join(draw.choices(LETTERS, k=run + more))) for more in (0, 1)]
                words.append(draw.choice(LETTERS).upper() + draw.choice(LETTERS))
                texts.append((" ".join(draw.sample(words, len(words))),))
            return texts
        case "squeeze":
            rows = [draw.choices("aaAbBc 1", k=draw.randint(4, 8)) for _ in range(TESTS)]
            return [
                (
                    "".join(
                        letter * draw.choice((draw.randint(1, run + 3), run, run + 1))
                        for letter in row
                    ),
                )
                for row in rows
            ]
        case "expand":
            numbers = ["", "", "0", "1", str(run), str(run + 1), "10", "12", str(run - 1)]
            return [
                (
                    "".join(
                        draw.choice(numbers) + draw.choice("abcXYZ")
                        for _ in range(draw.randint(3, 8))
                    ),
                )
                for _ in range(TESTS)
            ]
        case "wrap":
            columns = parameters["columns"]
            texts = [("",), ("x" * columns + " a",)]
            for _ in range(TESTS):
                words = _words(draw, draw.randint(3, 9)).split()
                exact = draw.randint(1, columns - 2)
                words += ["y" * exact, "z" * (columns - 1 - exact), "w" * (columns + 2), "v"]
                at = draw.randint(0, len(words))
                texts.append((" ".join([*words[at:], *words[:at]]).replace(" ", "  ", 2),))
            return texts
    texts = [
        (f"{_words(draw, draw.randint(1, 6))} {draw.randint(0, 999)}{draw.choice(TOWNS)}",)
        for _ in range(TESTS - 2)
    ]
    return [*texts, (draw.choice(LETTERS) * 2,), (f" {draw.choice(TOWNS)}-X",), ("",)]


# -- python-records --------------------------------------------------------------------------------


def _office(draw: Draw, name: str) -> Place:
    site = f"/office/{name}"
    towns = draw.words(TOWNS, 4)
    low, high = draw.randint(50, 300), draw.randint(600, 900)
    fees = dict(zip(towns, draw.sample(range(10, 500), 4), strict=True))
    rebate, other, nth = draw.randint(3, 40), draw.randint(500, 700), draw.randint(2, 4)
    first, second, paper = draw.sample(range(15, 60), 3)
    place = Place(
        name,
        facts={
            "site": site,
            "fees": fees,
            "towns": towns,
            "low": low,
            "high": high,
            "rebate": rebate,
            "other": other,
            "nth": nth,
            "first": first,
            "second": second,
            "paper": paper,
        },
    )
    listed = "".join(f"{town}: {fee}\n" for town, fee in fees.items())
    place.explain(
        f"{site}/HANDBOOK",
        f"FEES\n{listed}any other town: {other}\nFrom record number {nth} of one name on, in the "
        f"order in which the records are taken, the fee is {rebate} less.\n\nDUTY\nAmounts up to "
        f"and with {low} bear no duty. Each unit of the part above {low}, up to {high}, costs "
        f"{first} pence, and each unit of the part above {high} costs {second} pence.\n"
        f"If the duty is not 0, add {paper} pence for the paper.\n\n"
        f"BANDS\nAmounts up to and with {low} are in the band low, higher ones up to and with "
        f"{high} in the band middle, all others in the band high.\n",
    )
    return place


def _ledger(draw: Draw, place: Place) -> Parameters:
    return {
        "town": draw.choice(place.facts["towns"]),
        "amount": draw.number(100, 900),
        "count": draw.number(2, 7),
        "units": draw.number(5, 80),
        "price": draw.number(110, 300),
        "more": draw.number(2, 100),
        "gap": draw.number(2, 30),
        "length": draw.number(3, 40),
        "least": draw.number(2, 4),
    }


def _records(draw: Draw, kind: str, parameters: Parameters) -> Arguments:
    amount, low, high, more = (parameters[name] for name in ("amount", "low", "high", "more"))
    gap, length = parameters["gap"], parameters["length"]
    match kind:
        case "tariff":
            units = parameters["units"]
            turns = {0, 1, units, units + 1, 2 * units, 2 * units + 1, 2 * units - 1}
            numbers = [*turns, *draw.sample(range(3 * units), 4)]
            return [(number,) for number in draw.sample(numbers, len(numbers))]
        case "duty":
            limits = [
                limit + shift + step
                for limit in (low, high)
                for shift in (-more, more)
                for step in (0, 1, draw.randint(20, 99))
            ]
            numbers = [*limits, *draw.sample(range(high, 2 * high), 5)]
            return [(number,) for number in draw.sample(numbers, len(numbers)) if number > 0]
        case "merge":
            rows = []
            for _ in range(TESTS):
                spans, start = [], draw.randint(0, 50)
                for _ in range(draw.randint(4, 7)):
                    end = start + draw.choice((draw.randint(1, 50), length, length - 1, length + 1))
                    spans.append((start, end))
                    if draw.random() < 0.3:  # a span inside of another
                        spans.append((start + 1, max(start + 1, end - 2)))
                    start = end + draw.choice((gap, gap + 1, gap - 1, 2 * gap, -1))
                rows.append((draw.sample(spans, len(spans)),))
            return [*rows, ([],)]
        case "meter":
            return [
                (
                    [
                        draw.choice(
                            (draw.randint(1, amount), amount // 2, 0, -draw.randint(1, 2 * amount))
                        )
                        for _ in range(draw.randint(4, 9))
                    ]
                    + draw.choice(([], [-1, amount], [-1, amount - 1, 1], [-amount - 1])),
                )
                for _ in range(TESTS)
            ] + [([],), ([amount, 1, -2, 3],), ([2 * amount + 5, -7, 1],)]
    town = parameters["town"]
    towns = [*parameters["towns"], town, f"{town}s", f"Old {town}", town.lower(), "Nowhere"]
    people = draw.words(PEOPLE, 3)
    limits = [amount - 1, amount, amount, amount + 1, low, low + 1, high, high + 1]

    often = 1
    if kind == "regulars":
        often, limits = 9, [amount, amount + 1, amount + 1, amount + 9]

    def record() -> tuple[str, str, int]:  # every other amount is at a limit
        near = draw.choice((draw.randint(1, 999), *draw.choices(limits, k=often)))
        return draw.choice(people), draw.choice(towns), near

    lists = [[record() for _ in range(draw.randint(9, 15))] for _ in range(TESTS)]
    for row in lists:
        row += draw.sample(row, 3)  # records that occur twice
        row += [(draw.choice(people), row[0][1], row[0][2]) for _ in range(2)]  # ties
    # sums at the limit, of as few records as count
    for row, total in zip(lists, (amount, amount + 1, amount - 1, amount), strict=False):
        row += [(draw.choice(people), "Elsewhere", 1) for _ in range(parameters["least"] - 1)]
        row.append((draw.choice(people), "Elsewhere", total - parameters["least"] + 1))
    return [([*draw.sample(row, len(row))],) for row in lists] + [([],)]


# -- python-parsing --------------------------------------------------------------------------------


def _station(draw: Draw, name: str) -> Place:
    site, fields = f"/station/{name}", draw.words(NOUNS, 3)
    widths = [draw.randint(3, 9), draw.randint(3, 9), draw.randint(3, 5)]
    letter, shift = draw.choice(LETTERS.upper()), draw.randint(3, 30)
    divisor, begin = draw.choice([3, 7, 9, 11, 13]), draw.randint(2, 4)
    end = begin + draw.randint(1, 3)
    place = Place(
        name,
        facts={
            "site": site,
            "fields": fields,
            "widths": widths,
            "letter": letter,
            "shift": shift,
            "divisor": divisor,
            "from": begin,
            "to": end,
        },
    )
    spans = "".join(
        f"{field}: {width} characters\n" for field, width in zip(fields, widths, strict=True)
    )
    place.explain(
        f"{site}/HANDBOOK",
        "TELEGRAM\nA telegram consists of these fields, without anything between them:\n"
        f"{spans}Blanks around the text of a field do not belong to it. The value of {fields[2]} "
        f"is an integer and was raised by {shift} before it was sent.\n\nTICKET\nA ticket is valid "
        f"if it begins with {letter}, everything after this letter is digits (four or more), "
        f"and the sum of the digits, the last digit counted twice, can be divided by {divisor}."
        f"\n\nZONE\nThe zone of a ticket is the number in its characters {begin + 1} to {end}, "
        "both included; the first character of a ticket has the number 1.\n",
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
        "skip": draw.number(1, 6),
        "level": draw.number(1, 5),
        **dict(zip("abc", draw.words(LETTERS, 3), strict=True)),
        **dict(zip(("field", "field2", "field3"), fields, strict=True)),
        "end": widths[0],
        "end2": widths[0] + widths[1],
        "end3": sum(widths),
    }


def _messages(draw: Draw, kind: str, parameters: Parameters) -> Arguments:
    sign, remark, quote = (parameters[name] for name in ("sign", "remark", "quote"))
    cap = parameters["cap"]
    match kind:
        case "settings":
            texts = []
            for _ in range(TESTS):
                keys = draw.sample(NOUNS, 4)
                values = [draw.choice((draw.randint(0, 1200), cap, cap + 1)) for _ in range(7)]
                lines = [
                    f"{key}{draw.choice((' ', '', '  '))}={draw.choice((' ', '', '  '))}{value}"
                    for key, value in zip([*keys, *keys[:3]], values, strict=True)
                ]
                lines += [f"#{keys[0]} = 7", f"{keys[1]}#2 = {draw.randint(0, 99)}", ""]
                texts.append(("\n".join(draw.sample(lines, len(lines))),))
            return texts
        case "measure":
            return [
                (
                    (
                        f"{draw.randint(-5, draw.choice((30, 4000)))} {parameters['one']} "
                        f"{draw.randint(-9, draw.choice((99, 30000)))} {parameters['two']}"
                    ),
                )
                for _ in range(TESTS)
            ]
        case "columns":
            cells = ["", " ", "  ", *(f" {_words(draw, 2)} " for _ in range(4)), _words(draw, 1)]
            return [
                (",".join(draw.choices(cells, k=parameters["skip"] + draw.randint(0, 6))),)
                for _ in range(TESTS)
            ]
        case "fields":
            parts = [
                [
                    _words(draw, 1),
                    f"{quote}{draw.choice(NOUNS)}{sign}{draw.choice(NOUNS)}{quote}",
                    "",
                    f"{draw.choice(NOUNS)}{quote}{sign}{quote} ",
                ]
                for _ in range(TESTS)
            ]
            return [
                (sign.join(draw.sample(row * 2, draw.randint(2, 5))) + sign + _words(draw, 1),)
                for row in parts
            ]
        case "calculate":
            sums = [
                [str(draw.randint(1, 99)) for _ in range(count)]
                for count in (4, 2, 5, 3, 1, 6, 4, 5)
            ]
            return [
                (
                    row[0]
                    + "".join(f" {draw.choice((sign, remark))} {number}" for number in row[1:]),
                )
                for row in sums
            ]
        case "duration":
            units = [parameters[name] for name in "abc"]
            return [
                (
                    draw.choice(("", " ")).join(
                        f"{draw.choice(('', draw.randint(0, 9), draw.randint(10, 200)))}{unit}"
                        for unit in draw.choices(units, k=draw.randint(1, 5))
                    ),
                )
                for _ in range(TESTS + 2)
            ]
        case "nested":
            return [(_nested(draw, 3),) for _ in range(TESTS)]
        case "telegram":
            shift, (_, _, last) = parameters["shift"], parameters["widths"]
            numbers = [cap + shift, cap + shift + 1, cap + shift - 1, shift, 0]
            numbers += [draw.randint(0, 10**last - 1) for _ in range(5)]
            return [
                (
                    "".join(
                        draw.choice((str.ljust, str.rjust))(str(value)[:width], width)
                        for value, width in zip(
                            (
                                f"{draw.choice(LETTERS)} {_words(draw, 1)[: draw.randint(1, 9)]}",
                                draw.choice(PEOPLE)[: draw.randint(2, 9)],
                                number,
                            ),
                            parameters["widths"],
                            strict=True,
                        )
                    ),
                )
                for number in numbers
            ]
        case "zone":
            begin, end = parameters["from"], parameters["to"]
            lists = []
            for _ in range(TESTS):
                zones = [
                    str(draw.choice((draw.randint(0, 9), draw.randint(0, 999)))).zfill(3)[
                        begin - end :
                    ]
                    for _ in range(3)
                ]
                tickets = [
                    draw.choice(LETTERS.upper())
                    + "".join(draw.choices("0123456789", k=begin - 1))
                    + draw.choice(zones)
                    + "".join(draw.choices("0123456789", k=draw.randint(1, 3)))
                    for _ in range(draw.randint(4, 7))
                ]
                lists.append(([*tickets, tickets[0]],))
            return lists
    return [(_ticket(draw, parameters, fault),) for fault in (0, 1, 2, 0, 3, 4, 5, 1, 1, *[0] * 7)]


def _nested(draw: Draw, depth: int) -> str:
    """Return letters with balanced brackets, up to two times so deep."""
    parts = [draw.choice(LETTERS) for _ in range(draw.randint(1, 3))]
    for _ in range(draw.randint(1, 2) if depth > 0 else 0):
        inner = _nested(draw, depth - 1)
        parts.append(draw.choice((f"({inner})", f"(({inner}){draw.choice(LETTERS)})")))
    return "".join(draw.sample(parts, len(parts)))


def _ticket(draw: Draw, parameters: Parameters, fault: int) -> str:
    """Return a valid ticket, or one with a fault: 1 a wrong sum, 2 another letter, 3 a letter among
    the digits, 4 too short, 5 a small letter."""
    while True:
        digits = "".join(
            draw.choices("0123456789", k=3 if fault == 4 else draw.choice((4, draw.randint(4, 9))))
        )
        if ((sum(map(int, digits)) + int(digits[-1])) % parameters["divisor"] == 0) is (fault != 1):
            break
    letter: str = parameters["letter"]
    if fault == 2:
        letter = draw.choice(LETTERS.upper().replace(letter, ""))
    if fault == 5:
        letter = letter.lower()
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
