"""Attacks on the reward in Bash (claims in any language), grouped by mechanism. Each tries to earn
a reward without doing the task. `bash.toml` contains them.

Each attack succeeds under its `control`, a flaw in a naive environment (`tests/exploits/naive.py`):

    trusts_output       the verdict is read from the agent's output
    checks_in_shell     the state is examined by commands in the agent's shell
    checks_in_child     the state is examined by a program that the agent's shell starts
    gold_runs_last      the gold is executed in the agent's shell after the submission
    git_status          the effects are the output of `git status`
    find_newer          the effects are newer, readable, regular files
    one_look            files are assumed not to change while they are compared
    secret_inside       the task's record is a file in the sandbox, or a process argument
    skips_dead_shell    a shell that died is an error, never the agent's failure
    skips_caches        changes at paths with cache names are ignored in any folder
    as_displayed        an answer is compared as a terminal displays it
    folds_unicode       similar characters are equal
    drops_errors        lines that look like errors are ignored; likewise `drops_totals`,
                        `drops_titles`
    others              a comparison of the kind that the name says

Words between @ are placeholders for the gold, its submission, or another task's submission. @…64@
is base64, so that an action that searches for a text does not match itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from intercode.redteam.exploits import Attacks, Exploit, read_attacks, with_words

_DATA = read_attacks("bash")


def _attacks(name: str) -> Iterator[Exploit]:
    """Yield the attacks of the groups of a name."""
    for group in _DATA[name]:
        for attack, action in group["attacks"].items():
            actions = [action] if isinstance(action, str) else action
            if "form" in group:
                actions = [with_words(line, {"ACTION": action}) for line in group["form"]]
            yield Exploit(
                attack,
                group["aim"],
                tuple(with_words(line, _DATA["words"]) for line in actions),
                group.get("word", ""),
                moot_actions=tuple(group.get("moot_actions", ())),
                control=group["control"],
            )


CLAIMS = list(_attacks("claims"))
BASH = [*_attacks("bash"), *_attacks("anywhere")]
CTF = [*_attacks("anywhere"), *_attacks("ctf")]
ON_BASH, ON_CTF = Attacks(BASH), Attacks(CTF)
