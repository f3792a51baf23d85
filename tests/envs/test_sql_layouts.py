"""SQL sets in the layouts in which their authors publish them, filled by us: BIRD, its mini-dev,
Spider, and gold files."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap
from orchard import plays, skip_unless_there

import intercode
from intercode.agents import gold, noop
from intercode.envs.sql.compare import sql_bird
from intercode.envs.sql.env import SqlEnv
from intercode.errors import DataError, EntryLeftOut
from intercode.runner.budget import BudgetTracker
from intercode.runner.episode import play
from intercode.tasks import load_tasks
from intercode.types import Table

SCHEMA = """
CREATE TABLE {0} (id INTEGER PRIMARY KEY, price {1});
INSERT INTO {0} VALUES (1, 5), (2, 20), (3, 5);
"""
BIRD = {
    "question_id": 0,
    "db_id": "shop",
    "question": "How many articles are cheap?",
    "evidence": "cheap refers to price < 10",
    "SQL": "SELECT COUNT(*) FROM article WHERE price < 10",
    "difficulty": "simple",
}
SPIDER = {"db_id": "shop", "question": "How many articles?", "query": "SELECT 3", "query_toks": []}
SPARC = {
    "database_id": "shop",
    "interaction": [{"utterance": "All prices.", "query": "SELECT price FROM article"}],
    "final": {
        "utterance": "How many are cheap?",
        "query": "SELECT COUNT(*) FROM article WHERE price < 10",
    },
}
LIVE = [
    {
        "instance_id": "shop_1",
        "selected_database": "shop",
        "query": "Give the prices.",
        "preprocess_sql": [],
        "clean_up_sqls": [],
        "sol_sql": ["SELECT price FROM article ORDER BY id"],
        "test_cases": [],
        "conditions": {"decimal": -1, "distinct": False, "order": False},
    },
    {
        "instance_id": "shop_M_1",
        "selected_database": "shop",
        "query": "Make a table of a pear; it costs nothing.",
        "sol_sql": ["CREATE TABLE pear (note TEXT)", "INSERT INTO pear VALUES ('a;b')"],
        "conditions": None,
    },
]
DESCRIPTION = (
    "original_column_name,column_name,column_description,data_format,value_description\n"
    'price,,what it costs,real,"in euro;\n0 is free"\n'
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_bwrap()
    folder = tmp_path_factory.mktemp("published")
    (folder / "dev.json").write_text(json.dumps([BIRD]))
    (folder / "spider.json").write_text(json.dumps([SPIDER]))
    (folder / "sparc.json").write_text(json.dumps([SPARC]))
    (folder / "live.jsonl").write_text("\n".join(map(json.dumps, LIVE)))
    (folder / "gold.tsv").write_text(f"{BIRD['SQL']}\tshop\n\nSELECT 3\tpets\n")
    (folder / "dev_gold.sql").write_text(f"{BIRD['SQL']}\tshop\n")
    for name, table in (("shop", "article"), ("pets", "pet")):
        (folder / "dev_databases" / name / "database_description").mkdir(parents=True)
        file = folder / "dev_databases" / name / f"{name}.sqlite"
        with closing(sqlite3.connect(file)) as connection:
            connection.executescript(SCHEMA.format(table, "REAL"))
    described = folder / "dev_databases" / "shop" / "database_description" / "article.csv"
    described.write_bytes(b"\xef\xbb\xbf" + DESCRIPTION.encode())
    tables = "".join(SCHEMA.format(table, "DECIMAL(8,2)") for table in ("article", "pet"))
    shop = f"CREATE DATABASE `shop`;\nUSE `shop`;\n{SCHEMA.format('article', 'DECIMAL(8,2)')}"
    (folder / "shop.sql").write_text(shop)
    (folder / "BIRD_dev.sql").write_text(f"CREATE DATABASE `BIRD`;\nUSE `BIRD`;\n{tables}")
    return folder


PUBLISHED: list[tuple[str, dict[str, str]]] = [
    ("dev.json", {"databases": "dev_databases"}),
    ("dev.json", {"dump": "BIRD_dev.sql"}),
    ("spider.json", {"databases": "dev_databases"}),
    ("sparc.json", {"databases": "dev_databases"}),
    ("live.jsonl", {"databases": "dev_databases"}),
    ("live.jsonl", {"dump": "shop.sql"}),
    ("gold.tsv", {"databases": "dev_databases"}),
    ("dev_gold.sql", {"databases": "dev_databases"}),
]


@pytest.mark.parametrize(("data", "where"), PUBLISHED)
def test_a_published_layout_is_read_and_judged(
    folder: Path, data: str, where: dict[str, str]
) -> None:
    if "dump" in where:
        skip_unless_there("mariadb")
    given = {name: str(folder / file) for name, file in where.items()}
    factory = intercode.prepare("sql", data=str(folder / data), **given)
    with closing(factory()) as env:
        for agent, reward in ((gold, 1.0), (noop, 0.0)):
            for task in factory.tasks:
                assert play(env, task, agent, None, BudgetTracker()).reward == reward
        assert not plays(env, factory.tasks[0].id, "SELECT 1").success


def dbbench(type: str, label: list[str], query: str, rows: Any = ()) -> dict[str, Any]:
    """A record of AgentBench's DBBench with our words."""
    columns = [{"name": name, "type": "TEXT"} for name in ("Kind", "Price\\neuro")]
    if rows == ():
        rows = [["pear", "2"], ["Bob's \\plum", "3"]]
    named = {"columns": columns, "rows": rows or []}
    return {
        "description": "Look.",
        "label": label,
        "type": [type],
        "table": {"table_name": "Fruit List", "table_info": named},
        "add_description": "The name of this table is Fruit List.",
        "sql": {"query": query, "length": len(query)},
    }


