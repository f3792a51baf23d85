"""Write a run as a log of Inspect (`.eval`), which Inspect View and its data frames read.

A sample has the conversation that `atif.py` makes of an episode. A fault is the sample's error, and
such an episode, like one that a limit of the run ended, has no score.
"""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from statistics import mean, stdev
from typing import IO

from intercode.errors import UsageError
from intercode.interop.atif import Object, trajectory_of
from intercode.runs.rows import Config, Row
from intercode.types import Episode

NO_MODEL = "none/none"
"""The model of an agent that asks none, as Inspect names it."""


def sample_of(config: Config, episode: Episode) -> Row:
    """Return the episode as a sample of Inspect, as JSON."""
    trajectory = trajectory_of(config, episode)
    del trajectory["extra"]["intercode"]
    usage, model = episode.usage, str(config.get("model") or NO_MODEL)
    counts: dict[str, float] = {
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.completion_tokens,
        "total_tokens": usage.tokens,
    }
    if usage.reasoning_tokens:
        counts["reasoning_tokens"] = usage.reasoning_tokens
    if usage.cost:
        counts["total_cost"] = usage.cost
    sample = {
        "id": episode.task,
        "epoch": episode.epoch + 1,
        "input": episode.query,
        "target": _answer(episode, "gold") or "",
        "messages": list(chain.from_iterable(map(_messages, trajectory["steps"]))),
        "output": {"model": model},
        "scores": None,
        "error": None,
        "limit": None,
        "metadata": trajectory["extra"],
        "model_usage": {model: counts} if counts["total_tokens"] else {},
        "total_time": sum(turn.seconds + (turn.reply_seconds or 0) for turn in episode.turns),
    }
    if episode.reward is not None:
        score = {
            "value": episode.reward,
            "answer": _answer(episode, "agent"),
            "explanation": episode.outcomes.get("rule"),
            "metadata": {"success": episode.success, **episode.parts},
        }
        sample["scores"] = {"reward": score}
    if episode.error:
        sample["error"] = dict.fromkeys(("message", "traceback", "traceback_ansi"), episode.error)
    if episode.ended == "limit":
        reason = "a limit of the run or of the episode"
        sample["limit"] = {"type": "custom", "limit": 0, "reason": reason}
    return sample


def _answer(episode: Episode, side: str) -> str | None:
    outcome = episode.outcomes.get(side)
    if not isinstance(outcome, Mapping):
        return None
    answer = outcome.get("answer")
    if isinstance(answer, str):
        return answer
    return None


def write_log(file: IO[bytes], config: Config, rows: Iterable[Row]) -> None:
    """Write the samples of a run as a log. Raises `UsageError` if inspect_ai is not installed."""
    try:
        from inspect_ai.log import EvalLog, write_eval_log
    except ImportError as error:
        raise UsageError("an Inspect log needs inspect_ai: pip install inspect_ai") from error
    samples = list(rows)
    usage = defaultdict[str, Counter[str]](Counter)
    rewards = []
    for sample in samples:
        for model, counts in sample["model_usage"].items():
            usage[model].update(counts)
        if sample["scores"]:
            rewards.append(sample["scores"]["reward"]["value"])
    figures = {}
    if rewards:
        figures = {"mean": mean(rewards), "stderr": 0.0}
    if len(rewards) > 1:
        figures["stderr"] = stdev(rewards) / len(rewards) ** 0.5
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


def _messages(step: Object) -> Iterator[Row]:
    """Yield the messages of a trajectory's step; an observation is the message of a tool."""
    content = step["message"]
    reasoning = step.get("reasoning_content")
    if reasoning:
        content = [{"type": "reasoning", "reasoning": reasoning}, {"type": "text", "text": content}]
    calls = {}
    for call in step.get("tool_calls", ()):
        calls[call["tool_call_id"]] = {
            "id": call["tool_call_id"],
            "function": call["function_name"],
            "arguments": call["arguments"],
        }
    message = {"role": step["source"], "content": content}
    if step["source"] == "agent":
        message["role"] = "assistant"
    if calls:
        message["tool_calls"] = list(calls.values())
    yield message
    for result in step.get("observation", {}).get("results", ()):
        call = calls.get(result.get("source_call_id"), {})
        yield {
            "role": "tool",
            "content": result["content"],
            "tool_call_id": call.get("id"),
            "function": call.get("function"),
        }
