"""Write a run as a log of Inspect (`.eval`), which Inspect View and its data frames read.

A sample has the conversation that `atif.py` makes of an episode. A fault is the sample's error, and
such an episode, like one that a limit of the run ended, has no score.
"""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean, stdev
from typing import IO, Any

from intercode.errors import UsageError
from intercode.interop.atif import AtifStep, trajectory_of
from intercode.types import Episode

Row = dict[str, Any]
NO_MODEL = "none/none"
"""The model of an agent that asks none, as Inspect names it."""


def sample_of(config: Mapping[str, Any], episode: Episode) -> Row:
    """Return the episode as a sample of Inspect, as JSON."""
    trajectory = trajectory_of(config, episode)
    usage, model = episode.usage, str(config.get("model") or NO_MODEL)
    counts = {
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        **({"reasoning_tokens": usage.reasoning_tokens} if usage.reasoning_tokens else {}),
        **({"total_cost": usage.cost} if usage.cost else {}),
    }
    score = {
        "value": episode.reward,
        "answer": _answer(episode, "agent"),
        "explanation": episode.outcomes.get("rule"),
        "metadata": {"success": episode.success, **episode.parts},
    }
    error = dict.fromkeys(("message", "traceback", "traceback_ansi"), episode.error)
    limit = {"type": "custom", "limit": 0, "reason": "a limit of the run or of the episode"}
    return {
        "id": episode.task,
        "epoch": episode.epoch + 1,
        "input": episode.query,
        "target": _answer(episode, "gold") or "",
        "messages": [message for step in trajectory["steps"] for message in _messages(step)],
        "output": {"model": model},
        "scores": None if episode.reward is None else {"reward": score},
        "error": error if episode.error else None,
        "limit": limit if episode.ended == "limit" else None,
        "metadata": {k: value for k, value in trajectory["extra"].items() if k != "intercode"},
        "model_usage": {model: counts} if counts["total_tokens"] else {},
        "total_time": sum(turn.seconds + (turn.reply_seconds or 0) for turn in episode.turns),
    }


def _answer(episode: Episode, side: str) -> str | None:
    outcome = episode.outcomes.get(side)
    answer = outcome.get("answer") if isinstance(outcome, Mapping) else None
    return answer if isinstance(answer, str) else None


def write_log(file: IO[bytes], config: Mapping[str, Any], rows: Iterable[Row]) -> None:
    """Write the samples of a run as a log. Raises `UsageError` if inspect_ai is not installed."""
    try:
        from inspect_ai.log import EvalLog, write_eval_log
    except ImportError as error:
        raise UsageError("an Inspect log needs inspect_ai: pip install inspect_ai") from error
    samples, usage = list(rows), defaultdict[str, Counter[str]](Counter)
    for sample in samples:
        for model, counts in sample["model_usage"].items():
            usage[model].update(counts)
    rewards = [sample["scores"]["reward"]["value"] for sample in samples if sample["scores"]]
    error_of_mean = stdev(rewards) / len(rewards) ** 0.5 if len(rewards) > 1 else 0.0
    figures = {"mean": mean(rewards), "stderr": error_of_mean} if rewards else {}
    score = {
        "name": "reward",
        "scorer": "reward",
        "scored_samples": len(rewards),
        "unscored_samples": len(samples) - len(rewards),
        "metrics": {name: {"name": name, "value": value} for name, value in figures.items()},
    }
    run, created = Path(str(config["run"])), str(config.get("created") or "")
    ended = (run / "episodes.jsonl").stat().st_mtime
    log = EvalLog.model_validate(
        {
            "status": "success",
            "eval": {
                "created": created,
                "task": f"intercode/{config.get('env')}",
                "solver": config.get("agent"),
                "dataset": {"name": config.get("data"), "samples": len(samples)},
                "model": config.get("model") or NO_MODEL,
                "config": {"epochs": config.get("epochs") or 1},
                "metadata": {"run": run.name},
            },
            "results": {
                "total_samples": len(samples),
                "completed_samples": len(rewards),
                "scores": [score],
            },
            "stats": {
                "started_at": created,
                "completed_at": datetime.fromtimestamp(ended, UTC).isoformat(),
                "model_usage": dict(usage),
            },
            "samples": samples,
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.eval"
        write_eval_log(log, str(path))
        file.write(path.read_bytes())


def _messages(step: AtifStep) -> Iterator[Row]:
    """Yield the messages of a trajectory's step; an observation is the message of a tool."""
    role = "assistant" if step["source"] == "agent" else step["source"]
    content: Any = step["message"]
    if reasoning := step.get("reasoning_content"):
        content = [{"type": "reasoning", "reasoning": reasoning}, {"type": "text", "text": content}]
    calls = [
        {
            "id": call["tool_call_id"],
            "function": call["function_name"],
            "arguments": call["arguments"],
        }
        for call in step.get("tool_calls", ())
    ]
    yield {"role": role, "content": content, **({"tool_calls": calls} if calls else {})}
    for result in step.get("observation", {}).get("results", ()):
        call = next((call for call in calls if call["id"] == result.get("source_call_id")), {})
        yield {
            "role": "tool",
            "content": result["content"],
            "tool_call_id": call.get("id"),
            "function": call.get("function"),
        }
