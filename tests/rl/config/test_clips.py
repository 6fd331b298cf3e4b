"""Each loss clips where its paper does, unless the user says otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mappa_rl.cli import main
from mappa_rl.config import Algo, load_config
from mappa_rl.config.overrides import read_yaml
from mappa_rl.learner.losses import Objective, Tokens
from paths import ROOT

PUBLISHED = {
    "ppo": (0.8, 1.2),  # arXiv 1707.06347, section 6.1
    "gspo": (1 - 3e-4, 1 + 4e-4),  # arXiv 2507.18071, section 5.1
    "cispo": (0.0, 5.0),  # arXiv 2506.13585 sets no lower bound; 2510.13786 takes 5 as the upper one
}


def bounds(algo: Algo) -> tuple[float, float]:
    """Between which ratios no clip binds, found from outside: the ends of what is not marked as clipped."""
    ratios = torch.cat([torch.linspace(1e-3, 1, 100_000), torch.linspace(1, 8, 700_001)]).double()
    free: list[torch.Tensor] = []
    for sign in (1.0, -1.0):  # PPO's upper bound binds on good actions, its lower one on bad ones
        tokens = Tokens(
            ratios.log(), torch.zeros_like(ratios), torch.full_like(ratios, sign), torch.arange(len(ratios))
        )
        free.append(~Objective(algo).token_loss(tokens).clipped)
    both = ratios[free[0] & free[1]]
    return float(both.min()), float(both.max())


@pytest.mark.parametrize("loss", PUBLISHED)
def test_unset_clips_are_the_papers(loss: str) -> None:
    assert bounds(Algo(loss=loss)) == pytest.approx(PUBLISHED[loss], abs=2e-3 if loss != "gspo" else 2e-5)


def test_what_is_set_counts_and_one_side_alone_is_both_sides() -> None:
    assert bounds(Algo(clip_low=0.1)) == pytest.approx((0.9, 1.1), abs=1e-4)
    assert bounds(Algo(clip_low=0.1, clip_high=0.3)) == pytest.approx((0.9, 1.3), abs=1e-4)
    assert bounds(Algo(clip_high=0.28)) == pytest.approx((0.8, 1.28), abs=1e-4)  # DAPO's clip-higher
    assert bounds(Algo(loss="gspo", clip_high=0.1)) == pytest.approx((1 - 3e-4, 1.1), abs=1e-4)


def test_an_override_of_the_loss_brings_its_clips_and_an_explicit_value_stays(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("algo:\n  clip_low: 0.05\n")
    assert load_config("mathchat", ["algo.loss=gspo"]).algo.clip_low == 3e-4
    assert load_config("demo").with_overrides(["algo.loss=gspo"]).algo.clip_high == 4e-4
    assert load_config(recipe, ["algo.loss=gspo"]).algo.clip_low == 0.05
    assert load_config("demo", ["algo.loss=gspo", "algo.clip_low=0.2"]).algo.clip_low == 0.2


def test_a_run_and_a_dry_run_show_the_clips(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = f"out={tmp_path / 'run'}"
    assert main(["train", "demo", "algo.loss=cispo", "--dry-run", "--verbose", "--no-rehearsal", out]) == 0
    shown = capsys.readouterr().out
    assert "clip_low: 1.0\n  clip_high: 4.0\n" in shown
    written = read_yaml(load_config("demo", ["algo.loss=gspo"]).dump(), "the dump")["algo"]
    assert (written["clip_low"], written["clip_high"]) == (3e-4, 4e-4)
    (tmp_path / "config.yaml").write_text(load_config("demo", ["algo.loss=gspo"]).dump())
    assert load_config(tmp_path / "config.yaml") == load_config("demo", ["algo.loss=gspo"])


def test_a_loss_of_ones_own_keeps_its_own_clips(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from mappa_rl.learner.losses import TokenLoss\n"
        "class Mine:\n"
        "    def __init__(self, clip_low=0.7): self.clip_low = clip_low\n"
        "    def __call__(self, tokens): return TokenLoss(tokens.logprobs, tokens.ratio < self.clip_low)\n"
    )
    for set_, found in ({}, 0.7), ({"clip_low": 0.1}, 0.1):
        assert Objective(Algo(loss=f"{file}:Mine", **set_)).token_loss.clip_low == found  # type: ignore[attr-defined]
    example = f"algo.loss={ROOT / 'examples' / 'loss.py'}:SoftClip"
    assert load_config("demo", [example]).algo.clip_low is None
