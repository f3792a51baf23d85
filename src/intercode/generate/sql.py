"""Databases of the SQL families. `questions/sql-*.toml` contain the questions.

Each place is one database in portable SQL. A gold of difficulty 1 reads one table; difficulty 2
joins, groups, ranks or looks for missing rows; at difficulty 3 another table of the database
explains a code or a rule. Days are numbers, counted from the first day of the records.
"""

from __future__ import annotations

from collections.abc import Sequence

from intercode.generate.families import (
    NOUNS,
    PEOPLE,
    TOWNS,
    Draw,
    Family,
    Parameters,
    Place,
    rows_of,
)

Row = Sequence[str | int | None]


def _table(name: str, columns: str, rows: Sequence[Row]) -> str:
    """Return the statements that make a table; the values of a column decide its type, and a column
    `id` is the key."""
    definitions = []
    for column, values in zip(columns.split(), zip(*rows, strict=True), strict=True):
        kind = "VARCHAR(100)" if any(isinstance(value, str) for value in values) else "INTEGER"
        key = " NOT NULL PRIMARY KEY" if column == "id" else ""
        definitions.append(f"{column} {kind}{key}")
    lines = [", ".join("NULL" if value is None else repr(value) for value in row) for row in rows]
    columns_text, rows_text = ",\n  ".join(definitions), "),\n  (".join(lines)
    return (
        f"CREATE TABLE {name} (\n  {columns_text}\n);\nINSERT INTO {name} VALUES\n"
        f"  ({rows_text});\n"
    )


def _database(name: str, facts: Parameters, *tables: str) -> Place:
    name = name.replace("-", "_")
    return Place(name, {f"databases/{name}.sql": "\n".join(tables)}, {"db": name, **facts})


def _people(draw: Draw, count: int) -> list[str]:
    """Return different full names."""
    return draw.sample(
        [f"{first} {town}er" for first in draw.part(PEOPLE) for town in draw.part(TOWNS)], count
    )


def _things(draw: Draw, count: int) -> list[str]:
    """Return different names of two words."""
    return draw.sample(
        [f"{first} {second}" for first in draw.part(NOUNS) for second in draw.part(NOUNS)], count
    )


def _signs(draw: Draw, meanings: Sequence[str]) -> dict[str, str]:
    """Return a sign of two characters for each meaning."""
    return dict(
        zip(
            meanings,
            draw.sample([f"{letter}{digit}" for letter in "CFHKRTX" for digit in range(1, 9)], 4),
            strict=True,
        )
    )


# -- sql-shop --------------------------------------------------------------------------------------

STATES, GRADES = ("paid", "reserved", "returned", "lost"), ("plain", "fine", "rustic", "festive")


def _shop(draw: Draw, name: str) -> Place:
    names = _people(draw, 30)
    towns = draw.words(TOWNS, 5)
    states = _signs(draw, STATES)
    grades = _signs(draw, GRADES)
    large = draw.randint(3000, 6000)
    customers = [
        (id, names[id - 1], draw.choice(towns), draw.randint(1990, 2030)) for id in range(1, 31)
    ]
    articles = [
        (id, thing, draw.choice(list(grades.values())), draw.randint(20, 990))
        for id, thing in enumerate(_things(draw, 30), 1)
    ]
    purchases = [
        (
            id,
            draw.randint(1, 27),
            draw.randint(1, 27),
            draw.randint(1, 400),
            draw.randint(1, 40),
            draw.choice(list(states.values())),
        )
        for id in range(1, 241)
    ]
    codes = [("state", sign, meaning) for meaning, sign in states.items()] + [
        ("grade", sign, meaning) for meaning, sign in grades.items()
    ]
    rules = [
        ("large", f"A purchase is large if pieces times price is {large} or more."),
        ("new", "A customer is new until day 30."),
    ]
    return _database(
        name,
        {"names": names, "towns": towns, "states": states, "grades": grades, "large": large},
        _table("customer", "id name town since", customers),
        _table("article", "id name grade price", articles),
        _table("purchase", "id customer_id article_id day pieces state", purchases),
        _table("code", "field sign meaning", draw.sample(codes, 8)),
        _table("house_rule", "topic rule", rules),
    )


def _purchase(draw: Draw, place: Place) -> Parameters:
    state, grade = draw.choice(STATES), draw.choice(GRADES)
    return {
        "name": draw.choice(place.facts["names"]),
        "town": draw.choice(place.facts["towns"]),
        "year": draw.number(1992, 2026),
        "price": draw.number(100, 900),
        "day": draw.number(5, 370),
        "pieces": draw.number(3, 36),
        "state": state,
        "state_sign": place.facts["states"][state],
        "grade": grade,
        "grade_sign": place.facts["grades"][grade],
    }


# -- sql-library -----------------------------------------------------------------------------------

CONDITIONS, CLASSES = ("new", "worn", "torn", "missing"), ("pupil", "adult", "teacher", "guest")


