"""Options, each declared once: a field of a frozen dataclass.

    robust: bool = option(False, "Reward", "Run each solved task again on variant data.")

A field defines the option `--robust` of the commands and its place in their help, the key `robust`
in run.json, whether a resumed run may change it, its row in docs/options.md, and whether its value
may name code, a file or an address: such values are not taken from a stranger's run, and code and
files are sent to other machines.

    RunOptions      what `eval` takes, whatever the environment
    EnvOptions      what every environment takes; `envs/*/options.py` add each environment's own

A field without `option` is for callers in Python alone. Imports stay small: `intercode --help`
imports this module.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from inspect import isfunction
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

from intercode.errors import UsageError, did_you_mean
from intercode.plugins import load_plugin
from intercode.protocol import PROTOCOLS, find_protocol
from intercode_sandbox.limits import Limits

if TYPE_CHECKING:
    from pathlib import Path

    from intercode.types import View

Settings = Mapping[str, Any]
"""The settings of a run, or options, by name."""
SECTIONS = ("Tasks", "Environment", "Agent and model", "Reward", "Limits", "Run")
"""The headings of a command's help."""
Session = Literal["persistent", "stateless"]
NOTHING = r"(?!)"
"""A pattern that matches no text."""
Kind = Literal["text", "texts", "flag", "count", "integer", "positive", "number", "path", "folder"]
"""What the command line takes; "positive" and "number" (from 0) need not be integers."""


@dataclass(frozen=True, slots=True)
class Option:
    """How a field appears on the command line, in run.json and in a resumed run.

    Args:
        section: one of `SECTIONS`.
        help: one or two sentences, then in brackets a default that is not the field's.
        flag: the option's name, if it is not the field's.
        kind: what the command line takes, the words that it takes, or a function that reads it
            and raises `UsageError`.
        metavar: the placeholder for the value in the help.
        fixed: a resumed run must have the same value, since it influences episodes.
        names: what the value may name; such values are taken from a stranger's run only if the
            user trusts the run. "code" and "file" travel to other machines.
        plain: a pattern of values that name a part of this package, or a model, instead.
        recorded: run.json contains the value; otherwise it contains what the value chose.
        from_outside: returns the value if a command leaves the option out.
    """

    section: str
    help: str
    flag: str = ""
    kind: Kind | tuple[str, ...] | Callable[[str], Any] = "text"
    metavar: str | None = None
    fixed: bool = True
    names: Literal["", "code", "file", "address"] = ""
    plain: str = NOTHING
    recorded: bool = True
    from_outside: Callable[[], Any] | None = None


def option(default: Any, section: str, help: str, **how: Any) -> Any:
    """Return a dataclass field with this default, declared as an `Option`."""
    return field(default=default, metadata={"option": Option(section, help, **how)})


@dataclass(frozen=True)
class Options:
    facts: ClassVar[tuple[str, ...]] = ()
    """Names and figures in run.json besides options, none of which a command loads, opens or
    connects to (`runs/trust.py`)."""

    @classmethod
    def all_facts(cls) -> Iterator[str]:
        for owner in cls.__mro__:
            yield from vars(owner).get("facts", ())

    @classmethod
    def declared(cls) -> Iterator[tuple[str, Any, Option]]:
        """Yield each option's name, default and declaration."""
        for entry in fields(cls):
            if "option" in entry.metadata:
                yield entry.name, entry.default, entry.metadata["option"]

    @classmethod
    def of(cls, given: Settings, owner: str) -> Self:
        """Return the options `given`; a `UsageError` for other names calls them `owner`'s. So does
        a list where one file is named."""
        names = [entry.name for entry in fields(cls)]
        if unknown := sorted(given.keys() - set(names)):
            raise UsageError(
                f"{owner} takes no {', '.join(unknown)}; it takes {', '.join(names)}"
                f"{did_you_mean(unknown[0], names)}"
            )
        for name, _, declared in cls.declared():
            several = isinstance(given.get(name), list | tuple | set)
            if declared.names == "file" and declared.kind != "texts" and several:
                raise UsageError(
                    f"{name} of {owner} is one path, not {given[name]!r:.100}; for several, "
                    "prepare one environment for each (RolloutPool takes a list of them)"
                )
        return cls(**given)

    def settings(self) -> dict[str, Any]:
        """Return the recorded options, for run.json; functions by their names."""
        settings = {}
        for name, _, option in self.declared():
            if option.recorded:
                value = settings[name] = getattr(self, name)
                if isfunction(value):
                    settings[name] = f"{value.__module__}:{value.__qualname__}"
        return settings


