"""Read task directories of Harbor (task.toml, schema 1.0 to 1.4) and of Terminal-Bench (task.yaml).

    task.toml     instruction.md   environment/Dockerfile   tests/test.sh   solution/solve.sh
    task.yaml     (instruction)    Dockerfile               run-tests.sh    solution.sh

Each becomes a record of `BashEnv`: the tests as `verify`, the solution as the gold, times and sizes
as limits. Files in system folders are the agent's for the tests where the instruction names them.
What cannot be played in a sandbox stands in the field `unplayable`, as pairs of a reason
and a kind of `intercode.types.KINDS`. The agent's processes are kept for the tests if the solution
only passes with its own alive, or, without a solution, if a file of the tests names this machine's
own address. Not read: users (everything runs as root), cpus, health checks of images, and the time
to build an image.
"""

from __future__ import annotations

import base64
import gzip
import io
import re
import shlex
import tarfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from intercode.envs.compose import containers_of, find_compose, read_yaml, service_of
from intercode.envs.separate import ARTIFACTS, OF_TASK
from intercode.errors import DataError, IntercodeError, UsageError
from intercode.plugins import describe_error
from intercode.reading import (
    listed,
    present,
    read_bytes,
    read_files,
    read_text,
    read_toml,
    require_inside,
)
from intercode.runner.equipment import EQUIPMENT
from intercode.tasks import Record
from intercode.tasks.formats import Unreadable
from intercode.tasks.loader import Records, is_comment
from intercode_sandbox.base import script_command
from intercode_sandbox.template import folder_digest

Reason = tuple[str, str]
"""Why a task cannot be played, and the kind of `KINDS`."""
TOML, YAML = "task.toml", "task.yaml"
DOWNLOADS = "its tests download"
NO_IMAGE = "has neither a Dockerfile nor a docker_image: give it an image with --image NAME"
_SECONDS, _MEMORY, _DISK, _PROCESSES = 600.0, 2048, 2048, 512
"""The usual limits: seconds of the agent, MiB, MiB of changes, processes."""
_IN_IMAGE = "/tests/test.sh"
"""As `verify`: the tests are in their own image."""
_DEEPEST = 3
"""Levels of folders in which tasks are looked for: a repository has them in `tasks/GROUP/NAME`."""
_RUN_TESTS = "export TEST_DIR=/tests\nbash /tests/run-tests.sh\n"
_UNITS = {"": 1, "M": 1, "G": 1024, "T": 1024**2}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([MGT]?)(?:i?B)?", re.I)
_DOWNLOAD = re.compile(
    r"^[^#\n]*?\b((?:curl|wget)[ \t][^\n]{0,300}?https?://\S+|uvx?\s+(?:add|pip|run|sync|-\S|\w+)[^\n]*"
    r"|git\s+clone\s[^\n]*)",
    re.M,
)
"""A command of a test script that downloads: `curl -LsSf https://host/install.sh | sh`, but neither
`curl http://localhost:80` nor `pip install pytest`, which does nothing where pytest is there."""
_MCP = "\n\nMCP servers for this task (without an MCP client, talk to them from the shell):"
_LOCAL = re.compile(r"https?://(?:localhost|127\.|0\.0\.0\.0|\[::1\])")
_SERVICE = re.compile(r"\blocalhost\b|\b127\.0\.0\.1\b|\b0\.0\.0\.0\b|\bpgrep\b|\bpsutil\b")
_SUBJECT = re.compile(r"(?<![\w./])/(?:etc|opt|usr/local)(?:/[\w+-]+(?:\.[\w+-]+)*)+")
_INTERPRETER = re.compile(r"/(?:python|pytest|pip|uv|node|perl|bash|sh|env)[\d.]*$|/lib\d*(?:/|$)")
_OWN_PLACE = re.compile(r"\$\{?0\b|BASH_SOURCE|/solution\b|/oracle\b")
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


