"""What the benchmark of fidelity counts: all sampled actions are in training sequences, whatever they are."""

from __future__ import annotations

import sys

import pytest

from chat_families import FAMILIES
from mappa_rl.models.chat import ChatTokenizer
from paths import ROOT

sys.path.append(str(ROOT / "benchmarks"))
from fidelity import MATHCHAT, Noted, RandomReplies, Tally, play

TEXTS = [
    "plan: gcd(84, 70)",
    "```python\nprint(gcd(84, 70))\n```",
    "The output is 14. answer: \\boxed{14}",
] * 10


@pytest.mark.parametrize("name", ["qwen3", "r1-distill", "mistral"])
def test_all_sampled_ids_and_contexts_are_trained_on_and_text_would_lose_some(name: str) -> None:
    family = FAMILIES[name]
    chat = ChatTokenizer(family.tokenizer(TEXTS, 500))
    tally = Tally(family.name, "random")
    engine = Noted(RandomReplies(chat, family.specials, TEXTS[:3]))
    play(tally, MATHCHAT, chat, engine, 40, seed=0)
    assert tally.kept == tally.actions == len(engine.notes) >= 40
    assert tally.samples == tally.actions - (tally.later_turns - tally.breaks)
    assert 0 < tally.action_text < tally.actions
    assert tally.breaks > 0 if family.strips else tally.breaks == 0
