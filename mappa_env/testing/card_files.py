"""Suites for card files that an episode with default options never uses."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from typing import Any

import gymnasium as gym

from mappa_env import team_env
from mappa_env.registration import find_card
from mappa_env.testing.conformance import SEED, TEXTS, Case


def coach_questions(case: Case) -> None:
    """``coach.yaml`` has only known keys, and its template renders for every role."""
    card = find_card(case.card)
    if card.coach is not None:
        from mappa_env.coach.llm.prompt import Prompts  # lazy: imports pydantic

        Prompts(card)


def prompts_of_every_length(case: Case) -> None:
    """Episodes whose agents call a tool in every turn render all templates of every length.

    In one they run code where they can, in a second they call their other tools.
    """
    card = find_card(case.card)
    for length in card.lengths:
        for other in (False, True) if card.tools else (False,):
            env = dataclasses.replace(case, options={**case.options, "prompts": length}).make()
            with contextlib.closing(env):
                env.reset(seed=SEED)
                over = False
                while not over:
                    _, _, over, _, _ = env.step(_call(env, other))


def _call(env: gym.Env[Any, str], other: bool) -> str:
    """An action that calls a tool of the acting agent; ``other``: one besides Python, if there is any."""
    episode = team_env(env).episode
    tools = episode.card.team[episode.agent].tools if episode.agent else ()
    called = next((name for name in tools if name != "python"), "python")
    if called == "python" or ("python" in tools and not other):
        return TEXTS[0]
    return json.dumps({"name": called, "arguments": {}}).join(("<tool_call>", "</tool_call>"))
