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
    site, alphabet = draw.home("scribe", name), "".join(draw.sample(LETTERS, 26))
    weights, modulus = draw.sample(range(2, 40), 3), draw.randint(17, 26)
    signs = "".join(draw.sample(LETTERS.upper(), modulus))
    beat = draw.randint(3, 7)
    first = draw.randint(2, beat)
    place = Place(name, facts={"site": site, "alphabet": alphabet, "weights": weights})
    place.facts |= {"modulus": modulus, "signs": signs, "beat": beat, "first": first}
    words = dict(zip(("weight", "weight2", "weight3"), weights, strict=True))
    stressed = {"second": first + beat, "third": first + 2 * beat}
    place.explain(draw, "python-text", letters=LETTERS, **words, **stressed)
    return place


def _writing(draw: Draw, place: Place) -> Parameters:
    word, other, third, *words = draw.nouns(10)
    values = draw.values("python-text", {})
    second = values["start"] + values["step"]
    return {
        **values,
        "word": word,
        "other": other,
        "third": third,
        "title": other.title(),
        "text": " ".join(words),
        "second": second,
        "next": second + values["step"],
    }


# -- python-records --------------------------------------------------------------------------------


def _charge_rules(draw: Draw, name: str) -> Place:
    site, towns = draw.home("office", name), draw.towns(4)
    limits = draw.values("python-records limits", {})
    fees = dict(zip(towns, draw.sample(range(10, 500), 4), strict=True))
    place = Place(name, facts={"site": site, "fees": fees, "towns": towns, **limits})
    place.facts |= draw.values("python-records rules", {})
    names = ("first", "second", "paper")
    place.facts |= zip(names, draw.sample(range(15, 60), 3), strict=True)
    listed = as_text(map("{}: {}".format, towns, fees.values()))
    ordinal = {2: "second", 3: "third"}[place.facts["nth"]]
    place.explain(draw, "python-records", listed=listed, ordinal=ordinal)
    return place


def _bookings(draw: Draw, place: Place) -> Parameters:
    people, towns = draw.people(3), place.facts["towns"]
    town = draw.choice(towns)
    amount, units = draw.number(100, 900), draw.number(5, 80)
    parameters: Parameters = {"person": people[0], "town": town, "amount": amount}
    parameters |= {"units": units, "limit": 2 * units}
    for name in ("records", "records2", "records3"):
        records = []
        for _ in range(draw.randint(6, 9)):
            record = (
                draw.choice(people),
                draw.choice([*towns, town]),
                draw.randint(1, 2 * amount),
            )
            records.append(record)
        parameters[name] = records
    return parameters | draw.values("python-records", {"leasts": (2, 2, 3)})


# -- python-parsing --------------------------------------------------------------------------------


def _station_rules(draw: Draw, name: str) -> Place:
    facts: Parameters = {"site": draw.home("station", name)}
    facts |= zip(("field", "field2", "field3"), draw.nouns(3), strict=True)
    pools = {"letters": LETTERS.upper(), "divisors": (3, 7, 9, 11, 13)}
    facts |= draw.values("python-parsing rules", pools)
    facts["to"] = facts["from"] + draw.randint(2, 3)
    facts["end"] = facts["width"]
    facts["end2"] = facts["end"] + facts["width2"]
    facts["end3"] = facts["end2"] + facts["width3"]
    place = Place(name, facts=facts)
    place.explain(draw, "python-parsing", begin=facts["from"] + 1)
    return place


def _messages(draw: Draw, place: Place) -> Parameters:
    signs, (one, two) = draw.words(SIGNS, 3), draw.nouns(2)
    return {
        "sign": signs[0],
        "remark": signs[1],
        "quote": signs[2],
        "one": one,
        "two": two,
        **draw.values("python-parsing", {}),
        "tickets": [_ticket(draw, place.facts) for _ in range(9)],
        **dict(zip("abc", draw.words(LETTERS, 3), strict=True)),
    }


def _ticket(draw: Draw, facts: Parameters) -> str:
    """Return a valid ticket."""
    while True:
        digits = "".join(draw.choices("0123456789", k=draw.randint(7, 9)))
        if (sum(map(int, digits)) + int(digits[-1])) % facts["divisor"] == 0:
            return f"{facts['letter']}{digits}"


def inputs_of(question: Question, parameters: Parameters) -> Inputs:
    """Return the inputs that a question has as examples; they grow as far as it allows."""
    examples = [eval(fill(text, parameters)) for text in question.examples]
    names = question.gold.partition("(")[2].partition(")")[0]
    allows = eval(f"lambda {names}: {fill(question.allows, parameters)}", {"re": re})
    return Inputs(tuple(examples), allows)


_family = partial(Family, env="python", tasks_per_place=5)
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
