"""Keys that were renamed or removed: no aliases, but an error that names the new key."""

from __future__ import annotations

from collections.abc import Iterable

RENAMED = {
    "rollout.samples_per_task": "rollout.group_size",
    "rollout.groups": "rollout.lockstep_groups",
    "rollout.max_masked": "rollout.max_masked_fraction",
    "eval.samples": "eval.group_size",
    "eval.validation": "eval.validation_tasks",
    "algo.kl_in": "algo.kl",
    "algo.kl_estimator": "algo.kl",
    "algo.correction": "algo.importance_sampling",
    "algo.correction_bounds": "algo.importance_bounds",
    "algo.clip": "algo.clip_low",
    "algo.drop_flat_groups": "algo.drop_zero_variance_groups",
    "optim.warmup_share": "optim.warmup_ratio",
    "optim.lr_floor": "optim.min_lr_ratio",
    "bias.look_every": "bias.test_every",
    "warmstart.batch": "warmstart.batch_size",
    "run.keep": "run.keep_checkpoints",
}
"""Old dotted key -> new dotted key."""
NEW_VALUES = {"algo.kl": "reward, loss_k2 or loss_k3"}
"""New dotted key -> its values, where the old key's values no longer fit."""
REMOVED = ("model.init", "model.rope_theta", "model.head_dim", "bias.kappa")
"""Keys that are constants now."""


def renamed(keys: Iterable[str]) -> str:
    """One sentence that names the new keys of the old ones among ``keys``; empty: all are current."""
    found = [_change(key) for key in keys if key in RENAMED or key in REMOVED]
    return f"some keys have changed: {', '.join(found)}." if found else ""


def _change(key: str) -> str:
    if key not in RENAMED:
        return f"{key} is a constant now, so remove it"
    new = RENAMED[key]
    return f"{key} is now {new}" + (f" ({NEW_VALUES[new]})" if new in NEW_VALUES else "")
