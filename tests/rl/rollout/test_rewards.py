"""One path for a reward: the learner's turns have the rewards that every other interface delivers."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import mappa_env  # noqa: F401  (registers the environments)
from mappa_env.types import Trajectory
from mappa_rl.coach.bias import CoachBias
from mappa_rl.config import load_config
from mappa_rl.engines.base import Generation, Request
from mappa_rl.rollout.lockstep import LockstepRollout
from mappa_rl.rollout.policies import Policies, Policy, PolicyMap
from mappa_rl.rollout.sampling import Sampling
from mappa_rl.rollout.types import Collected, Job
from mappa_rl.telemetry.progress import Progress
from paths import HELPERS
from simulated import TEAMS, SimulatedChat, SimulatedEngine, async_rollout

ID = "mappa/MathChat-v0"
TASK, ANSWER = "train-arithmetic-02078", "answer: \\boxed{-258}"
TEXTS = ("plan: 6 * 7", "```python\nprint(6 * 7)\n```", "result: 42", ANSWER, "\\boxed{1}", "")
COACH = f"{HELPERS / 'length_coach.py'}:PatchyCoach"
WORKERS = {
    "lockstep": partial(LockstepRollout, in_flight=128, lockstep_groups=2, workers=8),
    "async": async_rollout,
}
JOBS = [Job(seed, TASK) for seed in range(12)]

Rewards = list[tuple[float, bool]]


class Speaking(SimulatedEngine):
    """Answers every request with the number of a text, by the request's seed."""

    def submit(self, request: Request) -> Future[Generation]:
        future: Future[Generation] = Future()
        future.set_result(Generation((request.seed % len(TEXTS), 0), (-0.5, -0.5), "eos", 0))
        return future


class Texts(SimulatedChat):
    def decode(self, ids: Sequence[int]) -> str:
        return TEXTS[ids[0]]


def collect(worker: str, options: dict[str, Any]) -> Collected:
    chat: Any = Texts()
    engine: Any = Speaking()
    policies = Policies(PolicyMap.from_spec("shared", TEAMS[ID]), [Policy("shared", None, chat, engine)])
    with WORKERS[worker](lambda: gym.make(ID, **options), policies) as rollout_worker:
        return rollout_worker.collect(JOBS, Sampling(1.0, 8, 512, 1.0, {}))


def self_play(trajectory: Trajectory, seed: int, options: dict[str, Any]) -> Rewards:
    env = gym.make(ID, **options)
    _, info = env.reset(seed=seed, options={"task_id": TASK})
    for action in trajectory.actions:
        assert "rewards" not in info
        _, _, over, _, info = env.step(action.action)
    env.close()
    assert over
    return list(zip(info["rewards"], info["rewards_valid"], strict=True))


def vector(trajectory: Trajectory, seed: int, mode: AutoresetMode, options: dict[str, Any]) -> Rewards:
    envs = gym.make_vec(ID, num_envs=1, autoreset_mode=mode, **options)
    envs.reset(seed=[seed], options={"task_id": TASK})
    for action in trajectory.actions:
        _, _, over, _, infos = envs.step([action.action])
    envs.close()
    assert over[0]
    closing = infos["final_info"] if mode == AutoresetMode.SAME_STEP else infos
    return list(zip(closing["rewards"][0], closing["rewards_valid"][0], strict=True))


@pytest.mark.parametrize("judging", ["blocking", "deferred"])
@pytest.mark.parametrize("shaping", ["process", "outcome", "mixed", "backward"])
def test_learner_self_play_and_vector_give_the_same_rewards(shaping: str, judging: str) -> None:
    options = {"sandbox": "calculator", "coach": COACH, "shaping": shaping, "judging": judging}
    collected = collect("lockstep", options)
    of_learner = [[(turn.reward, turn.valid) for turn in r.turns] for r in collected.rollouts]
    assert of_learner == [
        [(turn.reward, turn.valid) for turn in r.turns] for r in collect("async", options).rollouts
    ]
    for job, trajectory, rewards in zip(JOBS, collected.trajectories, of_learner, strict=True):
        assert self_play(trajectory, job.seed, options) == rewards
    for mode in AutoresetMode:
        assert vector(collected.trajectories[0], 0, mode, options) == of_learner[0]
    everything = [each for rewards in of_learner for each in rewards]
    assert all(reward == 0 for reward, valid in everything if not valid)
    assert len({reward for reward, valid in everything if valid}) > 1
    if shaping != "outcome":
        assert {valid for _, valid in everything} == {True, False}


@pytest.mark.parametrize("shaping", ["process", "mixed", "backward"])
def test_bias_correction_changes_rewards_but_no_record(shaping: str, tmp_path: Path) -> None:
    options = {"sandbox": "calculator", "coach": COACH, "shaping": shaping}
    config = load_config("demo", ["bias.correct=mean_std", f"env.shaping={shaping}"])
    collected = collect("lockstep", options)
    raw = [
        (list(r.turns), list(t.actions))
        for r, t in zip(collected.rollouts, collected.trajectories, strict=True)
    ]
    with Progress("x") as progress, CoachBias(config, tmp_path, progress) as bias:
        bias.step(1, collected)
        corrected, values = bias.step(2, collected)
    assert raw == [
        (list(r.turns), list(t.actions))
        for r, t in zip(collected.rollouts, collected.trajectories, strict=True)
    ]
    assert corrected.trajectories == collected.trajectories
    assert [r.ended for r in corrected.rollouts] == [r.ended for r in collected.rollouts]
    before, after = (
        [(turn.reward, turn.valid) for r in batch.rollouts for turn in r.turns]
        for batch in (collected, corrected)
    )
    assert [valid for _, valid in before] == [valid for _, valid in after]
    assert before != after
    trained_on = [reward for reward, valid in after if valid]
    logged = [value for name, value in values.items() if name.startswith("corrected/")]
    assert min(logged) <= np.mean(trained_on) <= max(logged)
