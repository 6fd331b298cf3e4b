"""Anchors: actions of a scripted team, judged when a run starts, frozen, and judged anew as it goes on.

The policies change, so a change of their scores says little about the coach. What an anchor earns changes
only if the coach does: another version behind the same name, another default, another load.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import gymnasium as gym
from pydantic import TypeAdapter
from pydantic_core import to_json

from mappa_env.coach.drift import Pair
from mappa_env.episode import Episode
from mappa_env.errors import CoachError
from mappa_env.scripted import make_team
from mappa_env.types import ActionRecord, Evidence, FileChange, Outcome, Verdict
from mappa_rl.errors import ConfigError

FILE = "anchors.jsonl"
SEED = 11_001
_ACTIONS: TypeAdapter[tuple[ActionRecord, ...]] = TypeAdapter(tuple[ActionRecord, ...])
_PRESENT: TypeAdapter[dict[str, FileChange]] = TypeAdapter(dict[str, FileChange])
_OUTCOME: TypeAdapter[Outcome | None] = TypeAdapter(Outcome | None)


@dataclass(frozen=True, slots=True)
class Anchor:
    """One episode: what the coach was given about its actions, and what it said then."""

    evidence: tuple[Evidence, ...]
    verdicts: tuple[Verdict, ...]


class Anchors:
    """``count`` anchors in ``path``: made where the file is missing, else read. Close it at the end.

    The first verdicts are those that a run is paid with, so they may come from the coach's cache. Raises
    ConfigError for a card without a scripted team.
    """

    def __init__(
        self,
        path: Path,
        env_id: str,
        options: Mapping[str, Any],
        *,
        count: int,
        workers: int = 8,
        on_done: Callable[[int], None] | None = None,
    ) -> None:
        blocking = {**options, "judging": "blocking", "coach_feedback": "off"}
        self._env = gym.make(env_id, **blocking)
        self._episode: Episode = self._env.unwrapped.episode  # type: ignore[attr-defined]
        self._workers = workers
        if not path.is_file():
            draft = path.with_name(path.name + ".new")
            with draft.open("wb") as file:
                for done, line in enumerate(self._play(count), 1):
                    file.write(line)
                    if on_done is not None:
                        on_done(done)
            draft.replace(path)
        self.anchors = [self._read(json.loads(line)) for line in path.read_bytes().splitlines()]

    def __enter__(self) -> Anchors:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._env.close()

    def judge(self) -> list[tuple[Verdict, ...]]:
        """The coach's verdicts now, asked anew, past any cache; entry by entry those of ``anchors``."""
        with ThreadPoolExecutor(self._workers, thread_name_prefix="anchor") as pool:
            asked = [[pool.submit(self._judge, each) for each in anchor.evidence] for anchor in self.anchors]
            return [tuple(future.result() for future in futures) for futures in asked]

    def pairs(self, now: Sequence[Sequence[Verdict]]) -> list[list[Pair]]:
        """By episode, the actions that have a score in both rounds."""
        return [
            [
                (evidence.stratum, first.score, again.score)
                for evidence, first, again in zip(anchor.evidence, anchor.verdicts, verdicts, strict=True)
                if first.status == again.status == "ok"
                and first.score is not None
                and again.score is not None
            ]
            for anchor, verdicts in zip(self.anchors, now, strict=True)
        ]

    def _judge(self, evidence: Evidence) -> Verdict:
        coach = self._episode.coach
        try:
            return coach.judge(evidence, fresh=True)
        except CoachError as error:
            return Verdict("error", None, str(error), coach=coach.name)

    def _play(self, count: int) -> Iterator[bytes]:
        """The episodes of the faulty scripted team on the first tasks, one line each."""
        episode = self._episode
        if episode.card.scripted is None:
            raise ConfigError(f"bias.anchors={count}: {episode.card.id} has no scripted team; set it to 0.")
        style: Any = episode.settings["prompts"]
        team = make_team(episode.card.scripted, "faulty", style=style)
        for index in range(count):
            ids, seed = episode.tasks.ids, SEED * 1_000_003 + index
            episode.reset(seed=seed, task_id=ids[index % len(ids)])
            team.reset(episode.task, seed)
            while episode.agent is not None:
                episode.act(team.act(episode.agent, episode.turn, episode.actions))
            yield _line(episode)

    def _read(self, row: Mapping[str, Any]) -> Anchor:
        task, actions = self._episode.tasks.get(row["task_id"]), _ACTIONS.validate_python(row["actions"])
        evidence = []
        for at, (action, more) in enumerate(zip(actions, row["evidence"], strict=True)):
            evidence.append(
                Evidence(
                    task=task, agent=self._episode.card.team[action.agent], turn=action.turn,
                    step=action.step, prompt=more["prompt"], action=action.action, code=action.code,
                    tool=action.tool, last_turn=action.last_turn, history=actions[:at],
                    present=_PRESENT.validate_python(more["present"]), missing=action.missing,
                    claims=action.claims, probe=action.probe,
                    outcome=_OUTCOME.validate_python(more["outcome"]),
                    standing=_OUTCOME.validate_python(more["standing"]),
                    truth=task.truth if more["truth"] else None,
                )
            )  # fmt: skip
        return Anchor(tuple(evidence), tuple(action.verdict for action in actions))


def _line(episode: Episode) -> bytes:
    """An episode as JSON. The task goes by its id: neither its truth nor its files are written."""
    evidence = [
        {
            "prompt": each.prompt,
            "present": each.present,
            "outcome": each.outcome,
            "standing": each.standing,
            "truth": each.truth is not None,
        }
        for each in episode.evidence
    ]
    row = {"task_id": episode.task.id, "actions": episode.actions, "evidence": evidence}
    return to_json(row, inf_nan_mode="constants") + b"\n"
