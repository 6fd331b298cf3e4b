"""Sampling in training and evaluation, of the team and of single agents; tasks that training leaves out."""

from __future__ import annotations

import re
from concurrent.futures import Future
from pathlib import Path

import pytest

from mappa_rl.commands.work import work
from mappa_rl.config import load_config
from mappa_rl.engines import Generation, Request
from mappa_rl.errors import ConfigError
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.rollout.jobs import training_tasks, validation_tasks
from mappa_rl.rollout.sampling import Sampling, evaluation_sampling, policy_temperatures, training_sampling
from mappa_rl.rollout.types import Job
from mappa_rl.training.preflight import find_problems, require
from simulated import SimulatedEngine, SimulatedEnv, async_rollout, policies

TEAM = ("solver_0", "coder_0", "verifier_0")
OWN = "rollout.agents={solver_0: {temperature: 0.7, max_new_tokens: 20}}"


def test_by_default_evaluation_samples_as_training_does() -> None:
    config = load_config("demo")
    assert training_sampling(config) == Sampling(1.0, 64, 256, 1.0, {})
    assert evaluation_sampling(config, 0.3) == Sampling(0.3, 64, 256, 1.0, {})
    assert training_sampling(config).of("solver_0") is not None


def test_an_agent_has_its_own_and_the_others_the_teams() -> None:
    training = training_sampling(load_config("demo", [OWN]))
    assert training.of("solver_0").temperature == 0.7
    assert training.of("solver_0").max_new_tokens == 20
    assert training.of("coder_0") is training
    partly = training_sampling(load_config("demo", ["rollout.agents.coder_0.max_new_tokens=9"])).of("coder_0")
    assert (partly.temperature, partly.max_new_tokens) == (1.0, 9)


def test_evaluation_keeps_lengths_of_training_but_not_its_temperatures() -> None:
    config = load_config("demo", [OWN, "eval.top_p=0.9", "eval.agents={coder_0: {temperature: 0.0}}"])
    found = evaluation_sampling(config, 1.0)
    assert (found.of("solver_0").temperature, found.of("solver_0").max_new_tokens) == (1.0, 20)
    assert (found.of("coder_0").temperature, found.of("coder_0").max_new_tokens) == (0.0, 64)
    assert {found.of(agent).top_p for agent in TEAM} == {0.9}
    longer = evaluation_sampling(config.with_overrides(["eval.max_new_tokens=100"]), 1.0)
    assert {longer.of(agent).max_new_tokens for agent in TEAM} == {100}
    assert longer.longest == 100


@pytest.mark.parametrize(
    ("overrides", "seeded"),
    [
        ([], True),
        (["rollout.schedule=async"], True),
        (["engine.name=vllm"], False),
        (["engine.name=vllm", "rollout.staleness=1", "algo.importance_sampling=tis"], False),
        (["engine.name=vllm", "rollout.schedule=lockstep"], True),
    ],
)
def test_only_training_on_vllm_without_lockstep_asks_without_seeds(
    overrides: list[str], seeded: bool
) -> None:
    config = load_config("demo", overrides)
    evaluating = seeds_of(evaluation_sampling(config, 1.0))
    assert None not in evaluating
    assert len(set(evaluating)) == len(evaluating) > 1
    assert evaluating == seeds_of(evaluation_sampling(config, 1.0))
    assert seeds_of(training_sampling(config)) == (evaluating if seeded else [None] * len(evaluating))


class Recording(SimulatedEngine):
    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Request] = []

    def submit(self, request: Request) -> Future[Generation]:
        self.asked.append(request)
        return super().submit(request)


def seeds_of(sampling: Sampling) -> list[int | None]:
    """Those of the requests of one episode, in order."""
    engine = Recording()
    with async_rollout(SimulatedEnv, policies(engine)) as stream:
        stream.collect([Job(3)], sampling)
    return [request.seed for request in engine.asked]


def test_agents_that_train_one_policy_need_one_temperature() -> None:
    config = load_config("demo", [OWN])
    separate = PolicyMap.from_spec("separate", TEAM)
    assert policy_temperatures(config, separate) == {"solver_0": 0.7, "coder_0": 1.0, "verifier_0": 1.0}
    with pytest.raises(ConfigError, match=r"policy 'shared' different temperatures.*policies.map=separate"):
        policy_temperatures(config, PolicyMap.from_spec("shared", TEAM))
    frozen = PolicyMap.from_spec("shared", TEAM, ["solver_0"])
    assert policy_temperatures(config, frozen) == {"shared": 1.0}
    greedy = load_config("demo", ["rollout.agents.coder_0.temperature=0"])
    with pytest.raises(ConfigError, match="a greedy agent cannot be trained"):
        policy_temperatures(greedy, separate)
    assert "coder_0" not in policy_temperatures(greedy, PolicyMap.from_spec("separate", TEAM, ["coder_0"]))


@pytest.mark.parametrize("section", ["rollout", "eval"])
def test_an_unknown_agent_is_refused_before_anything_long(section: str) -> None:
    config = load_config("demo", [f"{section}.agents.solver.temperature=0.5"])
    with pytest.raises(ConfigError, match=f"{section}.agents names 'solver', the team is .*'solver_0'"):
        require(config, Path("runs"))
    problems = find_problems(config, Path("runs"))
    assert [problem.concern for problem in problems] == ["agents"]


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["eval.group_size=3"], "eval.group_size=3 must divide eval.episodes=400"),
        (["eval.max_new_tokens=256"], "eval.max_new_tokens=256 leaves no room for a prompt"),
        (["eval.agents.coder_0.max_new_tokens=300"], "eval.agents.coder_0.max_new_tokens=300 leaves no room"),
        (
            ["algo.overlong_penalty=1", "rollout.agents.coder_0.max_new_tokens=8"],
            "algo.overlong_buffer=16 must be below rollout.agents.coder_0.max_new_tokens=8",
        ),
        (["eval.top_p=0"], "eval.top_p=0 is not allowed: it must be greater than 0"),
        (
            ["rollout.agents.coder_0.temp=1"],
            "unknown key 'rollout.agents.coder_0.temp'. Its section has temp",
        ),
        (["rollout.agents.coder_0.temperature=-1"], "rollout.agents.coder_0.temperature=-1 is not allowed"),
    ],
)
def test_what_does_not_fit_is_refused(overrides: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        load_config("demo", overrides)


def test_tasks_for_validation_are_the_last_and_not_trained_on() -> None:
    ids = [f"t{i}" for i in range(10)]
    config = load_config("demo", ["eval.validation_tasks=3"])
    assert validation_tasks(config, ids) == ["t7", "t8", "t9"]
    assert training_tasks(config, ids) == ids[:7]
    assert training_tasks(load_config("demo"), ids) == ids
    with pytest.raises(ConfigError, match="leaves none of the 3 training tasks"):
        training_tasks(config, ids[:3])
    (phase,) = (p for p in work(config.with_overrides(["run.steps=25"]), 4) if p.phase == "validation")
    assert phase.episodes == 9  # after steps 10, 20 and 25
