"""Golds that write: what the agent leaves in the database is compared with what the gold leaves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest
from orchard import DUCKDB, ENGINES, plays, skip_unless_there

import intercode
from intercode.envs.sql.engines import Engine
from intercode.errors import DataError
from intercode.factory import EnvFactory
from intercode.validate.check import check

SHOP = """
CREATE TABLE item (id INTEGER NOT NULL, name VARCHAR(20), price DOUBLE, PRIMARY KEY (id));
CREATE TABLE sale (id INTEGER NOT NULL, item_id INTEGER, PRIMARY KEY (id));
INSERT INTO item VALUES (1, 'axe', 0.3), (2, 'bow', 2.5), (3, 'cup', NULL);
INSERT INTO sale VALUES (1, 1), (2, 1);
"""
GOLDS = {
    "raise": "UPDATE item SET price = price * 3 WHERE id < 3",
    "add": "INSERT INTO item VALUES (4, 'dam', 1.5)",
    "remove": "DELETE FROM sale WHERE item_id = 1",
    "table": "CREATE TABLE box (id INTEGER PRIMARY KEY, name VARCHAR(9) NOT NULL)",
    "view": "CREATE VIEW cheap AS SELECT id FROM item WHERE price < 1",
    "column": "ALTER TABLE item ADD COLUMN stock INTEGER DEFAULT 7",
    "drop": "DROP TABLE sale",
    "index": "CREATE INDEX by_item ON sale (item_id)",
    "temporary": "CREATE TEMPORARY TABLE low AS SELECT id FROM item WHERE price < 1",
}
RIGHT: list[tuple[str, list[str]]] = [
    *((name, [gold]) for name, gold in GOLDS.items()),
    ("raise", ["UPDATE item SET price = CASE id WHEN 1 THEN 0.9 ELSE 7.5 END WHERE id <> 3"]),
    ("add", [GOLDS["remove"], "INSERT INTO sale VALUES (2, 1), (1, 1)", GOLDS["add"]]),
    ("add", ["BEGIN", GOLDS["add"], "COMMIT", "SELECT oops"]),
    ("table", ["CREATE TABLE Box (ID INTEGER, name VARCHAR(9) NOT NULL, PRIMARY KEY (ID))"]),
    ("view", ["CREATE VIEW cheap AS SELECT i.id FROM item i WHERE NOT i.price >= 1"]),
    ("index", ["CREATE INDEX named_otherwise ON sale (item_id)"]),
    ("remove", ["CREATE TEMPORARY TABLE box (a INT)", GOLDS["remove"], "SELECT 1"]),
    ("temporary", ["CREATE TEMPORARY TABLE low (id INT)", "INSERT INTO low VALUES (1)"]),
]  # fmt: skip
OTHER = "other tables or columns in the database"
WRONG: list[tuple[str, list[str], str]] = [
    *((name, [], "") for name in GOLDS),
    *((name, ["SELECT 1"], "") for name in GOLDS),
    ("raise", [*2 * [GOLDS["raise"]]], "other rows in the table item"),
    ("raise", [GOLDS["raise"], GOLDS["remove"]], "other rows in the table sale"),
    ("add", [GOLDS["add"], "CREATE TABLE box (a INT)"], OTHER),
    ("add", ["BEGIN", GOLDS["add"]], "other rows in the table item"),
    ("add", ["CREATE TABLE sales AS SELECT * FROM sale", "DROP TABLE sale", GOLDS["add"]], OTHER),
    ("remove", ["DELETE FROM sale WHERE id = 1"], "other rows in the table sale"),
    ("remove", ["CREATE TEMPORARY TABLE sale (id INT, item_id INT)"], ""),
    ("table", ["CREATE TABLE box (id INTEGER PRIMARY KEY, name VARCHAR(9))"], OTHER),
    ("table", ["CREATE TABLE box (id INTEGER, name VARCHAR(9) NOT NULL)"], OTHER),
    ("table", ["CREATE TABLE box (id INTEGER PRIMARY KEY, name INTEGER NOT NULL)"], OTHER),
    ("view", ["CREATE TABLE cheap AS SELECT id FROM item WHERE price < 1"], OTHER),
    ("view", ["CREATE VIEW cheap AS SELECT id FROM item"], "other rows in the table cheap"),
    ("view", ["CREATE VIEW cheap AS SELECT id FROM sale", "DROP TABLE sale"], OTHER),
    ("column", ["ALTER TABLE item ADD COLUMN stock INTEGER"], OTHER),
    ("index", ["CREATE INDEX by_item ON sale (item_id, id)"], OTHER),
    ("temporary", ["CREATE TABLE low AS SELECT id FROM item WHERE price < 1"], OTHER),
    ("temporary", ["CREATE TEMPORARY TABLE low (id INT)"], "other rows in the table temporary low"),
    ("temporary", [GOLDS["temporary"], "DROP TABLE low"], OTHER),
]  # fmt: skip
"""Tasks, actions, and the rule that refuses them, where it is the same on each engine. The example
of an own engine plays a part."""


@pytest.fixture(scope="module", params=[*ENGINES, DUCKDB])
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> EnvFactory:
    skip_unless_there(request.param)
    return write_shop(tmp_path_factory.mktemp("shop"), request.param, GOLDS)


def write_shop(folder: Path, engine: str, golds: Mapping[str, str | list[str]]) -> EnvFactory:
    (folder / "databases").mkdir()
    (folder / "databases" / "shop.sql").write_text(SHOP)
    tasks = [{"id": id, "query": f"Change it: {id}.", "gold": gold} for id, gold in golds.items()]
    (folder / "tasks.json").write_text(json.dumps(tasks))
    return intercode.prepare("sql", data=str(folder), engine=engine)


def test_the_same_content_is_right_however_it_came_about(shop: EnvFactory) -> None:
    with closing(shop()) as env:
        for task, actions in RIGHT[5:] if shop.options.engine == DUCKDB else RIGHT:
            score = plays(env, task, *actions)
            assert (score.reward, score.success) == (1.0, True), (task, actions, score)
            assert (score.rule, score.parts) == ("same changes", {"changes": 1.0})


def test_another_content_is_wrong_and_the_rule_says_what_differs(shop: EnvFactory) -> None:
    with closing(shop()) as env:
        for task, actions, rule in WRONG[18:] if shop.options.engine == DUCKDB else WRONG:
            score = plays(env, task, *actions)
            assert (score.reward, score.success) == (0.0, False), (task, actions)
            assert rule in (score.rule, ""), (task, actions, score.rule)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_gold_of_several_statements_may_end_with_rows_in_an_order(
    tmp_path: Path, engine: str
) -> None:
    skip_unless_there(engine)
    add = "INSERT INTO item VALUES (4, 'dam', 1.5)"
    golds = {"sorted": [f"{add} -- a comment", "SELECT name FROM item ORDER BY name DESC"]}
    with closing(write_shop(tmp_path, engine, golds)()) as env:
        assert plays(env, "sorted", add, "SELECT name FROM item ORDER BY name DESC").success
        other = plays(env, "sorted", add, "SELECT name FROM item ORDER BY name")
        assert (other.success, other.rule) == (False, "another order")
        assert not plays(env, "sorted", "SELECT name FROM item ORDER BY name DESC").success


def test_the_difference_is_shown(shop: EnvFactory) -> None:
    with closing(shop()) as env:
        env.reset(options={"task": "add"})
        env.step("INSERT INTO item VALUES (4, 'dam', 1.6)")
        outcomes = env.step("submit")[4]["outcomes"]
    assert outcomes["failed"] == ["changes"]
    assert (outcomes["missing"], outcomes["extra"]) == ([[4, "dam", 1.5]], [[4, "dam", 1.6]])


def test_an_episode_that_is_scored_at_each_step_goes_on(shop: EnvFactory) -> None:
    options = {"data": shop.options.data, "engine": shop.options.engine, "protocol": "paper"}
    with closing(intercode.make("sql", **options, reward="exact")) as env:
        env.reset(options={"task": "raise"})
        for action, reward in (
            ("UPDATE item SET price = 0.9 WHERE id = 1", 0.0),
            ("CREATE TABLE box (id INT)", 0.0),
            ("UPDATE item SET price = 7.5 WHERE id = 2", 0.0),
            ("DROP TABLE box", 1.0),
        ):
            assert env.step(action)[1] == reward, action


def test_check_runs_golds_that_write_and_tells_bad_ones(tmp_path: Path) -> None:
    skip_unless_there("sqlite")
    factory = write_shop(
        tmp_path,
        "sqlite",
        {
            **{name: gold for name, gold in GOLDS.items() if name not in ("index", "drop")},
            "returns": "INSERT INTO sale VALUES (3, 2) RETURNING item_id, id",
            "nothing": "DELETE FROM sale WHERE id > 9",
            "fails": "INSERT INTO sale VALUES (1, 1)",
            "moody": "INSERT INTO item VALUES (5, CURRENT_TIMESTAMP, 1)",
        },
    )
    report = check(factory, factory.tasks)
    kinds = {(row["task"], row["kind"]) for row in report["broken"]}
    assert kinds == {
        ("nothing", "gold_fails"),
        ("fails", "gold_fails"),
        ("moody", "gold_differs"),
    }
    assert report["noop_paid"] == 0
    with closing(factory()) as env:
        gold = "INSERT INTO sale VALUES (3, 2)"
        assert plays(env, "returns", gold + " RETURNING item_id, id").parts["changes"] == 1
        assert plays(env, "returns", gold).rule == "no rows"


def test_a_table_that_is_too_large_for_one_answer_is_compared_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_unless_there("sqlite")
    monkeypatch.setattr(Engine, "max_rows", 1000)
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500) "
    fill = f"INSERT INTO sale {numbers} SELECT i + 9, i FROM n"
    factory = write_shop(tmp_path, "sqlite", {"fill": fill})
    with closing(factory()) as env:
        assert plays(env, "fill", f"{fill} ORDER BY i DESC").success
        score = plays(env, "fill", fill, "UPDATE sale SET item_id = 0 WHERE id = 2499")
        assert (score.success, score.rule) == (False, "other rows in the table sale")


@pytest.mark.parametrize(
    ("engine", "gold", "right", "wrong"),
    [
        (
            "sqlite",
            "CREATE TRIGGER t AFTER DELETE ON sale BEGIN DELETE FROM item WHERE id = 2; END",
            'create trigger "t" after delete on sale\nbegin delete from item where id=2; end',
            "CREATE TRIGGER t AFTER DELETE ON sale BEGIN DELETE FROM item; END",
        ),
        (
            "sqlite",
            "CREATE INDEX i ON item (name) WHERE price IS NOT NULL",
            "CREATE INDEX j ON item(name) WHERE price is not null;",
            "CREATE INDEX i ON item (name)",
        ),
        (
            "sqlite",
            "INSERT INTO note VALUES ('new fox')",
            "INSERT INTO note (body) VALUES ('new fox')",
            "SELECT 1",
        ),
        (
            "mariadb",
            "CREATE TRIGGER t AFTER DELETE ON sale FOR EACH ROW DELETE FROM item WHERE id = 2",
            "CREATE TRIGGER t AFTER DELETE ON sale FOR EACH ROW delete from item where id=2",
            "CREATE TRIGGER t AFTER DELETE ON sale FOR EACH ROW DELETE FROM item",
        ),
    ],
)
def test_triggers_conditions_of_indexes_and_virtual_tables_are_compared(
    tmp_path: Path, engine: str, gold: str, right: str, wrong: str
) -> None:
    skip_unless_there(engine)
    virtual = "CREATE VIRTUAL TABLE note USING fts5(body);" if engine == "sqlite" else ""
    (tmp_path / "shop.sql").write_text(SHOP + virtual)
    data = tmp_path / "tasks.jsonl"
    records = [
        {"id": "t", "query": "Do it.", "gold": gold, "db": "shop"},
        {"id": "nothing", "query": "None.", "gold": "DELETE FROM sale WHERE id = 9", "db": "shop"},
    ]
    data.write_text("\n".join(map(json.dumps, records)))
    env = intercode.make("sql", data=str(data), databases=str(tmp_path), engine=engine)
    with closing(env):
        for action, reward in ((right, 1), (wrong, 0), ("SELECT 1", 0)):
            assert plays(env, "t", action).reward == reward, action
        with pytest.raises(DataError, match="changes nothing that is compared"):
            env.reset(options={"task": "nothing"})
