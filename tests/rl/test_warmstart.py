"""Weights of demonstrated tokens: names that have to be copied count more."""

from __future__ import annotations

import numpy as np
import pytest

from mappa_rl.chat import ChatTokenizer
from mappa_rl.demonstrations import Demonstration, DemonstrationEpisode
from mappa_rl.sft import token_weights
from mappa_rl.tiny import train_tokenizer
from mappa_rl.warmstart import demonstrated, name_weights

PROMPT = "engineer\nid: 'parcel key' target: 'crop value'\nnum: age 'x\nfiles: train.csv"
CODE = "a = pd.read_csv('train.csv')\ny = a.pop('crop value')\na['parcel key'] = 'crop'  # crop value"


@pytest.fixture(scope="module")
def chat() -> ChatTokenizer:
    return ChatTokenizer(train_tokenizer([PROMPT, CODE] * 3, 320, "code"))


def action(turn: int = 0, text: str = CODE, agent: str = "engineer_0") -> Demonstration:
    messages = [{"role": "user", "content": PROMPT}]
    for _ in range(turn):
        messages += [{"role": "assistant", "content": CODE}, {"role": "user", "content": "out: 'crop value'"}]
    return Demonstration(agent, turn, tuple(messages), text)


def test_quoted_names_of_the_prompt_are_weighted_in_the_action(chat: ChatTokenizer) -> None:
    weights = name_weights(action(), chat, 9.0)
    ids = chat.reply(CODE)
    assert len(weights) == len(ids)
    named = chat.decode([i for i, weight in zip(ids, weights, strict=True) if weight == 9.0])
    # A token may hold a neighbour of the quote, as in (' or ['.
    assert "crop value" in named
    assert "parcel key" in named
    assert "train" not in named  # quoted, but the prompt has it without quotes
    assert named.count("crop") == 2 - 1  # neither the other string nor the comment
    assert set(weights) == {1.0, 9.0}
    assert set(name_weights(action(), chat, 1.0)) == {1.0}


def test_weights_follow_the_actions_into_the_samples(chat: ChatTokenizer) -> None:
    actions = (action(), action(1, "print('crop value')"), action(0, "done", "modeler_0"))
    episode = DemonstrationEpisode("t", "f1", True, actions)
    samples = list(demonstrated(episode, chat))
    assert [len(sample.spans) for sample in samples] == [2, 1]
    by_step = {step: name_weights(one, chat, 5.0) for step, one in enumerate(actions)}
    for sample in samples:
        weights = token_weights(sample, 0.25, by_step)
        assert weights[0] == 0
        assert set(weights[1:][~sample.action_mask[1:]]) == {np.float32(0.25)}
        for span in sample.spans:
            assert weights[span.start : span.end].tolist() == by_step[span.step]
    assert 5.0 in by_step[1]
    plain = token_weights(samples[0], 0.25)
    assert set(plain[samples[0].action_mask]) == {1.0}
