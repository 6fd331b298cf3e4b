"""The placement of a dry run: every policy trains and generates somewhere, in the estimated memory."""

from __future__ import annotations

import pytest

from mappa_rl.config import Config, load_config
from mappa_rl.config.environment import env_card
from mappa_rl.models.shape import Shape
from mappa_rl.training.preflight.model import known_shape
from mappa_rl.training.preflight.placement import Place, placement
from mappa_rl.training.preflight.resources import ASSUMED_GPU, Footprint, footprint
from mappa_rl.training.preflight.team import policy_map


def placed(config: Config) -> tuple[list[Place], Footprint]:
    policies, shape = policy_map(config, env_card(config.env.id)), known_shape(config)
    assert policies is not None
    assert isinstance(shape, Shape)
    need = footprint(config, shape, policies)
    return list(placement(config, policies, need)), need


def test_one_process_does_it_all() -> None:
    (place,), need = placed(load_config("demo"))
    assert (place.name, place.node) == ("process 0", "this")
    assert place.trains == "solver_0, coder_0, verifier_0"
    assert place.generates == "solver_0, coder_0, verifier_0 (hf)"
    sizes = (place.start, place.generation, place.training)
    assert max(size for size in sizes if size is not None) == need.peak


@pytest.mark.parametrize("recipe", ["mathchat", "dsbench", "mathchat_lora"])
def test_engines_of_their_own_hold_the_gpus_that_the_config_names(recipe: str) -> None:
    config = load_config(recipe)
    places, need = placed(config)
    assert [place.name for place in places if not place.trains] == (
        ["GPUs 6 to 7, each"] if config.engine.devices else []
    )
    generating = [place.generates for place in places if place.generates]
    assert generating
    assert all(len(set(text.split(" (")[0].split(", "))) == 3 for text in generating), "all three policies"
    learners = [place for place in places if place.trains]
    sizes = [size or 0 for each in learners for size in (each.start, each.generation, each.training)]
    assert max(sizes) == need.peak


def test_on_a_cluster_there_is_room_for_every_episode_in_flight() -> None:
    config = load_config("demo", ["cluster=ray", "cluster.envs_per_worker=5", "cluster.env_node=cpus"])
    places, _ = placed(config)
    (environments,) = [place for place in places if place.name.startswith("environments")]
    count, each = (
        int(word) for word in environments.name.removeprefix("environments, at most ").split(" x ")
    )
    assert count * each >= config.rollout.episodes_per_step > (count - 1) * each
    assert environments.node == "any with cpus (1 CPU each)"


@pytest.mark.parametrize(("cluster", "node"), [("local", "this"), ("ray", "any")])
def test_equal_processes_share_a_row(cluster: str, node: str) -> None:
    places, _ = placed(load_config("demo", ["run.processes=4", f"cluster={cluster}"]))
    assert [place.name for place in places[:2]] == ["process 0 (leads)", "processes 1 to 3, each"]
    assert [place.node for place in places[:2]] == ["this", node]


def test_every_crew_has_its_places() -> None:
    together, _ = placed(load_config("demo", ["run.processes=2"]))
    apart, need = placed(load_config("demo", ["run.processes=2", "placement.crews=apart"]))
    assert [(place.name, place.trains) for place in apart] == [
        ("process 0 (leads)", "solver_0"),
        ("process 1", "solver_0"),
        ("processes 2 to 3, each (crew 1)", "coder_0"),
        ("processes 4 to 5, each (crew 2)", "verifier_0"),
    ]
    assert apart[0].generates == together[0].generates == "solver_0, coder_0, verifier_0 (hf)"
    assert all(not place.generates for place in apart[1:])
    assert max(size or 0 for place in apart for size in (place.start, place.training)) <= need.peak
    assert apart[1].training is not None
    assert together[1].training is not None
    assert apart[1].training < together[1].training, "one policy's optimizer instead of three"
    assert apart[2].training == apart[3].training


def test_policies_with_engines_of_their_own_have_their_rows() -> None:
    own = "placement.engines={coder_0: {replicas: 3}, verifier_0: {tensor_parallel: 2}}"
    places, need = placed(load_config("demo", ["engine.name=vllm", "engine.replicas=2", own]))
    engines = [place for place in places if not place.trains]
    assert [place.generates for place in engines] == [*["solver_0, coder_0, verifier_0"] * 2, "coder_0"]
    assert sum(place.generation or 0 for place in engines) == need.engines
    assert (engines[2].generation or 0) < (engines[1].generation or 0) / 2
    gpus = "placement.engines={coder_0: {tensor_parallel: 2, devices: [7, 8]}}"
    places, _ = placed(load_config("mathchat", ["engine.tensor_parallel=1", "engine.devices=[6]", gpus]))
    assert [(place.name, place.generates) for place in places if not place.trains] == [
        ("GPU 6", "solver_0, verifier_0 (vllm)"),
        ("GPUs 7 to 8, each", "coder_0 (vllm)"),
    ]


def test_every_gpu_has_one_row_with_the_sum_of_all_that_is_on_it() -> None:
    wide = ["run.processes=3", "engine.tensor_parallel=4"]
    apart, need = placed(load_config("mathchat", [*wide, "engine.devices=[3, 4, 5, 6]"]))
    assert [place.name for place in apart] == ["GPU 0 (leads)", "GPUs 1 to 2, each", "GPUs 3 to 6, each"]
    places, _ = placed(load_config("mathchat", [*wide, "engine.devices=[2, 3, 4, 5]"]))
    assert [place.name for place in places] == ["GPU 0 (leads)", "GPU 1", "GPU 2", "GPUs 3 to 5, each"]
    learner, both, engine = places[1:]
    assert (both.trains, both.generates) == (learner.trains, engine.generates)
    for each, alone, held in (
        (both.generation, learner.generation, engine.generation),
        (both.training, learner.training, engine.training),
    ):
        assert each == (alone or 0) + (held or 0)
    assert both.training == need.memory.training + int(0.9 * ASSUMED_GPU)
    assert (both.start or 0) > int(0.9 * ASSUMED_GPU)


def test_replicas_that_meet_on_a_gpu_divide_its_fraction() -> None:
    own = "placement.engines={solver_0: {replicas: 2, tensor_parallel: 1, devices: [6, 7]}}"
    places, _ = placed(load_config("mathchat", [own]))
    assert [(place.name, place.generates) for place in places[2:]] == [
        ("GPU 6", "solver_0, coder_0, verifier_0 (vllm, replica 0)"),
        ("GPU 7", "coder_0, verifier_0 (vllm); solver_0 (vllm, replica 1)"),
    ]
    assert all(place.training == pytest.approx(0.9 * ASSUMED_GPU, abs=3) for place in places[2:])


def test_each_engine_of_a_cluster_has_gpus_of_its_own() -> None:
    own = ["cluster=ray", "engine.devices=[]", "engine.tensor_parallel=8", "cluster.engine_node=big"]
    places, _ = placed(load_config("mathchat", [*own, "cluster.learner_node=small", "engine.replicas=2"]))
    assert [(place.name, place.node, place.generates) for place in places[2:5]] == [
        ("2 x engine on 8 GPUs, each", "any with big", f"{name} (vllm)")
        for name in ("solver_0", "coder_0", "verifier_0")
    ]
    assert places[1].node == "any with small"
