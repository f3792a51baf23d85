"""A run is not gone on with other code, or another file of actions, than it was begun with."""

from __future__ import annotations

import itertools
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from intercode.agents import make_agent
from intercode.language import PLAIN
from intercode.runner.provenance import source_digests

FILES = {
    "mine_agent.py": (
        "import json\nimport mine_tools.moves\nfrom mine_words import WORD\n"
        "def agent(*asked): yield WORD\n"
    ),
    "mine_words.py": "from mine_pack import deep\nWORD = 'ls'\n",
    "mine_tools/moves.py": "STEP = 1\n",
    "mine_pack/__init__.py": "",
    "mine_pack/deep.py": (
        "try:\n    from ..beyond import x\nexcept ImportError:\n    from . import deeper\n"
    ),
    "mine_pack/deeper.py": "x = 1\n",
    "mine_other.py": "x = 1\n",
}


def forget() -> None:
    for name in [name for name in sys.modules if name.startswith("mine_")]:
        del sys.modules[name]


def digest() -> dict[str, str]:
    forget()
    make_agent("mine_agent:agent", tasks=[], language=PLAIN)
    return source_digests(agent="mine_agent:agent", env="bash", model=None)


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of modules of one's own, which are forgotten afterwards."""
    folder = tmp_path / "mine"
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    yield folder
    forget()


def test_a_change_of_any_module_that_the_agent_imports_shows_and_no_other(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = shutil.copytree(mine, tmp_path / "here")
    monkeypatch.syspath_prepend(str(here))
    digests = [digest()]
    assert list(digests[0]) == ["agent_source"]
    for name in FILES:
        with (here / name).open("a") as file:
            file.write("# another\n")
        digests.append(digest())
    changes = dict(
        zip(FILES, (old != new for old, new in itertools.pairwise(digests)), strict=True)
    )
    assert changes == {name: name != "mine_other.py" for name in FILES}
    shutil.rmtree(here)
    assert digest() == digests[0], "the same modules in another folder"


def test_so_does_a_file_of_actions_and_our_own_agents_and_environments_have_none(
    tmp_path: Path,
) -> None:
    (tmp_path / "episodes.jsonl").write_text("one\n")
    named = [
        f"static:{tmp_path}/episodes.jsonl",
        f"scripted:{tmp_path}/episodes.jsonl",
        f"replay:{tmp_path}",
    ]
    before = [source_digests(agent=name) for name in named]
    (tmp_path / "episodes.jsonl").write_text("two\n")
    for old, name in zip(before, named, strict=True):
        assert list(old) == ["agent_source"]
        assert source_digests(agent=name) != old
    assert (
        source_digests(agent="try_again", env="sql", model="ft:some-model:of:ours", reward=None)
        == {}
    )
