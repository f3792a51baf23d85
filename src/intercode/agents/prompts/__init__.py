"""Load the texts that strategies send to a model. The texts are files, and a run records their
digest.

    Language.prompts                        envs/NAME/prompts/ for the languages of the package
        world.txt                           describes the environment; {form} and {ending} are
                                            filled in
        submit.txt, paper.txt, blind.txt    the ending: how the work is judged; `blind` is `paper`
                                            without scores
        ask.txt                             added to the ending where the task takes `ask QUESTION`
        lookups.txt                         likewise, where the task has `lookups`
        answer.txt                          added to the ending where the task takes
                                            `submit ANSWER` (Bash)
        fence.txt, react.txt                the form: how to write an action; ReAct's has an example
    intercode/agents/prompts/               for all languages, with plain forms of the texts above
        tools.txt                           the form of tool calls
        FORM.retry.txt                      answers a reply without an action
        plan*.txt, undo*.txt, tools.malformed.txt    used by one strategy each

An environment's own folder may hold some of these texts; the others come from the two folders
above. All texts are written for this project; none has a sentence of the paper's prompts or of a
data set.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from intercode.errors import UsageError
from intercode.language import Language

SHARED = Path(__file__).parent
_TEXTS = ("world", "submit", "paper", "blind", "answer", "ask", "lookups")


@dataclass(frozen=True)
class Prompts:
    """The texts of one strategy for one language, by file name without folder and suffix."""

    form: str
    language: Language
    texts: Mapping[str, str]

    def fill(self, name: str, **values: object) -> str:
        """Return a text with `{key}` replaced by each value. Other braces stay, since prompts may
        have code in them.

        Raises `UsageError` if the environment has no such text.
        """
        if name not in self.texts:
            raise UsageError(
                f"there is no prompt {name}.txt for {self.language.name}; "
                "put one into the class's folder `prompts`"
            )
        text = self.texts[name]
        for key, value in {"language": self.language.fence, **values}.items():
            text = text.replace(f"{{{key}}}", str(value))
        return text

    def opening(self, *endings: str, **values: object) -> str:
        """Return the system message: the environment, the form of actions, and the endings."""
        ending = "\n".join(self.fill(text, **values) for text in endings)
        return self.fill("world", form=self.fill(self.form), ending=ending)

    @cached_property
    def digest(self) -> str:
        """The hex SHA-256 of all texts with their names, which a run records."""
        whole = "\0".join(f"{name}\0{text}" for name, text in sorted(self.texts.items()))
        return hashlib.sha256(whole.encode()).hexdigest()


def load_prompts(form: str, language: Language, *more: str, folder: Path | None = None) -> Prompts:
    """Load the prompts of a strategy whose actions are written in `form`, and `more` texts by name.

    `folder` has texts that replace those of the language. Raises `UsageError` if there is no text
    of `form`, and for a world.txt without the places for other texts.
    """
    texts = {}
    for name in (*_TEXTS, form, f"{form}.retry", *more):
        for place in (SHARED, language.prompts, folder):  # the last that has it counts
            if place and (path := place / f"{name}.txt").is_file():
                texts[name] = path.read_text("utf-8").strip()
    if form not in texts:
        raise UsageError(
            f"there is no prompt {form}.txt for actions in {language.name}: write it into the "
            "folder that the class's attribute `prompts` names, or use another agent"
        )
    if unfilled := [word for word in ("{form}", "{ending}") if word not in texts["world"]]:
        raise UsageError(
            f"world.txt lacks {' and '.join(unfilled)}, "
            "where the texts on actions and on the end of the work go"
        )
    return Prompts(form, language, texts)
