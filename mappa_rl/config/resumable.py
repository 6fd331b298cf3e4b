"""What may differ when a run is resumed: nothing that changes what was measured or learned so far."""

from __future__ import annotations

from collections.abc import Sequence

from mappa_rl.config.schema import ALIASES
from mappa_rl.errors import ConfigError

BOOKKEEPING = (
    "run.checkpoint_every",
    "run.keep_checkpoints",
    "run.checkpoints_mb",
    "run.torch_threads",
    "run.tensorboard",
    "run.wandb",
    "run.weave",
    "run.trace_every",
    "run.record_rollouts",
)
"""Keys that say how a run is kept, not what it does."""
RESUMABLE = (
    "run.steps",
    "run.processes",
    *BOOKKEEPING,
    "optim.lr",
    "optim.min_lr_ratio",
    "optim.max_skipped_updates",
    "optim.tokens_per_micro_batch",
    "optim.gradient_checkpointing",
    "optim.attention",
    "policies.lr",
    "placement.crews",
    "placement.engines",
    "engine.tensor_parallel",
    "engine.replicas",
    "engine.devices",
    "engine.memory_fraction",
    "engine.kv_cache_mb",
    "engine.max_num_seqs",
    "engine.eager",
    "engine.sleep",
    "cluster.name",
    "cluster.address",
    "cluster.env_workers",
    "cluster.envs_per_worker",
    "cluster.env_cpus",
    "cluster.env_node",
    "cluster.engine_cpus",
    "cluster.engine_node",
    "cluster.learner_cpus",
    "cluster.learner_node",
    "cluster.restarts",
    "cluster.moves",
    "cluster.placement_s",
    "rollout.workers",
    "rollout.lockstep_groups",
    "rollout.max_episode_s",
    "rollout.retries",
    "rollout.max_masked_fraction",
    "eval.every",
)
"""Keys, or beginnings of keys, that ``--resume`` accepts: limits, resources, records and learning rates."""


def check_resumable(overrides: Sequence[str]) -> None:
    """Raise ConfigError for overrides that a resumed run cannot take."""
    wrong = [text for text in overrides if not _allowed(text.partition("=")[0])]
    if wrong:
        raise ConfigError(
            f"--resume cannot change {', '.join(wrong)}: the run so far was made with another value. It can "
            f"change {', '.join(RESUMABLE)}. Start a new run to change anything else."
        )


def _allowed(key: str) -> bool:
    key = ALIASES.get(key, key)
    return any(key == each or key.startswith(f"{each}.") for each in RESUMABLE)
