"""Second solutions to tasks of the SQL starter set, and guesses of someone who knows its tables and columns only."""

from __future__ import annotations

SECOND = {
    "same-town-same-year": """
        SELECT a.full_name, b.full_name FROM person a, person b WHERE a.id <> b.id AND NOT a.id > b.id AND
        UPPER(a.town) = UPPER(b.town) AND a.born - b.born = 0""",
    "fullest-per-venue": """
        SELECT v.name, p.title, s.played_on, s.visitors FROM showing s JOIN venue v ON v.id = s.venue_id JOIN
        production p ON p.id = s.production_id WHERE s.visitors = (SELECT MAX(x.visitors) FROM showing x WHERE
        x.venue_id = s.venue_id)""",
    "three-highest-fees": """
        SELECT h.full_name, p.title, x.duty, x.fee FROM (SELECT person_id, production_id, duty, fee, DENSE_RANK()
        OVER (ORDER BY fee DESC) AS place FROM engagement) AS x JOIN person h ON h.id = x.person_id JOIN production
        p ON p.id = x.production_id WHERE x.place <= 3 ORDER BY x.fee DESC""",
    "schools-of-coaches": """
        WITH RECURSIVE up AS (SELECT id AS start, coach_id AS top FROM person WHERE coach_id IS NOT NULL UNION ALL
        SELECT u.start, p.coach_id FROM up u JOIN person p ON p.id = u.top WHERE p.coach_id IS NOT NULL) SELECT
        h.full_name, COUNT(*) AS n FROM up u JOIN person h ON h.id = u.top WHERE h.coach_id IS NULL GROUP BY h.id,
        h.full_name ORDER BY n DESC, h.id""",
    "river-jumps": """
        SELECT g.day_no, g.level_cm, g.level_cm - p.level_cm FROM gauge g JOIN gauge p ON p.day_no = (SELECT
        MAX(q.day_no) FROM gauge q WHERE q.day_no < g.day_no AND q.level_cm <> 999) WHERE g.day_no <= 91 AND
        g.level_cm <> 999 AND g.level_cm - p.level_cm > 20 ORDER BY g.day_no""",
    "low-water-runs": """
        WITH low AS (SELECT day_no FROM gauge WHERE day_no <= 91 AND level_cm < 260) SELECT a.day_no, MIN(b.day_no),
        MIN(b.day_no) - a.day_no + 1 FROM low a JOIN low b ON b.day_no >= a.day_no WHERE a.day_no - 1 NOT IN (SELECT
        day_no FROM low) AND b.day_no + 1 NOT IN (SELECT day_no FROM low) GROUP BY a.day_no HAVING MIN(b.day_no) -
        a.day_no >= 2 ORDER BY a.day_no""",
    "ten-thousand-tonnes": """
        SELECT d.came_on, ROUND((SELECT SUM(c.tonnes) FROM cargo c JOIN berthing b ON b.id = c.berthing_id WHERE
        c.way = 'in' AND b.came_on <= d.came_on), 1) FROM (SELECT MIN(x.came_on) AS came_on FROM berthing x WHERE
        (SELECT SUM(c.tonnes) FROM cargo c JOIN berthing b ON b.id = c.berthing_id WHERE c.way = 'in' AND b.came_on
        <= x.came_on) > 10000) AS d""",
    "median-lengths": """
        SELECT k, ROUND((MIN(length_m) + MAX(length_m)) / 2.0, 2) FROM (SELECT a.id, LOWER(a.kind) AS k, a.length_m,
        (SELECT COUNT(*) FROM barge b WHERE LOWER(b.kind) = LOWER(a.kind) AND b.length_m < a.length_m) AS below,
        (SELECT COUNT(*) FROM barge b WHERE LOWER(b.kind) = LOWER(a.kind) AND b.length_m > a.length_m) AS above,
        (SELECT COUNT(*) FROM barge b WHERE LOWER(b.kind) = LOWER(a.kind)) AS n FROM barge a) AS x WHERE below * 2
        <= n AND above * 2 <= n GROUP BY k""",
    "every-left-quay": """
        SELECT id, name FROM barge b WHERE NOT EXISTS (SELECT 1 FROM quay q WHERE q.bank = 'left' AND NOT EXISTS
        (SELECT 1 FROM berthing s WHERE s.quay_id = q.id AND s.barge_id = b.id))""",
    "tonnes-by-root": """
        SELECT r.label, ROUND(SUM(c.tonnes), 1) AS s FROM cargo c JOIN goods g ON g.code = c.goods_code LEFT JOIN
        goods p ON p.code = g.parent_code LEFT JOIN goods q ON q.code = p.parent_code JOIN goods r ON r.code =
        COALESCE(q.code, p.code, g.code) GROUP BY r.code, r.label ORDER BY s DESC""",
    "full-houses": """
        SELECT id FROM showing WHERE played_on > '2023-12-31' AND visitors >= (SELECT COALESCE(v.seats * 0.9, 250)
        FROM venue v WHERE v.id = showing.venue_id) ORDER BY id""",
    "off-the-tariff": """
        WITH RECURSIVE mill AS (SELECT id FROM venue WHERE name = 'Mill Barn' UNION ALL SELECT v.id FROM venue v
        JOIN mill m ON v.part_of = m.id), tariff AS (SELECT 'A' AS band, 24.0 AS full_price, 21.0 AS mill_price
        UNION ALL SELECT 'B', 18.0, 15.0 UNION ALL SELECT 'C', 12.0, 9.0 UNION ALL SELECT 'F', 0, 0) SELECT id,
        price FROM (SELECT t.id, t.price, (CASE WHEN s.venue_id IN (SELECT id FROM mill) THEN mill_price ELSE
        full_price END) * (CASE t.channel WHEN 4 THEN 8 ELSE 10 END) AS tenth FROM ticket t JOIN showing s ON s.id =
        t.showing_id JOIN tariff f ON f.band = t.band WHERE s.played_on > '2024-06-01' AND t.channel IN (1, 2, 3, 4,
        5)) AS x WHERE NOT (ABS(10 * price) BETWEEN tenth - 0.05 AND tenth + 0.05) ORDER BY id""",
    "lantern-of-2024": """
        SELECT id, name, h FROM (SELECT c.id, c.name, SUM(s.visitors) AS h, RANK() OVER (ORDER BY SUM(s.visitors)
        DESC) AS place FROM showing s JOIN production p ON p.id = s.production_id JOIN company c ON c.id =
        p.company_id WHERE s.played_on > '2024-01-01' AND s.state = 'P' AND s.venue_id NOT IN (SELECT id FROM venue
        WHERE form = 'open air') AND c.id <> 3 GROUP BY c.id, c.name) AS x WHERE place = 1""",
    "dues-of-upper-river": """
        SELECT id, cents / 100.0 FROM (SELECT s.id, 4 * (SELECT b.capacity_t FROM barge b WHERE b.id = s.barge_id) *
        (s.nights - CASE WHEN s.quay_id = 6 THEN 0 ELSE 2 END) AS cents FROM berthing s WHERE s.quay_id IS NOT NULL
        AND s.barge_id IN (SELECT id FROM barge WHERE firm_id = 2)) AS x WHERE cents > 0 ORDER BY id""",
}