def read_directory(path: Path) -> Records:
    """Yield the records of a task directory, or of all task directories in a folder, by name; for
    one that cannot be read, an `Unreadable`. Raises `UsageError` if there is none."""
    tasks = _task_folders(path, _DEEPEST)
    if not tasks:
        raise UsageError(f"{path}: neither it nor a folder in it contains {TOML} or {YAML}")
    names = Counter(folder.name for folder in tasks)
    for folder in tasks:
        place = folder.relative_to(path).as_posix()
        id = folder.resolve().name
        if names[folder.name] > 1:
            id = place.replace("/", "-")
        try:
            yield {"id": id, **_read_task(folder, path)}
        except IntercodeError as error:
            yield Unreadable(str(error), id)
        except OSError as error:
            yield Unreadable(f"{error.filename or folder}: cannot be read ({error.strerror})", id)
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
            yield Unreadable(f"{folder}: is no task as published ({describe_error(error)})", id)


def _task_folders(path: Path, deepest: int) -> list[Path]:
    """Return the task directories in a folder and, up to `deepest` levels, in its folders."""
    if present(path / TOML) or present(path / YAML):
        return [path]
    tasks = []
    for entry in listed(path) if deepest else ():
        if entry.name[0] != "." and entry.is_dir():
            tasks += _task_folders(Path(entry.path), deepest - 1)
    return tasks


def _prefix(folder: Path, root: Path) -> str:
    """Return what a path from `root` to something in a task's folder begins with."""
    if folder == root:
        return ""
    return f"{folder.relative_to(root).as_posix()}/"


def _read_steps(folder: Path, root: Path, task: Record) -> Record:
    """Return the record of a task with steps: rounds, each judged by its own tests."""
    rounds, reasons = list[Record](), dict[Reason, None]()
    for step in task["steps"]:
        place = folder / "steps" / str(step["name"])
        its = {"agent": step.get("agent"), "verifier": step.get("verifier"), "steps": None}
        posed = {**task, "shared": task.get("verifier"), "step": step, **its}
        record = _read_task(folder, root, posed, place)
        reasons |= dict.fromkeys(record.pop("unplayable") or ())
        if present(place / "workdir"):
            reasons["a step brings files (workdir)", "needs_machine"] = None
        layers = folder / "tests", place / "tests"
        record["task_folder"] = None
        if record["verify"] != _IN_IMAGE:
            record["verify_files"] = [_prefix(layer, root) for layer in filter(present, layers)]
        checks = [step.get("healthcheck")]
        if not rounds:
            checks += record["healthchecks"]
        record["healthchecks"] = list(filter(None, checks))
        rounds.append({**record, "go_on": step.get("min_reward", "always")})
    reward = "reached"
    if task.get("multi_step_reward_strategy") == "final":
        reward = "last"
    return {
        "rounds_rule": "own",
        "rounds_reward": reward,
        "rounds": rounds,
        "unplayable": list(reasons) or None,
    }


