"""Logs of Inspect, version 2 of ``.eval``: an episode is a sample, a segment a span of its agent."""

from __future__ import annotations

import hashlib
import math
import zipfile
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mappa_env.trace.exports.plain import (
    Use,
    about_action,
    about_episode,
    conversation,
    seconds,
    strict,
    uses,
)
from mappa_env.trace.jsonlines import to_json
from mappa_env.trace.recorded import Recorded
from mappa_env.types import ActionRecord, Verdict

DROPPED = (
    "token ids and log-probs (their numbers are kept)",
    "numbers that are not finite",
    "lone surrogates",
)
LOG_VERSION = 2
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).isoformat()


def write(path: Path, episodes: Iterable[Recorded], version: str) -> int:
    """Write one ``.eval`` file; returns the number of episodes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    epochs: dict[str, int] = {}
    summaries: list[dict[str, Any]] = []
    scores: list[float] = []
    env = ""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for recorded in episodes:
            env = env or recorded.trajectory.env_id
            task = _id(recorded)
            epochs[task] = epoch = epochs.get(task, 0) + 1
            one = sample(recorded, epoch)
            _put(archive, f"samples/{task}_epoch_{epoch}.json", one)  # the name that Inspect looks for
            kept = ("id", "epoch", "input", "target", "metadata", "scores", "model_usage", "role_usage")
            message_count = len(one["messages"])
            summaries.append(
                {**{name: one[name] for name in kept}, "completed": True, "message_count": message_count}
            )
            if recorded.trajectory.outcome is not None:
                scores.append(recorded.trajectory.outcome.score)
        spec = _spec(env, list(epochs), max(epochs.values(), default=1))
        spec["packages"] = {"mappa": version}
        plan = {"name": "plan", "steps": [], "config": {}}
        _put(archive, "_journal/start.json", {"version": LOG_VERSION, "eval": spec, "plan": plan})
        _put(archive, "summaries.json", summaries)
        mean = sum(scores) / len(scores) if scores else 0.0
        metrics = {"mean": {"name": "mean", "value": mean, "params": {}}}
        results = {
            "total_samples": len(summaries),
            "completed_samples": len(scores),
            "scores": [{"name": "outcome", "scorer": "outcome", "params": {}, "metrics": metrics}],
        }
        stats = {"started_at": "", "completed_at": "", "model_usage": {}, "role_usage": {}}
        header = {"version": LOG_VERSION, "status": "success", "eval": spec, "plan": plan}
        _put(archive, "header.json", {**header, "results": results, "stats": stats})
    return len(summaries)


def sample(recorded: Recorded, epoch: int) -> dict[str, Any]:
    """The episode as a sample, with an event for everything that happened."""
    trajectory = recorded.trajectory
    events: list[dict[str, Any]] = []
    open_span = ""
    segments = recorded.segments
    for step, action in enumerate(trajectory.actions):
        span = f"{recorded.key}-{segments[step]}"
        prompted, came, done = seconds(recorded, step)
        if span != open_span:
            begin = {"id": span, "type": "agent", "name": action.agent}
            events.append(_event("span_begin", span, prompted, begin))
            open_span = span
        events.append(_event("model", span, came, _model(recorded, step)))
        events += [_event("tool", span, done, _tool(use)) for use in uses(recorded, step)]
        score = _score(action, about_action(recorded, step))
        events.append(_event("score", span, done, {"score": score, "intermediate": True, "scorer": "coach"}))
        if step + 1 == len(segments) or segments[step + 1] != segments[step]:
            events.append(_event("span_end", span, done, {"id": span}))
    about = about_episode(recorded)
    end = seconds(recorded, len(trajectory.actions) - 1)[2] if trajectory.actions else 0.0
    if about["attribution"] is not None:
        info = {"source": "attribution", "data": about["attribution"]}
        events.append(_event("info", None, end, info))
    scores = {}
    if (outcome := trajectory.outcome) is not None:
        scores["outcome"] = {
            "value": outcome.score,
            "explanation": outcome.reason,
            "metadata": {"success": outcome.success, "status": outcome.status},
            "history": [],
        }
    for number, event in enumerate(events):
        event["uuid"] = hashlib.sha256(f"{recorded.key}/{number}".encode()).hexdigest()[:22]
    return {
        "id": _id(recorded),
        "epoch": epoch,
        "input": trajectory.task.prompt,
        "target": "",
        "messages": _messages(recorded),
        "output": {"model": "", "choices": [], "completion": ""},
        "scores": scores,
        "metadata": {"mappa": about, "key": recorded.key},
        "store": {},
        "events": events,
        "model_usage": {},
        "role_usage": {},
        "attachments": {},
    }


def _tool(use: Use) -> dict[str, Any]:
    call: dict[str, Any] = {
        "type": "function",
        "id": use.id,
        "function": use.tool,
        "arguments": dict(use.arguments),
        "result": use.result,
        "events": [],
    }
    if use.status != "ok":
        kind = use.status if use.status == "timeout" else "unknown"
        call["error"] = {"type": kind, "message": use.status}
    return call


def _model(recorded: Recorded, step: int) -> dict[str, Any]:
    action, made = recorded.trajectory.actions[step], recorded.learned.get(step)
    model = action.agent if made is None else made.policy
    waited = max(0.0, seconds(recorded, step)[1] - seconds(recorded, step)[0])
    content: Any = action.answer
    if action.thinking:
        content = [
            {"type": "reasoning", "reasoning": action.thinking},
            {"type": "text", "text": action.answer},
        ]
    message = {"role": "assistant", "content": content, "source": "generate", "model": model}
    stop = "max_tokens" if made is not None and made.stopped == "length" else "stop"
    completion: dict[str, Any] = {
        "model": model,
        "choices": [{"message": message, "stop_reason": stop}],
        "completion": action.answer,
        "time": waited,
    }
    if made is not None and made.action_ids:
        counts = {"input_tokens": len(made.context_ids), "output_tokens": len(made.action_ids)}
        completion["usage"] = {**counts, "total_tokens": sum(counts.values())}
    return {
        "model": model,
        "role": action.agent,
        "input": [dict(message) for message in action.messages],
        "tools": [],
        "tool_choice": "none",
        "config": {},
        "output": completion,
    }


def _score(action: ActionRecord, about: dict[str, Any]) -> dict[str, Any]:
    """A coach's score of 0-10; NaN, which Inspect leaves out of its metrics, where there is none."""
    verdict = action.verdict
    value = math.nan if verdict.valid_score is None else verdict.valid_score
    return {"value": value, "explanation": _reasons(verdict), "metadata": about, "history": []}


