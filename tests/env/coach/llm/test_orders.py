"""A model judges a debate: whom it can blame, and which action each of its verdicts reaches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from debate import DISAGREED, TURNS, write_debate, write_judges
from fake_llm import FakeServer
from llm_coach import QUICK, address, name_of
from mappa_env.cards import read_card
from mappa_env.episode.episode import Episode


def test_a_model_judges_a_debate(fake: FakeServer, tmp_path: Path) -> None:
    card = read_card(write_judges(write_debate(tmp_path)))
    coach: dict[str, Any] = {"name": name_of(fake), **address(fake), **QUICK}
    fake.grade = lambda call, name: 4 if '"agent": "judge_0"' in call.text.partition('"earlier')[0] else 2
    episode = Episode(card, coach=coach, judging="deferred", sandbox="calculator")
    episode.reset(seed=1)
    for text in DISAGREED:
        episode.act(text)
    rewards, actions = episode.rewards, episode.actions
    episode.close()
    assert [action.agent for action in actions] == [agent for agent, _ in TURNS]
    assert rewards == [(10.0 if agent == "judge_0" else 5.0, True) for agent, _ in TURNS]
    offered = {}
    for call in fake.calls:
        assert call.schema is not None
        facts = json.loads(call.text.partition("FACTS (observed by the host)\n")[2].partition("\n<<<")[0])
        enum = call.schema["properties"]["blame"]["enum"]
        offered[len(facts["earlier_actions"])] = (facts["agent"], facts["segment"], enum)
    assert offered[0] == ("pro_0", 1, ["pro_0", "nobody"])
    assert offered[1] == ("con_0", 1, ["con_0", "nobody"]), "it acts in parallel with pro_0"
    assert offered[3] == ("con_0", 2, ["pro_0", "con_0", "nobody"])
    assert offered[9] == ("judge_0", 1, ["pro_0", "con_0", "coder_0", "judge_0", "nobody"])
