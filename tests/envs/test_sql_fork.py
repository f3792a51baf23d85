"""Forking SqlEnv on both engines, by executing the episode again: the same content and session, then separate lives."""

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
    "actions",
    [
        ("CREATE TEMPORARY TABLE basket AS SELECT 7 AS id", "SELECT * FROM basket"),
        ("BEGIN", "DELETE FROM picking WHERE id < 7", "SELECT COUNT(*) AS id FROM picking"),
    ],
)
def test_a_fork_has_the_open_transaction_and_the_temporary_tables(sql: Any, actions: tuple[str, ...]) -> None:
    env = sql("count", *actions)
    twin = env.fork()
    assert twin.turn == env.turn
    assert twin.step(actions[-1])[:4] == env.step(actions[-1])[:4]
    twin.step("ROLLBACK")
    twin.step(GOLDS["count"])
    assert twin.step("submit")[1] == 1.0
    twin.close()


def test_a_fork_that_goes_another_way_is_an_error_and_leaves_no_server(servers: Pool, sql: Any) -> None:
    random = "RANDOM()" if servers.engine == "sqlite" else "RAND()"
    env = sql("count", "BEGIN", f"SELECT {random}")
    before = servers_below(os.getpid())
    with pytest.raises(ForkError, match="another observation at turn 2"):
        env.fork()
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
