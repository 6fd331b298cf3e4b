"""Imitation ends when the team succeeds on enough training tasks."""

from __future__ import annotations

import io
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from mappa_rl.config import Config, load_config
from mappa_rl.errors import ConfigError
from mappa_rl.telemetry.progress import Progress
from mappa_rl.training.start import starting_model
from mappa_rl.warmstart.warmstart import FACTS, warm_start
from tiny_run import TINY


def config(*overrides: str) -> Config:
    return load_config("demo", [*TINY, "warmstart.check_every=3", "warmstart.check_episodes=4", *overrides])


def progress() -> Progress:
    return Progress("test", console=Console(file=io.StringIO()))


def checks(folder: Path) -> list[list[float]]:
    found: list[list[float]] = json.loads((folder / FACTS).read_bytes())["checks"]
    return found


@pytest.mark.parametrize(
    ("rates", "taken"),
    [
        ([0.1, 0.5], [[3, 0.1], [6, 0.5]]),
        ([0.4], [[3, 0.4]]),
        ([0.1, 0.2, 0.39], [[3, 0.1], [6, 0.2], [9, 0.39]]),
    ],
)
def test_imitation_ends_at_the_first_rate_that_is_enough(
    tmp_path: Path, rates: list[float], taken: list[list[float]]
) -> None:
    left, weights = iter(rates), []

    def played(model: Any, chat: Any) -> float:
        weights.append(model.get_input_embeddings().weight.detach().clone())
        return next(left)

    with progress() as shown:
        folder = warm_start(config("warmstart.until=0.4"), tmp_path, shown, played)
    assert checks(folder) == taken
    assert next(left, None) is None
    for earlier, later in itertools.pairwise(weights):
        assert not earlier.equal(later), "the model that plays is the one that learns"


def test_without_a_rate_nothing_is_played(tmp_path: Path) -> None:
    def played(model: Any, chat: Any) -> float:
        raise AssertionError("played")

    with progress() as shown:
        assert checks(warm_start(config(), tmp_path, shown, played)) == []


def test_the_rate_is_that_of_training_tasks(tmp_path: Path) -> None:
    """Ten steps teach nothing, so no rate is reached; the episodes are really played."""
    with progress() as shown:
        folder = starting_model(config("warmstart.until=0.9"), tmp_path, shown)
    assert checks(folder) == [[3, 0.0], [6, 0.0], [9, 0.0]]
    assert shown.watch.seconds["warm start"]["generation"] > 0


def test_the_rate_does_not_change_what_imitation_learns(tmp_path: Path) -> None:
    """Playing draws no random number that training would draw."""
    found = []
    for number, until in enumerate((0, 0.9)):
        out = tmp_path / str(number)
        out.mkdir()
        with progress() as shown:
            folder = starting_model(config(f"warmstart.until={until}"), out, shown)
        found.append((folder / "model.safetensors").read_bytes())
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["warmstart.check_every=11"], "warmstart.check_every=11 exceeds warmstart.steps=10"),
        (["policies.models={coder_0: some/model}"], "gives coder_0 another model"),
    ],
)
def test_a_rate_that_cannot_be_measured_is_refused(overrides: list[str], words: str) -> None:
    with pytest.raises(ConfigError, match=words.replace(".", r"\.")):
        config("warmstart.until=0.4", *overrides)
