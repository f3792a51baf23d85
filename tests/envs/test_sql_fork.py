"""Forking SqlEnv on both engines: the same committed content, then separate lives; replay where a live copy is impossible."""

from __future__ import annotations

import os
from contextlib import closing
from typing import Any

import pytest
from families import wait_until
from orchard import GOLDS, Pool, plays, pool, servers_below

from intercode.errors import ForkError, UsageError


def test_a_fork_has_the_committed_content_and_lives_on_its_own(sql: Any) -> None:
    env = sql("count", "DELETE FROM picking WHERE id > 2", "CREATE TABLE basket (id INTEGER)", "INSERT INTO basket VALUES (5)")
    left, right = env.fork(), env.fork()
    left.step("DELETE FROM basket")
    right.step("DROP TABLE basket")
    assert left.step("SELECT COUNT(*) FROM basket")[0] == "[(0,)]"
    assert right.step("SELECT COUNT(*) FROM basket")[0].startswith("Error")
    assert env.step("SELECT id FROM basket")[0] == "[(5,)]"
    assert left.step("SELECT COUNT(*) FROM picking")[0] == "[(2,)]"
    for each in (left, right):
        assert plays(each, "count", "SELECT COUNT(*) FROM picking", GOLDS["count"]).success, "and begins anew"
        each.close()


def test_a_fork_has_had_as_many_turns_and_gives_the_same_answer(sql: Any) -> None:
    env = sql("count", "SELECT 1", GOLDS["count"], max_turns=4)
    twin, other = env.fork(), env.fork()
    assert twin.turn == 2
    assert twin.step("submit")[1] == 1.0
    assert [other.step("SELECT 1")[3], other.step("SELECT 1")[3]] == [False, True]
    assert env.turn == 2
    assert env.step("submit")[1] == 1.0
    for each in (twin, other):
        each.close()


def test_a_fork_of_a_fork_outlives_both(sql: Any) -> None:
    env = sql("count", "INSERT INTO mark VALUES ('X', 'one')")
    child = env.fork()
    child.step("INSERT INTO mark VALUES ('Y', 'two')")
    grandchild = child.fork()
    child.close()
    env.reset()
    assert grandchild.step("SELECT meaning FROM mark WHERE code IN ('X', 'Y') ORDER BY code")[0] == "[('one',), ('two',)]"
    grandchild.close()


def test_an_untouched_environment_forks(sql: Any) -> None:
    env = sql("count")
    twin = env.fork()
    twin.step(GOLDS["count"])
    assert twin.step("submit")[1] == 1.0
    twin.close()


@pytest.mark.parametrize(
    ("actions", "named"),
    [
        (("BEGIN", "DELETE FROM picking"), "transaction"),
        (("CREATE TEMPORARY TABLE basket (id INTEGER)",), "temporary table"),
        (("BEGIN",), "transaction"),
    ],
)
def test_what_cannot_be_copied_is_named_and_nothing_is_lost(sql: Any, actions: tuple[str, ...], named: str) -> None:
    env = sql("count", *actions)
    with pytest.raises(ForkError, match=named):
        env.fork()
    env.step(GOLDS["count"])
    assert env.step("submit")[1] == 1.0


@pytest.mark.parametrize(
    ("actions", "named"),
    [
        (("LOCK TABLES picking WRITE",), "picking"),
        (("DO GET_LOCK('gate', 0)",), "gate"),
        (("XA START 'deal'", "DELETE FROM picking", "XA END 'deal'", "XA PREPARE 'deal'"), "deal"),
    ],
)
def test_locks_are_named(servers: Pool, sql: Any, actions: tuple[str, ...], named: str) -> None:
    """SQLite has no such statements: they fail, and a fork of what they left is as good as any other."""
    env = sql("count", *actions)
    if servers.engine == "mariadb":
        with pytest.raises(ForkError, match=named):
            env.fork()
    else:
        env.fork().close()


@pytest.mark.parametrize(
    "actions",
    [
        ("CREATE TEMPORARY TABLE basket AS SELECT 7 AS id", "SELECT * FROM basket"),
        ("BEGIN", "DELETE FROM picking WHERE id < 7", "SELECT COUNT(*) AS id FROM picking"),
    ],
)
def test_replay_makes_what_cannot_be_copied_again(sql: Any, actions: tuple[str, ...]) -> None:
    env = sql("count", *actions)
    twin = env.fork(replay=True)
    assert twin.turn == env.turn
    assert twin.step(actions[-1])[:4] == env.step(actions[-1])[:4]
    twin.step("ROLLBACK")
    twin.step(GOLDS["count"])
    assert twin.step("submit")[1] == 1.0
    twin.close()


def test_a_replay_that_goes_another_way_is_an_error_and_leaves_no_server(servers: Pool, sql: Any) -> None:
    random = "RANDOM()" if servers.engine == "sqlite" else "RAND()"
    env = sql("count", "BEGIN", f"SELECT {random}")
    before = servers_below(os.getpid())
    with pytest.raises(ForkError, match="another observation at turn 2"):
        env.fork(replay=True)
    assert wait_until(lambda: set(servers_below(os.getpid())) <= set(before))
    assert env.step(GOLDS["count"])[0] == "[(7,)]"


def test_a_fork_of_what_has_not_begun_begins_by_itself(servers: Pool) -> None:
    with pool(servers.engine) as own, closing(own.lent()().fork()) as twin:
        assert plays(twin, "count", "SELECT COUNT(*) FROM picking", GOLDS["count"]).success


def test_a_closed_environment_does_not_fork(servers: Pool) -> None:
    with pool(servers.engine) as own:
        env = own.lent()("count")
        env.close()
        with pytest.raises(UsageError):
            env.fork()
