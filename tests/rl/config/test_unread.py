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

NOTES = {
    "algo.overlong_buffer=8": "algo.overlong_penalty=0.0",
    "algo.importance_bounds=[0.4, 2]": "algo.importance_sampling=none",
    "rollout.tasks_seed=3": "rollout.tasks=0",
    "rollout.update_between_turns=false": "rollout.staleness=0",
    "rollout.lockstep_groups=1": "rollout.schedule=async",
    "lora.rank=8": "policies.map=separate",
    "lora.alpha=8": "policies.map=shared",
    "bias.anchors_every=3": "bias.anchors=0",
    "warmstart.check_every=7": "warmstart.until=0.0",
    "warmstart.lr=0.1": "warmstart.steps=0",
    "model.hidden=64": "model.kind=mine",
}
"""A setting, and the one that makes it useless."""
READ = {
    "algo.overlong_buffer=8": ["algo.overlong_penalty=2"],
    "algo.importance_bounds=[0.4, 2]": ["algo.importance_sampling=tis", "algo.kl=loss_k2"],
    "rollout.tasks_seed=3": ["rollout.tasks=5"],
    "rollout.update_between_turns=false": ["rollout.staleness=1", "algo.importance_sampling=tis"],
    "rollout.lockstep_groups=1": ["rollout.schedule=lockstep"],
    "lora.rank=8": ["policies.map=lora"],
    "bias.anchors_every=3": ["bias.anchors=20"],
    "warmstart.check_every=7": ["warmstart.until=0.4"],
    "warmstart.lr=0.1": [],
    "model.hidden=64": [],
    "algo.gamma=0.9": [],  # an algorithm of one's own may read it
    "run.steps=3": [],
}
"""A setting, and what makes it count."""


@pytest.mark.parametrize("setting", NOTES)
def test_a_setting_that_nothing_reads_is_named_with_the_other(setting: str) -> None:
    other = NOTES[setting]
    start = ["warmstart.warmup_steps=0", "warmstart.until=0"]
    (found,) = unread(load_config("demo", [*start, other, setting]), [setting])
    assert found == f"{setting} has no effect with {other}"


@pytest.mark.parametrize("setting", READ)
def test_one_that_is_read_is_not(setting: str) -> None:
    overrides = [*READ[setting], setting]
    assert unread(load_config("demo", overrides), overrides) == []


def test_a_map_of_policies_has_no_adapters() -> None:
    agents = "{solver_0: a, coder_0: a, verifier_0: b}"
    (found,) = unread(load_config("demo", [f"policies.map={agents}"]), ["lora.rank = 8"])
    assert found.startswith("lora.rank = 8 has no effect with policies.map={")


def test_auto_counts_as_the_schedule_that_it_stands_for() -> None:
    overrides = ["rollout.lockstep_groups=1", "rollout.retries=2"]
    (found,) = unread(load_config("demo", overrides), overrides)
    assert found == "rollout.lockstep_groups=1 has no effect with rollout.schedule=async"


def test_every_row_names_keys_that_exist() -> None:
    known = {name for name, _, _ in keys(Config)}
    for row in UNREAD:
        assert row.other in known
        assert row.key in known or any(name.startswith(f"{row.key}.") for name in known)
        attrgetter(row.key)(Config())


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
    overrides = ["lora.rank=8"]
    say_unread(load_config("demo", overrides), overrides, Console(file=said, width=40))
    assert said.getvalue() == "note: lora.rank=8 has no effect with policies.map=separate\n"
