"""A debate with verdicts through the environment: pending rewards, blame, records, what a model is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from debate import DISAGREED, write_debate, write_judges
from mappa_env.cards import read_card
from mappa_env.cli import main
from mappa_env.coach.blame.attribution import attribute
from mappa_env.coach.llm import tracing
from mappa_env.coach.llm.prompt import Prompts
from mappa_env.envs.aec import env as aec_env
from mappa_env.envs.gym_env import make_env
from mappa_env.episode.episode import Episode
from mappa_env.registration import find_card
from mappa_env.trace.record import TraceStore, read

OPTIONS: dict[str, Any] = {"sandbox": "calculator"}
LATE = '''
"""Scores an action by its step; verdicts on later actions come first."""
import time
from concurrent.futures import ThreadPoolExecutor

from mappa_env.coach import BaseCoach
from mappa_env.types import Verdict


class Late(BaseCoach):
    def __init__(self, card):
        super().__init__(card)
        self.pool = ThreadPoolExecutor(16)

    def judge(self, evidence, *, fresh=False):
        return Verdict("ok", evidence.step % 10 + 0.5, blame=evidence.agent.name, coach="late")

    def judge_later(self, evidence):
        return self.pool.submit(self.slowly, evidence)

    def slowly(self, evidence):
        time.sleep(0.01 * max(12 - evidence.step, 0))
        return self.judge(evidence)

    def close(self):
        self.pool.shutdown()
'''


@pytest.fixture
def card(tmp_path: Path) -> Path:
    return write_judges(write_debate(tmp_path))


@pytest.fixture
def late(tmp_path: Path) -> str:
    (tmp_path / "late.py").write_text(LATE)
    return f"{tmp_path / 'late.py'}:Late"


def play(episode: Episode) -> Episode:
    episode.reset(seed=1)
    for text in DISAGREED:
        episode.act(text)
    assert episode.over
    return episode


@pytest.fixture
def played(card: Path) -> Iterator[Episode]:
    episode = Episode(read_card(card), shaping="backward", **OPTIONS)
    yield play(episode)
    episode.close()


@pytest.mark.parametrize("shaping", ["process", "mixed", "outcome", "backward"])
def test_deferred_verdicts_give_the_same_rewards(card: Path, late: str, shaping: str) -> None:
    found = []
    for judging in ("blocking", "deferred"):
        episode = play(Episode(read_card(card), coach=late, judging=judging, shaping=shaping, **OPTIONS))
        scores = [action.verdict.score for action in episode.actions]
        assert scores == [step % 10 + 0.5 for step in range(len(DISAGREED))], "each verdict is on its action"
        found.append((episode.rewards, episode.trajectory.attribution))
        episode.close()
    assert found[0] == found[1]
    assert all(valid for _, valid in found[0][0])


def test_rewards_are_pending_until_the_closing_action(card: Path, late: str) -> None:
    env = make_env(str(card), coach=late, judging="deferred", **OPTIONS)
    env.reset(seed=1)
    for text in DISAGREED[:-1]:
        _, reward, over, _, info = env.step(text)
        assert (reward, info["reward_valid"], over) == (0.0, False, False)
    _, _, over, _, info = env.step(DISAGREED[-1])
    env.close()
    assert over
    assert info["rewards"] == [step % 10 + 0.5 for step in range(len(DISAGREED))]


def test_immediate_rewards_go_to_whoever_acted(card: Path, late: str) -> None:
    env = make_env(str(card), coach=late, **OPTIONS)
    _, info = env.reset(seed=1)
    for step, text in enumerate(DISAGREED):
        agent = info["agent"]
        _, reward, _, _, info = env.step(text)
        assert (reward, info["acted"]) == (step % 10 + 0.5, agent)
    env.close()


@pytest.mark.parametrize("judging", ["blocking", "deferred"])
def test_pettingzoo_pays_a_returning_agent_for_each_action(card: Path, late: str, judging: str) -> None:
    made = aec_env(str(card), coach=late, judging=judging, **OPTIONS)
    made.reset(seed=1)
    texts, total, expected = list(DISAGREED), dict.fromkeys(made.possible_agents, 0.0), {}
    for agent in made.agent_iter():
        _, reward, terminated, _, _ = made.last()
        total[agent] += reward
        if not terminated:
            step = len(DISAGREED) - len(texts)
            expected[agent] = expected.get(agent, 0.0) + step % 10 + 0.5
        made.step(None if terminated else texts.pop(0))
    made.close()
    assert total == expected


def test_every_action_has_a_verdict_of_the_rubric(played: Episode) -> None:
    assert [action.verdict.status for action in played.actions] == ["ok"] * len(DISAGREED)
    found = played.trajectory.attribution
    assert found is not None
    assert sum(found.fractions) == pytest.approx(1)
    assert found.decided == "verdicts", "nobody planned what the coder had to print"
    assert [link.action for link in found.walk] == [9, 6]


def test_the_grade_so_far_is_known_for_every_action(played: Episode) -> None:
    assert all(evidence.provisional_outcome is not None for evidence in played.evidence)
    assert [evidence.outcome is not None for evidence in played.evidence] == [False] * 9 + [True]


def test_the_record_is_enough_to_trace_it(played: Episode, card: Path, tmp_path: Path, capsys: Any) -> None:
    store = TraceStore(tmp_path / "t.jsonl")
    store.append(played.trajectory)
    store.close()
    (again,) = read(tmp_path / "t.jsonl")
    assert attribute(again, played.card) == attribute(played.trajectory, played.card)
    assert main(["why", str(tmp_path / "t.jsonl"), "--card", str(card)]) == 0
    printed = capsys.readouterr().out
    assert "<- judge_0, turn 0 (action 9)" in printed
    assert "<- coder_0, turn 0 (action 6)" in printed


def test_a_replayed_episode_is_judged_alike(played: Episode, card: Path) -> None:
    again = Episode(read_card(card), shaping="backward", **OPTIONS)
    again.replay(played.trajectory)
    assert [action.verdict for action in again.actions] == [action.verdict for action in played.actions]
    assert again.rewards == played.rewards
    again.close()


def facts_of(prompt: Any) -> dict[str, Any]:
    text = next(part for part in prompt.parts if part.startswith("FACTS"))
    found: dict[str, Any] = json.loads(text.partition("\n")[2])
    return found


def test_a_model_is_told_the_order_as_it_is(played: Episode) -> None:
    prompts = Prompts(played.card)
    at = [prompts.write(evidence, "", labels=True) for evidence in played.evidence]
    assert at[0].system.endswith(
        "1. 3 times, or until the newest answers of pro_0 and con_0 are the same:\n"
        "1.1. pro_0 and con_0 act in parallel: none sees what the others do in this step.\n"
        "2. If the newest answers of pro_0 and con_0 are the same:\n"
        "2.1. judge_0 acts.\n"
        "2. Otherwise:\n"
        "2.1. coder_0 acts.\n"
        "2.2. pro_0 acts.\n"
        "2.3. judge_0 acts."
    )
    second = facts_of(at[3])
    assert (second["agent"], second["segment"], second["turn"]) == ("con_0", 2, 1)
    rows = [(row["agent"], row["segment"], row["seen_by_this_agent"]) for row in second["earlier_actions"]]
    assert rows == [("pro_0", 1, True), ("con_0", 1, True), ("pro_0", 2, False)]
    coder = facts_of(at[7])
    assert (coder["segment"], coder["turn"], coder["turns_allowed"]) == (1, 2, 2)


def test_a_chain_is_told_as_before() -> None:
    card = find_card("mathchat")
    assert card.order.is_chain
    episode = Episode(card, coach="off", sandbox="calculator")
    episode.reset(seed=0)
    episode.act("plan: 1")
    prompt = Prompts(card).write(episode.evidence[0], "", labels=True)
    episode.close()
    assert "Who acts when" not in prompt.system
    assert list(facts_of(prompt))[:3] == ["agent", "turn", "turns_allowed"]


def test_the_last_question_names_what_was_not_seen(played: Episode) -> None:
    traced = attribute(played.trajectory, played.card)
    prompt = tracing.write(played.trajectory, traced, played.card.order, "")
    facts = facts_of(prompt)
    assert facts["who_acts_when"][-1] == "2.3. judge_0 acts."
    hidden = {row["action"]: row.get("could_not_see_actions") for row in facts["actions"]}
    assert (hidden[0], hidden[1], hidden[3], hidden[9]) == (None, [0], [2], None)
