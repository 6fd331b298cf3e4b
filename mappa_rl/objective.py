"""From the ``algo`` section of a config to the learner's loss."""

from __future__ import annotations

from mappa_rl.losses import Objective
from mappa_rl.sections import Algo


def objective_of(algo: Algo) -> Objective:
    """The loss with its bounds; the KL penalty is in it only with ``kl_in: loss``."""
    return Objective(
        loss=algo.loss, clip=algo.clip, clip_high=algo.clip_high, dual_clip=algo.dual_clip,
        kl_estimator="k3" if algo.kl_estimator == "k3" else "k2",
        kl_coef=algo.kl_coef if algo.kl_in == "loss" else 0.0,
    )  # fmt: skip
