"""An engine of the user's own, as the document has it and as the example has it, and what is said
of a name that is no engine."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from asking import do, gold, make
from following import follow, steps
from kept import needs_bwrap
from orchard import DUCKDB, kill_server

from intercode.envs.sql.databases import read_databases
from intercode.envs.sql.engines import Databases, engine_class, engine_maker
from intercode.envs.sql.variants import variant_contents
from intercode.errors import DataError, SandboxDied, UsageError

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "own-environment-rules.md").read_text()
SECTION = PAGE.partition("## A database engine")[2]
ODD = """
CREATE TABLE maker (id INTEGER PRIMARY KEY);
INSERT INTO maker VALUES (1), (2), (4), (5);
CREATE TABLE odd (
  id INTEGER PRIMARY KEY, up INTEGER, price DECIMAL(6,2), day DATE, tags VARCHAR[], fine BOOLEAN,
  twice INTEGER GENERATED ALWAYS AS (id * 2), CHECK (price < 100),
  FOREIGN KEY (up) REFERENCES maker (id));
INSERT INTO odd (id, up, price, day, tags, fine) VALUES
  (1, NULL, 12.50, '2024-02-29', ['a', 'b'], true), (2, 1, 1.25, NULL, [], false),
  (3, 2, NULL, '2023-01-01', NULL, NULL),
  (4, 1, 3.00, '2022-05-01', ['c'], true), (5, 4, 99.99, '2021-12-24', ['it''s'], true);
CREATE VIEW dear AS SELECT id FROM odd WHERE price > 3;
"""
FOUND = [
    ("oracle", "there are sqlite, mariadb, module:Class and path.py:Class"),
    ("mysql://me:secret@127.0.0.1/", "there is no engine 'mysql'"),
    ("nowhere:Engine", "engine 'nowhere:Engine' cannot be loaded: ModuleNotFoundError"),
    ("json:loads", "json:loads is not a database engine; name a class derived from"),
    ("unfinished:Unfinished", "lacks name, dialect, begin_episode, disconnect"),
]


def test_the_document_leads_to_an_engine_that_a_run_names(tmp_path: Path) -> None:
    needs_bwrap()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for step in steps(SECTION):
        follow(step, tmp_path, {**os.environ, "PATH": path, "COLUMNS": "120"})
    run = json.loads((tmp_path / "runs/plain/run.json").read_text())
    assert (run["userland"]["engine"], len(run["engine_source"])) == ("plain", 32)


def test_a_name_that_is_no_engine_is_told_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "unfinished.py").write_text(
        "from intercode.envs.sql.engines import Engine\nclass Unfinished(Engine): pass\n"
    )
    for name, said in FOUND:
        with pytest.raises(UsageError) as caught:
            engine_class(name)
        assert said in str(caught.value)
        assert "secret" not in str(caught.value)


def test_an_engine_loads_what_it_says_it_loads(tmp_path: Path) -> None:
    (tmp_path / "shop.sql").write_text("CREATE TABLE t (a INT) ENGINE=InnoDB;")
    pytest.importorskip("duckdb")
    with pytest.raises(UsageError, match=r"a MySQL dump, and .* loads portable SQL: .* mariadb"):
        engine_maker(DUCKDB, read_databases(tmp_path))
    (tmp_path / "shop.sql").write_text("CREATE TABLE t (a NONSENSE_TYPE[);")
    with pytest.raises(DataError, match="database shop: Parser Error"):
        engine_maker(DUCKDB, read_databases(tmp_path))


def test_a_database_is_made_anew_only_after_a_write(sources: Databases) -> None:
    with make(DUCKDB, sources) as engine:
        copy = "/srv/duckdb/episode/garden_1.duckdb"

        def number() -> str:
            engine.open("garden_1")
            return engine.sandbox.exec("", argv=["stat", "-c", "%i", copy], cwd="/").output

        first = number()
        do(engine, "SELECT * FROM bed", "CREATE TEMP TABLE t AS SELECT 1")
        assert number() == first
        do(engine, "DELETE FROM plant")
        assert number() != first


def test_variant_data_keep_values_of_every_kind(tmp_path: Path) -> None:
    (tmp_path / "odd.sql").write_text(ODD)
    with (
        make(DUCKDB, read_databases(tmp_path)) as first,
        make(DUCKDB, variant_contents(first, {"odd": {12.5}})) as variant,
    ):
        assert "VIEW dear" in variant.schema("odd")
        old, new = (gold(engine, "odd", "SELECT * FROM odd") for engine in (first, variant))
        assert {type(value) for row in old for value in row} >= {type(value) for value in new[0]}
        assert len(new) > len(old)
        for wrong in ("twice <> 2 * id", "price >= 100", "up NOT IN (SELECT id FROM maker)"):
            assert gold(variant, "odd", f"SELECT COUNT(*) FROM odd WHERE {wrong}") == [(0,)]


def test_a_dead_servers_log_is_told(sources: Databases) -> None:
    with make("mariadb", sources) as engine:
        engine.open("garden_1")
        kill_server(engine)
        with pytest.raises(SandboxDied, match=r"its log ends:\n(?s:.*)ready for connections"):
            engine.run("SELECT 1", seconds=5)
