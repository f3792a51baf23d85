"""Load the texts that strategies send to a model. The texts are files, and a run records their digest.

    intercode/envs/LANGUAGE/prompts/            in the folder of each language
        world.txt                               describes the environment; {form} and {ending} are filled in
        submit.txt, paper.txt, blind.txt        the ending: how the work is judged; `blind` is `paper` without scores
        answer.txt                              added to the ending where the task takes `submit ANSWER` (Bash)
        fence.txt, react.txt                    the form: how to write an action; ReAct's has an example
    intercode/agents/prompts/                   for all languages
        tools.txt                               the form of tool calls
        FORM.retry.txt                          answers a reply without an action
        plan*.txt, undo*.txt, tools.malformed.txt    used by one strategy each

A text that a language's folder lacks comes from the folder for all languages, else from Bash's. All texts are written for this
project; none has a sentence of the paper's prompts or of a data set.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from intercode.errors import UsageError

SHARED = Path(__file__).parent
LANGUAGES = SHARED.parents[1] / "envs"


@dataclass(frozen=True)
class Prompts:
    """The texts of one strategy for one language, by file name without folder and suffix."""

    form: str
    language: str
    texts: Mapping[str, str]

    def fill(self, name: str, **values: object) -> str:
        """Return a text with `{key}` replaced by each value. Other braces stay, since prompts may have code in them."""
        text = self.texts[name]
        for key, value in {"language": "bash" if self.language == "ctf" else self.language, **values}.items():
            text = text.replace(f"{{{key}}}", str(value))
        return text

    def opening(self, *endings: str, **values: object) -> str:
        """Return the system message: the environment, the form of actions, and the endings."""
        ending = "\n".join(self.fill(each, **values) for each in endings)
        return self.fill("world", form=self.texts[self.form], ending=ending)

    @cached_property
    def digest(self) -> str:
        """The hex SHA-256 of all texts with their names, which a run records."""
        whole = "\0".join(f"{name}\0{text}" for name, text in sorted(self.texts.items()))
        return hashlib.sha256(whole.encode()).hexdigest()


def load(form: str, language: str, *more: str, folder: Path | None = None) -> Prompts:
    """Load the prompts of a strategy whose actions are written in `form`, and `more` texts by name.

    `folder` replaces the folder of the language. Raises `UsageError` if the folder has no world.txt.
    """
    folder = folder or LANGUAGES / language / "prompts"
    if not (folder / "world.txt").is_file():
        raise UsageError(f"there is no prompt for {language} yet; choose an agent of your own or one without a model")
    texts = {}
    answer = ["answer"] if language == "bash" else []
    for name in ("world", "submit", "paper", "blind", *answer, form, f"{form}.retry", *more):
        places = (place / f"{name}.txt" for place in (folder, SHARED, LANGUAGES / "bash" / "prompts"))
        texts[name] = next(path for path in places if path.is_file()).read_text("utf-8").strip()
    return Prompts(form, language, texts)
