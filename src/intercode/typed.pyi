"""What `make`, `prepare` and `evaluate` take, for type checkers: written by
`scripts/option_types.py` from the declared options.

The name of an environment that is not in this package takes the options that all environments
have. Give it others as `**options`, a `dict[str, Any]`.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, overload

from intercode.env import InterCodeEnv
from intercode.envs.bash.env import BashEnv
from intercode.envs.ctf.env import CtfEnv
from intercode.envs.python.env import PythonEnv
from intercode.envs.sql.env import SqlEnv
from intercode.factory import EnvFactory
from intercode.interop.harbor.env import HarborEnv
from intercode.options import Session
from intercode.runs import Run
from intercode.types import View
from intercode_sandbox.limits import Limits

class EnvOptions(TypedDict, total=False):
    data: str | Path | None
    query_field: str | None
    gold_fields: Sequence[str] | None
    id_field: str | None
    db_field: str | None
    preprocess: str | Callable[[dict[str, Any]], dict[str, Any]] | None
    split: str | None
    limit: int | None
    protocol: str
    session: Session | None
    reward: Any
    user: Any
    max_turns: int | None
    view: View | None
    keep_going: bool

class SandboxOptions(EnvOptions, total=False):
    tree: str | Path | None
    setup: str | Path | None
    image: str | None
    sandbox: str | None
    agent_files: str | Path | Sequence[str | Path]
    limits: Limits | None
    action_seconds: float | None
    memory: float | None
    processes: float | None
    disk: float | None

class NetworkOptions(SandboxOptions, total=False):
    allow_host_network: bool

class BashOptions(NetworkOptions, total=False): ...

class UnplayableOptions(EnvOptions, total=False):
    everything: bool

class SubmissionOptions(EnvOptions, total=False):
    submits: int | None

class CtfOptions(NetworkOptions, SubmissionOptions, UnplayableOptions, total=False):
    assets: str | Path | None

class HarborOptions(BashOptions, UnplayableOptions, total=False):
    warm: bool

class PythonOptions(NetworkOptions, SubmissionOptions, total=False):
    tell: Literal["nothing", "number", "case"] | None
    seconds: float

class SqlOptions(EnvOptions, total=False):
    dump: str | Path | None
    databases: str | Path | None
    engine: str | None
    handicap: bool
    robust: bool
    seconds: float

class RunOptions(TypedDict, total=False):
    task: Sequence[str]
    failed_in: str | None
    shuffle: bool
    exclude_broken: bool
    agent: str
    agent_env: Sequence[str]
    model: str | None
    api_key: str | None
    base_url: str | None
    temperature: float
    reply_tokens: int | None
    reply_seconds: float | None
    request: Mapping[str, Any] | None
    no_system: bool
    keep_reasoning: bool
    context: int | None
    dialogue_limit: int | None
    price: tuple[float, float] | None
    turns: int
    max_cost: float | None
    max_tokens: int | None
    max_seconds: float | None
    episode_cost: float | None
    episode_tokens: int | None
    episode_seconds: float | None
    epochs: int
    seed: int
    values: bool
    workers: int
    hosts: int | None
    shard: Any
    on: str

class _BashOptionsRun(BashOptions, RunOptions, total=False): ...
class _CtfOptionsRun(CtfOptions, RunOptions, total=False): ...
class _HarborOptionsRun(HarborOptions, RunOptions, total=False): ...
class _PythonOptionsRun(PythonOptions, RunOptions, total=False): ...
class _SqlOptionsRun(SqlOptions, RunOptions, total=False): ...
class _EnvOptionsRun(EnvOptions, RunOptions, total=False): ...

@overload
def make(
    env: Literal["bash"], *, render_mode: str | None = None, **options: Unpack[BashOptions]
) -> BashEnv: ...
@overload
def make(
    env: Literal["ctf"], *, render_mode: str | None = None, **options: Unpack[CtfOptions]
) -> CtfEnv: ...
@overload
def make(
    env: Literal["harbor"], *, render_mode: str | None = None, **options: Unpack[HarborOptions]
) -> HarborEnv: ...
@overload
def make(
    env: Literal["python"], *, render_mode: str | None = None, **options: Unpack[PythonOptions]
) -> PythonEnv: ...
@overload
def make(
    env: Literal["sql"], *, render_mode: str | None = None, **options: Unpack[SqlOptions]
) -> SqlEnv: ...
@overload
def make(
    env: str, *, render_mode: str | None = None, **options: Unpack[EnvOptions]
) -> InterCodeEnv: ...
@overload
def prepare(env: Literal["bash"], **options: Unpack[BashOptions]) -> EnvFactory: ...
@overload
def prepare(env: Literal["ctf"], **options: Unpack[CtfOptions]) -> EnvFactory: ...
@overload
def prepare(env: Literal["harbor"], **options: Unpack[HarborOptions]) -> EnvFactory: ...
@overload
def prepare(env: Literal["python"], **options: Unpack[PythonOptions]) -> EnvFactory: ...
@overload
def prepare(env: Literal["sql"], **options: Unpack[SqlOptions]) -> EnvFactory: ...
@overload
def prepare(env: str, **options: Unpack[EnvOptions]) -> EnvFactory: ...
@overload
def evaluate(
    env: Literal["bash"],
    *,
    out: str | Path | None = None,
    resume: bool = False,
    **options: Unpack[_BashOptionsRun],
) -> Run: ...
@overload
def evaluate(
    env: Literal["ctf"],
    *,
    out: str | Path | None = None,
    resume: bool = False,
    **options: Unpack[_CtfOptionsRun],
) -> Run: ...
@overload
def evaluate(
    env: Literal["harbor"],
    *,
    out: str | Path | None = None,
    resume: bool = False,
    **options: Unpack[_HarborOptionsRun],
) -> Run: ...
@overload
def evaluate(
    env: Literal["python"],
    *,
    out: str | Path | None = None,
    resume: bool = False,
    **options: Unpack[_PythonOptionsRun],
) -> Run: ...
@overload
def evaluate(
    env: Literal["sql"],
    *,
    out: str | Path | None = None,
    resume: bool = False,
    **options: Unpack[_SqlOptionsRun],
) -> Run: ...
@overload
def evaluate(
    env: str,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    **options: Unpack[_EnvOptionsRun],
) -> Run: ...
