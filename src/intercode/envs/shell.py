"""Bash as the action language of the Bash and CTF environments."""

from __future__ import annotations

import re

from intercode.language import Kind, Language

_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"")
_HEREDOC = re.compile(r"(?<!<)<<(-?)\s*(['\"\\]?)([A-Za-z_]\w*)")
"""``<<'EOF'`` but not ``<<< word``; groups: the dash, the quote, the word."""
_REDIRECT = re.compile(r"(?<![-=<>])>{1,2}\|?\s*(?![\s>(]|&\d|&-|/dev/(?:null|stdout|stderr)\b)\S")
_COMMANDS = (
    "rm|rmdir|mv|cp|mkdir|touch|ln|chmod|chown|chgrp|tee|truncate|dd|rename|install|patch|split"
    "|unlink|shred|mkfifo|wget|gzip|gunzip|bzip2|bunzip2|xz|unxz|zip|unzip|rsync|apt-get|apt|pip"
    "|useradd|userdel|kill|crontab"
)
_WRITER = re.compile(
    r"(?:^|[;&|(`\n]|-exec(?:dir)?\s|\bxargs\b[^|;&\n]*\s|\b(?:sudo|then|do|else|time|nohup)\s)"
    rf"\s*(?:/\S*/)?(?:{_COMMANDS})(?=\s|$)|\b(?:sed|perl)\b[^|;&\n]*\s-\w*i"
    r"|\bfind\b[^|;&\n]*\s-delete\b|\bcurl\b[^|;&\n]*\s-\w*[oO]|\btar\s+-?-?\w*[xcru]"
    r"|\bgit\s+(?:add|am|apply|checkout|clone|commit|init|merge|mv|rebase|reset|restore|rm|stash)\b"
)

NOT_EXECUTED = (2, 126, 127)
"""The exit statuses of an action that is no Bash, of a folder as a command, and of a missing
one."""
NO_COMMAND = re.compile(
    r"""^\S*bash:[ ](?:
        line[ ]\d+:[ ].+:[ ](?:
            command[ ]not[ ]found | No[ ]such[ ]file[ ]or[ ]directory | Is[ ]a[ ]directory
            | Permission[ ]denied )
        | eval:[ ]line[ ]\d+:[ ](?:syntax[ ]error|unexpected[ ]EOF|`).*
    )\n?""",
    re.MULTILINE | re.VERBOSE,
)
"""The message of bash about such an action: `bash: line 1: Answer:: command not found`, but not
`ls: cannot access`."""
NO_SUBMIT = re.compile(r"^\S*bash: line \d+: submit: command not found\n?", re.MULTILINE | re.I)


def kind_of(action: str) -> Kind:
    """Return "editing" if a command or a redirection in the action changes files. Scripts that the
    action calls are not examined."""
    bare = _QUOTED.sub('""', action)
    if _WRITER.search(bare) or _REDIRECT.search(bare):
        return "editing"
    return "exploring"


def closes_heredocs(code: str) -> bool:
    """Return whether every here-document of the code has its last line."""
    lines = iter(code.split("\n"))
    for line in lines:
        for match in _HEREDOC.finditer(line):
            if not any(body.lstrip("\t" * 9 if match[1] else "") == match[3] for body in lines):
                return False
    return True


SHELL = Language(
    "bash",
    fences=(
        *("bash", "sh", "shell", "zsh", "ksh", "dash", "posix", "unix", "shellscript"),
        *("console", "terminal", "shell-session", "shellsession", "bash-session", "sh-session"),
    ),
    transcript=re.compile(r"(?:[\w.-]+@\S*[$#]|\$) (.*)"),
    whole=closes_heredocs,
    kind=kind_of,
    shell="{command}",
)
