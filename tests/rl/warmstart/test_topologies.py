"""Demonstrations of teams of every shape fit the demo's small vocabulary and context."""

from __future__ import annotations

import pytest

from mappa_env.registration import find_card
from mappa_rl.config import load_config
from mappa_rl.models.chat import ChatTokenizer
from mappa_rl.models.tiny import train_tokenizer
from mappa_rl.warmstart.demonstrations import demonstrate, texts
from mappa_rl.warmstart.warmstart import demonstrated, demonstration_options

CARDS = {
    "MathSingle": "math_single",
    "MathDebate": "math_debate",
    "MathMixture": "math_mixture",
    "MathManager": "math_manager",
    "MathRefine": "math_refine",
}


@pytest.mark.parametrize("name", CARDS)
def test_demonstrations_fit_the_demo(name: str) -> None:
    config = load_config(
        "demo", [f"env.id=mappa/{name}-v0", "warmstart.episodes=90", "warmstart.team=expert"]
    )
    episodes = demonstrate(config.env.id, config.warmstart, seed=0, env_options=demonstration_options(config))
    assert all(episode.success for episode in episodes)
    chat = ChatTokenizer(train_tokenizer(texts(episodes), config.model))
    team = find_card(CARDS[name]).team
    room = config.rollout.max_context - config.rollout.max_new_tokens
    for episode in episodes:
        samples = list(demonstrated(episode, chat))
        assert len(samples) == len(team), "an agent that returns must be one sample"
        assert max(len(sample.ids) for sample in samples) < room
        for action in episode.actions:
            assert len(chat.reply(action.action)) < config.rollout.max_new_tokens
