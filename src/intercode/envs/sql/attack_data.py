"""A small data set for SQL, on which the attacks are played: two databases of our own.

orchard   trees, what was picked from them, and what the marks of a picking mean (one has to look)
cellar    another database, to be reached for in vain
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ENGINES = ("sqlite", "mariadb")

ORCHARD = """
CREATE TABLE tree (
  id INTEGER NOT NULL, kind VARCHAR(20) NOT NULL, line_no INTEGER NOT NULL, planted INTEGER,
  PRIMARY KEY (id));
INSERT INTO tree VALUES (1, 'apple', 1, 1990), (2, 'apple', 1, 1991), (3, 'pear', 2, 1990), (4, 'plum', 2, NULL),
  (5, 'quince', 3, 2001), (6, 'apple', 3, 2003), (7, 'pear', 3, 2004);
CREATE TABLE picking (
  id INTEGER NOT NULL, tree_id INTEGER NOT NULL, kilos INTEGER NOT NULL, mark VARCHAR(4) NOT NULL,
  PRIMARY KEY (id), FOREIGN KEY (tree_id) REFERENCES tree (id));
INSERT INTO picking VALUES (1, 1, 40, 'K'), (2, 1, 12, 'R'), (3, 2, 31, 'K'), (4, 3, 25, 'Z'), (5, 4, 9, 'R'),
  (6, 6, 77, 'K'), (7, 7, 18, 'Z'), (8, 5, 6, 'R');
CREATE TABLE mark (code VARCHAR(4) NOT NULL, meaning VARCHAR(60) NOT NULL, PRIMARY KEY (code));
INSERT INTO mark VALUES ('K', 'for the cellar'), ('R', 'given away'), ('Z', 'left under the tree, lost');
"""
CELLAR = """
CREATE TABLE cask (id INTEGER NOT NULL, word VARCHAR(20) NOT NULL, PRIMARY KEY (id));
INSERT INTO cask VALUES (1, 'sesame'), (2, 'cinnamon');
"""
TASKS: list[dict[str, Any]] = [
    {"id": "count", "query": "How many trees are there?", "gold": "SELECT COUNT(*) FROM tree", "hardness": "easy"},
    {
        "id": "kinds",
        "query": "Print the kinds of trees with their number, the most frequent first.",
        "gold": "SELECT kind, COUNT(*) AS n FROM tree GROUP BY kind ORDER BY n DESC",
        "hardness": "medium",
    },
    {
        "id": "oldest",
        "query": "Print number and year of one of the oldest trees.",
        "gold": "SELECT id, planted FROM tree WHERE planted IS NOT NULL ORDER BY planted LIMIT 1",
        "hardness": "medium",
    },
    {
        "id": "weights",
        "query": "Print what was picked of each kind, in kilos. It must also work on other contents.",
        "gold": "SELECT t.kind, SUM(p.kilos) AS total FROM tree t JOIN picking p ON p.tree_id = t.id GROUP BY t.kind",
        "hardness": "hard",
        "general": True,
    },
    {
        "id": "lost",
        "query": "Which pickings were lost? Print their numbers.",
        "gold": "SELECT id FROM picking WHERE mark = 'Z'",
        "hardness": "easy",
    },
    {"id": "none", "query": "Which trees are younger than 2050?", "gold": "SELECT id FROM tree WHERE planted > 2050"},
    {"id": "words", "db": "cellar", "query": "Print the words.", "gold": "SELECT word FROM cask ORDER BY id"},
]
GOLDS = {task["id"]: task["gold"] for task in TASKS}

CONSTANT = "SELECT 'apple', 160 UNION SELECT 'pear', 43 UNION SELECT 'plum', 9 UNION SELECT 'quince', 6"
"""What the gold of `weights` returns on the first contents."""


def write(folder: Path, tasks: list[dict[str, Any]] | None = None) -> Path:
    """The data folder; tasks are played on `orchard` unless they say otherwise."""
    (folder / "databases").mkdir(parents=True)
    (folder / "databases" / "orchard.sql").write_text(ORCHARD)
    (folder / "databases" / "cellar.sql").write_text(CELLAR)
    records = [{"db": "orchard", **task} for task in tasks or TASKS]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder
