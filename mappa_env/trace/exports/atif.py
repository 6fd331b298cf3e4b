"""Agent Trajectory Interchange Format 1.7: a team is a trajectory, its agents are its subagents."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mappa_env.trace.exports.plain import (
    about_action,
    about_episode,
    conversation,
    document,
    seconds,
    uses,
)
from mappa_env.trace.recorded import Recorded

SCHEMA = "ATIF-v1.7"
DROPPED = ("numbers that are not finite", "lone surrogates")
_SOURCES = {"system": "system", "user": "user"}


def write(path: Path, episodes: Iterable[Recorded], version: str) -> int:
    """Write ``episode-000000.json`` and so on into the folder ``path``; returns how many."""
    path.mkdir(parents=True, exist_ok=True)
    count = 0
    for count, recorded in enumerate(episodes, start=1):
        text = document(trajectory(recorded, version), indent=1)
        (path / f"episode-{count - 1:06d}.json").write_text(text + "\n", encoding="utf-8")
    return count


def trajectory(recorded: Recorded, version: str) -> dict[str, Any]:
    """The episode as an ATIF trajectory; what the format has no place for is in ``extra.mappa``."""
    episode = recorded.trajectory
    steps: list[dict[str, Any]] = [{"step_id": 1, "source": "user", "message": episode.task.prompt}]
    for step, action in enumerate(episode.actions):
        reference = {"trajectory_id": f"{recorded.key}/{action.agent}"}
        steps.append(
            {
                "step_id": step + 2,
                **_time(recorded, step),
                "source": "agent",
                "message": f"{action.agent} acts (turn {action.turn})",
                "observation": {"results": [{"subagent_trajectory_ref": [reference]}]},
                "llm_call_count": 0,
                "extra": {"mappa": {"step": step, "agent": action.agent, "turn": action.turn}},
            }
        )
    agents = list(dict.fromkeys(action.agent for action in episode.actions))
    return {
        "schema_version": SCHEMA,
        "session_id": recorded.key,
        "trajectory_id": recorded.key,
        "agent": {"name": "mappa-team", "version": version},
        "steps": steps,
        "subagent_trajectories": [_agent(recorded, agent, version) for agent in agents],
        "extra": {"mappa": about_episode(recorded)},
    }


def _agent(recorded: Recorded, agent: str, version: str) -> dict[str, Any]:
    steps: list[dict[str, Any]] = []
    models = {}
    for step, action in enumerate(recorded.trajectory.actions):
        if action.agent != agent:
            continue
        for message in conversation(recorded, step):
            if message["role"] != "assistant":
                source = _SOURCES.get(message["role"], "user")
                steps.append({"step_id": len(steps) + 1, "source": source, "message": message["content"]})
        steps.append({"step_id": len(steps) + 1, **_action(recorded, step)})
        if step in recorded.learned:
            models["model_name"] = recorded.learned[step].policy
    described: dict[str, Any] = {"name": agent, "version": version, **models}
    if tools := _tools(recorded, agent):
        described["tool_definitions"] = tools
    return {
        "schema_version": SCHEMA,
        "session_id": recorded.key,
        "trajectory_id": f"{recorded.key}/{agent}",
        "agent": described,
        "steps": steps,
    }


def _tools(recorded: Recorded, agent: str) -> list[dict[str, Any]]:
    """What the card lets ``agent`` call."""
    names = {
        name for each in recorded.card.get("team", ()) if each["name"] == agent for name in each["tools"]
    }
    tools = recorded.card.get("tools", ())
    return [{"type": "function", "function": tool} for tool in tools if tool["name"] in names]


def _action(recorded: Recorded, step: int) -> dict[str, Any]:
    action, made = recorded.trajectory.actions[step], recorded.learned.get(step)
    found: dict[str, Any] = {**_time(recorded, step)}
    found |= {"source": "agent", "message": action.answer}
    if made is not None:
        found["model_name"] = made.policy
    if made is not None and made.action_ids:
        found["metrics"] = {
            "prompt_tokens": len(made.context_ids),
            "completion_tokens": len(made.action_ids),
            "prompt_token_ids": list(made.context_ids),
            "completion_token_ids": list(made.action_ids),
            "logprobs": list(made.logprobs),
        }
    if action.thinking:
        found["reasoning_content"] = action.thinking
    if used := list(uses(recorded, step)):
        found["tool_calls"] = [
            {"tool_call_id": use.id, "function_name": use.tool, "arguments": use.arguments} for use in used
        ]
        results = [{"source_call_id": use.id, "content": use.result} for use in used]
        found["observation"] = {"results": results}
    found["extra"] = {"mappa": about_action(recorded, step)}
    return found


def _time(recorded: Recorded, step: int) -> dict[str, str]:
    _, came, _ = seconds(recorded, step)
    return {"timestamp": datetime.fromtimestamp(came, UTC).isoformat()} if came else {}
