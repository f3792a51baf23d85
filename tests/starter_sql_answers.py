"""Second solutions to tasks of the SQL starter set, and guesses of someone who knows its tables and
columns only."""

from __future__ import annotations

SECOND = {
    "same-town-same-year": (
        """
        SELECT a.full_name, b.full_name FROM person a, person b WHERE a.id <> b.id AND NOT a.id >
        b.id AND UPPER(a.town) = UPPER(b.town) AND a.born - b.born = 0"""
    ),
    "river-jumps": (
        """
        SELECT g.day_no, g.level_cm, g.level_cm - p.level_cm FROM gauge g JOIN gauge p ON
        p.day_no = (SELECT MAX(q.day_no) FROM gauge q WHERE q.day_no < g.day_no AND q.level_cm <>
        999) WHERE g.day_no <= 91 AND g.level_cm <> 999 AND g.level_cm - p.level_cm > 20 ORDER BY
        g.day_no"""
    ),
    "low-water-runs": (
        """
        WITH low AS (SELECT day_no FROM gauge WHERE day_no <= 91 AND level_cm < 260) SELECT
        a.day_no, MIN(b.day_no), MIN(b.day_no) - a.day_no + 1 FROM low a JOIN low b ON b.day_no
        >= a.day_no WHERE a.day_no - 1 NOT IN (SELECT day_no FROM low) AND b.day_no + 1 NOT IN
        (SELECT day_no FROM low) GROUP BY a.day_no HAVING MIN(b.day_no) - a.day_no >= 2 ORDER BY
        a.day_no"""
    ),
    "every-left-quay": (
        """
        SELECT id, name FROM barge b WHERE NOT EXISTS (SELECT 1 FROM quay q WHERE q.bank = 'left'
        AND NOT EXISTS (SELECT 1 FROM berthing s WHERE s.quay_id = q.id AND s.barge_id = b.id))"""
    ),
    "tonnes-by-root": (
        """
        SELECT r.label, ROUND(SUM(c.tonnes), 1) AS s FROM cargo c JOIN goods g ON g.code =
        c.goods_code LEFT JOIN goods p ON p.code = g.parent_code LEFT JOIN goods q ON q.code =
        p.parent_code JOIN goods r ON r.code = COALESCE(q.code, p.code, g.code) GROUP BY r.code,
        r.label ORDER BY s DESC"""
    ),
    "full-houses": (
        """
        SELECT id FROM showing WHERE played_on > '2023-12-31' AND visitors >= (SELECT
        COALESCE(v.seats * 0.9, 250) FROM venue v WHERE v.id = showing.venue_id) ORDER BY id"""
    ),
    "median-lengths": (
        """
        SELECT k, ROUND((MIN(length_m) + MAX(length_m)) / 2.0, 2) FROM (SELECT a.id,
        LOWER(a.kind) AS k, a.length_m, (SELECT COUNT(*) FROM barge b WHERE LOWER(b.kind) =
        LOWER(a.kind) AND b.length_m < a.length_m) AS below, (SELECT COUNT(*) FROM barge b WHERE
        LOWER(b.kind) = LOWER(a.kind) AND b.length_m > a.length_m) AS above, (SELECT COUNT(*)
        FROM barge b WHERE LOWER(b.kind) = LOWER(a.kind)) AS n FROM barge a) AS x WHERE below * 2
        <= n AND above * 2 <= n GROUP BY k"""
    ),
}

