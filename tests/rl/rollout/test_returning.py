"""An agent that acts again: its turns become one sequence, whoever acted between them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from debate import AGENTS, DISAGREED, OPTIONS, TURNS, write_debate
from mappa_env.envs.gym_env import make_env
from mappa_rl.algos.returns import Returns
from mappa_rl.config import Model
from mappa_rl.engines.base import Generation, Request
from mappa_rl.learner.samples import training_samples
from mappa_rl.models.chat import ChatTokenizer
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.models.tiny import train_tokenizer
from mappa_rl.rollout.lockstep import LockstepRollout
from mappa_rl.rollout.policies import Policies, Policy
from mappa_rl.rollout.sampling import Sampling
from mappa_rl.rollout.types import Job
from mappa_rl.types import Rollout
from simulated import SimulatedEngine, async_rollout

WORKERS = {
    "lockstep": partial(LockstepRollout, in_flight=1, lockstep_groups=1, workers=1),
    "async": async_rollout,
}


class Disagreeing(SimulatedEngine):
    """Answers with the texts of an episode in which nobody agrees, one after the other."""

    def __init__(self, chat: ChatTokenizer) -> None:
        super().__init__()
        self.texts = [chat.reply(text) for text in DISAGREED]

    def generate(self, requests: Sequence[Request]) -> list[Generation]:
        return [self.submit(request).result() for request in requests]

    def submit(self, request: Request) -> Future[Generation]:
        ids = self.texts.pop(0)
        future: Future[Generation] = Future()
        future.set_result(Generation(tuple(ids), (-0.5,) * len(ids), "eos", 0))
        return future


@pytest.fixture(params=WORKERS)
def rollout(request: pytest.FixtureRequest, tmp_path: Path) -> Rollout:
    chat = ChatTokenizer(train_tokenizer([*DISAGREED, "answer: 42"] * 10, Model(vocab_size=300)))
    engine: Any = Disagreeing(chat)
    policies = Policies(PolicyMap.from_spec("shared", AGENTS), [Policy("shared", None, chat, engine)])
    make: Any = partial(make_env, str(write_debate(tmp_path)), **OPTIONS)
    with WORKERS[request.param](make, policies) as worker:
        (played,) = worker.collect([Job(1, None)], Sampling(1.0, 64, 4096, 1.0, {})).rollouts
    assert played.ended == "done"
    return played


def test_each_agent_has_one_sequence_with_all_its_turns(rollout: Rollout) -> None:
    samples = training_samples(PolicyMap.from_spec("shared", AGENTS), [rollout])["shared"]
    held = {sample.agent: [span.step for span in sample.spans] for sample in samples}
    steps = {agent: [i for i, (name, _) in enumerate(TURNS) if name == agent] for agent in AGENTS}
    assert held == steps
    assert [sample.part for sample in samples] == [0] * 4
    assert sum(int(sample.action_mask.sum()) for sample in samples) == sum(
        len(t.action_ids) for t in rollout.turns
    )


def test_gamma_counts_the_agents_own_actions(rollout: Rollout) -> None:
    """Rewards of 1 each: the first action of an agent with four is worth 1 + g + g**2 + g**3."""
    rollout = rollout.with_rewards([1.0] * len(TURNS), [True] * len(TURNS))
    samples = training_samples(PolicyMap.from_spec("shared", AGENTS), [rollout])["shared"]
    settings = Returns(mode="return_to_go", gamma=0.5, reward_scale=1.0, reward_clip=10.0, kl_coef=0.0)
    found = settings.returns(samples, [np.zeros(len(sample)) for sample in samples])
    for sample, returns in zip(samples, found, strict=True):
        count = len(sample.spans)
        expected = [sum(0.5**k for k in range(count - i)) for i in range(count)]
        assert [returns[span.start] for span in sample.spans] == pytest.approx(expected)
