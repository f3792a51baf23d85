"""A run is not gone on with other code, or another file of actions, than it was begun with."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from intercode.agents import make_agent
from intercode.runner.sources import sources

FILES = {
    "mine_agent.py": "import json\nimport mine_tools.moves\nfrom mine_words import WORD\ndef agent(*asked): yield WORD\n",
    "mine_words.py": "from mine_pack import deep\nWORD = 'ls'\n",
    "mine_tools/moves.py": "STEP = 1\n",
    "mine_pack/__init__.py": "",
    "mine_pack/deep.py": "try:\n    from ..beyond import x\nexcept ImportError:\n    from . import deeper\n",
    "mine_pack/deeper.py": "x = 1\n",
    "mine_other.py": "x = 1\n",
}


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for modules of one's own, which are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    yield tmp_path
    forget()


def forget() -> None:
    for name in [name for name in sys.modules if name.startswith("mine_")]:
        del sys.modules[name]


def digest() -> dict[str, str]:
    forget()
    make_agent("mine_agent:agent", tasks=[])
    return sources(agent="mine_agent:agent", env="bash", model=None)


@pytest.mark.parametrize("name", [name for name in FILES if "other" not in name])
def test_a_change_of_any_of_ones_own_modules_shows(mine: Path, name: str) -> None:
    before = digest()
    assert list(before) == ["agent_source"]
    assert digest() == before
    with (mine / name).open("a") as file:
        file.write("# another\n")
    assert digest() != before


def test_another_folder_does_not(mine: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest()
    there = shutil.copytree(mine, tmp_path_factory.mktemp("there") / "a" / "b")
    (mine / "mine_agent.py").unlink()
    monkeypatch.syspath_prepend(str(there))
    assert digest() == before


def test_a_module_that_it_does_not_import_does_not(mine: Path) -> None:
    before = digest()
    (mine / "mine_other.py").write_text("x = 2\n")
    assert digest() == before


@pytest.mark.parametrize("kind", ["static", "scripted", "replay"])
def test_so_does_a_file_of_actions_or_replies(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "episodes.jsonl"
    file.write_text("one\n")
    named = f"{kind}:{tmp_path if kind == 'replay' else file}"
    before = sources(agent=named)
    file.write_text("two\n")
    assert list(before) == ["agent_source"]
    assert sources(agent=named) != before


def test_our_own_agents_models_and_environments_have_none() -> None:
    assert sources(agent="try_again", env="sql", model="ft:some-model:of:ours", reward=None) == {}


def test_an_installed_package_is_followed_and_other_installed_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "site-packages"
    (installed / "mine_shop").mkdir(parents=True)
    (installed / "mine_shop" / "__init__.py").write_text("from mine_shop.till import agent\nimport mine_library\n")
    (installed / "mine_shop" / "till.py").write_text("def agent(*asked): yield\n")
    (installed / "mine_library.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(str(installed))
    make_agent("mine_shop:agent", tasks=[])
    before = sources(agent="mine_shop:agent")
    (installed / "mine_library.py").write_text("x = 2\n")
    assert sources(agent="mine_shop:agent") == before
    (installed / "mine_shop" / "till.py").write_text("def agent(*asked): yield 2\n")
    assert sources(agent="mine_shop:agent") != before
    forget()