BLIND = {
    "full-houses": (
        """
        SELECT s.id FROM showing s JOIN venue v ON v.id = s.venue_id WHERE s.played_on >=
        '2024-06-01' AND s.visitors >= 0.9 * v.seats"""
    ),
    "rained-off": "SELECT id FROM showing WHERE state IN ('N', 'W')",
    "puppet-plays": "SELECT title, minutes FROM production WHERE genre IN ('G4', 'G7')",
    "the-steamer": (
        """
        SELECT h.full_name, e.duty FROM engagement e JOIN production p ON p.id = e.production_id
        JOIN person h ON h.id = e.person_id WHERE LOWER(p.title) LIKE '%ferry%'"""
    ),
    "letters-to-neighbours": (
        """
        SELECT s.id, v.name, s.starts_at FROM showing s JOIN venue v ON v.id = s.venue_id WHERE
        s.played_on >= '2024-06-01' AND s.starts_at >= '21:00'"""
    ),
    "takings-2024": (
        """
        SELECT t.band, ROUND(SUM(t.price), 2) FROM ticket t JOIN showing s ON s.id = t.showing_id
        WHERE s.played_on >= '2024-06-01' AND t.price > 0 AND s.state = 'P' GROUP BY t.band"""
    ),
    "off-the-tariff": (
        """
        SELECT t.id, t.price FROM ticket t JOIN showing s ON s.id = t.showing_id WHERE
        s.played_on >= '2024-06-01' AND ABS(t.price) <> (SELECT MAX(u.price) FROM ticket u WHERE
        u.band = t.band)"""
    ),
    "sold-in-may-2023": (
        """
        SELECT channel, COUNT(*) FROM ticket WHERE sold_on LIKE '2023-05-%' OR sold_on LIKE
        '05/__/23' OR sold_on LIKE '__/05/23' GROUP BY channel"""
    ),
    "where-jo-keller-works": (
        """
        SELECT p.title, e.duty FROM engagement e JOIN production p ON p.id = e.production_id JOIN
        person h ON h.id = e.person_id WHERE h.full_name LIKE 'J%Keller'"""
    ),
    "soup-at-eleven": (
        """
        SELECT DISTINCT h.id, h.full_name FROM engagement e JOIN production p ON p.id =
        e.production_id JOIN person h ON h.id = e.person_id WHERE e.duty IN ('light', 'sound')"""
    ),
    "lantern-of-2024": (
        """
        SELECT c.id, c.name, SUM(s.visitors) AS n FROM company c JOIN production p ON
        p.company_id = c.id JOIN showing s ON s.production_id = p.id JOIN venue v ON v.id =
        s.venue_id WHERE s.played_on >= '2024-06-01' AND s.state = 'P' AND v.form <> 'open air'
        GROUP BY c.id, c.name ORDER BY n DESC LIMIT 1"""
    ),
    "from-ellernmoor": "SELECT id, name, founded FROM company WHERE LOWER(town) LIKE '%r'",
    "came-for-repair": "SELECT id FROM berthing WHERE purpose IN (3)",
    "overlong": "SELECT id, name FROM barge WHERE length_m > 85",
    "early-april": (
        """
        SELECT read_on, level_cm FROM gauge WHERE read_on BETWEEN '2024-03-25' AND '2024-04-07'
        AND level_cm < 900"""
    ),
    "nothing-moved": "SELECT read_on, level_cm FROM gauge WHERE level_cm > 400 AND level_cm <> 999",
    "old-ferry-company": (
        """
        SELECT b.name, b.kind FROM barge b JOIN firm f ON f.id = b.firm_id WHERE f.parent_id IS
        NULL"""
    ),
    "red-flag": (
        """
        SELECT DISTINCT s.id FROM cargo c JOIN goods g ON g.code = c.goods_code JOIN berthing s
        ON s.id = c.berthing_id JOIN barge b ON b.id = s.barge_id WHERE s.came_on BETWEEN
        '2024-03-01' AND '2024-03-31' AND g.hazard >= 2"""
    ),
    "school-of-pilots": (
        "SELECT name, hired_on FROM pilot WHERE licence = 'A' AND retired_on IS NULL"
    ),
    "paschs-quays": (
        """
        SELECT q.name, COUNT(*) FROM quay q JOIN berthing s ON s.quay_id = q.id AND s.came_on
        BETWEEN '2024-02-01' AND '2024-02-29' JOIN pilot p ON p.id = s.pilot_id WHERE p.name LIKE
        '%Pasch' GROUP BY q.id, q.name"""
    ),
    "dues-of-upper-river": (
        """
        SELECT s.id, 0.04 * s.nights * b.capacity_t FROM berthing s JOIN barge b ON b.id =
        s.barge_id JOIN firm f ON f.id = b.firm_id WHERE f.name = 'Upper River Lines' AND
        s.nights > 0 AND b.capacity_t > 0"""
    ),
    "veterans": "SELECT name, built FROM barge WHERE built <= 1960",
    "wheat-and-rye": (
        """
        SELECT g.code, ROUND(SUM(c.tonnes), 1) FROM cargo c JOIN goods g ON g.code = c.goods_code
        JOIN berthing s ON s.id = c.berthing_id JOIN barge b ON b.id = s.barge_id WHERE c.way =
        'in' AND g.parent_code = 'D1' GROUP BY g.code"""
    ),
    "half-loads": (
        """
        SELECT 50, COUNT(*) FROM cargo c JOIN goods g ON g.code = c.goods_code JOIN berthing s ON
        s.id = c.berthing_id JOIN barge b ON b.id = s.barge_id WHERE s.came_on BETWEEN
        '2024-02-01' AND '2024-02-29' AND 2 * c.tonnes < b.capacity_t GROUP BY 1"""
    ),
}
