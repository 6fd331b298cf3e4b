"""A plan uses settings that exist, refuses what memory does not hold, and is never slower on more GPUs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from mappa_rl.coach.files import asks_a_model
from mappa_rl.config import load_config
from mappa_rl.config.environment import env_card
from mappa_rl.errors import ConfigError
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.models.shape import Heads, shape_of
from mappa_rl.planning.figures import HARDWARE, found_figures
from mappa_rl.planning.hardware import Hardware
from mappa_rl.planning.machines import Machines
from mappa_rl.planning.placement import WIDTHS, handy, placements
from mappa_rl.planning.plan import recommend
from mappa_rl.planning.workload import measured, workload
from plans import plan_of, policies_of

plan = cache(plan_of)


def test_more_gpus_are_never_predicted_to_be_slower() -> None:
    seconds = [plan("mathchat", Machines(gpus)).best.step.seconds for gpus in (8, 9, 12, 16, 17, 24)]
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[-1] < 0.8 * seconds[0]


def test_more_nodes_are_never_predicted_to_be_slower() -> None:
    seconds = [plan("mathchat", Machines(8 * nodes, nodes)).best.step.seconds for nodes in (2, 4, 8)]
    assert seconds == sorted(seconds, reverse=True)


@pytest.mark.parametrize("recipe", ["mathchat", "mathchat_lora", "demo"])
@pytest.mark.parametrize("machines", [Machines(8), Machines(16, 2)])
def test_its_overrides_make_a_config_and_use_no_more_gpus_than_there_are(
    recipe: str, machines: Machines
) -> None:
    found = plan(recipe, machines)
    config = load_config(recipe).with_overrides(found.best.overrides)
    place = found.best.placement
    assert config.run.processes == place.learners
    assert (config.placement.crews == "apart") == (place.crews > 1)
    assert config.cluster.name == ("ray" if machines.nodes > 1 else "local")
    assert config.policies == load_config(recipe).policies
    assert found.best.placement.gpus <= machines.gpus
    if config.engine.devices:
        assert min(config.engine.devices) >= place.training
        assert max(config.engine.devices) < machines.gpus


@pytest.mark.parametrize("recipe", ["mathchat", "dsbench"])
@pytest.mark.parametrize("machines", [Machines(16, 2), Machines(14, 7), Machines(64, 8)])
def test_no_learner_has_a_place_on_a_node_that_engines_over_several_gpus_need(
    recipe: str, machines: Machines
) -> None:
    config = load_config(recipe)
    for place in placements(config, policies_of(config), machines, 0):
        keeps = place.engine_gpus > 0 and place.tensor_parallel > 1
        assert place.keeps_nodes(machines) == keeps
        if keeps:
            assert place.learner_nodes(machines) + place.engine_nodes(machines) <= machines.nodes
        settings = config.with_overrides(place.overrides(config, machines)).cluster
        assert (settings.learner_node, settings.engine_node) == (
            ("learners", "engines") if keeps else ("", "")
        )
        assert settings.address == "auto"


def test_a_cluster_that_the_recipe_names_stays() -> None:
    named = ["cluster=ray", "cluster.address=head:6379", "cluster.engine_node=big", "engine.devices=[]"]
    config = load_config("mathchat", named)
    place = next(
        each
        for each in placements(config, policies_of(config), Machines(16, 2), 0)
        if each.tensor_parallel == 2
    )
    cluster = config.with_overrides(place.overrides(config, Machines(16, 2))).cluster
    assert (cluster.address, cluster.engine_node, cluster.learner_node) == ("head:6379", "big", "learners")


def test_every_tried_placement_that_is_not_refused_is_a_valid_config() -> None:
    config = load_config("mathchat")
    found = plan("mathchat", Machines(8))
    assert set(found.refused) <= {
        "the learner's memory",
        "the engine's memory: weights and one context do not fit",
    }
    assert found.tried == len(list(placements(config, policies_of(config), Machines(8), 0)))


def test_crews_learn_at_the_same_time_and_their_weights_come_together_first() -> None:
    config = load_config("mathchat")
    asked = workload(config, env_card(config.env.id), asks_a_model(config))
    figures = {key: each.value for key, each in found_figures({}, HARDWARE, asked).items()}
    policies, machines = policies_of(config), Machines(16)
    hardware = Hardware(config, shape_of(config.model), policies, machines, figures)
    places = list(placements(config, policies, machines, 0))
    one, three = (
        next(place for place in places if (place.crews, place.learners, place.shares) == (crews, 2, False))
        for crews in (1, 3)
    )
    assert (one.training, three.training, three.gpus) == (2, 6, 6 + three.engine_gpus)
    assert hardware.learn_s(three) == pytest.approx(hardware.learn_s(one) / 3)
    assert hardware.sync_s(three) > hardware.sync_s(one)
    assert {place.crews for place in places} == {1, 3}
    shared = PolicyMap.from_spec("shared", ["a", "b"])
    assert {place.crews for place in placements(config, shared, machines, 0)} == {1}


@pytest.mark.parametrize(
    ("heads", "keys", "widest"), [(28, 4, 4), (14, 2, 2), (15, 5, 1), (32, 8, 8), (36, 12, 4)]
)
def test_no_engine_is_wider_than_the_models_heads_can_be_split(heads: int, keys: int, widest: int) -> None:
    config, machines = load_config("mathchat"), Machines(16, 2)
    asked = workload(config, env_card(config.env.id), asks_a_model(config))
    figures = {key: each.value for key, each in found_figures({}, HARDWARE, asked).items()}
    shape = replace(shape_of(config.model), heads=Heads(heads, keys, 128))
    both = [shape, replace(shape, heads=Heads(64, 8, 128))]
    found = recommend(config, both, policies_of(config), machines, figures, staleness=0)
    every = [found.best, *(each for _, each in found.others)]
    assert max(each.placement.tensor_parallel for each in every) <= widest
    allowed = [width for width in WIDTHS if all(each.splits_over(width) for each in both)]
    assert max(allowed) == widest


def test_a_model_too_large_for_the_memory_is_refused_with_the_remedy() -> None:
    with pytest.raises(
        ConfigError, match=r"no placement of this recipe fits on 8 GPUs of 8\.0 GB.*needs at least"
    ):
        plan("mathchat", Machines(8, gpu_memory=8 * 10**9))
    with pytest.raises(ConfigError, match=r"optim\.offload|larger --gpu-memory-gb"):
        plan("mathchat", Machines(8, gpu_memory=8 * 10**9))


def test_what_is_short_becomes_the_bottleneck() -> None:
    machines = Machines(16, 2)
    assert plan("mathchat", replace(machines, sandboxes=2), sandbox_s=60.0).bottleneck.names == ("sandbox",)
    assert plan("mathchat", replace(machines, coach_rpm=10.0)).bottleneck.names == ("coach",)
    assert plan("mathchat", machines, learn_utilisation=0.01).bottleneck.names == ("learning",)


def test_staleness_is_used_only_where_it_is_allowed() -> None:
    machines = Machines(16, 2)
    assert plan("mathchat", machines).best.placement.staleness == 0
    allowed = plan("mathchat", machines, staleness=1)
    assert allowed.best.placement.staleness == 1
    assert "rollout.staleness=1" in allowed.best.overrides
    assert allowed.best.step.seconds < plan("mathchat", machines).best.step.seconds
    assert "best with the recipe's staleness" in dict(allowed.others)


def test_numbers_out_of_range_are_named_with_the_remedy() -> None:
    with pytest.raises(ConfigError, match="--gpus 0 must be at least 1"):
        Machines(0)
    with pytest.raises(
        ConfigError, match=r"--gpus 12 .* does not divide among --nodes 8: use a multiple of 8"
    ):
        Machines(12, 8)
    with pytest.raises(ConfigError, match=r"no such figure\. Did you mean 'sandbox_s'"):
        found_figures(
            {"sandbox": 1.0}, HARDWARE, workload(load_config("demo"), env_card("mappa/MathChat-v0"), True)
        )


def test_numbers_of_gpus_that_are_tried_are_a_part_of_those_tried_for_more() -> None:
    for most in range(1, 200):
        assert set(handy(most)) <= set(handy(most + 1))
    assert list(handy(16)) == [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16]


def test_a_run_replaces_what_was_assumed_of_its_episodes() -> None:
    row = {
        "step": 1, "episodes": 8.0, "tokens": 320.0, "actions/a": 24.0, "actions/b": 8.0,
        "tokens/a": 1000.0, "tokens/b": 600.0, "action_tokens/a": 240.0, "action_tokens/b": 80.0,
        "sandbox/runs/a": 16.0, "time/sandbox/a": 0.5, "time/sandbox_queue/a": 9.0, "time/coach": 2.0,
    }  # fmt: skip
    found = {each.key: each for each in measured([row], "a run")}
    values = {key: each.value for key, each in found.items()}
    assert values == {
        "actions": 4.0, "action_tokens": 10.0, "prompt_tokens": 40.0, "sandbox_s": 0.25, "coach_s": 2.0
    }  # fmt: skip
    assert found["actions"].source == "measured in 1 steps of a run"
    assert measured([], "a run") == ()


def test_a_run_with_a_frozen_policy_says_nothing_of_the_actions_that_nobody_counted() -> None:
    row = {
        "step": 1, "episodes": 8.0, "tokens": 320.0, "actions/a": 24.0, "invalid/a": 4.0,
        "tokens/a": 1200.0, "action_tokens/a": 240.0,
        "sandbox/runs/a": 16.0, "time/sandbox/a": 0.5, "sandbox/runs/b": 8.0, "time/sandbox/b": 0.5,
    }  # fmt: skip
    values = {each.key: each.value for each in measured([row], "a run", all_train=False)}
    assert values == {"action_tokens": 12.0, "prompt_tokens": 40.0}
