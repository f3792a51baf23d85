"""A place to act in: a move to a ground that has no sandbox leaves it where it was."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from kept import needs_bwrap

from intercode.envs.ground import Ground, Place
from intercode.errors import SandboxUnavailable
from intercode.sandbox import template


def test_a_move_that_fails_fails_again_and_there_is_a_way_back(module_cache: Path) -> None:
    needs_bwrap()
    home = Ground(template.base(None), "persistent")
    away = replace(home, template=template.Template((Path("/nowhere"),), (), "nowhere"))
    place = Place(home)
    with closing(place.sandbox):
        for _ in range(2):
            with pytest.raises(SandboxUnavailable, match="could not start"):
                place.move(away)
        place.move(home)
        place.begin()
        assert place.act("echo here").output == "here\n"
