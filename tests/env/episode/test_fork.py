"""A fork goes on exactly as the episode would have, and neither touches the other."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pettingzoo
import pytest

from mappa_env import team_env
from mappa_env.coach.rubric.coach import RubricCoach
from mappa_env.episode.episode import Episode
from mappa_env.errors import EpisodeError
from mappa_env.registration import find_card
from mappa_env.scripted import make_team
from mappa_env.trace.record import TraceStore, read
from mappa_env.types import Trajectory
from slow_coach import SlowCoach

MAKERS: dict[str, Callable[..., Any]] = {
    "self-play": lambda **options: gym.make("mappa/MathChat-v0", **options),
    "single agent": lambda **options: gym.make("mappa/MathChat-v0", agent="coder_0", **options),
    "aec": lambda **options: pettingzoo.make("aec", "mappa/MathChat-v0", **options),
    "parallel": lambda **options: pettingzoo.make("parallel", "mappa/MathChat-v0", **options),
}


def facts(trajectory: Trajectory) -> Any:
    """A trajectory without what a clock or the disk measured."""

    def plain(action: Any) -> Any:
        tool = action.tool
        if tool is not None:
            tool = dataclasses.replace(tool, wall_s=0.0, cpu_s=0.0, peak_rss=0, queued_s=0.0, space=None)
        return dataclasses.replace(action, tool=tool)

    return dataclasses.replace(trajectory, actions=tuple(plain(a) for a in trajectory.actions))


def finish(episode: Episode, team: Any) -> Trajectory:
    while episode.agent is not None:
        episode.act(team.act(episode.agent, episode.turn, episode.actions))
    return episode.trajectory


def code(program: str) -> str:
    return f"```python\n{program}\n```"


@pytest.fixture
def made() -> Any:
    """``made(card, **options)``: an episode that has begun; closed in the end."""
    found: list[Episode] = []

    def make(card: str = "dsbench", **options: Any) -> Episode:
        found.append(Episode(find_card(card), **options))
        found[-1].reset(seed=5)
        return found[-1]

    yield make
    for episode in found:
        episode.close()


@pytest.mark.parametrize("kind", ["expert", "faulty"])
def test_a_fork_after_any_action_ends_as_the_episode_does(made: Any, kind: str) -> None:
    episode, team = made("dsbench_sprint"), make_team("dsbench_sprint", kind)
    team.reset(episode.task, 3)
    forks = []
    while episode.agent is not None:
        forks.append(episode.fork())
        episode.act(team.act(episode.agent, episode.turn, episode.actions))
    right = facts(episode.trajectory)
    for fork in forks:
        team.reset(fork.task, 3)
        assert facts(finish(fork, team)) == right
        fork.close()


def test_neither_sees_what_the_other_does(made: Any) -> None:
    episode = made(sandbox="process")  # here code may make links
    episode.act(code("import os; os.makedirs('a/b'); open('a/b/c','w').write('1'); os.symlink('a/b/c', 'l')"))
    fork = episode.fork()
    assert [change.path for change in fork._workspace.history] == ["a", "a/b", "a/b/c", "l"]
    ours = episode.act(code("import os; os.remove('l'); open('a/b/c','w').write('22')"))
    theirs = fork.act(code("print(open('l').read()); open('new','w')"))
    assert (ours.tool.deleted, ours.tool.written) == (("l",), ("a/b/c",))
    assert (theirs.tool.stdout.strip(), theirs.tool.written, theirs.tool.deleted) == ("1", ("new",), ())
    assert len(episode.actions) == len(fork.actions) == len(episode.evidence) == 2
    assert ours.seed == theirs.seed
    assert episode.messages() != fork.messages()
    fork.close()
    assert episode.act(code("print(open('a/b/c').read())")).tool.stdout.strip() == "22"


def test_what_cannot_be_copied_is_nobodys_deletion(made: Any) -> None:
    episode = made(sandbox="process")
    episode.act(code("import os; os.mkfifo('pipe'); open('kept', 'w')"))
    fork = episode.fork()
    assert "kept" in fork._workspace.present
    assert "pipe" not in fork._workspace.present
    assert fork.act(code("print(1)")).tool.files == ()
    fork.close()


def test_sandbox_and_coach_close_with_the_last(made: Any) -> None:
    episode = made("mathchat")
    fork = episode.fork()
    again = fork.fork()
    episode.close()
    episode.close()
    with pytest.raises(EpisodeError, match=r"closed episode has no fork"):
        episode.fork()
    fork.close()
    again.act("plan: 1 + 1")
    assert again.act(code("print(2)")).tool.stdout == "2\n"
    assert again._held._holders == 1
    again.close()


def test_verdicts_that_are_pending_arrive_in_both(made: Any) -> None:
    episode = made("mathchat", judging="deferred")
    episode._coach = SlowCoach(0.1)
    episode.act("plan: 1 + 1")
    fork = episode.fork()
    team = make_team("mathchat", "expert")
    team.reset(fork.task, 3)
    ended = finish(fork, team)
    assert facts(finish(episode, team)) == facts(ended)
    assert all(action.reward_valid for action in ended.actions)
    assert isinstance(fork.coach, RubricCoach)
    fork.close()


@pytest.mark.parametrize("card", ["mathchat", "dsbench_sprint"])
def test_a_recorded_episode_replays(made: Any, card: str, tmp_path: Any) -> None:
    episode, team = made(card), make_team(card, "faulty")
    team.reset(episode.task, 3)
    store = TraceStore(tmp_path / "trace.jsonl")
    store.append(finish(episode, team))
    store.close()
    (recorded,) = read(tmp_path / "trace.jsonl")
    again = made(card)
    again.replay(recorded)
    assert facts(again.trajectory) == facts(episode.trajectory)
    again.replay(recorded, steps=1)
    assert facts(again.trajectory).actions == facts(episode.trajectory).actions[:1]


def test_an_episode_of_another_card_or_team_is_not_replayed(made: Any) -> None:
    episode = made("mathchat")
    episode.act("plan: 1 + 1")
    with pytest.raises(EpisodeError, match=r"episode of MathChat-v0 cannot be replayed on DSBenchSprint-v0"):
        made("dsbench_sprint").replay(episode.trajectory)
    swapped = (dataclasses.replace(episode.actions[0], agent="coder_0"),)
    with pytest.raises(EpisodeError, match=r"step 0 of the recorded episode is coder_0's, but now solver_0"):
        episode.replay(dataclasses.replace(episode.trajectory, actions=swapped))


@pytest.mark.parametrize("maker", MAKERS)
def test_a_deep_copy_of_an_environment_is_a_fork(maker: str, tmp_path: Any) -> None:
    env = MAKERS[maker](sandbox="calculator", record=str(tmp_path / "trace.jsonl"))
    env.reset(seed=3)
    twin = copy.deepcopy(env)
    first, second = team_env(env), team_env(twin)
    assert first is not second
    assert first.episode.messages() == second.episode.messages()
    assert first.card is second.card

    def say(to: Any, text: str) -> None:
        agent = team_env(to).episode.agent
        to.step({agent: text} if maker == "parallel" else text)
        assert team_env(to).episode.actions[-1].agent or agent

    for step in range(20):
        if first.episode.over:
            break
        say(env, f"plan: {step}")
        say(twin, f"plan: {step}")
    assert facts(first.trajectory) == facts(second.trajectory)
    assert first.episode.over
    env.close()
    twin.reset(seed=4)
    say(twin, "plan: 7")
    assert second.episode.actions[0].action == "plan: 7" or maker == "single agent"
    twin.close()
    ends = [line for line in (tmp_path / "trace.jsonl").read_text().splitlines() if '"outcome"' in line]
    assert len(ends) == 1  # a fork records nothing
