"""What all exports share: records as strict JSON values, and the texts of an action."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mappa_env.tools.python import PYTHON
from mappa_env.trace.jsonlines import adapter
from mappa_env.trace.recorded import Learned, Recorded
from mappa_env.types import ActionRecord, Attribution, Message, Outcome


@dataclass(frozen=True, slots=True)
class Use:
    """One use of a tool in an action: the run of its code, or a call. ``id`` is unique among episodes."""

    id: str
    tool: str
    arguments: Mapping[str, Any]
    result: str
    status: str


def strict(value: Any) -> Any:
    """``value`` as JSON that every reader takes: no NaN, no infinity, no lone surrogates."""
    if isinstance(value, Mapping):
        return {strict(str(key)): strict(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    return value


def document(value: Any, indent: int | None = None) -> str:
    """``value`` as a JSON document."""
    return json.dumps(strict(value), ensure_ascii=False, allow_nan=False, indent=indent)


def fields(kind: Any, value: Any) -> Any:
    """The fields of a record, of type ``kind``, as plain values."""
    return adapter(kind).dump_python(value)


def about_action(recorded: Recorded, step: int) -> dict[str, Any]:
    """Everything about an action that formats have no place for: their extras hold it."""
    action = recorded.trajectory.actions[step]
    made = recorded.learned.get(step)
    found: dict[str, Any] = fields(ActionRecord, action)
    for name in ("messages", "action", "thinking", "answer", "code"):
        del found[name]
    if found["tool"] is not None:
        found["tool"] = {
            name: each for name, each in found["tool"].items() if name not in ("stdout", "stderr")
        }
    found["calls"] = [
        {name: each for name, each in call.items() if name not in ("tool", "arguments", "text")}
        for call in found["calls"]
    ]
    found["step"], found["segment"] = step, recorded.segments[step]
    if made is not None:
        learned = fields(Learned, made)
        found["learned"] = {
            name: each
            for name, each in learned.items()
            if name not in ("context_ids", "action_ids", "logprobs")
        }
    return found


def about_episode(recorded: Recorded) -> dict[str, Any]:
    """Everything about an episode besides its actions."""
    trajectory = recorded.trajectory
    task = trajectory.task
    return {
        "env_id": trajectory.env_id,
        "task": {"id": task.id, "metric": task.metric, "topic": task.topic, "split": task.split},
        "task_files": dict(recorded.task_files),
        "seed": trajectory.seed,
        "settings": dict(trajectory.settings),
        "outcome": fields(Outcome | None, trajectory.outcome),
        "attribution": fields(Attribution | None, trajectory.attribution),
        "about": dict(recorded.about),
        "card": dict(recorded.card),
    }


def uses(recorded: Recorded, step: int) -> Iterator[Use]:
    """The tools that an action used: first its code, with both streams as the result, then its calls."""
    action = recorded.trajectory.actions[step]
    name = f"{recorded.key}-{step}"
    if action.code is not None:
        run = action.tool
        printed = () if run is None else (run.stdout, run.stderr)
        result = "\n".join(text for text in printed if text)
        yield Use(name, PYTHON, {"code": action.code}, result, "" if run is None else run.status)
    for number, call in enumerate(action.calls):
        yield Use(f"{name}-{number}", call.tool, call.arguments, call.text, call.status)


def conversation(recorded: Recorded, step: int) -> tuple[Message, ...]:
    """The messages that were new to the agent."""
    return recorded.news[step]


_LAST = 253_402_300_000.0
"""The end of the year 9999."""


def seconds(recorded: Recorded, step: int) -> tuple[float, float, float]:
    """When the prompt was ready, the action came, and the environment was done, in seconds since 1970.

    Zeros without timings, and for times that no calendar has.
    """
    timings = recorded.trajectory.timings
    if step >= len(timings):
        return 0.0, 0.0, 0.0
    timing = timings[step]
    found = timing.at - timing.waited_s, timing.at, timing.at + timing.took_s
    return found if all(0 <= time < _LAST for time in found) else (0.0, 0.0, 0.0)