LISTED = "FROM showing s JOIN venue v ON v.id = s.venue_id WHERE s.played_on >= '2024-06-01'"
SOLD = "FROM ticket t JOIN showing s ON s.id = t.showing_id WHERE s.played_on >= '2024-06-01'"
WORK = "FROM engagement e JOIN production p ON p.id = e.production_id JOIN person h ON h.id = e.person_id"
HEADS = """SELECT c.id, c.name, SUM(s.visitors) AS n FROM company c JOIN production p ON p.company_id = c.id
    JOIN showing s ON s.production_id = p.id JOIN venue v ON v.id = s.venue_id WHERE s.played_on >= '2024-06-01'"""
MOST = "GROUP BY c.id, c.name ORDER BY n DESC LIMIT 1"
LOADS = """FROM cargo c JOIN goods g ON g.code = c.goods_code JOIN berthing s ON s.id = c.berthing_id
    JOIN barge b ON b.id = s.barge_id"""
LAIN = "FROM berthing s JOIN barge b ON b.id = s.barge_id JOIN firm f ON f.id = b.firm_id WHERE f.name = 'Upper River Lines'"
QUAYS = "FROM quay q JOIN berthing s ON s.quay_id = q.id AND s.came_on BETWEEN '2024-02-01' AND '2024-02-29'"
FEBRUARY = "s.came_on BETWEEN '2024-02-01' AND '2024-02-29'"
MARCH = "s.came_on BETWEEN '2024-03-01' AND '2024-03-31'"

