"""Second contents: the same schema with other rows, on which a query that was right by accident shows itself.

    Engine ──► relations and rows, by the referee's account ──► perturb.py ──► CREATE, INSERT, views ──► Databases
    `second_databases` keeps them in the cache, by content, literals, seed and the code that makes them

Everything is read through `run_gold`, so an agent's changes do not count. Of a table with more than 20,000 rows only so many
are read, and those that hold a literal. Left out: triggers, stored routines and events, virtual tables of SQLite, and what
golds say beyond their literals; a key whose type is full (127 in a TINYINT) gets no new rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path

from intercode.envs.sql.engines import quoting, values
from intercode.envs.sql.engines.base import Engine
from intercode.envs.sql.engines.dump import Databases, Kind
from intercode.envs.sql.engines.values import Literal
from intercode.envs.sql.variants import dependencies, perturb, relations
from intercode.sandbox import cache

Literals = Mapping[str, Collection[Literal]]


def second_contents(engine: Engine, literals: Literals, *, seed: int = 0) -> Databases:
    """A second content for every database of the engine, to be loaded by an engine of the same kind.

    `literals`: by database, the values that golds name; they stay where they are. Raises `DataError` for a table that cannot
    be read.
    """
    scripts = {}
    for db in engine.databases:
        named = {word for name, words in literals.items() if name.lower() == db.lower() for word in words}
        schema = relations.read(engine, db, named)
        rows = perturb.perturbed(schema.relations, named, f"{seed}\0{db.lower()}")
        scripts[db] = tuple(relations.write(schema, rows))
    kind: Kind = "portable" if engine.dialect == "sqlite" else "mysql"
    text = json.dumps([kind, sorted(scripts.items())])
    return Databases(kind, hashlib.sha256(text.encode()).hexdigest()[:32], scripts)


def second_databases(engine: Engine, content: Databases, literals: Literals, *, seed: int = 0) -> Databases:
    """The second contents of `content`, which is what the engine holds; made once, then taken from the cache."""
    named = sorted((name, sorted(map(repr, words))) for name, words in literals.items())
    modules = (str(module.__file__) for module in (dependencies, perturb, quoting, relations, values))
    code = [Path(file).read_text("utf-8") for file in (*modules, __file__)]
    whole = json.dumps([engine.dialect, engine.facts().get("version"), content.digest, named, seed, code], default=str)

    def build(folder: Path) -> None:
        made = second_contents(engine, literals, seed=seed)
        kept = {"kind": made.kind, "digest": made.digest, "scripts": made.scripts}
        (folder / "second.json").write_text(json.dumps(kept), "ascii")

    folder = cache.folder("second", hashlib.sha256(whole.encode()).hexdigest()[:32], build)
    kept = json.loads((folder / "second.json").read_text("ascii"))
    return Databases(kept["kind"], kept["digest"], {name: tuple(lines) for name, lines in kept["scripts"].items()})