def code_options(options: Options) -> dict[str, Any]:
    """Return the values of the options that may name code."""
    return {
        name: getattr(options, name)
        for name, _, option in options.declared()
        if option.names == "code"
    }


_LONGEST_NAME = 40


def split_agent(name: str) -> tuple[str, str]:
    """Return the name that `--agent NAME=exec:COMMAND` gives to a program, or "", and the rest."""
    label, equals, rest = name.partition("=")
    is_named = equals and rest.startswith("exec:") and re.fullmatch(r"[\w.+-]+", label)
    return (label, rest) if is_named else ("", name)


def agent_name(agent: str) -> str:
    """Return the name of an agent in tables: the user's own for a program, or its text without
    folders, and without the options of a command's last statement."""
    label, rest = split_agent(agent)
    words = re.split(r"\s+(?=-|\S*\{)", rest.rpartition("; ")[2])[0]
    return label or re.sub(r"[^\s:]*/", "", words)[:_LONGEST_NAME]


def _gold_fields(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise UsageError(f"{text!r} is not a list of names, such as gold,gold2")
    return names


def _price(text: str) -> tuple[float, float]:
    try:
        tokens_in, tokens_out = (float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"{text!r} is not two numbers, such as 0.15,0.60") from None
    if not (0 <= tokens_in < float("inf") and 0 <= tokens_out < float("inf")):
        raise UsageError(f"{text!r}: a price is a finite number of at least 0")
    return tokens_in, tokens_out


def _request(text: str) -> dict[str, Any]:
    import json

    try:
        request = json.loads(text)
        json.dumps(request, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{text!r} is not JSON ({error})") from None
    if not isinstance(request, dict):
        raise UsageError(f'{text!r} is not a JSON object, such as {{"seed": null}}')
    return request


def _server_address() -> str | None:
    return os.environ.get("INTERCODE_BASE_URL") or os.environ.get("OPENAI_BASE_URL")


@dataclass(frozen=True)
class EnvOptions(Options):
    """Options of every environment. `protocol="paper"` implies the paper's reward and session.

    Args:
        max_turns: an episode is truncated after this many steps; None: no limit.
        view: how much of an output the agent sees.
        keep_going: continue after a success under the paper's protocol, to replay a recording.
    """

    facts: ClassVar[tuple[str, ...]] = ("data_digest", "left_out")
    data: str | Path | None = option(
        None, "Tasks",
        "Read the tasks from a downloaded data set, a file, a folder, or a hub"
        " (hf:OWNER/NAME:SPLIT). [the starter tasks]",
        metavar="NAME|FILE|DIR|hf:NAME", names="file",
    )  # fmt: skip
    query_field: str | None = option(
        None, "Tasks", "Name the field of a record that holds the query. [query]", metavar="FIELD"
    )
    gold_fields: Sequence[str] | None = option(
        None, "Tasks",
        "Name the fields that hold a gold (a reference solution); matching any of them is enough."
        " [gold]",
        kind=_gold_fields, metavar="FIELD,…",
    )  # fmt: skip
    id_field: str | None = option(
        None, "Tasks", "Name the field that holds a task's id. [id]", metavar="FIELD"
    )
    db_field: str | None = option(
        None, "Tasks", "Name the field that holds an SQL task's database. [db or db_id]",
        metavar="FIELD",
    )  # fmt: skip
    preprocess: str | Callable[[dict[str, Any]], dict[str, Any]] | None = option(
        None, "Tasks",
        "Convert each record by your own function. [the environment's]",
        metavar="module:function", names="code",
    )  # fmt: skip
    split: str | None = option(
        None, "Tasks", "Use only the tasks whose field `split` is NAME, such as train or test.",
        metavar="NAME",
    )  # fmt: skip
    limit: int | None = option(
        None, "Tasks", "Use the first N tasks only.", kind="count", metavar="N"
    )
    protocol: str = option(
        "submit", "Environment",
        "Decide when to score: once, when the agent submits; or after each action, as the paper"
        " did.",
        kind=tuple(PROTOCOLS),
    )  # fmt: skip
    session: Session | None = option(
        None, "Environment",
        "Keep one shell for an episode, or start one for each action. [persistent; stateless with"
        " --protocol paper]",
        kind=get_args(Session),
    )  # fmt: skip
    reward: Any = option(
        None, "Reward",
        "Score strictly (exact), as the paper did, by another reward of the environment, or by your"
        " own function. [exact, or your environment's own; paper with --protocol paper]",
        kind="reward", metavar="exact|paper|module:function|path.py:function",
        names="code", plain=r"\w+",
    )  # fmt: skip
    user: Any = option(
        None, "Environment",
        "Let your own function answer what the agent asks in tasks with `facets`. [their replies]",
        metavar="module:function|path.py:function", names="code",
    )  # fmt: skip
    max_turns: int | None = 10
    view: View | None = None
    keep_going: bool = False

    def episode(self) -> dict[str, Any]:
        """Return the arguments of `InterCodeEnv` besides the tasks."""
        names = ("protocol", "max_turns", "view", "keep_going")
        arguments = {name: getattr(self, name) for name in names}
        if self.user:
            arguments["user"] = self.chosen_user
        return arguments

    @property
    def field_names(self) -> dict[str, str]:
        """Return the names of a record's fields that are not ours, by our names."""
        names = {"query": self.query_field, "id": self.id_field, "db": self.db_field}
        return {field: name for field, name in names.items() if name}

    @property
    def chosen_preprocess(self) -> Any:
        if isinstance(self.preprocess, str):
            return load_plugin(self.preprocess, "preprocess")
        return self.preprocess

    @property
    def chosen_user(self) -> Any:
        user = load_plugin(self.user, "user") if isinstance(self.user, str) else self.user
        if not callable(user):
            raise UsageError(f"user {self.user!r} is not a function")
        return user

    @property
    def chosen_session(self) -> Session:
        return self.session or find_protocol(self.protocol).session

    @property
    def chosen_reward(self) -> Any:
        return self.reward or find_protocol(self.protocol).reward


def _with_limits(options: type[EnvOptions]) -> type[EnvOptions]:
    """Add an option for each limit of a sandbox that can be set."""
    for key, (_, setting) in Limits.settings().items():
        text = f"{setting.help} [{Limits().facts()[key]:g}]"
        kind, metavar = ("count", "N") if setting.unit.whole else ("positive", "S")
        options.__annotations__[key] = "float | None"
        setattr(options, key, option(None, "Limits", text, kind=kind, metavar=metavar))
    return options


@dataclass(frozen=True)
@_with_limits
class SandboxOptions(EnvOptions):
    """Options of environments whose world is a sandbox with files; `Limits` declares some."""

    facts: ClassVar[tuple[str, ...]] = ("limits", "template", "userland", "wall", "files")
    tree: str | Path | None = option(
        None, "Environment", "Put these files at / in the sandbox: a folder or a tar file.",
        kind="path", names="file",
    )  # fmt: skip
    setup: str | Path | None = option(
        None, "Environment", "Run this Bash script once in the sandbox, after --tree is in place.",
        kind="path", names="file",
    )  # fmt: skip
    image: str | None = option(
        None, "Environment",
        "Take the sandbox's programs from an image: one that `intercode image build` made, a folder"
        " with a root file system, a Dockerfile, or with --sandbox docker a Docker image. [this"
        " machine's /usr]",
        metavar="NAME|DIR|DOCKERFILE", names="file",
    )  # fmt: skip
    sandbox: str | None = option(
        None, "Environment",
        "Run the actions in this kind of sandbox, or in one of your own. [local; pod if"
        " namespaces cannot be made]",
        metavar="local|pod|docker|module:Class|path.py:Class", names="code", plain=r"\w+",
    )  # fmt: skip
    agent_files: str | Path | Sequence[str | Path] = option(
        (), "Environment",
        "Put a copy of this folder, with the program of --agent exec:COMMAND, into the sandbox at"
        " its own path. May be repeated.",
        kind="texts", metavar="DIR", names="file",
    )  # fmt: skip
    limits: Limits | None = None

    @property
    def chosen_limits(self) -> Limits:
        try:
            return (self.limits or Limits()).changed_by(vars(self))
        except ValueError as error:
            raise UsageError(f"the limit {error}") from None


@dataclass(frozen=True)
class NetworkOptions(SandboxOptions):
    """Options of environments whose sandboxes may use this machine's network.

    `allow_host_network` is the caller's alone: it is not stored, so no run, record or request can
    give it.
    """

    facts: ClassVar[tuple[str, ...]] = ("network",)
    allow_host_network: bool = option(
        False, "Environment",
        "Let agents, solutions and tests use this machine's network: everything that it reaches,"
        " its local services included. Give it again with --resume.",
        kind="flag", recorded=False,
    )  # fmt: skip

    @property
    def chosen_network(self) -> Literal["none", "host"]:
        return "host" if self.allow_host_network else "none"


@dataclass(frozen=True)
class UnplayableOptions(EnvOptions):
    """Options of environments that leave out tasks which cannot be played as they are."""

    everything: bool = option(
        False, "Tasks",
        "Keep tasks that need a network; in ctf also those that need a missing file, or whose gold"
        " is not a flag.",
        flag="keep-unplayable", kind="flag",
    )  # fmt: skip


@dataclass(frozen=True)
class SubmissionOptions(EnvOptions):
    """Options of environments in which a wrong submission need not end the episode."""

    submits: int | None = option(
        None, "Environment", "Allow N submissions in an episode. [1]",
        flag="max-submissions", kind="count", metavar="N",
    )  # fmt: skip

    def episode(self) -> dict[str, Any]:
        return {**super().episode(), "submits": self.submits}


@dataclass(frozen=True)
class RunOptions(Options):
    """Options of `eval`, whatever the environment.

    Args:
        api_key: the key of the model server. [OPENAI_API_KEY]
    """

    facts: ClassVar[tuple[str, ...]] = (
        *("prompt", "tasks", "shard_tasks", "data_set", "hardness", "excluded", "planned"),
        "task_rounds",
        *("created", "git_commit", "versions", "mended", "rescored_from", "signature"),
        # options of other commands, and what `--resume` reads besides options
        *("only_predicted", "static", "force", "live", "live_score", "command", "secret"),
    )
    named: ClassVar[Mapping[str, str]] = {
        "env": r"\w+",
        "judge": r"(?s)(?!scripted:).*",
        "played_for": r"\w+",
        "data_from": NOTHING,
        "predictions": NOTHING,
        "run": NOTHING,
    }
    """Other settings of a run that may name code, a file or an address, each with its `plain`."""
    task: Sequence[str] = option(
        (), "Tasks", "Use only this task. May be repeated.",
        kind="texts", metavar="ID", recorded=False, fixed=False,
    )  # fmt: skip
    failed_in: str | None = option(
        None, "Tasks", "Use only the tasks that RUN never solved.",
        kind="folder", metavar="RUN", names="file", recorded=False, fixed=False,
    )  # fmt: skip
    shuffle: bool = option(
        False, "Tasks", "Shuffle the tasks by --seed, before --limit takes the first N.",
        kind="flag", recorded=False, fixed=False,
    )  # fmt: skip
    exclude_broken: bool = option(
        False, "Tasks",
        "Leave out the tasks that `intercode check` calls broken; runs `check` first if necessary.",
        kind="flag", recorded=False, fixed=False,
    )  # fmt: skip
    agent: str = option(
        "try_again", "Agent and model",
        "Choose the agent. With a model: try_again, try_again_blind (sees no scores), react,"
        " plan_solve, plan_solve_refine, tools, best_of[:N], tree_search. Without a model: gold"
        " (plays the reference solution), noop (submits at once), retrieval (copies the gold of a"
        " similar task), nearest (copies it with this task's names), replay:RUN, static:FILE. A"
        " command-line agent: claude-code, cline, codex, mini, opencode, pi, qwen-code,"
        " exec:COMMAND, or NAME=exec:COMMAND. Your own:"
        " module:function or path.py:function.",
        names="code", plain=r"[\w-]+|best_of:\d+",
    )  # fmt: skip
    agent_env: Sequence[str] = option(
        (), "Agent and model",
        "Set a variable for the program of --agent exec:COMMAND; VALUE may contain {base_url},"
        " {key} and {model}. May be repeated.",
        kind="texts", metavar="NAME=VALUE",
    )  # fmt: skip
    model: str | None = option(
        None, "Agent and model",
        "Ask the model NAME at an OpenAI-compatible server ($OPENAI_API_KEY), or read replies from"
        " a file (scripted:FILE).",
        metavar="NAME", names="code", plain=r"(?s)(?!scripted:).*",
    )  # fmt: skip
    api_key: str | None = None
    base_url: str | None = option(
        None, "Agent and model", "Set the model server's address. [$INTERCODE_BASE_URL]",
        metavar="URL", names="address", recorded=False, fixed=False, from_outside=_server_address,
    )  # fmt: skip
    temperature: float = option(
        0.0, "Agent and model", "Set the model's sampling temperature.", kind="number", metavar="T"
    )
    reply_tokens: int | None = option(
        None, "Agent and model", "Cut each reply at N tokens. [the server's limit]",
        kind="count", metavar="N",
    )  # fmt: skip
    reply_seconds: float | None = option(
        None, "Agent and model", "Wait S seconds for a reply, then ask again. [300]",
        kind="positive", metavar="S", fixed=False,
    )  # fmt: skip
    request: Mapping[str, Any] | None = option(
        None, "Agent and model",
        'Add parameters to each request, or leave some out: {"top_p": 0.95, "seed": null}.',
        kind=_request, metavar="JSON",
    )  # fmt: skip
    no_system: bool = option(
        False, "Agent and model",
        "Send the system prompt at the start of the first user message, for models without a system"
        " role.",
        kind="flag",
    )  # fmt: skip
    keep_reasoning: bool = option(
        False, "Agent and model",
        "Send the model's reasoning back with its replies, for models that need it.", kind="flag",
    )  # fmt: skip
    context: int | None = option(
        None, "Agent and model",
        "Send at most about N tokens: older observations are left out. [until the server refuses]",
        kind="count", metavar="N",
    )  # fmt: skip
    dialogue_limit: int | None = option(
        None, "Agent and model",
        "Send only the last N messages after the task; older ones are left out. [all]",
        kind="count", metavar="N",
    )  # fmt: skip
    price: tuple[float, float] | None = option(
        None, "Agent and model",
        "Set the price of a million tokens, in US dollars. [prices.toml]",
        kind=_price, metavar="IN,OUT", fixed=False,
    )  # fmt: skip
    turns: int = option(
        10, "Limits", "Allow N actions before the submission.", kind="count", metavar="N"
    )
    max_cost: float | None = option(
        None, "Limits", "Stop the run when it has cost this much; needs a price.",
        kind="positive", metavar="USD", fixed=False,
    )  # fmt: skip
    max_tokens: int | None = option(
        None, "Limits", "Stop the run after N tokens.", kind="count", metavar="N", fixed=False
    )
    max_seconds: float | None = option(
        None, "Limits", "Stop the run after S seconds.", kind="positive", metavar="S", fixed=False
    )
    episode_cost: float | None = option(
        None, "Limits", "End an episode when it has cost this much, and score it.",
        kind="positive", metavar="USD",
    )  # fmt: skip
    episode_tokens: int | None = option(
        None, "Limits", "End an episode after N tokens, and score it.", kind="count", metavar="N"
    )
    episode_seconds: float | None = option(
        None, "Limits", "End an episode after S seconds, and score it.",
        kind="positive", metavar="S",
    )  # fmt: skip
    epochs: int = option(1, "Run", "Play each task N times.", kind="count", metavar="N")
    seed: int = option(0, "Run", "Seed the random numbers.", kind="integer")
    values: bool = option(
        False, "Run",
        "Record after each turn what a submission would have earned then; the agent does not see"
        " it.",
        kind="flag", fixed=False,
    )  # fmt: skip
    workers: int = option(
        2, "Run", "Run N episodes at once.", kind="count", metavar="N", fixed=False
    )
    hosts: int | None = option(
        None, "Run",
        "Divide --workers over N processes of this machine. [one for four workers and cores]",
        kind="count", metavar="N", recorded=False, fixed=False,
    )  # fmt: skip
    shard: Any = option(
        None, "Run",
        "Play only part I of N of the episodes; `intercode merge` joins the parts.",
        kind="shard", metavar="I/N", recorded=False,
    )  # fmt: skip
    on: str = option(
        "local", "Run",
        "Play on this machine, or on all nodes of a Ray cluster, each with --workers: the cluster"
        " of this machine or at $RAY_ADDRESS (ray), or at HOST:PORT or ray://HOST:PORT.",
        metavar="local|ray|ADDRESS", names="address", plain="local|ray",
        recorded=False, fixed=False,
    )  # fmt: skip