LABELLED = [
    dbbench("other", ["Bob's \\plum"], "SELECT wrong"),
    dbbench("aggregation-SUM", ["5.0"], "SELECT wrong"),
    dbbench("other", ["2", "3"], "SELECT wrong"),
    dbbench("INSERT", ["[]"], "INSERT INTO `Fruit List` VALUES ('fig', 4)"),
    dbbench("other", [], "SELECT wrong"),
    dbbench("other", ["pear"], "SELECT wrong", [["pear"]]),
    dbbench("other", ["pear", "2"], "SELECT wrong"),
    {**dbbench("other", ["[]"], "INSERT INTO `Fruit List` VALUES ('fig', 4)"), "type": "INSERT"},
    dbbench("other", ["0"], "SELECT wrong", rows=None),
]
LABELLED_ANSWERS = {
    "0": ["SELECT Kind FROM `Fruit List` WHERE Kind LIKE 'Bob%'"],
    "1": ["SELECT SUM(`Price\\neuro`) FROM `Fruit List`", "SELECT '5.0'"],
    "2": ["SELECT `Price\\neuro` FROM `Fruit List`", "SELECT 2, 3"],
    "3": [
        "INSERT INTO `Fruit List` VALUES ('fi', '4');"
        " UPDATE `Fruit List` SET Kind = 'fig' WHERE Kind = 'fi'",
    ],
    "6": ["SELECT 'pear', 2", "SELECT 'pear', '2'", "SELECT '2' UNION ALL SELECT 'pear'"],
    "7": ["INSERT INTO `Fruit List` VALUES ('fig', '4')"],
    "8": ["SELECT COUNT(*) FROM `Fruit List`"],
}
"""Right answers to the first records by their ids."""


@pytest.mark.parametrize("engine", ["sqlite", "mariadb"])
def test_a_table_in_the_record_is_made_and_a_label_is_returned(folder: Path, engine: str) -> None:
    skip_unless_there(engine)
    (folder / "dbbench.jsonl").write_text("\n".join(map(json.dumps, LABELLED)))
    with pytest.warns(EntryLeftOut, match=r"line 5: its label is \[\], which no rows"):
        factory = intercode.prepare("sql", data=str(folder / "dbbench.jsonl"), engine=engine)
    with closing(factory()) as env:
        for id, answers in LABELLED_ANSWERS.items():
            (task,) = (task for task in factory.tasks if task.id == id)
            rewards = [play(env, task, who, None, BudgetTracker()).reward for who in (gold, noop)]
            assert rewards == [1.0, 0.0]
            assert all(plays(env, id, answer).success for answer in answers)
        assert not plays(env, "1", "SELECT 5 UNION ALL SELECT 5").success
        # an odd row is the data's fault, and that task's alone
        with pytest.raises(DataError, match="preprocess_sql fails"):
            env.reset(options={"task": "5"})
    assert not list(SqlEnv.lint(factory.tasks[0]))


