"""Databases of the SQL families. `questions/sql-*.toml` contain the questions.

Each place is one database in portable SQL. A gold of difficulty 1 reads one table; difficulty 2
joins, groups, ranks or looks for missing rows, and words in the query decide on its columns and
comparisons; at difficulty 3 another table of the database explains a code or a rule. Days are
numbers, counted from the first day of the records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import product, repeat
from typing import Any

from intercode.generate.draws import WORDS, among, middle, of_type, read_toml, without, word_lists
from intercode.generate.families import Draw, Family, Parameters, Place
from intercode.generate.ground import Cell, Rows

SURNAMES = WORDS["surnames"]
CLUBS = ("United", "Rovers", "City", "Athletic")
CODES = word_lists(read_toml("words")["codes"])
"""Columns of signs that another table explains, and the meanings of the signs."""
EXPLAINING = frozenset(
    ("code", "book_condition", "reader_class", "role_sign", "game_kind", "house_rule")
)
"""Tables with codes and rules, which do not change."""
DAYS = 60
PRICES = (9, 10, 12, 14, 15, 19, 20, 24, 29, 30, 39, 40, 60)
HIGHEST = 9999
Rule = tuple[str, str]


def _plausible(row: Mapping[str, Any]) -> bool:
    """Say whether a row may be in a database: no number is negative or very high, nothing is
    brought back before it is taken, and no team plays against itself."""
    numbers = of_type(int, row.values())
    back, home = row.get("back"), row.get("home_id")
    return (
        min(numbers) >= 0
        and max(numbers) <= HIGHEST
        and (back is None or row["taken"] <= back <= row["taken"] + DAYS)
        and (home is None or home != row["away_id"])
    )


def _table(draw: Draw, count: int, **columns: Sequence[Cell]) -> Rows:
    """Return a table of so many rows, with the column `id` and others, which have one of the given
    values in each row."""
    rows = list[tuple[Cell, ...]]()
    ids = draw.sample(range(1, count * 4 // 3), count)
    while len(rows) < count:
        row = (ids[len(rows)], *map(draw.choice, columns.values()))
        if _plausible(dict(zip(("id", *columns), row, strict=True))):
            rows.append(row)
    refers = {}
    for name in columns:
        if name in ("home_id", "away_id"):
            refers[name] = "team"
        elif name.endswith("_id"):
            refers[name] = name.removesuffix("_id")
    return Rows(
        ("id", *columns),
        tuple(rows),
        key="id",
        closed=among(columns, CODES),
        refers=refers,
        allows=_plausible,
    )


def _database(
    name: str,
    codes: Mapping[str, Mapping[str, str]],
    rules: Sequence[Rule],
    facts: Parameters,
    **tables: Rows,
) -> Place:
    """Return a place with a database. `codes` has a sign for each meaning, by column."""
    lines, data = list[str](), {}
    for column, signs in codes.items():
        meanings = ", ".join(f"{sign} = {word}" for word, sign in signs.items())
        lines.append(f"Codes in {column}: {meanings}")
        data[column.partition(".")[2]] = signs
    for _, rule in rules:
        lines.append(rule)
    return Place(
        name,
        facts={"db": name.replace("-", "_"), **facts},
        rules="\n".join(lines),
        data=data,
        tables={**tables, "house_rule": _explaining("topic rule", rules)},
        fixed={*EXPLAINING},
    )


def _explaining(columns: str, rows: Iterable[Sequence[Cell]]) -> Rows:
    return Rows(tuple(columns.split()), tuple(map(tuple, rows)))


def _signs(draw: Draw, column: str) -> dict[str, str]:
    """Return a sign of two characters for each meaning of a column."""
    signs = [*map("".join, product("CFHKRTX", "12345678"))]
    return dict(zip(CODES[column], draw.sample(signs, 4), strict=True))


def _meanings(signs: Mapping[str, str]) -> Rows:
    """Return the table that explains signs; `signs` has a sign for each meaning."""
    return _explaining("sign meaning", zip(signs.values(), signs, strict=True))


def _names(draw: Draw, count: int) -> list[str]:
    """Return names of people; they may repeat."""
    return [f"{draw.people(1)[0]} {draw.word(SURNAMES)}" for _ in range(count)]


def _values(draw: Draw, place: Place) -> Parameters:
    """Return a value of each column, by its name: of the first table with such a column. To a
    number comes a higher one (`day2`), to the meaning of a code its sign (`state_sign`)."""
    parameters: Parameters = {"count": draw.number(2, 5)}
    for name, table in place.tables.items():
        if name in place.fixed:
            continue
        for column in table.columns:
            if column in parameters:
                continue
            values: list[Any] = without(table.column(column), [None])
            if signs := place.data.get(column):
                parameters[column] = draw.choice([*signs])
                parameters[f"{column}_sign"] = signs[parameters[column]]
            elif isinstance(values[0], int):
                parameters[column] = draw.limit(middle(values, 5))
                parameters[f"{column}2"] = parameters[column] + draw.randint(2, 12)
            else:
                parameters[column] = draw.choice(values)
    return parameters


def _shop(draw: Draw, name: str) -> Place:
    states, grades = _signs(draw, "state"), _signs(draw, "grade")
    customer = _table(
        draw,
        20,
        name=_names(draw, 16),
        town=[*draw.towns(3), None],
        since=range(2005, 2025),
    )
    article = _table(
        draw,
        14,
        name=[" ".join(draw.nouns(2)) for _ in range(9)],  # some come in several grades
        grade=[*grades.values()],
        price=PRICES,
    )
    purchase = _table(
        draw,
        70,
        customer_id=customer.column("id"),
        article_id=article.column("id"),
        day=draw.sample(range(1, DAYS + 1), 24),
        pieces=range(1, 15),
        rebate=(None, None, 0, 5, 10),
        state=[*states.values()],
    )
    large = draw.choice((60, 80, 120, 160, 180, 240))
    compared, words = draw.choice(((">=", f"is {large} or more"), (">", f"is more than {large}")))
    begin = draw.randint(5, 25)
    end = begin + draw.randint(15, 30)
    return _database(
        name,
        {"purchase.state": states, "article.grade": grades},
        [
            ("large", f"A purchase is large if pieces times price {words}."),
            ("season", f"The season is from day {begin} to day {end}, both included."),
        ],
        {
            "large": large,
            "large_is": compared,
            "large_more": large + 1,
            "large_less": large - 1,
            "begin": begin,
            "end": end,
        },
        customer=customer,
        article=article,
        purchase=purchase,
        code=_explaining(
            "field sign meaning",
            [
                *zip(repeat("state"), states.values(), states, strict=False),
                *zip(repeat("grade"), grades.values(), grades, strict=False),
            ],
        ),
    )


def _library(draw: Draw, name: str) -> Place:
    conditions, classes = _signs(draw, "condition"), _signs(draw, "class")
    names = _names(draw, 20)
    weeks = draw.sample((7, 14, 21, 28), 4)
    first, weekday = draw.randint(1950, 1990), draw.randint(1, 3)
    days = [day for day in range(1, DAYS) if day % 7 in (weekday, weekday + 3)]  # it is open
    reader = _table(
        draw,
        24,
        name=names[:14],
        town=[*draw.towns(3), None],
        born=range(first, first + 12),
        **{"class": [*classes.values()]},
    )
    writer = _table(draw, 8, name=names[12:])
    book = _table(
        draw,
        30,
        title=[" ".join(draw.nouns(2)).title() for _ in range(12)],
        writer_id=writer.column("id"),
        year=range(2008, 2025),
        condition=[*conditions.values()],
    )
    loan = _table(
        draw,
        70,
        book_id=book.column("id")[3:],
        reader_id=reader.column("id")[3:],
        taken=days,
        back=[*days, *[None] * 12],
    )
    over, words = draw.choice(((">", "more than"), (">=", "at least")))
    fine = draw.randint(3, 90)
    return _database(
        name,
        {"book.condition": conditions, "reader.class": classes},
        [
            ("late", f"A loan is late if back minus taken is {words} reader_class.days."),
            ("fine", f"Each day beyond reader_class.days costs {fine} cents."),
        ],
        {"late_is": over, "fine": fine},
        reader=reader,
        writer=writer,
        book=book,
        loan=loan,
        book_condition=_meanings(conditions),
        reader_class=_explaining(
            "sign meaning days", zip(classes.values(), classes, weeks, strict=True)
        ),
    )


def _league(draw: Draw, name: str) -> Place:
    roles, kinds = _signs(draw, "role"), _signs(draw, "kind")
    team = _table(
        draw,
        9,
        name=[*map(" ".join, product(map(str.title, draw.nouns(3)), CLUBS))],
        town=draw.towns(2),
        founded=range(1880, 2000),
    )
    player = _table(
        draw,
        24,
        name=_names(draw, 24),
        team_id=[*team.column("id"), None],
        role=[*roles.values()],
        born=range(1995, 2008),
    )
    game = _table(
        draw,
        40,
        day=draw.sample(range(1, DAYS + 1), 24),
        home_id=team.column("id")[1:],
        away_id=team.column("id")[:-1],
        home_goals=(0, 0, 1, 1, 2, 2, 3, 4),
        away_goals=(0, 0, 1, 1, 2, 3),
        kind=[*kinds.values()],
    )
    card = _table(
        draw,
        90,
        game_id=game.column("id"),
        player_id=[*player.column("id")[3:], *[None] * 6],
        minute=range(1, 91),
    )
    drawn = draw.randint(1, 4)
    win = drawn + draw.randint(1, 4)
    return _database(
        name,
        {"player.role": roles, "game.kind": kinds},
        [("points", f"A win gives {win} points, a draw gives {drawn}, and a loss gives 0.")],
        {"win": win, "drawn": drawn},
        team=team,
        player=player,
        game=game,
        card=card,
        role_sign=_meanings(roles),
        game_kind=_meanings(kinds),
    )


_family = partial(Family, env="sql", draw=_values, tasks_per_place=15)
FAMILIES = (
    _family("sql-shop", about="customers, articles and purchases of a shop", place=_shop),
    _family("sql-library", about="books, readers and loans of a library", place=_library),
    _family("sql-league", about="teams, players, games and cards of a league", place=_league),
)
