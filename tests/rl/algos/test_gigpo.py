"""GiGPO against the paper's equations (arXiv 2505.10978), written as loops over states and episodes."""

from __future__ import annotations

import dataclasses
import statistics
from collections import defaultdict

import numpy as np
import pytest

from learner_helpers import make_sample
from mappa_rl.algos import make_algorithm
from mappa_rl.algos.from_config import algorithm_of
from mappa_rl.config import load_config
from mappa_rl.errors import ConfigError
from mappa_rl.types import Sample

STATES = {0: [3, 4], 1: [5, 6], 2: [7, 8]}
"""State -> the tokens that an agent sees in it."""


def episode(index: int, task: str, path: list[tuple[int, float]], agent: str = "a_0") -> list[Sample]:
    """An action of 2 tokens per (state, reward), each in a sample of its own that begins with the state."""
    samples = []
    for part, (state, reward) in enumerate(path):
        made = make_sample([(2, 2)], [reward], seed=100 * index + part, part=part, agent=agent)
        made.ids[:2] = STATES[state]
        samples.append(dataclasses.replace(made, group=task, episode=index))
    return samples


PATHS = {
    ("t", 0): [(0, 1.0), (1, 2.0), (0, 4.0)],  # state 0 comes back
    ("t", 1): [(0, 3.0), (1, 0.5)],
    ("t", 2): [(0, 6.0), (2, 1.0)],  # state 2 is seen once
    ("u", 3): [(0, 9.0), (1, 7.0)],  # the same states in another task are other groups
    ("u", 4): [(0, 2.0)],
}


def published(omega: float, gamma: float, std: bool) -> list[float]:
    """A per action, in the order of PATHS: equations 3, 5, 6, 7 and 8."""

    def advantage(value: float, group: list[float]) -> float:
        return (value - statistics.fmean(group)) / (statistics.pstdev(group) + 1e-6 if std else 1)

    totals, returns, states = defaultdict(list), {}, defaultdict(list)
    for (task, index), path in PATHS.items():
        totals[task].append(sum(reward for _, reward in path))
        for at, (state, _) in enumerate(path):
            rest = path[at:]
            returns[index, at] = sum(gamma**k * reward for k, (_, reward) in enumerate(rest))
            states[task, state].append(returns[index, at])
    found = []
    for (task, index), path in PATHS.items():
        macro = advantage(sum(reward for _, reward in path), totals[task])
        for at, (state, _) in enumerate(path):
            found.append(macro + omega * advantage(returns[index, at], states[task, state]))
    return found


@pytest.mark.parametrize("norm", ["std", "one"])
@pytest.mark.parametrize(("omega", "gamma"), [(1.0, 0.95), (0.3, 1.0), (0.0, 1.0)])
def test_advantages_are_the_papers(norm: str, omega: float, gamma: float) -> None:
    samples = [sample for (task, index), path in PATHS.items() for sample in episode(index, task, path)]
    settings = {"reward_scale": 1.0, "reward_clip": 100.0, "kl_coef": 0.0, "mode": "return_to_go"}
    algorithm = make_algorithm("gigpo", omega=omega, gamma=gamma, norm=norm, **settings)
    found = algorithm.token_advantages(samples).advantages
    assert [each[2] for each in found] == pytest.approx(published(omega, gamma, norm == "std"), abs=1e-5)


def test_another_agent_in_the_same_state_is_another_group() -> None:
    paths = ([(0, 1.0)], [(0, 5.0)])
    samples = [s for k, path in enumerate(paths) for s in episode(k, "t", path)]
    more = [s for k in range(2) for s in episode(k, "t", [(0, 100.0)], agent="b_0")]
    algorithm = make_algorithm("gigpo", reward_scale=1.0, reward_clip=100.0, kl_coef=0.0)
    alone, both = (algorithm.token_advantages(each).advantages for each in (samples, [*samples, *more]))
    assert np.array_equal(np.concatenate(both[:2]), np.concatenate(alone))


def test_what_repeats_the_outcome_is_not_summed() -> None:
    asked = ["algo.name=gigpo", "rollout.group_size=4", "env.shaping=outcome"]
    with pytest.raises(ConfigError, match=r"env\.shaping=outcome every action's .*algo\.options\.total=mean"):
        algorithm_of(load_config("demo", asked))
    assert algorithm_of(load_config("demo", [*asked, "algo.options.total=mean"]))
    mean = make_algorithm("gigpo", omega=0.0, norm="one", total="mean", reward_scale=1.0, kl_coef=0.0)
    samples = episode(0, "t", [(0, 1.0), (1, 3.0)]) + episode(1, "t", [(0, 5.0)])
    assert [a[2] for a in mean.token_advantages(samples).advantages] == pytest.approx([-1.5, -1.5, 1.5])
    for wrong in ({"norm": "var"}, {"total": "max"}):
        with pytest.raises(ConfigError, match="is unknown; choose"):
            make_algorithm("gigpo", **wrong)