BLIND: dict[str, list[str]] = {
    "full-houses": [
        *(f"SELECT s.id {LISTED} AND s.visitors >= {share} * v.seats" for share in (0.8, 0.9, 0.95, 1)),
        f"SELECT s.id {LISTED} AND (s.visitors >= 0.9 * v.seats OR v.seats IS NULL)",
    ],
    "rained-off": [
        *(f"SELECT id FROM showing WHERE state IN ({codes})" for codes in ("'W'", "'N'", "'R'", "'N', 'W'", "'N', 'R', 'W'")),
        "SELECT s.id FROM showing s JOIN mark m ON m.code = s.state WHERE LOWER(m.meaning) LIKE '%weather%'",
        "SELECT s.id FROM showing s JOIN mark m ON m.code = s.state WHERE m.family = 'state' AND m.meaning LIKE '%not%'",
        "SELECT s.id FROM showing s JOIN venue v ON v.id = s.venue_id WHERE v.form = 'open air' AND s.state <> 'P'",
    ],
    "puppet-plays": [
        *(f"SELECT title, minutes FROM production WHERE genre IN ({codes})" for codes in ("'G4'", "'G7'", "'G4', 'G7'")),
        "SELECT title, minutes FROM production WHERE id IN (SELECT production_id FROM engagement WHERE duty = 'puppets')",
        "SELECT title, minutes FROM production JOIN mark ON code = genre WHERE LOWER(meaning) LIKE '%puppet%'",
    ],
    "the-steamer": [
        f"SELECT h.full_name, e.duty {WORK} WHERE LOWER(p.title) LIKE '%{word}%'"
        for word in ("steam", "ferry", "boat", "whale")
    ],
    "letters-to-neighbours": [
        *(f"SELECT s.id, v.name, s.starts_at {LISTED} AND s.starts_at >= '{hour}'" for hour in ("21:00", "21:30", "22:00")),
        f"SELECT s.id, v.name, s.starts_at {LISTED} AND v.form = 'open air'",
    ],
    "takings-2024": [
        f"SELECT t.band, ROUND(SUM(t.price), 2) {SOLD} {rest} GROUP BY t.band"
        for rest in (
            "",
            "AND t.price > 0",
            "AND s.state = 'P'",
            "AND t.price > 0 AND s.state = 'P'",
            "AND t.channel < 6 AND t.price > 0",
        )
    ],
    "off-the-tariff": [
        f"SELECT t.id, t.price {SOLD} AND ABS(t.price) <> (SELECT MAX(u.price) FROM ticket u WHERE u.band = t.band)",
        f"""SELECT t.id, t.price {SOLD} AND t.price NOT IN
            (SELECT u.price FROM ticket u WHERE u.band = t.band GROUP BY u.price HAVING COUNT(*) > 4)""",
    ],
    "sold-in-may-2023": [
        f"SELECT channel, COUNT(*) FROM ticket WHERE {when} GROUP BY channel"
        for when in (
            "sold_on LIKE '2023-05-%'",
            "sold_on LIKE '05/__/23'",
            "sold_on LIKE '2023-05-%' OR sold_on LIKE '05/__/23' OR sold_on LIKE '__/05/23'",
        )
    ],
    "where-jo-keller-works": [
        f"SELECT p.title, e.duty {WORK} WHERE h.full_name LIKE '{name}'"
        for name in ("Jo Keller", "%Keller%", "J%Keller", "%Jo%Keller%")
    ]
    + [f"SELECT p.title, e.duty {WORK} WHERE h.full_name IN ('Jo Keller', 'J. Keller')"],
    "soup-at-eleven": [
        f"SELECT DISTINCT h.id, h.full_name {WORK} WHERE e.duty IN ('light', 'sound')",
        f"SELECT DISTINCT h.id, h.full_name {WORK} JOIN showing s ON s.production_id = p.id WHERE s.starts_at >= '22:00'",
        f"SELECT DISTINCT h.id, h.full_name {WORK} JOIN company c ON c.id = p.company_id WHERE c.name = 'The Night Shift'",
    ],
    "lantern-of-2024": [
        f"{HEADS} {rest} {MOST}"
        for rest in (
            "",
            "AND s.state = 'P'",
            "AND v.form <> 'open air'",
            "AND s.state = 'P' AND v.form <> 'open air'",
            "AND c.id <> 3",
        )
    ],
    "from-ellernmoor": [
        f"SELECT id, name, founded FROM company WHERE LOWER(town) LIKE '{town}'"
        for town in ("ellernmoor", "%moor", "el%", "%r")
    ],
    "came-for-repair": [f"SELECT id FROM berthing WHERE purpose IN ({codes})" for codes in ("3", "4", "5", "4, 5")],
    "overlong": [
        *(f"SELECT id, name FROM barge WHERE length_m > {limit}" for limit in (80, 85, 100, 109)),
        "SELECT id, name FROM barge WHERE length_m > 85 OR kind = 'tank' AND length_m > 80",
        "SELECT id, name FROM barge WHERE length_m > (SELECT MIN(length_m) FROM quay)",
    ],
    "early-april": [
        f"SELECT read_on, level_cm FROM gauge WHERE read_on BETWEEN '2024-03-25' AND '2024-04-07' AND {known}"
        for known in ("level_cm IS NOT NULL", "level_cm < 900")
    ],
    "nothing-moved": [
        *(f"SELECT read_on, level_cm FROM gauge WHERE level_cm >= {limit}" for limit in (400, 450, 500)),
        *(f"SELECT read_on, level_cm FROM gauge WHERE level_cm > {limit} AND level_cm <> 999" for limit in (400, 450, 500)),
        "SELECT read_on, level_cm FROM gauge WHERE read_on NOT IN (SELECT came_on FROM berthing)",
    ],
    "old-ferry-company": [
        "SELECT b.name, b.kind FROM barge b JOIN firm f ON f.id = b.firm_id WHERE LOWER(f.name) LIKE '%ferry%'",
        "SELECT b.name, b.kind FROM barge b JOIN firm f ON f.id = b.firm_id WHERE f.parent_id IS NULL",
    ],
    "red-flag": [
        *(f"SELECT DISTINCT s.id {LOADS} WHERE {MARCH} AND g.hazard >= {limit}" for limit in (0, 1, 2, 3, 4)),
        f"SELECT DISTINCT s.id {LOADS} WHERE {MARCH} AND LOWER(b.kind) = 'tank'",
    ],
    "school-of-pilots": [
        "SELECT name, hired_on FROM pilot WHERE licence = 'A'",
        "SELECT name, hired_on FROM pilot WHERE licence = 'A' AND retired_on IS NULL",
        "SELECT name, hired_on FROM pilot WHERE licence = 'A' AND COALESCE(retired_on, '') = ''",
        "SELECT name, hired_on FROM pilot WHERE id IN (SELECT trained_by FROM pilot)",
    ],
    "paschs-quays": [
        f"SELECT q.name, COUNT(*) {QUAYS} JOIN pilot p ON p.id = s.pilot_id WHERE p.name LIKE '%Pasch' GROUP BY q.id, q.name",
        *(
            f"SELECT q.name, COUNT(*) {QUAYS} WHERE q.bank = '{bank}' GROUP BY q.id, q.name"
            for bank in ("left", "right", "island")
        ),
    ],
    "dues-of-upper-river": [
        f"SELECT s.id, {rate} * s.nights * b.capacity_t {LAIN} AND s.nights > 0 AND b.capacity_t > 0"
        for rate in (0.01, 0.04, 0.05, 1)
    ],
    "veterans": [f"SELECT name, built FROM barge WHERE built <= {year}" for year in (1950, 1954, 1957, 1960, 1961, 1970, 1974)],
    "wheat-and-rye": [
        f"SELECT g.code, ROUND(SUM(c.tonnes), 1) {LOADS} WHERE c.way = 'in' AND {which} GROUP BY g.code"
        for which in ("LOWER(g.label) IN ('wheat', 'rye')", "g.parent_code = 'D1'", "g.label LIKE 'w%' OR g.label LIKE 'r%'")
    ],
    "half-loads": [
        f"SELECT {fee}, COUNT(*) {LOADS} WHERE {FEBRUARY} AND 2 * c.tonnes < b.capacity_t GROUP BY 1"
        for fee in (50, "c.tonnes", "ROUND(100 * c.tonnes / b.capacity_t)")
    ],
}
