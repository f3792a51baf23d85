"""Places and tests of the Python families. `questions/python-*.toml` contain the questions.

Each task asks for one function, which has the name of the question. At difficulty 2 words in the
query decide on parts of the function; at difficulty 3 the rule is only in the file HANDBOOK of a
site in the tree. The arguments of the tests are the examples of the question and what grows from
them within what it allows; the results are the gold's.
"""

from __future__ import annotations

import re
from functools import partial

from intercode.generate.draws import as_text
from intercode.generate.families import Draw, Family, Parameters, Place, Question, fill
from intercode.generate.ground import Inputs

SIGNS = "#;|~^%&+=@!:?$*"
LETTERS = "abcdefghijklmnopqrstuvwxyz"


# -- python-text -----------------------------------------------------------------------------------


def _writing_rules(draw: Draw, name: str) -> Place:
    facts: Parameters = {
        "site": draw.home("scribe", name),
        "alphabet": "".join(draw.sample(LETTERS, 26)),
        "weights": draw.sample(range(2, 40), 3),
        "modulus": draw.randint(17, 26),
    }
    facts["signs"] = "".join(draw.sample(LETTERS.upper(), facts["modulus"]))
    beat = draw.randint(3, 7)
    first, weights = draw.randint(2, beat), facts["weights"]
    place = Place(name, facts=facts | {"beat": beat, "first": first})
    words = {"weight": weights[0], "weight2": weights[1], "weight3": weights[2]}
    stressed = {"second": first + beat, "third": first + 2 * beat}
    place.explain(draw, "python-text", letters=LETTERS, **words, **stressed)
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
        "run": draw.number(3, 20),
        "columns": draw.number(9, 28),
    }


# -- python-records --------------------------------------------------------------------------------


def _charge_rules(draw: Draw, name: str) -> Place:
    site, towns = draw.home("office", name), draw.towns(4)
    low, high = draw.randint(100, 300), draw.randint(600, 900)
    fees = dict(zip(towns, draw.sample(range(10, 500), 4), strict=True))
    facts: Parameters = {"site": site, "fees": fees, "towns": towns, "low": low, "high": high}
    facts |= {
        "rebate": draw.randint(3, 9),
        "other": draw.randint(500, 700),
        "nth": draw.randint(2, 3),
    }
    names = ("first", "second", "paper")
    facts |= zip(names, draw.sample(range(15, 60), 3), strict=True)
    place = Place(name, facts=facts)
    listed = as_text(f"{town}: {fee}" for town, fee in fees.items())
    ordinal = {2: "second", 3: "third"}[facts["nth"]]
    place.explain(draw, "python-records", listed=listed, ordinal=ordinal)
    return place


def _bookings(draw: Draw, place: Place) -> Parameters:
    people, towns = draw.people(3), place.facts["towns"]
    town = draw.choice(towns)
    amount, units = draw.number(100, 900), draw.number(5, 80)
    lists = []
    for _ in range(3):
        records = []
        for _ in range(draw.randint(6, 9)):
            record = (
                draw.choice(people),
                draw.choice([*towns, town]),
                draw.randint(1, 2 * amount),
            )
            records.append(record)
        lists.append(records)
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
        "least": draw.choice((2, 2, 3)),
    }


# -- python-parsing --------------------------------------------------------------------------------


def _station_rules(draw: Draw, name: str) -> Place:
    site, fields = draw.home("station", name), draw.nouns(3)
    widths = [draw.randint(5, 9), draw.randint(5, 9), draw.randint(4, 5)]
    letter, shift = draw.choice(LETTERS.upper()), draw.randint(3, 30)
    divisor, begin = draw.choice([3, 7, 9, 11, 13]), draw.randint(2, 4)
    end = begin + draw.randint(2, 3)
    facts = {
        "site": site,
        "letter": letter,
        "shift": shift,
        "divisor": divisor,
        "from": begin,
        "to": end,
        **dict(zip(("field", "field2", "field3"), fields, strict=True)),
        **dict(zip(("width", "width2", "width3"), widths, strict=True)),
        "end": widths[0],
        "end2": widths[0] + widths[1],
        "end3": sum(widths),
    }
    place = Place(name, facts=facts)
    place.explain(draw, "python-parsing", begin=begin + 1)
    return place


def _messages(draw: Draw, place: Place) -> Parameters:
    signs, (one, two) = draw.words(SIGNS, 3), draw.nouns(2)
    return {
        "sign": signs[0],
        "remark": signs[1],
        "quote": signs[2],
        "cap": draw.number(50, 900),
        "one": one,
        "two": two,
        "small": draw.number(2, 60),
        "big": draw.number(100, 900),
        "place": draw.number(1, 20),
        "factor": draw.number(2, 40),
        "skip": draw.number(2, 6),
        "level": draw.number(2, 9),
        "tickets": [_ticket(draw, place.facts) for _ in range(9)],
        **dict(zip("abc", draw.words(LETTERS, 3), strict=True)),
    }


def _ticket(draw: Draw, facts: Parameters) -> str:
    """Return a valid ticket."""
    while True:
        digits = "".join(draw.choices("0123456789", k=draw.randint(7, 9)))
        if (sum(map(int, digits)) + int(digits[-1])) % facts["divisor"] == 0:
            return f"{facts['letter']}{digits}"


def from_examples(draw: Draw, question: Question, parameters: Parameters) -> Inputs:
    """Return the inputs that a question has as examples; they grow as far as it allows."""
    examples = [eval(fill(text, parameters)) for text in question.examples]
    names = question.gold.partition("(")[2].partition(")")[0]
    allows = eval(f"lambda {names}: {fill(question.allows, parameters)}", {"re": re})
    return Inputs(tuple(examples), allows)


_family = partial(Family, env="python", inputs=from_examples, tasks_per_place=5)
FAMILIES = (
    _family("python-text", about="make and encode text", place=_writing_rules, draw=_writing),
    _family(
        "python-records",
        about="lists of records: filter, group, charge",
        place=_charge_rules,
        draw=_bookings,
    ),
    _family(
        "python-parsing",
        about="read settings, measures, fields and telegrams",
        place=_station_rules,
        draw=_messages,
    ),
)
