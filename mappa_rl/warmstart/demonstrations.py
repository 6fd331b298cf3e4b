"""Episodes of a scripted team as text, for the warm start to imitate and to train a tokenizer on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from mappa_env import team_env
from mappa_env.scripted import make_team
from mappa_env.types import Message
from mappa_rl.config import WarmStart
from mappa_rl.config.environment import make_env
from mappa_rl.errors import ConfigError
from mappa_rl.seeds import numbered
from mappa_rl.telemetry.stopwatch import WAIT, Stopwatch

CHUNK = 20
"""Episodes that one environment plays between two reports of progress."""
WORKERS = 4
"""Threads that play episodes."""


@dataclass(frozen=True, slots=True)
class Demonstration:
    """One scripted action: the messages before it, its text, and its index among the agent's actions."""

    agent: str
    turn: int
    messages: tuple[Message, ...]
    action: str


@dataclass(frozen=True, slots=True)
class DemonstrationEpisode:
    """One scripted episode: its task, its topic, whether the team succeeded, and its actions in order."""

    task_id: str
    topic: str
    success: bool
    actions: tuple[Demonstration, ...]


def demonstrate(
    env_id: str,
    start: WarmStart,
    *,
    seed: int,
    env_options: Mapping[str, Any] | None = None,
    watch: Stopwatch | None = None,
    on_done: Callable[[int], None] | None = None,
) -> list[DemonstrationEpisode]:
    """Play ``start.episodes`` episodes of the scripted ``start.team``, in order of seed.

    Episode ``i`` plays the ``i``-th task; after the last task they start over, so all families come equally
    often. The same arguments give the same episodes.

    Raises ConfigError if the card has no scripted team.
    """
    episodes = start.episodes
    chunks = [range(first, min(first + CHUNK, episodes)) for first in range(0, episodes, CHUNK)]
    watch, options = watch or Stopwatch(), dict(env_options or {})
    with ThreadPoolExecutor(WORKERS) as pool, watch.at(WAIT):
        play = pool.map(
            _play, chunks, repeat(env_id), repeat(start.team), repeat(seed), repeat(options), repeat(watch)
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
    env = make_env(env_id, coach="off", **options)
    watch.attach(env)
    episode = team_env(env).episode
    if episode.card.scripted is None:
        raise ConfigError(
            f"env.id={env_id!r}: the card has no scripted team to imitate. Start from a "
            "pretrained model (model.kind=<folder or Hugging Face id>) with warmstart.steps=0."
        )
    team = make_team(episode.card.scripted, kind, style=episode.settings["prompts"])
    ids = episode.tasks.ids
    played = []
    for index in indices:
        task_id = ids[index % len(ids)]
        own = numbered(seed, index)
        _, info = env.reset(seed=own, options={"task_id": task_id})
        team.reset(episode.task, own)
        actions, over = [], False
        while not over:
            agent, turn = info["agent"], episode.turn
            text = team.act(agent, turn, episode.seen)
            actions.append(Demonstration(agent, turn, tuple(info["messages"]), text))
            _, _, over, _, info = env.step(text)
        played.append(
            DemonstrationEpisode(task_id, episode.task.topic, bool(info["outcome/success"]), tuple(actions))
        )
    env.close()
    return played
