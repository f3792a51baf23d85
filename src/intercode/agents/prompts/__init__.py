"""The texts that strategies send, as files beside this module: prompts are products, and a run records their digest.

    LANGUAGE/world.txt                          what the agent works with; {form} and {ending} are filled in
    LANGUAGE/submit.txt, paper.txt, blind.txt   the ending: how the work is judged; `blind` is `paper` without scores
    bash/answer.txt                             what the ending adds where `submit ANSWER` is taken
    LANGUAGE/fence.txt, react.txt; tools.txt    the form: how an action is written, for ReAct with an example of our own
    FORM.retry.txt                              the answer to a reply that held no action
    plan*.txt, undo*.txt, tools.malformed.txt   what one strategy adds

All are written for this project; none holds a sentence of the paper's prompts or of a data set.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files

from intercode.errors import UsageError

WORLD = ("world", "submit", "paper", "blind")


@dataclass(frozen=True)
class Prompts:
    """The texts of one strategy for one language, under their names without folder and ending."""

    form: str
    language: str
    texts: Mapping[str, str]

    def fill(self, name: str, **values: object) -> str:
        """Places in braces that no value is given for stay as they are: prompts may hold code."""
        text = self.texts[name]
        for key, value in {"language": "bash" if self.language == "ctf" else self.language, **values}.items():
            text = text.replace(f"{{{key}}}", str(value))
        return text

    def opening(self, *endings: str, **values: object) -> str:
        ending = "\n".join(self.fill(each, **values) for each in endings)
        return self.fill("world", form=self.texts[self.form], ending=ending)

    @cached_property
    def digest(self) -> str:
        """The sha256 of all texts with their names: the version that a run records."""
        whole = "\0".join(f"{name}\0{text}" for name, text in sorted(self.texts.items()))
        return hashlib.sha256(whole.encode()).hexdigest()


def load(form: str, language: str, *more: str) -> Prompts:
    """The prompts of a strategy whose actions are written in `form`, with `more` texts of its own.

    Raises `UsageError` if there are none for `language`.
    """
    folder = files("intercode.agents.prompts")
    if not (folder / language / "world.txt").is_file():
        raise UsageError(f"there is no prompt for {language} yet; choose an agent of your own or one without a model")
    texts = {}
    answer = ["answer"] if language == "bash" else []
    for name in (*WORLD, *answer, form, f"{form}.retry", *more):
        own = folder / language / f"{name}.txt"
        texts[name] = (own if own.is_file() else folder / f"{name}.txt").read_text("utf-8").strip()
    return Prompts(form, language, texts)
