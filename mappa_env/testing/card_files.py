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
    """An episode whose agents call a tool in every turn renders all templates of every length."""
    for length in find_card(case.card).lengths:
        env = dataclasses.replace(case, options={**case.options, "prompts": length}).make()
        with contextlib.closing(env):
            env.reset(seed=SEED)
            over = False
            while not over:
                _, _, over, _, _ = env.step(_call(env))


def _call(env: gym.Env[Any, str]) -> str:
    """An action that calls a tool of the acting agent, if it has one."""
    episode = team_env(env).episode
    tools = episode.card.team[episode.agent].tools if episode.agent else ()
    if not tools or "python" in tools:
        return TEXTS[0]
    return json.dumps({"name": tools[0], "arguments": {}}).join(("<tool_call>", "</tool_call>"))
