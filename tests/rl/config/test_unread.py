"""Who sets what nothing reads is told so; who sets what is read is not."""

from __future__ import annotations

import io
from operator import attrgetter

import pytest
import yaml
from rich.console import Console

from mappa_rl.commands.console import say_unread
from mappa_rl.config import Config, load_config, recipe_names
from mappa_rl.config.overrides import keys
from mappa_rl.config.unread import UNREAD, unread
from paths import ROOT


@pytest.mark.parametrize(("key", "other", "value"), UNREAD, ids=lambda part: str(part))
def test_a_setting_that_nothing_reads_is_named_with_the_other(key: str, other: str, value: object) -> None:
    known = {name for name, _, _ in keys(Config)}
    assert other in known
    name = key if key in known else next(each for each in sorted(known) if each.startswith(f"{key}."))
    config = load_config("demo", [f"{other}={value}"])
    default = attrgetter(name)(Config())
    text = f"{name}={yaml.safe_dump(default, default_flow_style=True).splitlines()[0]}"
    (found,) = unread(config, [text])
    assert found.startswith(f"{text} has no effect with {other}=")


@pytest.mark.parametrize(
    ("setting", "needs"),
    [
        ("algo.gamma=0.9", ["algo.mode=return_to_go"]),
        ("algo.kl=loss_k2", ["algo.kl_coef=0.01"]),
        ("algo.dual_clip=3", ["algo.loss=ppo"]),
        ("algo.importance_bounds=[0.4,2]", ["algo.importance_sampling=tis", "algo.kl=loss_k2"]),
        ("rollout.update_between_turns=false", ["rollout.staleness=1", "algo.importance_sampling=tis"]),
        ("rollout.lockstep_groups=1", ["rollout.schedule=lockstep"]),
        ("lora.rank=8", ["policies.map=lora"]),
        ("warmstart.check_every=7", ["warmstart.until=0.4"]),
        ("run.steps=3", []),
    ],
)
def test_one_that_is_read_is_not(setting: str, needs: list[str]) -> None:
    overrides = [*needs, setting]
    assert unread(load_config("demo", overrides), overrides) == []


def test_auto_counts_as_the_schedule_that_it_stands_for() -> None:
    overrides = ["rollout.lockstep_groups=1", "rollout.retries=2"]
    (found,) = unread(load_config("demo", overrides), overrides)
    assert found == "rollout.lockstep_groups=1 has no effect with rollout.schedule=async"


@pytest.mark.parametrize("recipe", recipe_names())
def test_no_recipe_sets_what_nothing_reads(recipe: str) -> None:
    text = (ROOT / "mappa_rl" / "recipes" / f"{recipe}.yaml").read_text(encoding="utf-8")
    given = [
        f"{section}.{key}={value}"
        for section, rows in yaml.safe_load(text).items()
        if isinstance(rows, dict)
        for key, value in rows.items()
    ]
    assert unread(load_config(recipe), given) == []


def test_the_note_is_a_line_of_its_own() -> None:
    said = io.StringIO()
    overrides = ["algo.gamma=0.9"]
    say_unread(load_config("demo", overrides), overrides, Console(file=said, width=40))
    assert said.getvalue() == "note: algo.gamma=0.9 has no effect with algo.mode=per_action\n"