def _read_task(
    folder: Path, root: Path, task: Record | None = None, step: Path | None = None
) -> Record:
    """Return the record of a task directory, in Harbor's form or else in Terminal-Bench's; for a
    step, of its `task` and folder, below which the task's tests and solution lie."""
    if present(folder / TOML):
        task, main = task or read_toml(folder / TOML, root), "main"
        if task.get("steps"):
            return _read_steps(folder, root, task)
        build, place = folder / "environment", step or folder
        require_inside(build, root)
        script = _first(place, folder, "tests/test.sh")
        solution, tests = _first(place, folder, "solution/solve.sh"), script.parent
        query = read_text(place / "instruction.md", root)
        fields: Record = {"verify": f"{_prefix(tests.parent, root)}tests", "verdict": "reward"}
        check = (task.get("environment") or {}).get("healthcheck")
        fields["healthchecks"] = [*filter(None, [check])]
    else:
        old = read_yaml(folder / YAML, root)
        main, tests = "client", folder / "tests"
        build, script, solution = folder, folder / "run-tests.sh", folder / "solution.sh"
        query = str(old.get("instruction") or "")
        task = {
            "agent": {"timeout_sec": old.get("max_agent_timeout_sec")},
            "verifier": {"timeout_sec": old.get("max_test_timeout_sec")},
            "metadata": old,
        }
        files = [_prefix(folder, root) + file.name for file in (tests, script) if present(file)]
        fields = {"verify": _RUN_TESTS, "verify_files": files}
    agent, verifier = task.get("agent") or {}, task.get("verifier") or {}
    environment, shared = task.get("environment") or {}, task.get("shared") or {}
    of_tests = _environment_of_tests(environment, shared, verifier)
    services, reasons = _services(build, main, root)
    solving = task.get("solution") or {}
    at_tests = environment
    if of_tests is not None:
        at_tests = of_tests
    servers, about, unreachable = _mcp_servers(environment, services)
    parts = at_tests, shared, verifier, solving, environment, {"env": {"servers": servers}}
    (for_all, for_steps, for_tests, for_solution, for_agent, _), lacking = _variables(*parts)
    reasons = [*_machine_reasons(environment), *reasons, *unreachable]
    if of_tests is not None:
        image_of_tests = _image_of_tests(task, (step or folder, folder), root)
        fields |= _separate(task, of_tests, image_of_tests)
        if find_compose(tests):
            reasons.append(("its tests have containers of their own", "needs_machine"))
        if of_tests is not environment:
            reasons += _machine_reasons(of_tests)
    if fields["verify"] != _IN_IMAGE or present(script):
        reasons += _test_reasons(script, tests, services, root)
    reasons += _network_reasons(environment, agent, "its agent needs")
    reasons += _network_reasons(at_tests, {**shared, **verifier}, "its tests need")
    if lacking:
        reasons.append((f"needs {', '.join(sorted(lacking))} of the host", "needs_network"))
    image = environment.get("docker_image")
    if present(build / "Dockerfile"):
        image = f"{_prefix(build, root)}Dockerfile"
    elif not image:
        reasons.append((NO_IMAGE, "needs_files"))
    world = folder_digest(build, times=False)
    if fields["verify"] == _IN_IMAGE and present(tests):
        world += folder_digest(tests, times=False)
    gold = _solution(solution, for_solution, root)
    return {
        "query": query + about,
        "gold": gold,
        "verify_seconds": float(verifier.get("timeout_sec") or _SECONDS),
        "verify_env": {**for_all, **for_steps, **for_tests} or None,
        "verify_system": _subjects(query),
        "image": image,
        "cwd": environment.get("workdir"),
        "env": for_agent or None,
        "action_seconds": float(agent.get("timeout_sec") or _SECONDS),
        "services": services or None,
        **_sizes(environment),
        "keep_processes": "auto" if gold else _asks_services(tests, root),
        EQUIPMENT: {"servers": servers, "skills": environment.get("skills_dir") or ""},
        "task_folder": folder_digest(folder, times=False),
        "hardness": (task.get("metadata") or {}).get("difficulty"),
        "world": world,
        "unplayable": reasons or None,
        **fields,
    }


def _first(place: Path, folder: Path, name: str) -> Path:
    if present(place / name):
        return place / name
    return folder / name


def _machine_reasons(environment: Record) -> Iterator[Reason]:
    if environment.get("gpus") or environment.get("gpu_types") or environment.get("tpu"):
        yield "needs a GPU", "needs_machine"
    system = str(environment.get("os") or "linux").lower()
    if system != "linux":
        yield f"needs {system}", "needs_machine"


def _one_of(part: Record, name: str, *values: str) -> str | None:
    """Return a setting. Raises `DataError` if it has none of these values."""
    value = part.get(name)
    if value is not None and value not in values:
        raise DataError(f"{name} is {value!r:.60}; it can be {', '.join(values)}")
    return value


