"""An episode whose prompt leaves no room for an action ends there, and the others go on."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from debate import AGENTS, DISAGREED, OPTIONS, write_debate
from mappa_env.envs.gym_env import make_env
from mappa_rl.config import Model
from mappa_rl.engines.base import Generation, Request
from mappa_rl.errors import ContextError
from mappa_rl.models.chat import ChatTokenizer
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.models.tiny import train_tokenizer
from mappa_rl.rollout.lockstep import LockstepRollout
from mappa_rl.rollout.metrics import rollout_stats
from mappa_rl.rollout.policies import Policies, Policy
from mappa_rl.rollout.sampling import Sampling
from mappa_rl.rollout.types import Collected, Job
from simulated import SimulatedEngine, async_rollout

WORKERS = {
    "lockstep": partial(LockstepRollout, in_flight=2, lockstep_groups=1, workers=2),
    "async": partial(async_rollout, in_flight=2),
}
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
    policies = Policies(PolicyMap.from_spec("shared", AGENTS), [Policy("shared", None, chat, engine)])
    make: Any = partial(make_env, str(write_debate(folder)), **OPTIONS)
    with WORKERS[name](make, policies) as worker:
        return worker.collect([Job(seed, None) for seed in seeds], Sampling(1.0, 64, most, 1.0, {}))


@pytest.mark.parametrize("name", WORKERS)
def test_it_is_masked_with_its_reason_and_the_others_are_as_ever(name: str, tmp_path: Path) -> None:
    free = play(name, tmp_path / "free", [1, 2, 3, 4, 5], 8192).rollouts
    need = max(len(turn.context_ids) for rollout in free for turn in rollout.turns if rollout.seed != 3)
    grown = [len(turn.context_ids) for turn in free[2].turns]
    assert grown[0] < need < max(grown)
    done = play(name, tmp_path / "bounded", [1, 2, 3, 4, 5], need + 64)
    assert [rollout.ended for rollout in done.rollouts] == ["done", "done", "outgrown", "done", "done"]
    for i in (0, 1, 3, 4):
        assert done.rollouts[i] == free[i]
        assert done.reasons[i] == ""
    cut = done.rollouts[2]
    assert 0 < len(cut.turns) == len(done.trajectories[2].actions) < len(free[2].turns)
    assert (cut.success, [turn.valid for turn in cut.turns]) == (False, [False] * len(cut.turns))
    agent = free[2].turns[len(cut.turns)].agent
    assert done.reasons[2].startswith(f"a prompt of {agent} left no room for an action within max_context=")
    stats = rollout_stats(done)
    assert (stats["outgrown"], stats["success"]) == (
        1,
        sum(rollout.success for rollout in done.rollouts) / 5,
    )


@pytest.mark.parametrize("name", WORKERS)
def test_a_first_prompt_that_does_not_fit_ends_the_run(name: str, tmp_path: Path) -> None:
    with pytest.raises(ContextError, match=r"max_context=20\. Raise rollout\.max_context"):
        play(name, tmp_path, [1, 2], 20)