def _reasons(verdict: Verdict) -> str:
    lines = [verdict.reasoning] if verdict.reasoning else []
    lines += [f"{c.name} {c.score:.0%}: {c.reason} {c.quote}".rstrip() for c in verdict.criteria]
    return "\n".join([f"{verdict.coach}: {verdict.status}", *lines])


def _messages(recorded: Recorded) -> list[dict[str, Any]]:
    """The whole episode as one conversation: what was new to each agent, and what it wrote."""
    found: list[dict[str, Any]] = []
    for step, action in enumerate(recorded.trajectory.actions):
        found += [dict(message) for message in conversation(recorded, step)]
        found.append({"role": "assistant", "content": action.action, "metadata": {"agent": action.agent}})
    return found


def _event(kind: str, span: str | None, at: float, more: dict[str, Any]) -> dict[str, Any]:
    when = datetime.fromtimestamp(at, UTC).isoformat() if at else _EPOCH
    return {"event": kind, "span_id": span, "timestamp": when, "working_start": 0.0, **more}


def _spec(env: str, tasks: list[str], epochs: int) -> dict[str, Any]:
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "task": env,
        "dataset": {"name": env, "samples": len(tasks), "sample_ids": tasks},
        "model": "mappa-team",
        "config": {"epochs": epochs},
    }


def _id(recorded: Recorded) -> str:
    """The task's id, as the name of a member can hold it."""
    name: str = strict(recorded.trajectory.task.id)
    return name.replace("\0", "\ufffd")


def _put(archive: zipfile.ZipFile, name: str, value: Any) -> None:
    archive.writestr(name, to_json(_with_nan(value)))


def _with_nan(value: Any) -> Any:
    """Strict JSON values, except for the NaN of a score, which is part of this format."""
    if isinstance(value, dict):
        return {
            strict(key): math.nan
            if key == "value" and isinstance(each, float) and math.isnan(each)
            else _with_nan(each)
            for key, each in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_with_nan(each) for each in value]
    return strict(value)
