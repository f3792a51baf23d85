"""What programs keep for themselves in a task's HOME, and tasks that are about HOME."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap, write_box

import intercode
from intercode.agents import make_agent
from intercode.factory import EnvFactory
from intercode.models import OpenAIModel
from intercode.runner.run import evaluate
from intercode.types import Episode

KEPT = [
    "mkdir -p ~/.openhands/sessions; echo '{}' > ~/.openhands/sessions/1.json",
    "mkdir -p ~/.config/gptme; echo model=x > ~/.config/gptme/config.toml",
    "echo ls >> ~/.bash_history",
    "mkdir -p ~/.cache/pip; head -c 9999 /dev/zero > ~/.cache/pip/x",
    "mkdir -p ~/.local/share/agent/logs; touch ~/.local/share/agent/logs/today",
    "ln -s /dev/null ~/.lock",
    "mkdir -m 700 ~/.npm ~/.npm/_logs",
    "echo a > ~/.tool.json; mv ~/.tool.json ~/.tool.bak",
    "mkfifo ~/.pipe",
    "echo x > ~/.größe; chmod 600 ~/.größe",
]
ABOUT_HOME = {
    "alias": ("Let ll mean ls -l in my .bashrc.", "echo 'alias ll=\"ls -l\"' >> ~/.bashrc"),
    "ssh": ("Make ~/.ssh/config with the line Host *.", "echo 'Host *' > ~/.ssh/config"),
    "git": ("Tell git that my name is Ada.", "printf '[user]\\n\\tname = Ada\\n' > ~/.gitconfig"),
    "old": ("Remove my old vim settings.", "rm ~/.vimrc"),
    "modes": ("Let nobody else read my keys.", "chmod 600 ~/.ssh/id"),
    "cache": ("Empty the cache in my home.", "rm -r ~/.cache/old"),
    "profile": ("Make vi my editor at login.", "echo 'export EDITOR=vi' >> ~/.profile"),
    "move": ("Move notes from my home to .notes there.", "mv ~/notes ~/.notes"),
    "pip": ("Set pip's timeout to 60 s.", "echo 'timeout = 60' >> ~/.config/pip/pip.conf"),
    "plain": ("Make the file todo in my home.", "touch ~/todo"),
}
SETUP = """mkdir -p ~/.ssh ~/.cache/old ~/.config/pip
touch ~/.vimrc ~/.ssh/id ~/.cache/old/x ~/notes
echo '[global]' > ~/.config/pip/pip.conf; echo '# mine' | tee ~/.bashrc > ~/.profile"""


@pytest.fixture(scope="module")
def factory(tmp_path_factory: pytest.TempPathFactory) -> EnvFactory:
    needs_bwrap()
    tasks = [
        {"id": name, "query": query, "gold": gold, "setup": SETUP}
        for name, (query, gold) in ABOUT_HOME.items()
    ]
    folder = write_box(tmp_path_factory.mktemp("homes"), [])
    (folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    return intercode.prepare("bash", data=str(folder))


def played(factory: EnvFactory, command: str, *tasks: str) -> list[Episode]:
    """Play tasks by a program that needs no model."""
    model = OpenAIModel("none", base_url="http://127.0.0.1:1/v1", api_key="k")
    language, chosen = intercode.BashEnv.language, [t for t in factory.tasks if t.id in tasks]
    agent = make_agent(f"exec:{command}; submit; submit", tasks=factory.tasks, language=language)
    return evaluate(factory, agent.strategy, model, tasks=chosen)


@pytest.mark.parametrize("task", ABOUT_HOME)
def test_a_task_about_home_is_what_it_was_and_what_a_program_keeps_there_is_its_own(
    factory: EnvFactory, task: str
) -> None:
    gold, others = ABOUT_HOME[task][1], {"cache": ".cache", "pip": ".config"}
    own = [line for line in KEPT if f"~/{others.get(task, 'none')}" not in line]
    python = f"python3 -c 'import subprocess; subprocess.run({json.dumps(gold)}, shell=True)'"
    by_itself = python if "'" not in gold else gold
    (done,) = played(factory, f"{'; '.join(own)}; {by_itself}", task)
    (idle,) = played(factory, "; ".join(own), task)
    assert (done.reward, idle.reward) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("task", "more"),
    [
        ("plain", "touch ~/.bashrc.d; touch ~/visible"),  # not hidden
        ("plain", "echo x >> ~/.vimrc"),  # was there before
        ("plain", "rm ~/.profile"),
        ("plain", "echo x > ~/.ssh/id"),
        ("plain", "rm -r ~/.config/pip"),
        ("plain", "chmod 600 ~/.config/pip/pip.conf"),
        ("ssh", "touch ~/.ssh/other"),  # the gold changes that entry
        ("move", "mkdir ~/.notes.d; echo x >> ~/.notes"),
        ("plain", "touch /.x"),
    ],
)
def test_other_changes_count(factory: EnvFactory, task: str, more: str) -> None:
    (episode,) = played(factory, f"{ABOUT_HOME[task][1]}; {more}", task)
    assert episode.reward == 0.0


def test_a_query_names_a_hidden_entry_by_a_whole_word(tmp_path: Path) -> None:
    needs_bwrap()
    query = "Make the files /box/app.config and /box/.npmrc."
    gold = "touch /box/app.config /box/.npmrc"
    folder = write_box(tmp_path, [{"id": "t", "query": query, "gold": gold}])
    factory = intercode.prepare("bash", data=str(folder))
    (episode,) = played(factory, f"mkdir ~/.config ~/.npm; {gold}", "t")
    assert episode.reward == 1.0


def test_a_home_that_the_program_makes_is_its_own(tmp_path: Path) -> None:
    needs_bwrap()
    task: dict[str, Any] = {"id": "t", "query": "Make the file /box/new.", "gold": "touch /box/new"}
    folder = write_box(tmp_path, [task | {"setup": "rm -rf ~"}])
    factory = intercode.prepare("bash", data=str(folder))
    (episode,) = played(factory, "mkdir -p ~/.openhands; touch /box/new", "t")
    assert episode.reward == 1.0
