"""Environments in workers on a cluster: the same episodes, also when workers and nodes die."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import gymnasium as gym
import pytest

from mappa_env.testing.conformance import comparable
from mappa_rl.cluster.actors import answer
from mappa_rl.cluster.session import connect, disconnect
from mappa_rl.environments.local import LocalEnv
from mappa_rl.environments.remote import RemoteEnv
from mappa_rl.environments.workers import EnvWorkers
from mappa_rl.errors import ActorLost, ClusterError
from mappa_rl.rollout.failures import is_infrastructure
from ray_cluster import nodes, section

ID = "mappa/MathChat-v0"
OPTIONS = {"tasks": "train", "prompts": "compact", "sandbox": "calculator"}
ACTIONS = ("plan: 2 + 2", "```python\nprint(2 + 2)\n```", "result: 4", "answer: \\boxed{4}")


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Any]:
    with nodes(2) as found:
        yield found


@pytest.fixture
def workers(two_nodes: Any) -> Iterator[EnvWorkers]:
    cluster = section(two_nodes, envs_per_worker=1, env_workers=2)
    connect(cluster)
    yield EnvWorkers(cluster, in_flight=4, most=2)
    disconnect()


def local(**options: Any) -> LocalEnv:
    return LocalEnv(gym.make(ID, **{**OPTIONS, **options}))


def remote(workers: EnvWorkers, moves: int = 3, **options: Any) -> RemoteEnv:
    return RemoteEnv(workers, ID, {**OPTIONS, **options}, moves)


def kill(env: RemoteEnv) -> None:
    """SIGKILL to the process that plays ``env``."""
    assert env._worker is not None
    os.kill(answer(env._worker.actor.where.remote(), "the worker")["pid"], signal.SIGKILL)


def test_the_same_actions_lead_to_the_same_episode_as_in_this_process(workers: EnvWorkers) -> None:
    with closing(local()) as here, closing(remote(workers)) as there:
        assert list(there.task_ids()) == list(here.task_ids())
        assert there.task_set().families == here.task_set().families
        assert there.task_set().script == here.task_set().script == "mathchat"
        for seed, task in ((3, None), (4, list(here.task_ids())[7])):
            assert there.reset(seed, task) == here.reset(seed, task)
            for action in ACTIONS:
                mine, theirs = here.step(action), there.step(action)
                assert theirs.info == mine.info
                assert theirs.over == mine.over
                assert comparable(there.trajectory) == comparable(here.trajectory)
            assert there.answer == here.answer == "4"


def test_an_episode_outlives_its_worker_at_any_moment(
    workers: EnvWorkers, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(local()) as here, closing(remote(workers)) as there:
        here.reset(5, None)
        there.reset(5, None)
        for action in ACTIONS[:2]:
            here.step(action)
            there.step(action)
        kill(there)
        for action in ACTIONS[2:]:
            mine, theirs = here.step(action), there.step(action)
            assert theirs.info == mine.info
        assert comparable(there.trajectory) == comparable(here.trajectory)
        left = r"The episode of seed 5 \(\w+ acts\) leaves environments-0 for another worker: "
        where = r"environments-0 is lost \(process \d+ on node \w{8} at [\d.]+\)"
        assert re.search(left + where, caplog.text)
        kill(there)  # between two episodes there is nothing to play again
        assert there.reset(6, None) == here.reset(6, None)


def test_one_death_too_many_is_an_infrastructure_failure(workers: EnvWorkers) -> None:
    with closing(remote(workers, moves=0)) as env:
        env.reset(5, None)
        kill(env)
        with pytest.raises(ActorLost) as found:
            env.step(ACTIONS[0])
        assert is_infrastructure(found.value)


def test_an_episode_that_would_go_another_way_is_given_up(workers: EnvWorkers) -> None:
    clock = "```python\nimport time\nprint(time.time_ns())\n```"
    with closing(remote(workers, sandbox="local")) as env:
        env.reset(5, None)
        env.step(ACTIONS[0])
        env.step(clock)  # the coder sees the time in its next prompt
        kill(env)
        with pytest.raises(ActorLost, match="another prompt"):
            env.step(ACTIONS[2])


def test_environments_fill_a_worker_before_another_starts(workers: EnvWorkers) -> None:
    first, second, third = (workers.take() for _ in range(3))
    assert [first.number, second.number, third.number] == [0, 1, 0]
    where = [answer(each.actor.where.remote(), each.name)["node"] for each in (first, second)]
    assert len(set(where)) == 2, "both nodes play"
    pid = answer(second.actor.where.remote(), second.name)["pid"]
    workers.give_back(second)
    again = workers.take()
    assert again.number == 1
    assert answer(again.actor.where.remote(), again.name)["pid"] == pid, "it has stayed"
    assert workers.take(lost=first).number == 1


def test_what_no_node_has_is_named_with_what_is_free(two_nodes: Any, workers: EnvWorkers) -> None:
    hungry = section(two_nodes, placement_s=2.0, env_cpus=1000.0)
    with pytest.raises(
        ClusterError, match=r"wants 1000 CPU, free are .*8 CPU.*cluster\.placement_s"
    ) as found:
        EnvWorkers(hungry, in_flight=1, most=1).take()
    assert not isinstance(found.value, ActorLost)


def test_a_node_that_dies_costs_no_episode(two_nodes: Any, workers: EnvWorkers) -> None:
    envs = [remote(workers) for _ in range(4)]
    for seed, env in enumerate(envs):
        env.reset(seed, None)
        env.step(ACTIONS[0])
    two_nodes.remove_node(two_nodes.list_all_nodes()[-1], allow_graceful=False)
    with closing(local()) as here:
        for seed, env in enumerate(envs):
            for action in ACTIONS[1:]:
                env.step(action)
            here.reset(seed, None)
            for action in ACTIONS:
                here.step(action)
            assert comparable(env.trajectory) == comparable(here.trajectory)
            env.close()
