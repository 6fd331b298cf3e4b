"""Weights of demonstrated tokens: names that have to be copied count more."""

from __future__ import annotations

import re

import numpy as np
import pytest

from mappa_rl.config import Model
from mappa_rl.models.chat import ChatTokenizer
from mappa_rl.models.tiny import train_tokenizer
from mappa_rl.warmstart.copied_names import name_weights, renamed
from mappa_rl.warmstart.demonstrations import Demonstration, DemonstrationEpisode
from mappa_rl.warmstart.imitation import token_weights
from mappa_rl.warmstart.warmstart import demonstrated

PROMPT = "engineer\nid: 'parcel key' target: 'crop value'\nnum: age 'x\nfiles: train.csv"
CODE = "a = pd.read_csv('train.csv')\ny = a.pop('crop value')\na['parcel key'] = 'crop'  # crop value"


@pytest.fixture(scope="module")
def chat() -> ChatTokenizer:
    return ChatTokenizer(train_tokenizer([PROMPT, CODE] * 3, Model(vocab_size=320, tokenizer_style="code")))


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


def test_renamed_copies_exchange_names_throughout_and_nothing_else() -> None:
    def episode(ids: str, target: str) -> DemonstrationEpisode:
        prompt = PROMPT.replace("parcel key", ids).replace("crop value", target)
        code = CODE.replace("parcel key", ids).replace("crop value", target)
        later = [
            {"role": "user", "content": f"modeler\nid: '{ids}' target: '{target}'\nengineer: ok {target}"}
        ]
        first = Demonstration("engineer_0", 0, ({"role": "user", "content": prompt},), code)
        return DemonstrationEpisode(
            ids, "f1", True, (first, Demonstration("modeler_0", 0, tuple(later), "print('x')"))
        )

    pairs = [("parcel key", "crop value"), ("cell tag", "soil rate"), ("lane ref", "debt share")]
    episodes = [episode(*pair) for pair in pairs]
    names = [(f"'{ids}'", f"'{target}'") for ids, target in pairs]
    copies = list(renamed(episodes, 5, names, seed=3))
    assert copies == list(renamed(episodes, 5, names, seed=3))
    assert len(copies) == 15
    seen = set()
    for copy, task in zip(copies, [pair[0] for pair in pairs] * 5, strict=True):
        assert copy.task_id == task
        opening = copy.actions[0].messages[0]["content"]
        ids, target = (name.strip("'") for name in re.findall("'[^'\n]+'", opening)[:2])
        seen.add((ids, target))
        assert ids in {pair[0] for pair in pairs}
        assert target in {pair[1] for pair in pairs}
        assert copy.actions[0].action.count(f"'{ids}'") == copy.actions[0].action.count(f"'{target}'") == 1
        assert f"id: '{ids}' target: '{target}'" in copy.actions[1].messages[0]["content"]
        assert "'train.csv'" in copy.actions[0].action
        assert copy.actions[1].action == "print('x')"
    assert len(seen) > 3  # combinations that no demonstration had
    assert list(renamed(episodes, 5, [(), ()], seed=3)) == []
    assert list(renamed(episodes, 0, names, seed=3)) == []
