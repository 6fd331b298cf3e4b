"""Names to copy: text in single quotes in a prompt, which the actions repeat."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from mappa_env import team_env
from mappa_env.errors import DataError
from mappa_rl.config.environment import make_env
from mappa_rl.models.chat import ChatTokenizer
from mappa_rl.warmstart.demonstrations import Demonstration, DemonstrationEpisode

NAMED_TASKS = 4000
"""Names come from at most this many tasks."""
_QUOTED = re.compile(r"'[^'\n]+'")


def quoted(text: str) -> tuple[str, ...]:
    """The distinct texts in single quotes, in order and with their quotes."""
    return tuple(dict.fromkeys(_QUOTED.findall(text)))


def renamed(
    episodes: Sequence[DemonstrationEpisode], copies: int, names: Sequence[tuple[str, ...]], seed: int
) -> Iterator[DemonstrationEpisode]:
    """``copies`` of each episode, in which other names replace those quoted in its first prompt.

    The n-th name becomes the n-th name of an entry of ``names``, drawn for each name alone. Names no longer
    identify a task, so memorising them does not help, and the policy has to learn to copy.
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
    """The names quoted in the first prompt of each task. ``options``: those of the environment."""
    env = make_env(env_id, **{**options, "coach": "off", "sandbox": "null"})
    found = []
    for task_id in islice(team_env(env).task_ids, NAMED_TASKS):
        _, info = env.reset(seed=0, options={"task_id": task_id})
        if info["task/status"] != "ok":
            raise DataError(info["messages"][-1]["content"])
        found.append(quoted(info["messages"][-1]["content"]))
    env.close()
    return found


def _exchanged(action: Demonstration, names: Mapping[str, str]) -> Demonstration:
    def other(text: str) -> str:
        return _QUOTED.sub(lambda match: names.get(match.group(), match.group()), text)

    messages = tuple({**message, "content": other(message["content"])} for message in action.messages)
    return dataclasses.replace(action, messages=messages, action=other(action.action))


def name_weights(action: Demonstration, chat: ChatTokenizer, weight: float) -> list[float]:
    """One weight per token of the reply: ``weight`` on names that the prompt quotes, 1 elsewhere.

    Names are few tokens among many that never change, so they contribute little to the mean loss. But a
    policy that cannot copy them achieves nothing.
    """
    text = chat.readable(action.action)
    names = quoted(action.messages[-1]["content"])
    places = [match.span() for match in _QUOTED.finditer(text) if match.group() in names]
    return [
        weight if any(start < last and end > first for first, last in places) else 1.0
        for start, end in chat.offsets(text)
    ]