def test_the_order_of_rows_counts_as_the_set_says_and_missing_golds_are_told(folder: Path) -> None:
    databases = str(folder / "dev_databases")
    with closing(
        intercode.make("sql", data=str(folder / "live.jsonl"), databases=databases)
    ) as env:
        assert plays(env, "shop_1", "SELECT price FROM article ORDER BY price DESC").success
        env.reset(options={"task": "shop_M_1"})
        env.step("CREATE TABLE pear (note TEXT); INSERT INTO pear VALUES ('a;b'); SELECT 1")
        assert env.step("submit")[1] == 1.0
        env.reset(options={"task": "shop_1"})
        observation, *_ = env.step("SELECT 1; SELEC 2; SELECT 3")
        assert 'near "SELEC"' in observation
    (folder / "unfilled.json").write_text(json.dumps([{**LIVE[0], "sol_sql": []}]))
    with pytest.raises(DataError, match="some sets have golds in another file"):
        intercode.prepare("sql", data=str(folder / "unfilled.json"), databases=databases)


def test_the_recipe_of_spider_2_lite_judges_by_the_columns_that_count(
    folder: Path, tmp_path: Path
) -> None:
    recipe = Path(__file__).parents[2] / "examples/recipes/spider2_lite.py"
    results = tmp_path / "evaluation_suite/gold/exec_result"
    results.mkdir(parents=True)
    for name, text in (("local1_a", "n,price\n1,5.0\n2,20.0\n"), ("local1_b", "price\n7\n")):
        (results / f"{name}.csv").write_text(text)
    (results / "bq1.csv").write_text("n\n1\n")
    tasks = [
        {"instance_id": name, "db": "shop", "question": "Prices?"} for name in ("local1", "bq1")
    ]
    rule = {"instance_id": "local1", "condition_cols": [[1], []], "ignore_order": True}
    (results.parent / "spider2lite_eval.jsonl").write_text(json.dumps(rule))
    (tmp_path / "spider2-lite.jsonl").write_text("\n".join(map(json.dumps, tasks)))
    factory = intercode.prepare(
        f"{recipe}:Lite",
        data=str(tmp_path / "spider2-lite.jsonl"),
        databases=str(folder / "dev_databases"),
    )
    assert [task.id for task in factory.tasks] == ["local1"]
    with closing(factory()) as env:
        assert plays(env, "local1", factory.tasks[0].gold).success
        assert plays(env, "local1", "SELECT 20.001, 'x' UNION SELECT 5, 'y'").success
        assert plays(env, "local1", "SELECT 7").success
        assert not plays(env, "local1", "SELECT 1 UNION SELECT 2").success
        assert not plays(env, "local1", "SELECT 5").success


def test_evidence_and_descriptions_of_columns_are_shown(folder: Path) -> None:
    options: dict[str, Any] = {
        "data": str(folder / "dev.json"),
        "databases": str(folder / "dev_databases"),
    }
    with closing(intercode.make("sql", **options)) as env:
        seen, info = env.reset()
        assert info["task"] == "0"
        assert seen == f"{BIRD['question']}\n\nExternal knowledge: {BIRD['evidence']}"
    with closing(intercode.make("sql", **options, handicap=True)) as env:
        seen, _ = env.reset()
    assert "CREATE TABLE article" in seen
    assert "\narticle.price: what it costs; in euro; 0 is free" in seen


def test_birds_reward_compares_sets_of_rows(folder: Path) -> None:
    two = Table(("a", "b"), ((1, "x"), (2, "y")))
    for rows, reward in (
        (((2, "y"), (1, "x")), 1.0),
        (((1.0, "x"), (2, "y"), (2, "y")), 1.0),
        ((("x", 1), ("y", 2)), 0.0),
        (((1, "x"),), 0.0),
        ((), 0.0),
    ):
        score = sql_bird(Table(("c", "d"), rows), two)
        assert (score.reward, score.success) == (reward, reward == 1), rows
    assert sql_bird(None, two).reward == sql_bird(two, None).reward == 0.0
    assert sql_bird(Table(("a", "b"), two.rows, cut=True), two).reward == 0.0
    data, databases = str(folder / "dev.json"), str(folder / "dev_databases")
    with closing(intercode.make("sql", data=data, databases=databases, reward="bird")) as env:
        again = "SELECT 2 FROM article"
        assert plays(env, "0", again).reward == 1.0, "rows that repeat count once"


def test_a_line_of_a_gold_file_without_a_database_is_named(tmp_path: Path) -> None:
    file = tmp_path / "gold.sql"
    file.write_text("SELECT 1\tshop\nSELECT 2\n")
    with pytest.raises(DataError, match=r"line 2: has no tab"):
        load_tasks(file)
