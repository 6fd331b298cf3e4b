"""OpenTelemetry spans by the conventions for generative AI, as lines of OTLP/JSON.

An episode is a trace: ``invoke_agent mappa-team`` over ``invoke_agent <agent>`` for each segment, over
``chat`` and ``execute_tool`` for each action. Verdicts are events ``gen_ai.evaluation.result``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mappa_env.trace.exports.plain import (
    Use,
    about_action,
    about_episode,
    conversation,
    document,
    seconds,
    uses,
)
from mappa_env.trace.recorded import Recorded
from mappa_env.types import ActionRecord

DROPPED = (
    "token ids and log-probs (their numbers are kept)",
    "numbers that are not finite",
    "lone surrogates",
)
_INTERNAL, _CLIENT = 1, 3
_OK, _ERROR = 1, 2


def write(path: Path, episodes: Iterable[Recorded], version: str) -> int:
    """Write one line per episode; returns how many."""
    path.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for recorded in episodes:
            file.write(document(spans(recorded, version)) + "\n")
            count += 1
    return count


def spans(recorded: Recorded, version: str) -> dict[str, Any]:
    """The episode as a request to export its trace."""
    trace = _Trace(recorded)
    scope = {"scope": {"name": "mappa", "version": version}, "spans": trace.spans()}
    resource = {"attributes": _attributes({"service.name": "mappa", "service.version": version})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}


class _Trace:
    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded
        self._id = self._digest("trace", 32)
        self._times = [seconds(recorded, step) for step in range(len(recorded.trajectory.actions))]

    def spans(self) -> list[dict[str, Any]]:
        recorded = self._recorded
        actions, outcome = recorded.trajectory.actions, recorded.trajectory.outcome
        root = self._digest("root", 16)
        about = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "mappa-team",
            "gen_ai.conversation.id": recorded.key,
            "mappa.episode": document(about_episode(recorded)),
        }
        span = self._span("invoke_agent mappa-team", root, "", _INTERNAL, self._whole(range(len(actions))))
        span["attributes"] = _attributes(about)
        if outcome is not None:
            span["events"] = [_evaluation("outcome", outcome.score, outcome.reason, span["endTimeUnixNano"])]
            span["status"] = {"code": _OK}
        found = [span]
        segments = recorded.segments
        for segment in dict.fromkeys(segments):
            steps = [step for step in range(len(actions)) if segments[step] == segment]
            agent, name = actions[steps[0]].agent, self._digest(f"segment {segment}", 16)
            span = self._span(f"invoke_agent {agent}", name, root, _INTERNAL, self._whole(steps))
            span["attributes"] = _attributes(
                {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent}
            )
            found.append(span)
            for step in steps:
                found += self._action(step, name)
        return found

    def _action(self, step: int, parent: str) -> list[dict[str, Any]]:
        recorded = self._recorded
        action, made = recorded.trajectory.actions[step], recorded.learned.get(step)
        prompted, came, done = self._times[step]
        model = action.agent if made is None else made.policy
        new = [
            {"role": message["role"], "parts": [{"type": "text", "content": message["content"]}]}
            for message in conversation(recorded, step)
        ]
        about: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "mappa",
            "gen_ai.request.model": model,
            "gen_ai.agent.name": action.agent,
            "gen_ai.input.messages": document(new),
            "gen_ai.output.messages": document([_said(action)]),
            "mappa.action": document(about_action(recorded, step)),
        }
        if made is not None and made.action_ids:
            about["gen_ai.usage.input_tokens"] = len(made.context_ids)
            about["gen_ai.usage.output_tokens"] = len(made.action_ids)
        if made is not None:
            about["gen_ai.response.finish_reasons"] = [made.stopped]
        name = self._digest(f"chat {step}", 16)
        chat = self._span(f"chat {model}", name, parent, _CLIENT, (prompted, came))
        chat["attributes"] = _attributes(about)
        verdict = action.verdict
        chat["events"] = [
            _evaluation(
                f"coach.{verdict.coach}" if verdict.coach else "coach",
                verdict.valid_score,
                verdict.reasoning,
                chat["endTimeUnixNano"],
                verdict.status,
            )
        ]
        return [chat, *(self._tool(use, parent, (came, done)) for use in uses(recorded, step))]

    def _tool(self, use: Use, parent: str, times: tuple[float, float]) -> dict[str, Any]:
        name = self._digest(f"tool {use.id}", 16)
        span = self._span(f"execute_tool {use.tool}", name, parent, _INTERNAL, times)
        span["attributes"] = _attributes(
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": use.tool,
                "gen_ai.tool.call.id": use.id,
                "gen_ai.tool.call.arguments": document(use.arguments),
                "gen_ai.tool.call.result": use.result,
                "mappa.tool.status": use.status,
            }
        )
        span["status"] = {"code": _OK} if use.status == "ok" else {"code": _ERROR, "message": use.status}
        return span

    def _whole(self, steps: Iterable[int]) -> tuple[float, float]:
        times = [self._times[step] for step in steps]
        return (times[0][0], times[-1][2]) if times else (0.0, 0.0)

    def _span(
        self, name: str, span: str, parent: str, kind: int, times: tuple[float, float]
    ) -> dict[str, Any]:
        start, end = (str(max(0, round(time * 1e9))) for time in times)
        return {
            "traceId": self._id,
            "spanId": span,
            "parentSpanId": parent,
            "name": name,
            "kind": kind,
            "startTimeUnixNano": start,
            "endTimeUnixNano": end,
        }

    def _digest(self, what: str, size: int) -> str:
        key = f"{self._recorded.key}/{self._recorded.trajectory.seed}/{what}"
        return hashlib.sha256(key.encode()).hexdigest()[:size]


def _said(action: ActionRecord) -> dict[str, Any]:
    parts = [{"type": "reasoning", "content": action.thinking}] if action.thinking else []
    return {"role": "assistant", "parts": [*parts, {"type": "text", "content": action.answer}]}


def _evaluation(name: str, score: float | None, why: str, at: str, label: str = "") -> dict[str, Any]:
    about: dict[str, Any] = {"gen_ai.evaluation.name": name, "gen_ai.evaluation.explanation": why}
    if score is not None:
        about["gen_ai.evaluation.score.value"] = float(score)
    if label:
        about["gen_ai.evaluation.score.label"] = label
    return {"timeUnixNano": at, "name": "gen_ai.evaluation.result", "attributes": _attributes(about)}


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(each) for each in value]}}
    return {"stringValue": str(value)}
