"""Teams of every shape fit the demo's small vocabulary and context: demonstrations, and any replies."""

from __future__ import annotations

import random

import pytest

from mappa_env.commands.new import SETTINGS, TOPOLOGIES
from mappa_env.episode.episode import Episode
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


@pytest.mark.parametrize("name", SETTINGS)
def test_an_agent_that_returns_has_room_for_the_longest_replies(name: str) -> None:
    """A policy that has learnt little says anything, up to the limit, in every turn."""
    folder = TOPOLOGIES[name]
    recipe, few = ("demo_dsbench", 6) if "data" in name else ("demo", 60)
    overrides = [f"env.id={folder}", f"warmstart.episodes={few}", *SETTINGS[name]]
    config = load_config(recipe, overrides)
    episodes = demonstrate(config.env.id, config.warmstart, seed=0, env_options=demonstration_options(config))
    chat = ChatTokenizer(train_tokenizer(texts(episodes), config.model))
    most, rng = config.rollout.max_new_tokens, random.Random(0)
    ids = [i for i in range(config.model.vocab_size) if i not in chat.tokenizer.all_special_ids]
    episode = Episode(find_card(folder), prompts="compact", sandbox="null", coach="off")
    longest = 0
    for seed in range(12):
        episode.reset(seed=seed)
        contexts: dict[str, int] = {}
        while (agent := episode.agent) is not None:
            messages = episode.messages()
            opened = len(chat.open(messages if agent not in contexts else messages[-1:]))
            contexts[agent] = contexts.get(agent, 0) + opened + most
            longest = max(longest, contexts[agent])
            among = episode.card.order.offered(episode.actions)
            said = chat.decode(rng.choices(ids, k=most))
            episode.act(f"{said}\nnext: {rng.choice(among)}" if among and seed % 2 else said)
    episode.close()
    assert longest <= config.rollout.max_context
