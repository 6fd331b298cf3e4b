"""Names that have to be copied: what a prompt has in single quotes, in the actions that answer it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import gymnasium as gym
import numpy as np

import mappa_env  # noqa: F401  (registers the environments)
from mappa_rl.chat import ChatTokenizer
from mappa_rl.demonstrations import Demonstration, DemonstrationEpisode

NAMED_TASKS = 4000
"""Most tasks that names are taken from."""
_QUOTED = re.compile(r"'[^'\n]+'")


def quoted(text: str) -> tuple[str, ...]:
    """What stands in single quotes, each once, in order and with its quotes."""
    return tuple(dict.fromkeys(_QUOTED.findall(text)))


def renamed(
    episodes: Sequence[DemonstrationEpisode], copies: int, names: Sequence[tuple[str, ...]], seed: int
) -> Iterator[DemonstrationEpisode]:
    """``copies`` of each episode with what its first prompt has in single quotes exchanged throughout.

    The n-th name becomes the n-th of some entry of ``names``, each drawn by itself. A task is told by its
    names no more, so that remembering them does not pay, and copying has to be learned.
    """
    rng = np.random.default_rng([seed, len(episodes)])
    for _ in range(copies if any(names) else 0):
        for episode in episodes:
            old = quoted(episode.actions[0].messages[-1]["content"])
            drawn = [names[int(i)] for i in rng.integers(len(names), size=len(old))]
            new = [drawn[n][n] if n < len(drawn[n]) else own for n, own in enumerate(old)]
            exchange = dict(zip(old, new if len(set(new)) == len(new) else old, strict=True))
            yield dataclasses.replace(
                episode, actions=tuple(_exchanged(action, exchange) for action in episode.actions)
            )


def task_names(env_id: str, options: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """What the first prompt of each task has in single quotes. ``options``: those of the environment."""
    env = gym.make(env_id, **{**options, "coach": "off", "sandbox": "null"})
    found = []
    for task_id in islice(env.unwrapped.episode.tasks.ids, NAMED_TASKS):  # type: ignore[attr-defined]
        _, info = env.reset(seed=0, options={"task_id": task_id})
        found.append(quoted(info["messages"][-1]["content"]))
    env.close()
    return found


def _exchanged(action: Demonstration, names: Mapping[str, str]) -> Demonstration:
    def other(text: str) -> str:
        return _QUOTED.sub(lambda match: names.get(match.group(), match.group()), text)

    messages = tuple({**message, "content": other(message["content"])} for message in action.messages)
    return dataclasses.replace(action, messages=messages, action=other(action.action))


def name_weights(action: Demonstration, chat: ChatTokenizer, weight: float) -> list[float]:
    """One weight per token of the reply: ``weight`` where it spells what the prompt has in single quotes.

    Names are a few tokens among many that never change, so their part of the mean loss is small, although a
    policy that cannot copy them achieves nothing.
    """
    text = chat.readable(action.action)
    names = quoted(action.messages[-1]["content"])
    places = [match.span() for match in _QUOTED.finditer(text) if match.group() in names]
    return [
        weight if any(start < last and end > first for first, last in places) else 1.0
        for start, end in chat.offsets(text)
    ]
