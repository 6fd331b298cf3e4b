"""What is kept of a call: in traces old and new, in the coach's questions, on the screen, in gym's infos."""

from __future__ import annotations

import json
from pathlib import Path

import gymnasium as gym
import pytest

from mappa_env import register_card, team_env
from mappa_env.coach.llm.prompt import Prompts
from mappa_env.plugins import TRUST
from mappa_env.registration import find_card
from mappa_env.testing.conformance import comparable
from mappa_env.trace import TraceStore, read
from mappa_env.types import Trajectory

SEARCH = "```search\nOstrel river\n```\n<tool_call>"
ACTIONS = (SEARCH, "found: the Sarn", r"\boxed{the Sarn}")


def play(**options: object) -> Trajectory:
    env = gym.make("mappa/Almanac-v0", sandbox="null", **options)
    env.reset(seed=1, options={"task_id": "ostrel/river"})
    for action in ACTIONS:
        _, _, _, _, info = env.step(action)
        assert info["tool/status"] == ("ok" if action == SEARCH else "")
    trajectory: Trajectory = team_env(env).trajectory
    env.close()
    return trajectory


def test_a_trace_keeps_calls_and_an_old_one_still_opens(tmp_path: Path) -> None:
    trajectory, path = play(), tmp_path / "trace.jsonl"
    store = TraceStore(path)
    store.append(trajectory)
    store.close()
    (back,) = read(path)
    assert back.actions == trajectory.actions
    (call,) = back.actions[0].calls
    assert "towns/ostrel.md" in call.facts["documents"]
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        if "action" in row:
            del row["action"]["calls"]
    path.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
    (old,) = read(path)
    assert [action.calls for action in old.actions] == [(), (), ()]


def test_an_episode_replays_and_asks_its_tools_again() -> None:
    trajectory = play()
    env = gym.make("mappa/Almanac-v0", sandbox="null")
    episode = team_env(env).episode
    episode.replay(trajectory)
    assert comparable(episode.trajectory) == comparable(trajectory)
    env.close()


def test_a_coach_is_asked_about_calls_without_their_times() -> None:
    card = find_card("almanac")
    prompts, seen = Prompts(card), []
    for _ in range(2):
        env = gym.make("mappa/Almanac-v0", sandbox="null")
        env.reset(seed=1, options={"task_id": "ostrel/river"})
        env.step(SEARCH)
        (evidence,) = team_env(env).episode.evidence
        seen.append(prompts.write(evidence, "n", labels=True))
        env.close()
    assert seen[0] == seen[1]
    text = "\n".join(seen[0].parts)
    assert '"result_attested_by": "host"' in text
    assert "<<<n result of tool call 1 (what the host itself found)\n[1] " in text
    assert "Ostrel climbs both banks" in seen[0].quotable


def test_calls_are_rendered(capsys: pytest.CaptureFixture[str]) -> None:
    env = gym.make("mappa/Almanac-v0", sandbox="null", render_mode="ansi")
    env.reset(seed=1, options={"task_id": "ostrel/river"})
    env.step(SEARCH)
    shown = str(env.render())
    assert "-- called search\n   ok, 0." in shown
    assert '{"query": "Ostrel river"}' in shown
    env.close()


def test_two_steps_of_a_vector_keep_their_own_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRUST, "")
    assert register_card(find_card("almanac").folder) == "mappa/Almanac-v0"
    envs = gym.make_vec("mappa/Almanac-v0", num_envs=2, sandbox="null")
    envs.reset(seed=0)
    _, _, _, _, infos = envs.step([SEARCH, "found: nothing"])
    assert list(infos["tool/status"]) == ["ok", ""]
    envs.close()