def _library(draw: Draw, name: str) -> Place:
    writers, readers, towns = _people(draw, 12), _people(draw, 30), draw.words(TOWNS, 5)
    conditions, classes = _signs(draw, CONDITIONS), _signs(draw, CLASSES)
    days = dict(zip(CLASSES, draw.sample(range(10, 45), 4), strict=True))
    books = [
        (
            id,
            title,
            draw.randint(1, 11),
            draw.randint(1950, 2030),
            draw.choice(list(conditions.values())),
        )
        for id, title in enumerate(_things(draw, 45), 1)
    ]
    readers_rows = [
        (
            id,
            reader,
            draw.choice(towns),
            draw.randint(1940, 2020),
            draw.choice(list(classes.values())),
        )
        for id, reader in enumerate(readers, 1)
    ]
    loans = []
    for id, taken in enumerate(sorted(draw.randint(1, 400) for _ in range(220)), 1):
        back = taken + draw.randint(2, 50) if draw.random() < 0.85 else None
        loans.append((id, draw.randint(1, 42), draw.randint(1, 28), taken, back))
    return _database(
        name,
        {
            "writers": writers,
            "readers": readers,
            "towns": towns,
            "conditions": conditions,
            "classes": classes,
            "days": days,
        },
        _table(
            "writer",
            "id name town",
            [(id, writer, draw.choice(towns)) for id, writer in enumerate(writers, 1)],
        ),
        _table("book", "id title writer_id year state", books),
        _table("reader", "id name town born class", readers_rows),
        _table("loan", "id book_id reader_id taken back", loans),
        _table(
            "book_state", "sign meaning", [(sign, meaning) for meaning, sign in conditions.items()]
        ),
        _table(
            "reader_class",
            "sign meaning days",
            [(classes[kind], kind, days[kind]) for kind in CLASSES],
        ),
        _table(
            "house_rule",
            "topic rule",
            [("late", "A loan is late if it took more days than reader_class allows.")],
        ),
    )


def _loan(draw: Draw, place: Place) -> Parameters:
    condition, kind = draw.choice(CONDITIONS), draw.choice(CLASSES)
    return {
        "writer": draw.choice(place.facts["writers"]),
        "reader": draw.choice(place.facts["readers"]),
        "town": draw.choice(place.facts["towns"]),
        "year": draw.number(1955, 2025),
        "born": draw.number(1945, 2015),
        "day": draw.number(10, 380),
        "count": draw.number(2, 12),
        "condition": condition,
        "kind": kind,
        "sign": place.facts["conditions"][condition],
        "class": place.facts["classes"][kind],
        "days": place.facts["days"][kind],
    }


# -- sql-league ------------------------------------------------------------------------------------

ROLES, KINDS = ("keeper", "back", "middle", "front"), ("league", "cup", "friendly", "charity")


def _league(draw: Draw, name: str) -> Place:
    teams, players = [f"{noun.title()}s" for noun in draw.words(NOUNS, 8)], _people(draw, 40)
    roles, kinds = _signs(draw, ROLES), _signs(draw, KINDS)
    win, drawn = draw.sample(range(1, 10), 2)
    games, goals = list[Row](), list[Row]()
    for id in range(1, 121):
        home, away = draw.sample(range(1, 9), 2)
        score = [draw.randint(0, 4), draw.randint(0, 3)]
        games.append(
            (id, draw.randint(1, 300), home, away, *score, draw.choice(list(kinds.values())))
        )
        goals += [
            (len(goals) + k, id, draw.randint(1, 36), draw.randint(1, 90))
            for k in range(1, sum(score) + 1)
        ]
    team_rows = [
        (id, team, draw.word(TOWNS), draw.randint(1880, 2010)) for id, team in enumerate(teams, 1)
    ]
    player_rows = [
        (
            id,
            player,
            draw.randint(1, 8),
            draw.choice(list(roles.values())),
            draw.randint(1985, 2012),
        )
        for id, player in enumerate(players, 1)
    ]
    rules = [
        ("points", f"A won game gives {win + drawn} points, a draw {drawn}, a lost game none.")
    ]
    return _database(
        name,
        {
            "teams": teams,
            "players": players,
            "roles": roles,
            "kinds": kinds,
            "win": win + drawn,
            "drawn": drawn,
        },
        _table("team", "id name town founded", team_rows),
        _table("player", "id name team_id role born", player_rows),
        _table("game", "id day home_id away_id home_goals away_goals kind", games),
        _table("goal", "id game_id player_id minute", goals),
        _table("role_sign", "sign meaning", [(sign, meaning) for meaning, sign in roles.items()]),
        _table("game_kind", "sign meaning", [(sign, meaning) for meaning, sign in kinds.items()]),
        _table("house_rule", "topic rule", rules),
    )


def _game(draw: Draw, place: Place) -> Parameters:
    role, kind = draw.choice(ROLES), draw.choice(KINDS)
    return {
        "team": draw.choice(place.facts["teams"]),
        "player": draw.choice(place.facts["players"]),
        "day": draw.number(10, 270),
        "minute": draw.number(5, 85),
        "born": draw.number(1987, 2010),
        "role": role,
        "role_sign": place.facts["roles"][role],
        "kind": kind,
        "kind_sign": place.facts["kinds"][kind],
    }


FAMILIES = (
    Family(
        "sql-shop",
        "sql",
        "customers, articles and purchases of a shop",
        _shop,
        _purchase,
        tasks_per_place=40,
        answer=rows_of,
    ),
    Family(
        "sql-library",
        "sql",
        "books, readers and loans of a library",
        _library,
        _loan,
        tasks_per_place=40,
        answer=rows_of,
    ),
    Family(
        "sql-league",
        "sql",
        "teams, players, games and goals of a league",
        _league,
        _game,
        tasks_per_place=40,
        answer=rows_of,
    ),
)
