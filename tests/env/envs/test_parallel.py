"""The parallel environment: who acts together, what each sees and gets, and what is refused."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pettingzoo
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from debate import AGAIN, CARD, OPTIONS, PROMPT, write_debate
from mappa_env import team_env
from mappa_env.cards import read_card
from mappa_env.envs.aec import env as aec_env
from mappa_env.envs.gym_env import make_env
from mappa_env.envs.parallel import ParallelTeamEnv
from mappa_env.envs.spaces import TurnText, Unicode
from mappa_env.errors import EpisodeError, OptionError, UnknownTaskError
from mappa_env.order import Order
from mappa_env.order.steps import Act, Parallel
from mappa_env.testing.conformance import comparable
from mappa_env.testing.parallel import compare_parallel
from mappa_env.types import Trajectory
from orders import SAYINGS, TEAM, steps
from paths import ROOT

COACH = f"{ROOT}/tests/helpers/length_coach.py:PatchyCoach"
TEXTS = (*SAYINGS, "```python\nprint(1)\n```", "answer: 42", "I agree with that.")


def write_card(folder: Path, rows: list[Any]) -> str:
    """A card of ``TEAM`` with the order ``rows``."""
    team = [
        {"name": spec.name, "title": spec.title, "max_turns": spec.max_turns, "tools": list(spec.tools)}
        for spec in TEAM
    ]
    prompts = folder / "prompts" / "full"
    prompts.mkdir(parents=True)
    for spec in TEAM:
        (prompts / f"{spec.role}.jinja").write_text(PROMPT)
    (prompts / "tool.jinja").write_text("{{ tool.status }}: {{ feedback }}")
    (prompts / "again.jinja").write_text(AGAIN)
    (folder / "card.yaml").write_text(yaml.safe_dump(CARD | {"team": team, "order": rows}))
    return str(folder)


def self_play(card: str, texts: list[str], options: dict[str, Any]) -> Trajectory:
    with contextlib.closing(make_env(card, **options)) as env:
        env.reset(seed=1)
        over, said = False, itertools.cycle(texts)
        while not over:
            _, _, over, _, _ = env.step(next(said))
        return team_env(env).trajectory


def aec(card: str, reference: Trajectory, options: dict[str, Any]) -> tuple[Trajectory, dict[str, float]]:
    with contextlib.closing(aec_env(card, **options)) as env:
        env.reset(seed=1)
        delivered, texts = defaultdict(float), [action.action for action in reference.actions]
        for agent in env.agent_iter():
            _, reward, over, _, _ = env.last()
            delivered[agent] += reward
            env.step(None if over else texts.pop(0))
        return team_env(env).trajectory, delivered


def check_prompts_extend(trajectory: Trajectory) -> None:
    last: dict[str, list[Any]] = {}
    for action in trajectory.actions:
        before, messages = last.get(action.agent), list(action.messages)
        if before is not None:
            assert messages[:-1] == before
            assert messages[-1]["role"] == "user"
        last[action.agent] = [*messages, {"role": "assistant", "content": action.action}]


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    rows=st.lists(steps, min_size=1, max_size=3),
    texts=st.lists(st.sampled_from(TEXTS), min_size=3, max_size=12),
    shaping=st.sampled_from(["process", "mixed"]),
    judging=st.sampled_from(["blocking", "deferred"]),
    stop=st.integers(1, 6),
)
def test_any_order_is_the_same_episode_in_every_interface(
    rows: list[Any], texts: list[str], shaping: str, judging: str, stop: int
) -> None:
    options = {"coach": COACH, "shaping": shaping, "judging": judging, "sandbox": "null"}
    with tempfile.TemporaryDirectory() as folder:
        card = write_card(Path(folder), [*rows, {"parallel": ["pro_0", "con_0", "judge_0"]}, *TEAM.names])
        reference = self_play(card, texts, options)
        check_prompts_extend(reference)
        with contextlib.closing(ParallelTeamEnv(card, **options)) as env:
            compare_parallel(env, reference, 1)
            check_a_truncated_episode(env, reference, stop)
        other, delivered = aec(card, reference, options)
    assert comparable(other) == comparable(reference)
    for name in TEAM.names:
        assert delivered[name] == sum(
            a.reward for a in reference.actions if a.agent == name and a.reward_valid
        )


def check_a_truncated_episode(env: ParallelTeamEnv, reference: Trajectory, stop: int) -> None:
    """After ``stop`` steps, every text given has been executed, and its reward delivered if it is known."""
    given, delivered = 0, 0.0
    _, infos = env.reset(seed=1)
    by_agent: dict[str, list[str]] = defaultdict(list)
    for action in reference.actions:
        by_agent[action.agent].append(action.action)
    for _ in range(stop):
        texts = {name: by_agent[name].pop(0) for name, info in infos.items() if info["active"]}
        _, rewards, over, _, infos = env.step(texts)
        given, delivered = given + len(texts), delivered + sum(rewards.values())
        if any(over.values()):
            break
    actions = env.team_env.trajectory.actions
    assert [a.action for a in actions] == [a.action for a in reference.actions[:given]]
    assert delivered == pytest.approx(sum(a.reward for a in actions if a.reward_valid))


@pytest.fixture
def env(tmp_path: Path) -> Iterator[ParallelTeamEnv]:
    made = ParallelTeamEnv(str(write_debate(tmp_path)), coach=COACH, sandbox="null")
    yield made
    made.close()


def active(infos: dict[str, dict[str, Any]]) -> list[str]:
    return [name for name, info in infos.items() if info["active"]]


def test_who_acts_together_and_who_waits(env: ParallelTeamEnv) -> None:
    observations, infos = env.reset(seed=1)
    assert active(infos) == ["pro_0", "con_0"]
    assert [bool(observations[name]["prompt"]) for name in env.agents] == [True, True, False, False]
    observations, _, over, truncated, infos = env.step({"pro_0": "1", "con_0": "2", "judge_0": None})
    assert active(infos) == ["pro_0", "con_0"]
    assert "con_0 said 2." in observations["pro_0"]["prompt"]
    assert "pro_0 said 1." in observations["con_0"]["prompt"]
    assert [observations[name]["turn"] for name in env.agents] == [1, 1, 0, 0]
    assert not any([*over.values(), *truncated.values()])
    for agents in (["pro_0", "con_0"], ["coder_0"], ["coder_0"], ["pro_0"], ["judge_0"]):
        assert active(infos) == agents
        _, _, over, _, infos = env.step({name: f"```python\n{name!r}\n```" for name in agents})
        if agents == ["pro_0", "con_0"]:
            assert active(infos) == ["pro_0", "con_0"]  # the third round
            _, _, over, _, infos = env.step({"pro_0": "1", "con_0": "2"})
    assert over == dict.fromkeys(env.possible_agents, True)
    assert env.agents == []
    assert active(infos) == []


def test_texts_wait_for_a_segment_before_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No card can have such an order yet: agents with tools are refused in parallel steps."""
    card = read_card(write_debate(tmp_path))
    order = Order(card.team, (Parallel(("pro_0", "coder_0", "con_0")), Act("judge_0")))
    monkeypatch.setattr("mappa_env.envs.team_env.find_card", lambda _: dataclasses.replace(card, order=order))
    env = ParallelTeamEnv("", coach=COACH, sandbox="null")
    _, infos = env.reset(seed=1)
    assert active(infos) == ["pro_0", "con_0", "coder_0"]
    observations, rewards, _, _, infos = env.step(
        {"pro_0": "1", "coder_0": "```python\nprint(22)\n```", "con_0": "333"}
    )
    assert active(infos) == ["coder_0"]
    assert observations["coder_0"]["turn"] == 1
    assert observations["con_0"]["prompt"] == ""
    assert (rewards["pro_0"], rewards["con_0"], infos["con_0"]["reward_valid"]) == (1.0, 0.0, False)
    with pytest.raises(EpisodeError, match="con_0 does not act now"):
        env.step({"coder_0": "55555", "con_0": "again"})
    _, rewards, _, _, infos = env.step({"coder_0": "55555"})
    assert active(infos) == ["judge_0"]
    assert (rewards["coder_0"], rewards["con_0"]) == (5.0, 3.0)
    actions = env.team_env.episode.actions
    assert [a.agent for a in actions] == ["pro_0", "coder_0", "coder_0", "con_0"]
    assert "coder_0" not in actions[-1].messages[0]["content"]
    env.close()


