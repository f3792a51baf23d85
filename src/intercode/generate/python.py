"""Places and tests of the Python families. `questions/python-*.toml` contain the questions.

Each task asks for one function, which has the name of the question. At difficulty 2 words in the
query decide on parts of the function; at difficulty 3 the rule is only in the file HANDBOOK of a
site in the tree. The arguments of the tests are drawn, with those at limits, empty ones, ties and
repeated items among them, and the results are the gold's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from intercode.generate.families import (
    NOUNS,
    PEOPLE,
    TOWNS,
    Draw,
    Family,
    Parameters,
    Place,
    Question,
    fill,
    text_of,
)
from intercode.generate.ground import Inputs

SIGNS = "#;|~^%&+=@!:?$*"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
TESTS = 12
"""The number of argument lists that are drawn for each task."""
Arguments = Sequence[tuple[Any, ...]]


def _words(draw: Draw, count: int) -> str:
    return " ".join(draw.choices(draw.part(NOUNS), k=count))


def _odd_words(draw: Draw, count: int) -> list[str]:
    """Return words, some of them short, joined, repeated, or with accents, capitals or digits."""
    one, two = draw.words(NOUNS, 2)
    forms = (
        one,
        two,
        one.title(),
        f"{one}-{two}",
        f"{two}'s",
        f"{two}é",
        "a",
        "B",
        "-",
        "3rd",
        "70",
    )
    return draw.choices([*forms, *draw.part(NOUNS)[:3]], k=count)


def _spaced(draw: Draw, words: Sequence[str]) -> str:
    """Return the words with one or more spaces between them, and often some at the ends."""
    ends = [draw.choice(("", "", " ", "   ")) for _ in range(2)]
    between = (draw.choice((" ", " ", "  ", "   ", "     ")) for _ in words[1:])
    text = "".join(gap + word for gap, word in zip(("", *between), words, strict=False))
    return ends[0] + text + ends[1]


def _characters(draw: Draw, length: int) -> str:
    """Return a text of any characters, often with spaces at both ends."""
    signs = f"{SIGNS}'\"\\{{}}-_.,/"
    letters = LETTERS * 2 + LETTERS.upper() + "éöñÅ" * 2
    text = "".join(draw.choices(f"{letters}0123456789{signs}\n\t" + " " * 16, k=length))
    return f" {text[2:]} " if length > 2 and draw.random() < 0.4 else text


# -- python-text -----------------------------------------------------------------------------------


def _writing_rules(draw: Draw, name: str) -> Place:
    site, alphabet = f"{draw.home('scribe')}/{name}", "".join(draw.sample(LETTERS, 26))
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
        f"CIPHER\nTo encrypt, replace the lower-case letters {LETTERS}\n"
        f"with the letters                      {alphabet}\n"
        "All other characters stay the same.\n\nCHECK LETTER\n"
        f"Multiply the code point (ord) of the first character by {weights[0]}, of the second by "
        f"{weights[1]}, of the third by {weights[2]}, of the fourth by {weights[0]} again, and so "
        f"on. Add up all products; r is the remainder after division by {modulus}.\n"
        f"The check letter is the one at position r, counting from 0, of {signs}\n\nSTRESS\n"
        f"Counting characters from 1, character {first} is stressed, and after it every "
        f"character at a distance of {beat}: {first + beat}, {first + 2 * beat}, and so on. Spaces "
        "count as well.\n",
    )
    return place


def _writing(draw: Draw, place: Place) -> Parameters:
    word, other, third, *words = draw.nouns(10)
    start, step = draw.number(2, 10), draw.number(2, 6)
    return {
        "width": draw.number(6, 30),
        "zeros": draw.number(3, 9),
        "word": word,
        "other": other,
        "third": third,
        "title": other.title(),
        "text": " ".join(words),
        "line": draw.line(),
        "start": start,
        "step": step,
        "second": start + step,
        "next": start + 2 * step,
        "factor": draw.number(3, 90),
        "size": draw.number(60, 999),
        "run": draw.number(3, 12),
        "columns": draw.number(9, 28),
    }


# -- python-records --------------------------------------------------------------------------------


def _charge_rules(draw: Draw, name: str) -> Place:
    site, towns = f"{draw.home('office')}/{name}", draw.towns(4)
    low, high = draw.randint(100, 300), draw.randint(600, 900)
    fees = dict(zip(towns, draw.sample(range(10, 500), 4), strict=True))
    rebate, other, nth = draw.randint(3, 9), draw.randint(500, 700), draw.randint(2, 3)
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
    ordinal = {2: "second", 3: "third"}[nth]
    place.explain(
        f"{site}/HANDBOOK",
        f"FEES\n{listed}any other town: {other}\nFrom the {ordinal} record with the same name on, "
        f"in the order in which records are processed, the fee is {rebate} in every town.\n\nDUTY\n"
        f"The first {low} of an amount are free. Each unit above {low}, up to {high}, costs "
        f"{first} pence, and each unit above {high} costs {second} pence.\n"
        f"If the duty is not 0, add {paper} pence for the paper.\n\n"
        f"BANDS\nlow: up to and including {low}\nmiddle: above {low}, up to and including {high}\n"
        f"high: above {high}\n",
    )
    return place


def _bookings(draw: Draw, place: Place) -> Parameters:
    people, towns = draw.people(3), place.facts["towns"]
    town = draw.choice(towns)
    amount, units = draw.number(100, 900), draw.number(5, 80)
    lists = [
        [
            (draw.choice(people), draw.choice([*towns, town]), draw.randint(1, 2 * amount))
            for _ in range(draw.randint(6, 9))
        ]
        for _ in range(3)
    ]
    return {
        "records": lists[0],
        "records2": lists[1],
        "records3": lists[2],
        "person": people[0],
        "town": town,
        "amount": amount,
        "count": draw.number(2, 5),
        "units": units,
        "limit": 2 * units,
        "dear": draw.number(50, 99),
        "price": draw.number(11, 49),
        "fee": draw.number(60, 200),
        "more": draw.number(2, 40),
        "gap": draw.number(2, 30),
        "length": draw.number(4, 40),
        "least": draw.number(2, 3),
    }


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
        f"{spans}Spaces around the text of a field do not belong to it. The value of {fields[2]} "
        f"is an integer and was raised by {shift} before it was sent.\n\nTICKET\nA ticket is valid "
        f"if it begins with {letter}, everything after this letter is digits (four or more), "
        f"and the sum of the digits, the last digit counted twice, is divisible by {divisor}."
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
                keys += [keys[0].title(), f"{keys[1]}.{keys[2]}", f"{keys[3]}2"]
                values = (-cap, draw.randint(-9, 99), draw.randint(0, 1200), cap, cap + 1, 9 * cap)
                lines = []
                for key in draw.sample(keys * 2, 9):
                    blanks = [draw.choice(("", " ", "   ")) for _ in range(4)]
                    value = draw.choice((*values, "007", "0"))
                    lines.append("{}{key}{}={}{value}{}".format(*blanks, key=key, value=value))
                lines += [f"#{keys[0]} = 7", "# a=b = c", "#", f"{keys[1]}#2 = {cap - 1}", ""]
                texts.append(("\n".join(draw.sample(lines, draw.randint(1, len(lines)))),))
            return [*texts, ("",)]
        case "measure":
            numbers = [-1, 0, 1, 12, *draw.sample(range(-50, 30000), 7)]
            pairs = [draw.sample(numbers, 2) for _ in range(TESTS - 3)]
            pairs += [[10**17 + 1, -7], [-3, 10**18 + 1], [-draw.randint(1, 99), 0]]
            return [
                (f"{big} {parameters['one']} {small} {parameters['two']}",)
                for big, small in draw.sample(pairs, len(pairs))
            ]
        case "columns":
            skip = parameters["skip"]
            cells = ["", " ", "  ", "0", '"b', 'c" ', " d   e ", "F-g "]
            cells += [f" {_words(draw, 2)} " for _ in range(3)]
            counts = [1, skip, skip + 1, *(skip + draw.randint(2, 9) for _ in range(TESTS))]
            return [
                (",".join(draw.choices(cells, k=count)),)
                for count in draw.sample(counts, len(counts))
            ]
        case "fields":
            pieces = ["", " ", "", *draw.words(NOUNS, 2), "a B", quote * 2]
            pieces += [f"{quote}{piece}{quote}" for piece in (sign, f"a{sign}", f" {sign * 2}b ")]
            return [
                (
                    sign.join(
                        "".join(draw.choices(pieces, k=draw.randint(0, 3)))
                        for _ in range(draw.randint(1, 6))
                    ),
                )
                for _ in range(TESTS)
            ]
        case "calculate":
            numbers = [-7, -6, -3, -2, -1, 0, 1, 2, 3, 6, 10, *draw.sample(range(-99, 999), 9)]
            sums = [
                draw.choices(numbers, k=count) for count in (1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 6, 9)
            ]
            sums += [[5, 5, 4], [-2, 1, 3], [2, -1, 7], [1, 3, 8], [-7, -7, 2]]  # 0 on the way
            return [
                (
                    str(row[0])
                    + "".join(f" {draw.choice((sign, remark))} {number}" for number in row[1:]),
                )
                for row in draw.sample(sums, len(sums))
            ]
        case "duration":
            units = [parameters[name] for name in "abc"]
            times = ["", "", "0", "00", "07", "1", *map(str, draw.sample(range(2, 200), 6))]
            return [
                (
                    "".join(
                        f"{draw.choice(times)}{unit}{draw.choice(('', gap))}"
                        for unit in draw.choices(units, k=draw.randint(1, 7))
                    ).strip(),
                )
                for gap in ("", " ", "  ") * 5
            ] + [(f"1{units[2]}",)]
        case "nested":
            level = parameters["level"]
            shallow = [_nested(draw, depth) for depth in (1, 1, 2, 2, *[3] * TESTS)]
            deep = [
                "(" * depth + f"aB{draw.choice(LETTERS)}a" + ")" * depth + "a" + text
                for depth, text in zip((level - 1, level, level + 10), shallow, strict=False)
            ]
            return [(text,) for text in draw.sample(shallow + deep, len(shallow + deep))]
        case "telegram":
            shift, (_, _, last) = parameters["shift"], parameters["widths"]
            sent = [cap + shift, cap + shift + 1, cap + shift - 1, shift, 0, "007", "-3"]
            sent += [draw.randint(0, 10**last - 1) for _ in range(8)]
            phrases = [f"{draw.choice(LETTERS)} {word}" for word in _odd_words(draw, 6)]
            phrases += ["", "4  U", *_odd_words(draw, 6)]
            return [
                (
                    "".join(
                        draw.choice((str.ljust, str.rjust, str.center))(str(part)[:width], width)
                        for part, width in zip(
                            (*draw.sample(phrases, 2), value), parameters["widths"], strict=True
                        )
                    ),
                )
                for value in draw.sample(sent, len(sent))
            ]
        case "zone":
            begin, end = parameters["from"], parameters["to"]
            lists = []
            for _ in range(TESTS):
                zones = [
                    str(draw.choice((0, draw.randint(0, 9), draw.randint(0, 999)))).zfill(3)[
                        begin - end :
                    ]
                    for _ in range(4)
                ]
                tickets = [
                    draw.choice(LETTERS.upper())
                    + "".join(draw.choices("0123456789", k=begin - 1))
                    + draw.choice(zones)
                    + "".join(draw.choices("0123456789", k=draw.randint(1, 3)))
                    for _ in range(draw.randint(1, 9))
                ]
                lists.append(([*tickets, tickets[0]],))
            return [*lists, ([],)]
    faults = [1, 1, 1, *range(2, len(_FAULTS) + 1)]
    faults = draw.sample([*faults, *[0] * len(faults)], 2 * len(faults))
    return [(_ticket(draw, parameters, fault),) for fault in faults] + [
        (f"{parameters['letter']}0000",)
    ]


def _nested(draw: Draw, depth: int) -> str:
    """Return letters, capitals too, with balanced brackets, up to two times so deep."""
    parts = [draw.choice(f"aabB{LETTERS}{LETTERS.upper()}") for _ in range(draw.randint(0, 3))]
    for _ in range(draw.randint(1, 2) if depth > 0 else 0):
        inner = _nested(draw, depth - 1)
        parts.append(draw.choice((f"({inner})", f"(({inner}){draw.choice(LETTERS)})")))
    return "".join(draw.sample(parts, len(parts)))


_FAULTS = (
    "a wrong sum",
    "another letter",
    "a sign among the digits",
    "too short",
    "a small letter",
    "a letter at the end",
    "a letter at the start",
    "the letter twice",
    "digits alone",
    "a space at the end",
    "a wrong sum without the last digit twice",
)


def _ticket(draw: Draw, parameters: Parameters, fault: int) -> str:
    """Return a valid ticket, or one with the fault that has this number in `_FAULTS`, from 1."""
    divisor, letter = parameters["divisor"], parameters["letter"]
    while True:
        count = 3 if fault == 4 else draw.choice((4, draw.randint(4, 12)))
        digits = "".join(draw.choices("0123456789", k=count))
        total = sum(map(int, digits))
        if fault == 11 and total % divisor == 0 and int(digits[-1]) % divisor:
            break
        if fault != 11 and ((total + int(digits[-1])) % divisor == 0) is (fault != 1):
            break
    other = draw.choice(LETTERS.upper().replace(letter, ""))
    faulty = {
        2: f"{other}{digits}",
        3: f"{letter}{digits[:2]}{draw.choice('x-. ')}{digits[2:]}",
        5: f"{letter.lower()}{digits}",
        6: f"{letter}{digits}{other}",
        7: f"{other}{letter}{digits}",
        8: f"{letter}{letter}{digits}",
        9: digits,
        10: f"{letter}{digits} ",
    }
    return faulty.get(fault, f"{letter}{digits}")


def _old(
    inputs: Callable[[Draw, str, Parameters], Arguments],
) -> Callable[[Draw, Question, Parameters], Inputs]:
    """Take the inputs of a function that draws all of them; they do not grow."""

    def drawn(draw: Draw, question: Question, parameters: Parameters) -> Inputs:
        return Inputs(tuple(inputs(draw, question.kind, parameters)), lambda *arguments: False)

    return drawn


def from_examples(draw: Draw, question: Question, parameters: Parameters) -> Inputs:
    """Return the inputs that a question has as examples; they grow as far as it allows."""
    examples = [eval(fill(text, parameters)) for text in question.examples]
    names = question.gold.partition("(")[2].partition(")")[0]
    allows = eval(f"lambda {names}: {fill(question.allows, parameters)}", {"re": re})
    return Inputs(tuple(examples), allows)


FAMILIES = (
    Family(
        "python-text",
        "python",
        "make and encode text",
        _writing_rules,
        _writing,
        from_examples,
        tasks_per_place=5,
        answer=text_of,
    ),
    Family(
        "python-records",
        "python",
        "lists of records: filter, group, charge",
        _charge_rules,
        _bookings,
        from_examples,
        tasks_per_place=5,
        answer=text_of,
    ),
    Family(
        "python-parsing",
        "python",
        "read settings, measures, fields and telegrams",
        _station,
        _message,
        _old(_messages),
        tasks_per_place=5,
        answer=text_of,
    ),
)
