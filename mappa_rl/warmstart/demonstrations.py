"""Episodes of a scripted team as text: what a warm start imitates and what a tokenizer is trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import gymnasium as gym

import mappa_env  # noqa: F401  (registers the environments)
from mappa_env.scripted import make_team
from mappa_env.types import Message
from mappa_rl.stopwatch import WAIT, Stopwatch

CHUNK = 20
"""Episodes that one environment plays before progress is reported."""


@dataclass(frozen=True, slots=True)
class Demonstration:
    """One scripted action: the messages it answers, its text, and whether its stay ends with it."""

    agent: str
    turn: int
    messages: tuple[Message, ...]
    action: str


@dataclass(frozen=True, slots=True)
class DemonstrationEpisode:
    task_id: str
    topic: str
    success: bool
    actions: tuple[Demonstration, ...]


def demonstrate(
    env_id: str,
    *,
    episodes: int,
    team: str = "faulty",
    seed: int = 0,
    workers: int = 4,
    env_options: Mapping[str, Any] | None = None,
    watch: Stopwatch | None = None,
    on_done: Callable[[int], None] | None = None,
) -> list[DemonstrationEpisode]:
    """Play ``episodes`` episodes of the scripted ``team`` (``"expert"`` or ``"faulty"``), in order of seed.

    Task ``i`` is the ``i``-th of the task set (from the start again when it runs out), so that all families
    come equally often. The same arguments give the same episodes.
    """
    if episodes < 1:
        raise ValueError(f"episodes must be at least 1, found {episodes}.")
    chunks = [range(start, min(start + CHUNK, episodes)) for start in range(0, episodes, CHUNK)]
    watch, options = watch or Stopwatch(), dict(env_options or {})
    with ThreadPoolExecutor(workers) as pool, watch.at(WAIT):
        play = pool.map(
            _play, chunks, repeat(env_id), repeat(team), repeat(seed), repeat(options), repeat(watch)
        )
        done = []
        for part in play:
            done.extend(part)
            if on_done is not None:
                on_done(len(done))
    return done


def texts(episodes: list[DemonstrationEpisode]) -> Iterator[str]:
    """Every message and action once, for training a tokenizer."""
    for episode in episodes:
        for action in episode.actions:
            if action.turn == 0:
                yield from (message["content"] for message in action.messages)
            else:
                yield action.messages[-1]["content"]
            yield action.action


def _play(
    indices: range, env_id: str, kind: str, seed: int, options: Mapping[str, Any], watch: Stopwatch
) -> list[DemonstrationEpisode]:
    with watch.working("rest"):
        return _played(indices, env_id, kind, seed, options, watch)


def _played(
    indices: range, env_id: str, kind: str, seed: int, options: Mapping[str, Any], watch: Stopwatch
) -> list[DemonstrationEpisode]:
    env = gym.make(env_id, coach="off", **options)
    watch.attach(env)
    episode = env.unwrapped.episode  # type: ignore[attr-defined]
    team = make_team(episode.card.scripted, kind, style=episode.settings["prompts"])
    ids = episode.tasks.ids
    played = []
    for index in indices:
        task_id = ids[index % len(ids)]
        _, info = env.reset(seed=seed * 1_000_003 + index, options={"task_id": task_id})
        team.reset(episode.task, seed * 1_000_003 + index)
        actions, over = [], False
        while not over:
            agent, turn = info["agent"], episode.turn
            text = team.act(agent, turn, episode.actions)
            actions.append(Demonstration(agent, turn, tuple(info["messages"]), text))
            _, _, over, _, info = env.step(text)
        played.append(
            DemonstrationEpisode(task_id, episode.task.topic, bool(info["outcome/success"]), tuple(actions))
        )
    env.close()
    return played