def _environment_of_tests(environment: Record, shared: Record, verifier: Record) -> Record | None:
    """Return the `[environment]` of tests that run in a container of their own; None if they run
    in the agent's."""
    of_tests = verifier.get("environment", shared.get("environment"))
    mode = _one_of({**shared, **verifier}, "environment_mode", "shared", "separate")
    if mode == "shared" and of_tests is not None:
        raise DataError("[verifier.environment] needs environment_mode = 'separate'")
    if mode == "separate" and of_tests is None:
        return environment
    return of_tests


def _image_of_tests(task: Record, places: Sequence[Path], root: Path) -> str | None:
    """Return the image that holds the tests: of the step, or else of the task, the one that
    `[verifier.environment]` names, or else that of a Dockerfile beside the tests."""
    parts = task.get("verifier") or {}, task.get("shared") or {}
    for part, place in zip(parts, places, strict=True):
        if image := (part.get("environment") or {}).get("docker_image"):
            return str(image)
        if present(place / "tests" / "Dockerfile"):
            return f"{_prefix(place / 'tests', root)}Dockerfile"
    return None


def _separate(task: Record, environment: Record, image: str | None) -> Record:
    """Return the fields of a task whose tests run in a container of their own."""
    hooks, artifacts = list[Record](), list[object]()
    for part in (task.get("shared") or {}, task.get("verifier") or {}):
        hooks += part.get("collect") or ()
    for part in (task, task.get("step") or {}):
        artifacts += part.get("artifacts") or ()
    fields: Record = {}
    if image:
        fields["verify"] = _IN_IMAGE
    return {
        **fields,
        "verify_cwd": environment.get("workdir"),
        "verify_image": image or OF_TASK,
        "verify_memory": _sizes(environment)["memory"],
        "verify_system": None,
        "keep_processes": None,
        "artifacts": artifacts,
        "collect": hooks,
        "session_start": f"mkdir -p {ARTIFACTS}",
    }


def _network_reasons(environment: Record, part: Record, who: str) -> Iterator[Reason]:
    modes = "public", "no-network", "allowlist"
    usual = _one_of(environment, "network_mode", *modes) or "public"
    mode = _one_of(part, "network_mode", *modes) or usual
    if mode == "allowlist" or (mode == "public" != usual):
        yield f"{who} hosts on the internet (network_mode = {mode})", "needs_network"


def _services(build: Path, main: str, root: Path) -> tuple[dict[str, Record], list[Reason]]:
    """Return the services of a compose file without the container `main`, and why others cannot be
    services."""
    services = dict[str, Record]()
    reasons = list[Reason]()
    file = find_compose(build)
    if file is None:
        return services, reasons
    containers = containers_of(file, root)
    for name, container in containers.items():
        if name == main or len(containers) == 1:
            continue
        try:
            services[name] = service_of(file, container, _prefix(build, root))
        except (IntercodeError, ValueError, AttributeError, TypeError) as error:
            reasons.append((f"its container {name} {error}", "needs_machine"))
    return services, reasons


def _test_reasons(
    script: Path, tests: Path, services: Collection[str], root: Path
) -> Iterator[Reason]:
    if not present(script):
        yield f"has no {script.name}", "needs_files"
        return
    hosts = "|".join(map(re.escape, services or ("localhost",)))
    local = re.compile(rf"{_LOCAL.pattern}|https?://(?:{hosts})\b")
    for file in (script, *sorted(tests.glob("*.sh"))):
        text = read_bytes(file, root).decode("utf-8", "replace")
        for match in _DOWNLOAD.finditer(text):
            if not local.search(match[1]):
                why = f"{DOWNLOADS} ({match[1].strip():.80}): where there is a network, run"
                yield f"{why} `intercode check harbor --data DIR --warm` once", "needs_network"
                return