def test_rewards_reach_those_who_acted(env: ParallelTeamEnv) -> None:
    env.reset(seed=1)
    _, rewards, _, _, infos = env.step({"pro_0": "12345", "con_0": "1234"})
    assert rewards == {"pro_0": 5.0, "con_0": 0.0, "coder_0": 0.0, "judge_0": 0.0}
    assert [infos[name]["reward_valid"] for name in infos] == [True, False, False, False]
    assert [infos[name]["coach/status"] for name in infos] == ["ok", "abstain", "", ""]
    env.step({"pro_0": "1", "con_0": "2"})
    env.step({"pro_0": "1", "con_0": "2"})
    _, rewards, _, _, infos = env.step({"coder_0": "done it"})
    assert rewards == {"pro_0": 0.0, "con_0": 0.0, "coder_0": 7.0, "judge_0": 0.0}
    assert not infos["pro_0"]["reward_valid"], "an older reward is not delivered again"
    assert infos["pro_0"]["coach/status"] == ""


@pytest.mark.parametrize(
    ("actions", "error", "words"),
    [
        ({}, EpisodeError, "pro_0 acts now, but has no action: this step is pro_0, con_0's"),
        ({"pro_0": "x"}, EpisodeError, "con_0 acts now, but has no action"),
        ({"pro_0": "x", "con_0": None}, EpisodeError, "con_0 acts now, but has no action"),
        ({"pro_0": "x", "con_0": "y", "judge_0": ""}, EpisodeError, "judge_0 does not act now"),
        ({"pro_0": "x", "con_0": "y", "judge": None}, EpisodeError, "Did you mean 'judge_0'"),
        ({"pro_0": "x", "con_0": 7}, TypeError, "the action of con_0 is a str, found int: 7"),
    ],
)
def test_a_wrong_step_is_refused_whole(
    env: ParallelTeamEnv, actions: dict[str, Any], error: type[Exception], words: str
) -> None:
    env.reset(seed=1)
    with pytest.raises(error, match=words):
        env.step(actions)
    assert env.team_env.episode.actions == ()
    env.step({"con_0": "y", "pro_0": "x"})
    assert [a.agent for a in env.team_env.episode.actions] == ["pro_0", "con_0"], "the card's order"


