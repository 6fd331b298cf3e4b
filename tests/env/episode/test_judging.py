"""Deferred judging gives the same verdicts and rewards as blocking, at the end of the episode."""

from __future__ import annotations

import threading
from typing import Any

import gymnasium as gym
import pettingzoo
import pytest

from mappa_env import team_env
from mappa_env.episode.episode import Episode
from mappa_env.errors import CoachStopped, OptionError
from mappa_env.scripted import ScriptedTeam, make_team
from mappa_env.types import Evidence, Trajectory, Verdict
from slow_coach import SlowCoach


def with_coach(env: Any, coach: Any) -> Any:
    team_env(env).episode._coach = coach
    return env


def play(env: Any, seed: int, team: ScriptedTeam) -> tuple[list[tuple[float, dict[str, Any]]], Trajectory]:
    env.reset(seed=seed)
    episode: Episode = team_env(env).episode
    team.reset(episode.task, 3)
    steps = []
    while episode.agent is not None:
        _, reward, _, _, info = env.step(team.act(episode.agent, episode.turn, episode.actions))
        steps.append((reward, info))
    return steps, team_env(env).trajectory


@pytest.mark.parametrize("shaping", ["process", "outcome", "mixed"])
def test_the_episode_ends_as_if_judged_at_once(shaping: str) -> None:
    options = {"sandbox": "calculator", "shaping": shaping}
    blocking = gym.make("mappa/MathChat-v0", **options)
    deferred = with_coach(gym.make("mappa/MathChat-v0", judging="deferred", **options), SlowCoach(0.05))
    for seed in range(3):
        _, right = play(blocking, seed, make_team("mathchat", "faulty"))
        steps, found = play(deferred, seed, make_team("mathchat", "faulty"))
        assert [info["coach/status"] for _, info in steps] == ["pending"] * (len(steps) - 1) + ["ok"]
        assert [valid["reward_valid"] for _, valid in steps[:-1]] == [False] * (len(steps) - 1)
        assert [a.verdict for a in found.actions] == [a.verdict for a in right.actions]
        assert [(a.reward, a.reward_valid) for a in found.actions] == [
            (a.reward, a.reward_valid) for a in right.actions
        ]
        assert team_env(deferred).episode.rewards == team_env(blocking).episode.rewards


def test_nobody_waits_before_the_end() -> None:
    coach = SlowCoach()
    env = with_coach(gym.make("mappa/MathChat-v0", judging="deferred", sandbox="calculator"), coach)
    team = make_team("mathchat", "expert")
    env.reset(seed=1)
    episode = team_env(env).episode
    team.reset(episode.task, 3)
    while episode.agent != "verifier_0":
        env.step(team.act(episode.agent, episode.turn, episode.actions))
    assert {action.verdict.status for action in episode.actions} == {"pending"}
    assert coach.waits == coach.asked == len(episode.actions)
    threading.Timer(0.2, coach.gate.set).start()
    _, reward, over, _, info = env.step(team.act("verifier_0", 0, episode.actions))
    assert over
    assert (reward, info["coach/status"]) == (10.0, "ok")
    assert {action.verdict.status for action in episode.actions} == {"ok"}


@pytest.mark.parametrize("agent", ["solver_0", "coder_0", "verifier_0"])
def test_a_single_agent_gets_every_reward_by_the_end(agent: str) -> None:
    def total(judging: str) -> tuple[float, str, bool]:
        env = gym.make("mappa/MathChat-v0", agent=agent, judging=judging, sandbox="calculator")
        if judging == "deferred":
            with_coach(env, SlowCoach(0.01))
        env.reset(seed=5)
        episode = team_env(env).episode
        team, total_reward, info = make_team("mathchat", "expert"), 0.0, {}
        team.reset(episode.task, 3)
        while episode.agent is not None:
            _, reward, _, _, info = env.step(team.act(agent, episode.turn, episode.actions))
            total_reward += float(reward)
        return total_reward, info["coach/status"], info["reward_valid"]

    assert total("deferred") == total("blocking")


def test_every_agent_has_its_full_reward_at_the_end() -> None:
    def totals(judging: str) -> dict[str, float]:
        env: Any = pettingzoo.make("aec", "mappa/MathChat-v0", judging=judging, sandbox="calculator")
        episode = team_env(env).episode
        if judging == "deferred":
            episode._coach = SlowCoach(0.01)
        env.reset(seed=5)
        team, rewards = make_team("mathchat", "faulty"), dict.fromkeys(env.agents, 0.0)
        team.reset(episode.task, 3)
        while episode.agent is not None:
            env.step(team.act(episode.agent, episode.turn, episode.actions))
            for agent, reward in env.rewards.items():
                rewards[agent] += reward
        return rewards

    assert totals("deferred") == pytest.approx(totals("blocking"))


def test_an_episode_that_is_left_forgets_its_verdicts() -> None:
    coach = SlowCoach()
    env = with_coach(gym.make("mappa/MathChat-v0", judging="deferred", sandbox="calculator"), coach)
    env.reset(seed=1)
    env.step("plan: 1 + 1")
    env.reset(seed=2)
    coach.gate.set()
    assert team_env(env).trajectory.actions == ()


def test_a_coach_that_stops_ends_the_run() -> None:
    class Stopping(SlowCoach):
        def _slowly(self, evidence: Evidence) -> Verdict:
            raise CoachStopped("the budget is spent")

    env = with_coach(gym.make("mappa/MathChat-v0", judging="deferred", sandbox="calculator"), Stopping())
    with pytest.raises(CoachStopped, match="budget"):
        play(env, 0, make_team("mathchat", "expert"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"judging": "defered"}, "blocking"),
        ({"judging": "deferred", "coach_feedback": "agents"}, "cannot be combined"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        gym.make("mappa/MathChat-v0", **options)
