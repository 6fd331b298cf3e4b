"""One episode as the page needs it: everything, with long texts only once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mappa_env.trace import Learned, Recorded
from mappa_env.types import ActionRecord, Timing
from mappa_env.viewer.blame import Blame
from mappa_env.viewer.columns import columns
from mappa_env.viewer.rows import stage
from mappa_env.viewer.threads import threads


class _Texts:
    """Every text once; ``number`` gives its place."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self._places.setdefault(text, len(self._places))

    @property
    def all(self) -> list[str]:
        return list(self._places)


def document(number: int, file: str, recorded: Recorded, blame: Blame) -> dict[str, Any]:
    """The episode ``number`` of ``file``. ``viewer/src/episode.ts`` has its type. Holds no token ids."""
    trajectory, texts = recorded.trajectory, _Texts()
    task = trajectory.task
    phase, step = stage(file, recorded.about)
    placed = columns(recorded)
    news, segments = recorded.news, recorded.segments
    actions = [
        {
            **_action(action),
            "step": at,
            "column": placed[at],
            "segment": segments[at],
            "messages": [[message["role"], texts.number(message["content"])] for message in action.messages],
            "known": len(action.messages) - len(news[at]),
            "timing": _timing(trajectory.timings, at),
            "learned": _learned(recorded.learned.get(at)),
        }
        for at, action in enumerate(trajectory.actions)
    ]
    return {
        "number": number,
        "file": file,
        "key": recorded.key,
        "env": trajectory.env_id,
        "task": {
            "id": task.id,
            "prompt": task.prompt,
            "metric": task.metric,
            "topic": task.topic,
            "split": task.split,
            "files": recorded.task_files,
        },
        "seed": str(trajectory.seed),
        "phase": phase,
        "training_step": step,
        "settings": trajectory.settings,
        "team": _team(recorded),
        "outcome": trajectory.outcome,
        "actions": actions,
        "threads": threads(trajectory.actions),
        "blame": blame,
        "texts": texts.all,
    }


def _action(action: ActionRecord) -> dict[str, Any]:
    return {
        "agent": action.agent,
        "turn": action.turn,
        "last_turn": action.last_turn,
        "thinking": action.thinking,
        "answer": action.answer,
        "code": action.code,
        "tool": action.tool,
        "calls": action.calls,
        "verdict": action.verdict,
        "reward": action.reward,
        "reward_valid": action.reward_valid,
        "stratum": action.stratum,
        "missing": action.missing,
        "probe": action.probe,
        "correction": action.correction,
    }


def _team(recorded: Recorded) -> list[list[str]]:
    """(name, title) of every agent, first those of the card, in its order."""
    titles = {agent["name"]: agent.get("title", "") for agent in recorded.card.get("team", ())}
    for action in recorded.trajectory.actions:
        titles.setdefault(action.agent, "")
    return [[name, title] for name, title in titles.items()]


def _timing(timings: Sequence[Timing], at: int) -> Timing | None:
    return timings[at] if at < len(timings) else None


def _learned(learned: Learned | None) -> dict[str, Any] | None:
    if learned is None:
        return None
    return {
        "policy": learned.policy,
        "version": learned.version,
        "reward": learned.reward,
        "valid": learned.valid,
        "returned": learned.returned,
        "advantage": learned.advantage,
        "stopped": learned.stopped,
        "tokens": len(learned.action_ids),
    }
