"""Anchors: frozen drift probes, actions of a scripted team that the coach judges again and again in a run.

The policies change, so a change of their scores says little about the coach. An anchor's score changes only
if the coach does: another version behind the same name, another default, another load.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from pydantic_core import to_json

from mappa_env import team_env
from mappa_env.cards import Card
from mappa_env.coach.bias.drift import Pair
from mappa_env.episode.episode import Episode
from mappa_env.errors import CoachError
from mappa_env.scripted import make_team
from mappa_env.types import Evidence, Verdict
from mappa_rl.atomic import replacing
from mappa_rl.coach.anchor_row import AnchorRow, EvidenceRow
from mappa_rl.config.environment import make_env
from mappa_rl.errors import ConfigError
from mappa_rl.seeds import ANCHORS, numbered

FILE = "anchors.jsonl"


def check_scripted(count: int, card: Card) -> str:
    """The script of the team that plays ``count`` anchors. Raises ConfigError if the card has none."""
    if card.scripted is None:
        raise ConfigError(f"bias.anchors={count}: {card.id} has no scripted team; set bias.anchors=0.")
    return card.scripted


@dataclass(frozen=True, slots=True)
class Anchor:
    """One episode: the evidence on its actions, and the coach's first verdicts on them."""

    evidence: tuple[Evidence, ...]
    verdicts: tuple[Verdict, ...]


class Anchors:
    """``count`` anchors in the file ``path``: created if it is missing, else read. Close it at the end.

    The first verdicts may come from the coach's cache, like those of training.
    """

    def __init__(
        self,
        path: Path,
        env_id: str,
        options: Mapping[str, Any],
        *,
        count: int,
        workers: int,
        on_done: Callable[[int], None] | None = None,
    ) -> None:
        blocking = {**options, "judging": "blocking", "coach_feedback": "off"}
        self._env = make_env(env_id, **blocking)
        self._episode: Episode = team_env(self._env).episode
        self._workers = workers
        if not path.is_file():
            with replacing(path) as draft, draft.open("wb") as file:
                for done, line in enumerate(self._play(count), 1):
                    file.write(line)
                    if on_done is not None:
                        on_done(done)
        self.anchors = [
            self._read(AnchorRow.from_dict(json.loads(line))) for line in path.read_bytes().splitlines()
        ]

    def __enter__(self) -> Anchors:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._env.close()

    def judge(self) -> list[tuple[Verdict, ...]]:
        """Ask the coach again, bypassing any cache. Entries correspond to ``anchors``."""
        with ThreadPoolExecutor(self._workers, thread_name_prefix="anchor") as pool:
            asked = [[pool.submit(self._judge, each) for each in anchor.evidence] for anchor in self.anchors]
            return [tuple(future.result() for future in futures) for futures in asked]

    def pairs(self, now: Sequence[Sequence[Verdict]]) -> list[list[Pair]]:
        """Per episode, first and new score of every action that has both."""
        return [
            [
                (evidence.stratum, first.valid_score, again.valid_score)
                for evidence, first, again in zip(anchor.evidence, anchor.verdicts, verdicts, strict=True)
                if first.valid_score is not None and again.valid_score is not None
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
        """Run the faulty scripted team on the first tasks; yields one line per episode."""
        episode = self._episode
        style: Any = episode.settings["prompts"]
        team = make_team(check_scripted(count, episode.card), "faulty", style=style)
        for index in range(count):
            ids, seed = episode.tasks.ids, numbered(ANCHORS, index)
            episode.reset(seed=seed, task_id=ids[index % len(ids)])
            team.reset(episode.task, seed)
            while episode.agent is not None:
                episode.act(team.act(episode.agent, episode.turn, episode.seen))
            yield _line(episode)

    def _read(self, row: AnchorRow) -> Anchor:
        task, evidence = self._episode.tasks.get(row.task_id), []
        for at, (action, more) in enumerate(zip(row.actions, row.evidence, strict=True)):
            evidence.append(
                Evidence(
                    task=task,
                    agent=self._episode.card.team[action.agent],
                    turn=action.turn,
                    step=action.step,
                    prompt=more.prompt,
                    action=action.action,
                    code=action.code,
                    tool=action.tool,
                    last_turn=action.last_turn,
                    history=row.actions[:at],
                    present=more.present,
                    missing=action.missing,
                    probe=action.probe,
                    calls=action.calls,
                    outcome=more.outcome,
                    provisional_outcome=more.provisional_outcome,
                    truth=task.truth if more.truth else None,
                    follows=more.follows,
                )
            )
        return Anchor(tuple(evidence), tuple(action.verdict for action in row.actions))


def _line(episode: Episode) -> bytes:
    evidence = tuple(EvidenceRow.of(each) for each in episode.evidence)
    row = AnchorRow(episode.task.id, tuple(episode.actions), evidence)
    return to_json(row.to_dict(), inf_nan_mode="constants") + b"\n"
