"""Engines on two small databases of our own, among them the example of an own engine. Tests skip
where an engine's server is not installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from asking import make
from orchard import DUCKDB
from orchard import ENGINES as OURS

from intercode.envs.sql.databases import read_databases
from intercode.envs.sql.engines import Databases, Engine

ENGINES = [*OURS, DUCKDB]
GARDEN = """
CREATE TABLE bed (id INTEGER NOT NULL, name VARCHAR(20) NOT NULL, PRIMARY KEY (id));
CREATE TABLE plant (
  id INTEGER NOT NULL, bed_id INTEGER NOT NULL, name VARCHAR(20), height DOUBLE,
  PRIMARY KEY (id), FOREIGN KEY (bed_id) REFERENCES bed (id));
INSERT INTO bed VALUES (1, 'north'), (2, 'south');
INSERT INTO plant VALUES (1, 1, 'fern', 0.5), (2, 2, 'rose', 1.25), (3, 2, NULL, NULL);
CREATE TABLE seed (n INTEGER NOT NULL, PRIMARY KEY (n));
"""
NUMBERS = "INSERT INTO seed VALUES " + ", ".join(f"({n})" for n in range(200)) + ";\n"
VAULT = "CREATE TABLE secret (word VARCHAR(20)); INSERT INTO secret VALUES ('sesame');"


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Databases:
    folder = tmp_path_factory.mktemp("databases")
    (folder / "garden_1.sql").write_text(GARDEN + NUMBERS)
    (folder / "vault.sql").write_text(VAULT)
    return read_databases(folder)


@pytest.fixture(scope="session")
def shared(sources: Databases) -> Iterator[Callable[[str], Engine]]:
    """One engine of each kind for all tests that leave it whole, freshly opened."""
    made: dict[str, Engine] = {}

    def get(name: str) -> Engine:
        if name not in made:
            made[name] = make(name, sources)
        made[name].open("garden_1")
        return made[name]

    yield get
    for engine in made.values():
        engine.close()


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, shared: Callable[[str], Engine]) -> Engine:
    return shared(request.param)


@pytest.fixture
def mariadb(shared: Callable[[str], Engine]) -> Engine:
    return shared("mariadb")


@pytest.fixture
def embedded(shared: Callable[[str], Engine]) -> Engine:
    return shared("sqlite")


@pytest.fixture(params=ENGINES)
def own(request: pytest.FixtureRequest, sources: Databases) -> Iterator[Engine]:
    """An engine that a test may break."""
    with make(request.param, sources) as engine:
        engine.open("garden_1")
        yield engine