def test_a_step_out_of_an_episode_is_refused(env: ParallelTeamEnv) -> None:
    with pytest.raises(EpisodeError, match=r"call reset\(\) first"):
        env.step({"pro_0": "x", "con_0": "y"})
    env.reset(seed=1)
    env.step({"pro_0": "answer: 5", "con_0": "answer: 5"})
    env.step({"judge_0": "5"})
    with pytest.raises(EpisodeError, match=r"call reset\(\) first"):
        env.step({})


def test_reset_takes_a_seed_and_a_task(env: ParallelTeamEnv) -> None:
    first, infos = env.reset(seed=5)
    second, _ = env.reset()
    again, _ = env.reset(seed=5)
    assert first == again != second
    task = infos["judge_0"]["task_id"]
    assert env.reset(options={"task_id": task})[1]["pro_0"]["task_id"] == task
    with pytest.raises(UnknownTaskError):
        env.reset(options={"task_id": "none"})
    with pytest.raises(OptionError, match="Did you mean 'task_id'"):
        env.reset(options={"task_i": task})


def test_an_action_space_samples_what_may_be_said(env: ParallelTeamEnv) -> None:
    env.reset(seed=1)
    for i, name in enumerate(env.agents):
        env.action_space(name).seed(i)
    drawn = {name: env.action_space(name).sample() for name in env.agents}
    assert [type(action) for action in drawn.values()] == [str, str, type(None), type(None)]
    env.step(drawn)
    space = env.action_space("pro_0")
    assert all(x in space for x in (None, "", "text"))
    assert 7 not in space
    assert space == env.action_space("judge_0") == TurnText()
    assert space not in (Unicode(), None)


def test_the_state_is_what_the_team_has_done(env: ParallelTeamEnv) -> None:
    env.reset(seed=1)
    truth = env.team_env.episode.task.truth["answer"]
    env.step({"pro_0": '"},{"agent": "judge_0', "con_0": "\ud800"})
    state = json.loads(env.state())
    assert state["task"] == env.team_env.episode.task.prompt
    assert [(a["agent"], a["action"]) for a in state["actions"]] == [
        ("pro_0", '"},{"agent": "judge_0'),
        ("con_0", "?"),
    ]
    assert state["next"] == ["pro_0", "con_0"]
    assert env.state() in env.state_space
    assert str(truth) not in env.state() or str(truth) in state["task"]


def test_what_is_rendered_are_the_actions_of_the_step(tmp_path: Path) -> None:
    env = ParallelTeamEnv(str(write_debate(tmp_path)), **OPTIONS, render_mode="ansi")
    env.reset(seed=1)
    assert "pro_0 is next" in str(env.render())
    env.step({"pro_0": "answer: 51", "con_0": "answer: 51"})
    text = str(env.render())
    assert text.index("== step 0 · pro_0") < text.index("answer: 51") < text.index("== step 1 · con_0")
    env.step({"judge_0": r"\boxed{51}"})
    text = str(env.render())
    assert "-- action\n   answer: 51" not in text
    assert text.count("-- outcome") == 1
    env.close()


def test_the_documented_loop_plays_an_episode() -> None:
    page = (ROOT / "docs" / "environments.md").read_text(encoding="utf-8")
    loop = page.partition("**PettingZoo, parallel**")[2].partition("```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {}
    exec(loop.replace('-v0")', "-v0\", sandbox='null')"), names)  # noqa: S102  our own page
    assert names["over"] == dict.fromkeys(["solver_0", "coder_0", "verifier_0"], True)
    names["team"].close()


def test_every_shipped_id_makes_it() -> None:
    made = pettingzoo.make("parallel", "mappa/MathChat-v0", sandbox="null", coach="off")
    assert type(made) is ParallelTeamEnv
    assert str(made) == "MathChat-v0"
    made.close()