def _mcp_servers(
    environment: Record, services: Collection[str]
) -> tuple[dict[str, Record], str, list[Reason]]:
    """Return the MCP servers of a task, as programs' `mcpServers` have them, the paragraph of the
    query about them, and why an agent here cannot reach some."""
    servers = {}
    about = ""
    reasons = list[Reason]()
    for entry in environment.get("mcp_servers") or ():
        server = {"transport": "sse", "args": [], **entry}
        name, transport = server.pop("name"), server.pop("transport")
        if transport == "stdio":
            place = shlex.join([server["command"], *server["args"]])
        else:
            place, server["type"] = server["url"], transport.replace("streamable-http", "http")
            del server["args"]
            if urlsplit(place).hostname not in services:
                reasons.append((f"no service is its MCP server {place:.80}", "needs_network"))
        servers[name] = server
        about = f"{about or _MCP}\n- {name}: {place} ({transport})"
    return servers, about, reasons


def _subjects(query: str) -> list[str]:
    """Return the paths in system folders that an instruction names, without interpreters and
    libraries."""
    return [path for path in sorted(set(_SUBJECT.findall(query))) if not _INTERPRETER.search(path)]


def _asks_services(tests: Path, root: Path) -> bool:
    if not present(tests):
        return False
    files = read_files(tests, root).values()
    return any(_SERVICE.search(text.decode("utf-8", "replace")) for text, _ in files)


def _variables(*parts: Record) -> tuple[list[dict[str, str]], set[str]]:
    """Return the variables of each part of a task, and the names of those of the host that they ask
    for, such as `${API_KEY}`; `${NAME:-word}` is the word."""
    variables = []
    lacking = set[str]()
    for part in parts:
        values = {}
        for name, text in (part.get("env") or {}).items():
            for match in _VARIABLE.finditer(str(text)):
                if match[2] is None:
                    lacking.add(match[1])
            values[name] = _VARIABLE.sub(r"\2", str(text))
        variables.append(values)
    return variables, lacking


def _sizes(environment: Record) -> dict[str, int]:
    memory = _mebibytes(environment.get("memory_mb") or environment.get("memory"), _MEMORY)
    disk = _mebibytes(environment.get("storage_mb") or environment.get("storage"), _DISK)
    sizes = {"memory": memory, "verify_memory": memory, "disk": min(disk, memory)}
    return {**sizes, "processes": _PROCESSES}


def _mebibytes(size: object, usual: int) -> int:
    """Return a size such as 2048, "512M" or "2G" in MiB."""
    if size is None:
        return usual
    match = _SIZE.fullmatch(str(size).strip())
    if match is None:
        raise DataError(f"{size!r} is not a size, such as 2048 or '2G'")
    return max(1, int(float(match[1]) * _UNITS[match[2].upper()]))


def _solution(file: Path, variables: Mapping[str, str], root: Path) -> str | None:
    """Return the Bash text that does what a solution does; None if there is none, or one that
    consists of comments."""
    if not present(file):
        return None
    text = read_text(file, root)
    if not text or is_comment(text):
        return None
    exports = ""
    for name, value in variables.items():
        exports += f"export {name}={shlex.quote(value)}\n"
    files = {file.name: (text.encode(), 0o755)}
    if file.parent.name == "solution":
        files = read_files(file.parent, root)
    script = f"/solution/{file.name}"
    command = shlex.join(script_command(text, script))
    if len(files) > 1 or _OWN_PLACE.search(text) or command != f"bash {script}":
        return _unpacking(files, "/solution", exports + command)
    return f"(\n{exports}{text}\n)"


def _unpacking(files: Mapping[str, tuple[bytes, int]], folder: str, run: str) -> str:
    """Return Bash text that writes the files into a folder and then runs some lines, in a
    subshell."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, (content, mode) in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = mode
            tar.addfile(entry, io.BytesIO(content))
    packed = base64.encodebytes(gzip.compress(archive.getvalue(), mtime=0)).decode()
    unpack = f"mkdir -p {folder} && base64 -d <<'FILES' | tar -xzo -C {folder}"
    return f"(\n{unpack}\n{packed}FILES\n{run}\n)"
