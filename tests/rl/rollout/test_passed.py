"""An agent whose prompt leaves no room for an action passes, and the episode goes on."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from debate import AGENTS, DISAGREED, OPTIONS, write_debate
from mappa_env.envs.gym_env import make_env
from mappa_env.evaluation.contents import Contents
from mappa_env.evaluation.plan import Job as Planned
from mappa_rl.config import Model
from mappa_rl.engines.base import Generation, Request
from mappa_rl.errors import ContextError, RunError
from mappa_rl.evaluation.benchmark import Benchmark
from mappa_rl.learner.samples import training_samples
from mappa_rl.models.chat import ChatTokenizer
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.models.tiny import train_tokenizer
from mappa_rl.rollout.lockstep import LockstepRollout
from mappa_rl.rollout.metrics import check_masked, passed_turns, rollout_stats
from mappa_rl.rollout.policies import Policies, Policy
from mappa_rl.rollout.records import Recorded, read_step, write_step
from mappa_rl.rollout.sampling import Sampling
from mappa_rl.rollout.types import Collected, Job
from simulated import SimulatedEngine, async_rollout

WORKERS = {
    "lockstep": partial(LockstepRollout, in_flight=2, lockstep_groups=1, workers=2),
    "async": partial(async_rollout, in_flight=2),
}
MAP = PolicyMap.from_spec("shared", AGENTS)
SEEDS = [1, 2, 3, 4, 5]
TALKATIVE = "3"
"""The seed of the episode that says more than there is room for."""


class Talking(SimulatedEngine):
    """Answers as nobody agrees; in one episode each answer has many words."""

    def __init__(self, chat: ChatTokenizer) -> None:
        super().__init__()
        self.chat, self.turns = chat, dict[str, int]()

    def generate(self, requests: Sequence[Request]) -> list[Generation]:
        return [self.submit(request).result() for request in requests]

    def submit(self, request: Request) -> Future[Generation]:
        turn = self.turns[request.episode] = self.turns.get(request.episode, -1) + 1
        text = DISAGREED[turn % len(DISAGREED)]
        ids = self.chat.reply("so " * 120 + text if request.episode == TALKATIVE else text)
        future: Future[Generation] = Future()
        future.set_result(Generation(tuple(ids), (-0.5,) * len(ids), "eos", 0))
        return future


def play(name: str, folder: Path, seeds: Sequence[int], most: int) -> Collected:
    chat = ChatTokenizer(train_tokenizer([*DISAGREED, "answer: 42"] * 10, Model(vocab_size=300)))
    engine: Any = Talking(chat)
    model: Any = None
    policies = Policies(MAP, [Policy("shared", model, chat, engine)])
    make: Any = partial(make_env, str(write_debate(folder)), **OPTIONS)
    with WORKERS[name](make, policies) as worker:
        done: Collected = worker.collect(
            [Job(seed, None) for seed in seeds], Sampling(1.0, 64, most, 1.0, {})
        )
    return done


@pytest.mark.parametrize("name", WORKERS)
def test_the_episode_goes_on_and_is_graded_and_the_others_are_as_ever(name: str, tmp_path: Path) -> None:
    free = play(name, tmp_path / "free", SEEDS, 8192).rollouts
    need = max(len(turn.context_ids) for rollout in free for turn in rollout.turns if rollout.seed != 3)
    grown = [len(turn.context_ids) for turn in free[2].turns]
    assert grown[0] < need < max(grown)
    done = play(name, tmp_path / "bounded", SEEDS, need + 64)
    assert [rollout.ended for rollout in done.rollouts] == ["done"] * 5
    for i in (0, 1, 3, 4):
        assert done.rollouts[i] == free[i]
    played, trajectory = done.rollouts[2], done.trajectories[2]
    assert trajectory.outcome is not None
    assert len(played.turns) == len(trajectory.actions) == len(free[2].turns)
    passed = [turn for turn in played.turns if turn.passed]
    assert 0 < len(passed) < len(played.turns)
    for turn, action in zip(played.turns, trajectory.actions, strict=True):
        assert turn.passed == (action.action == "") == (len(turn.context_ids) >= need + 64)
        assert turn.valid == (not turn.passed)
        assert len(turn.action_ids) == len(turn.logprobs)
        assert bool(turn.action_ids) == (not turn.passed)
    samples = training_samples(MAP, done.rollouts)["shared"]
    held = sorted(span.step for sample in samples if sample.episode == 2 for span in sample.spans)
    assert held == [turn.step for turn in played.turns if not turn.passed]
    assert max(len(sample) for sample in samples) <= need + 64
    stats = rollout_stats(done)
    count = sum(len(rollout.turns) for rollout in done.rollouts)
    assert stats["no_room"] == stats["masked"] == len(passed) / count
    said = passed_turns(done.rollouts)
    assert said.startswith(f"{len(passed)} of {count} actions are empty: the prompt left no room within ")
    assert passed_turns(free) == ""


def test_a_step_without_room_for_most_actions_is_refused_with_the_cause(tmp_path: Path) -> None:
    done = play("lockstep", tmp_path, [3], 200)
    assert sum(turn.passed for turn in done.rollouts[0].turns) > 1
    with pytest.raises(
        RunError, match=r"no valid reward.*the prompt left no room within rollout\.max_context"
    ):
        check_masked(done, 0.1, 1)


def test_a_benchmark_counts_it_as_a_flaw_and_has_the_outcome(tmp_path: Path) -> None:
    done = play("lockstep", tmp_path, [3], 200)
    count = sum(turn.passed for turn in done.rollouts[0].turns)
    worker: Any = SimpleNamespace(collect=lambda *_, **__: done)
    plan: Any = SimpleNamespace(seed=0)
    unused: Any = None
    benchmark = Benchmark(plan, unused, unused, unused, 1, "step 1", unused)
    job = Planned("mappa/Debate-v0", done.trajectories[0].task.id, 0)
    (played,) = benchmark._played(worker, [job], Contents([]))
    assert played.flaws == {"too_long": count}
    assert (played.success, played.score) == (done.rollouts[0].success, done.rollouts[0].score)
    assert played.metrics == done.rollouts[0].metrics


@pytest.mark.parametrize("name", WORKERS)
def test_recorded_rollouts_keep_passed_turns(name: str, tmp_path: Path) -> None:
    done = play(name, tmp_path / "card", [3], 200)
    path = write_step(tmp_path, Recorded(1, list(done.rollouts)))
    assert read_step(path).rollouts == list(done.rollouts)


@pytest.mark.parametrize("name", WORKERS)
def test_a_first_prompt_that_does_not_fit_ends_the_run(name: str, tmp_path: Path) -> None:
    with pytest.raises(ContextError, match=r"max_context=20\. Raise rollout\.max_context"):
        play(name, tmp_path, [1, 2], 20)
