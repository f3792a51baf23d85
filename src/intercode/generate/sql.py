"""Databases of the SQL families. `questions/sql-*.toml` contain the questions.

Each place is one database in portable SQL. A gold of difficulty 1 reads one table; difficulty 2
joins, groups, ranks or looks for missing rows, and words in the query decide on its columns and
comparisons; at difficulty 3 another table of the database explains a code or a rule. Days are
numbers, counted from the first day of the records.

The rows tell wrong from right: towns that contain each other's names, two things with one name,
several rows with one day, NULLs, rows without partners, ids in another order than days, and limits
that occur in the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, cycle
from typing import Any, TypeVar

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
from intercode.generate.ground import Rows

Row = Sequence[str | int | None]
Item = TypeVar("Item")


def _table(name: str, columns: str, rows: Sequence[Row]) -> tuple[str, Rows]:
    names = tuple(columns.split())
    refers = {
        column: "team" if column in ("home_id", "away_id") else column.removesuffix("_id")
        for column in names
        if column.endswith("_id")
    }
    return name, Rows(
        names,
        tuple(map(tuple, rows)),
        key="id" if "id" in names else "",
        closed=_CODED & {*names},
        refers=refers,
        allows=_never_negative,
    )


def _never_negative(row: Mapping[str, Any]) -> bool:
    return all(value >= 0 for value in row.values() if isinstance(value, int))


_CODED = frozenset({"state", "grade", "class", "role", "kind"})
"""Columns of signs that another table explains."""


def _database(
    name: str, rules: Sequence[str], facts: Parameters, data: Parameters, *tables: tuple[str, Rows]
) -> Place:
    name = name.replace("-", "_")
    return Place(
        name, facts={"db": name, **facts}, rules="\n".join(rules), data=data, tables=dict(tables)
    )


def _people(draw: Draw, count: int) -> list[str]:
    """Return different full names."""
    ends = [f"{town}{end}" for town in draw.part(TOWNS) for end in ("er", "sen")]
    return draw.sample([f"{first} {end}" for first in draw.part(PEOPLE) for end in ends], count)


def _person(draw: Draw) -> str:
    first, last = draw.people(1)[0], draw.towns(1)[0]
    return f"{first} {last}er"


def _things(draw: Draw, count: int) -> list[str]:
    """Return different names of two words."""
    return draw.sample(
        [f"{first} {second}" for first in draw.part(NOUNS) for second in draw.part(NOUNS)], count
    )


def _alike(names: Sequence[str], end: str) -> list[str]:
    """Return other names that contain these."""
    return [f"Old {name}" for name in names] + [f"{name} {end}" for name in names]


def _signs(draw: Draw, meanings: Sequence[str]) -> dict[str, str]:
    """Return a sign of two characters for each meaning."""
    return dict(
        zip(
            meanings,
            draw.sample([f"{letter}{digit}" for letter in "CFHKRTX" for digit in range(1, 9)], 4),
            strict=True,
        )
    )


def _explained(table: str, signs: Mapping[str, str]) -> str:
    return f"Signs in {table}: " + ", ".join(f"{sign} is {word}" for word, sign in signs.items())


def _middle(values: Iterable[int]) -> list[int]:
    """Return the values without the lowest and the highest fifth."""
    ordered = sorted(values)
    cut = len(ordered) // 5
    return ordered[cut : len(ordered) - cut]


def _evenly(draw: Draw, items: Sequence[Item], count: int) -> list[Item]:
    """Return `count` items in random order, each equally often."""
    return draw.sample([items[place % len(items)] for place in range(count)], count)


# -- sql-shop --------------------------------------------------------------------------------------

STATES, GRADES = ("paid", "reserved", "returned", "lost"), ("plain", "fine", "rustic", "festive")
DAYS = 60
PRICES = (9, 10, 12, 14, 15, 19, 20, 24, 29, 30, 39, 40, 60)
DOUBLES = 6
"""So many articles, books and the like have the name of another."""


def _with_namesakes(
    people: list[tuple[Any, ...]], towns: list[str], end: Callable[..., tuple[Any, ...]]
) -> list[tuple[Any, ...]]:
    """Make the last of the people, one for each town, equal to the one of the town with the first
    or the last year (`end`: min or max)."""
    others = people[: -len(towns)]
    for (id, *_), town in zip(people[-len(towns) :], towns, strict=True):
        twin = end((row for row in others if row[2] == town), key=lambda row: row[3])
        others.append((id, *twin[1:]))
    return others


def _years(draw: Draw, homes: Sequence[str | None], first: int) -> list[int]:
    """Return a year for each of the homes: those of one home are nine years in a row, shuffled."""
    years = {home: cycle(draw.sample(range(first, first + 9), 9)) for home in dict.fromkeys(homes)}
    return [next(years[home]) for home in homes]


def _shop(draw: Draw, name: str) -> Place:
    towns = draw.towns(3)
    states, grades = _signs(draw, STATES), _signs(draw, GRADES)
    names = [_person(draw) for _ in range(16)]
    customers = [
        (id, draw.choice(names), draw.choice([*towns, None]), draw.randint(2005, 2024))
        for id in range(1, 21)
    ]
    things = [" ".join(draw.nouns(2)) for _ in range(9)]  # some come in several grades
    articles = [
        (id, draw.choice(things), draw.choice([*grades.values()]), draw.choice(PRICES))
        for id in range(1, 15)
    ]
    market = draw.sample(range(1, DAYS + 1), 24)  # the days on which the shop is open
    purchases = [
        (
            id,
            draw.randint(1, 20),
            draw.randint(1, 14),
            draw.choice(market),
            draw.randint(1, 14),
            draw.choice((None, 0, 5, 10)),
            draw.choice([*states.values()]),
        )
        for id in draw.sample(range(1, 121), 90)
    ]
    large = draw.choice((60, 80, 120, 160, 180, 240))
    compared, words = draw.choice(((">=", f"is {large} or more"), (">", f"is more than {large}")))
    begin = draw.randint(5, 25)
    end = begin + draw.randint(15, 30)
    rules = [
        ("large", f"A purchase is large if pieces times price {words}."),
        ("season", f"The season is from day {begin} to day {end}, both included."),
    ]
    codes = [("state", sign, meaning) for meaning, sign in states.items()] + [
        ("grade", sign, meaning) for meaning, sign in grades.items()
    ]
    return _database(
        name,
        [
            _explained("purchase.state", states),
            _explained("article.grade", grades),
            *(rule for _, rule in rules),
        ],
        {"states": states, "grades": grades, "large": large, "large_is": compared}
        | {"large_more": large + 1, "large_less": large - 1, "begin": begin, "end": end},
        {"customers": customers, "articles": articles, "purchases": purchases},
        _table("customer", "id name town since", customers),
        _table("article", "id name grade price", articles),
        _table("purchase", "id customer_id article_id day pieces rebate state", purchases),
        _table("code", "field sign meaning", codes),
        _table("house_rule", "topic rule", rules),
    )


def _purchase(draw: Draw, place: Place) -> Parameters:
    customers, articles = place.data["customers"], place.data["articles"]
    purchases, facts = place.data["purchases"], place.facts
    customer = draw.choice([customers[row[1] - 1] for row in purchases])
    state, grade = draw.choice(STATES), draw.choice(GRADES)
    days, prices = _middle(row[3] for row in purchases), _middle(row[3] for row in articles)
    day, price = draw.limit(days), draw.limit(prices)
    return {
        "town": draw.choice([row[2] for row in customers if row[2]]),
        "name": customer[1],
        "own": draw.limit(row[3] for row in purchases if row[1] == customer[0]),
        "since": draw.limit(_middle(row[3] for row in customers)),
        "price": price,
        "dear": draw.limit(sorted(row[3] for row in articles)[8:]),
        "graded": price,
        "edge": draw.limit(days),
        "day": day,
        "day2": day + draw.randint(2, 12),
        "pieces": draw.limit(_middle(row[4] for row in purchases)),
        "state": state,
        "state_sign": facts["states"][state],
        "grade": grade,
        "grade_sign": facts["grades"][grade],
    }


# -- sql-library -----------------------------------------------------------------------------------

CONDITIONS, CLASSES = ("new", "worn", "torn", "missing"), ("pupil", "adult", "teacher", "guest")


def _library(draw: Draw, name: str) -> Place:
    people, towns = _people(draw, 54), draw.words(TOWNS, 3)
    others = {town: _alike([town], "Mill") for town in towns}
    conditions, classes = _signs(draw, CONDITIONS), _signs(draw, CLASSES)
    days = dict(zip(CLASSES, draw.sample(range(8, 26), 4), strict=True))
    signs, alike = list(classes.values()), [name for names in others.values() for name in names]
    homes = _evenly(draw, [*towns, *towns, *alike], 48)
    years = _years(draw, homes, draw.randint(1985, 2000))
    readers = [
        (id, person, home, year, signs[id % (2 if home in alike else 4)])
        for id, (person, home, year) in enumerate(zip(people[:48], homes, years, strict=True), 1)
    ]
    readers = _with_namesakes(readers, towns, max)
    # some readers are writers, and two writers have one name
    names = [*people[48:], *people[:8], *people[:2], people[49]]
    writers = [
        (id, writer, home)
        for id, (writer, home) in enumerate(
            zip(draw.sample(names, len(names)), _evenly(draw, towns, len(names)), strict=True), 1
        )
    ]
    titles = _things(draw, 60 - DOUBLES)
    books = [
        (
            id,
            title,
            draw.randint(1, len(names) - 1),
            draw.randint(2000, 2025),
            draw.choice(list(conditions.values())),
        )
        for id, title in enumerate(titles, 1)
    ]
    books += [(len(titles) + place, *books[place][1:]) for place in range(1, DOUBLES + 1)]
    allowed = {classes[kind]: days[kind] for kind in CLASSES}
    loans = list[tuple[Any, ...]]()
    for id in draw.sample(range(1, 341), 340):
        book, taken = draw.randint(1, 56), draw.randint(1, DAYS // 2)
        reader = draw.choice([*(id for id in range(1, 46) if id % 4), 46, 47, 48])
        if loans and draw.random() < 0.35:  # another loan to this reader on one day
            _, lent, reader, taken, _ = loans[-1]
            book = len(titles) + lent if lent < 3 else draw.choice((lent, book))
        limit = allowed[readers[reader - 1][4]]
        length = draw.choice((draw.randint(2, 30), limit + draw.choice((-1, 0, 0, 1))))
        loans.append((id, book, reader, taken, taken + length if draw.random() < 0.75 else None))
    finished: dict[str, list[tuple[int, int]]] = {}
    for place, (_, _, reader, taken, back) in enumerate(loans):
        if back is not None:
            finished.setdefault(readers[reader - 1][2], []).append((back - taken, place))
    for town in towns:  # its longest and its shortest loan are two, and towns alike have such too
        lengths = sorted(finished[town])
        for step in (0, -1):
            places = [sorted(finished[name])[step][1] for name in others[town] if name in finished]
            for place in (lengths[3 * step + 1][1], *places):
                loans[place] = (*loans[place][:4], loans[place][3] + lengths[step][0])
    compared, words = draw.choice(
        (
            (">", "more days than reader_class allows"),
            (">=", "all the days that reader_class allows, or more"),
        )
    )
    fine = draw.randint(3, 90)
    rules = [
        ("late", f"A loan is late if it took {words}; the days are back minus taken."),
        ("fine", f"Each day beyond those that reader_class allows costs {fine} cents."),
    ]
    return _database(
        name,
        [
            _explained("book.state", conditions),
            _explained("reader.class", classes),
            "Days allowed: " + ", ".join(f"{kind} {count}" for kind, count in days.items()),
            *(rule for _, rule in rules),
        ],
        {
            "towns": towns,
            "conditions": conditions,
            "classes": classes,
            "allowed": days,
            "late_is": compared,
            "fine": fine,
        },
        {
            "readers": {row[0]: row for row in readers},
            "books": {row[0]: row for row in books},
            "loans": loans,
            "authors": [row[1] for row in writers],
        },
        _table("writer", "id name town", writers),
        _table("book", "id title writer_id year state", books),
        _table("reader", "id name town born class", readers),
        _table("loan", "id book_id reader_id taken back", loans),
        _table(
            "book_state", "sign meaning", [(sign, meaning) for meaning, sign in conditions.items()]
        ),
        _table(
            "reader_class",
            "sign meaning days",
            [(classes[kind], kind, days[kind]) for kind in CLASSES],
        ),
        _table("house_rule", "topic rule", rules),
    )


def _loan(draw: Draw, place: Place) -> Parameters:
    readers, books, loans = (place.data[name] for name in ("readers", "books", "loans"))
    town, condition, kind = (
        draw.choice(place.facts["towns"]),
        draw.choice(CONDITIONS),
        draw.choice(CLASSES),
    )
    sign = place.facts["classes"][kind]
    day = draw.limit(_middle(row[3] for row in loans if readers[row[2]][2] == town))
    born = draw.limit(_middle(row[3] for row in readers.values()))
    year = draw.limit(_middle(row[3] for row in books.values()))
    counts: dict[int, int] = {}
    days: dict[int, list[int]] = {}
    for _, book, _, taken, _ in loans:
        writer = books[book][2]
        counts[writer] = counts.get(writer, 0) + (taken > day)
        days.setdefault(book, []).append(taken)
    births = [row[3] for row in readers.values() if row[2] == town]
    unreturned = [row for row in loans if row[4] is None]
    return {
        "town": town,
        "year": year,
        "year2": year + draw.randint(3, 9),
        "born": born,
        "born2": born + draw.randint(3, 9),
        "local": draw.limit(_middle(births)),
        "gap": draw.limit(abs(one - two) for one, two in combinations(births, 2)),
        "listed": draw.limit(
            _middle(row[3] for row in readers.values() if row[1] in place.data["authors"])
        ),
        "day": day,
        "open": draw.limit(_middle(row[3] for row in unreturned)),
        "from": draw.limit(_middle(row[2] for row in unreturned)),
        "edge": draw.limit(
            _middle(edge for some in days.values() for edge in (min(some), max(some)))
        ),
        "count": draw.limit(_middle(counts.values())),
        "condition": condition,
        "kind": kind,
        "sign": place.facts["conditions"][condition],
        "class": sign,
        "days": place.facts["allowed"][kind],
    }


# -- sql-league ------------------------------------------------------------------------------------

ROLES, KINDS = ("keeper", "back", "middle", "front"), ("league", "cup", "friendly", "charity")


def _league(draw: Draw, name: str) -> Place:
    teams, people = [f"{noun.title()}s" for noun in draw.words(NOUNS, 9)], _people(draw, 45)
    teams[3:3] = _alike(teams[:3], "United")
    roles, kinds = _signs(draw, ROLES), _signs(draw, KINDS)
    win, drawn = draw.sample(range(1, 10), 2)
    squads = [1, 2, 3, *_evenly(draw, [1, 2, 3, *range(1, 12), None], 39), 1, 2, 3]
    players = [
        (id, person, team, role, draw.randint(1990, 2012))
        for id, (person, team, role) in enumerate(
            zip(people, squads, _evenly(draw, list(roles.values()), 45), strict=True), 1
        )
    ]
    players += [(id + 3, *row) for id, *row in players[-3:]]  # equal to one in their team
    games, goals = list[Row](), list[Row]()
    numbers = iter(draw.sample(range(1, 1000), 999))
    usual = [*range(1, 10)] * 3 + [10, 11, 12]  # of the others, one plays only at home,
    for id in draw.sample(range(1, 161), 160):  # one only away, and one not at all
        home = draw.choice([*usual, 13])
        away = draw.choice([team for team in (*usual, 14) if team != home])
        score = [draw.randint(0, 3), draw.randint(0, 3)]
        day = games[-1][1] if games and draw.random() < 0.3 else draw.randint(1, DAYS)
        games.append((id, day, home, away, *score, draw.choice(list(kinds.values()))))
        goals += [
            (
                next(numbers),
                id,
                draw.choice((None, *(draw.randint(4, 48) for _ in range(4)))),
                draw.randint(1, 90),
            )
            for _ in range(sum(score))
        ]
        if sum(score) > 1 and draw.random() < 0.5:  # two goals by one player
            goals[-1] = (*goals[-1][:2], goals[-2][2], goals[-1][3])
    rules = [
        ("points", f"A won game gives {win + drawn} points, a draw {drawn}, a lost game none.")
    ]
    return _database(
        name,
        [
            _explained("player.role", roles),
            _explained("game.kind", kinds),
            *(rule for _, rule in rules),
        ],
        {
            "teams": teams,
            "roles": roles,
            "kinds": kinds,
            "win": win + drawn,
            "drawn": drawn,
        },
        {
            "players": {row[0]: row for row in players},
            "games": games,
            "goals": goals,
        },
        _table(
            "team",
            "id name town founded",
            [
                (id, team, draw.word(TOWNS), draw.randint(1880, 2010))
                for id, team in enumerate(teams, 1)
            ],
        ),
        _table("player", "id name team_id role born", players),
        _table("game", "id day home_id away_id home_goals away_goals kind", games),
        _table("goal", "id game_id player_id minute", goals),
        _table("role_sign", "sign meaning", [(sign, meaning) for meaning, sign in roles.items()]),
        _table("game_kind", "sign meaning", [(sign, meaning) for meaning, sign in kinds.items()]),
        _table("house_rule", "topic rule", rules),
    )


def _game(draw: Draw, place: Place) -> Parameters:
    players, games, goals = (place.data[name] for name in ("players", "games", "goals"))
    team = draw.randint(1, 3)
    role, kind = draw.choice(ROLES), draw.choice(KINDS)
    scored = [row for row in goals if row[2] and players[row[2]][2] == team]
    nobody = [row for row in goals if row[2] is None]
    minute = draw.limit(_middle(row[3] for row in draw.choice((scored, nobody))))
    minutes, played = dict[int, list[int]](), dict[int, set[int]]()
    for _, game, player, when in goals:
        if player:
            minutes.setdefault(player, []).append(when)
        if player and when > minute:
            played.setdefault(player, set()).add(game)
    return {
        "team": place.facts["teams"][team - 1],
        "day": draw.limit(_middle(row[1] for row in games)),
        "own": draw.limit(_middle(row[1] for row in games if team in row[2:4])),
        "minute": minute,
        "minute2": minute + draw.randint(3, 12),
        "edge": draw.limit(
            _middle(edge for some in minutes.values() for edge in (min(some), max(some)))
        ),
        "count": draw.limit(map(len, played.values())),
        "below": draw.limit(_middle(row[1] for row in nobody)),
        "above": draw.limit(range(5, 30)),
        "born": draw.limit(_middle(row[4] for row in players.values())),
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
