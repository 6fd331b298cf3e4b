"""Whole steps of the learner: speed, and memory against the estimate."""

from __future__ import annotations

from gpu_parts.figure import Figure, at_most
from gpu_parts.where import Where


def learner(where: Where) -> list[Figure]:
    return _learner(where, recompute=False)


def learner_recomputed(where: Where) -> list[Figure]:
    return _learner(where, recompute=True)


def _learner(where: Where, *, recompute: bool) -> list[Figure]:
    """Whole steps: bf16, ZeRO 2, packs of 8,192 tokens; the peak against the estimate of a dry run."""
    from gpu_learner import measure

    shape = where.sizes
    found = measure(shape, where.device, 2 if where.tiny else 5, recompute=recompute)
    rows = [
        ("parameters", f"{found['parameters'] / 1e6:,.0f} M", ""),
        ("tokens/s", f"{found['tokens_per_s']:,.0f}", ""),
        ("seconds a step", f"{found['seconds']:.3f}", f"{found['least']:.3f}-{found['most']:.3f}"),
        ("MFU", "-" if found["mfu"] is None else f"{found['mfu']:.1%}", ""),
    ]
    total = sum(found["kinds"].values())
    rows += [(f"time: {kind}", f"{spent / total:.0%}", "") for kind, spent in found["kinds"].items()]
    expected = _estimate(where, found["parameters"], recompute) / 1e9
    if found["peak_gb"] is None:
        rows.append(("peak memory", "-", f"estimate {expected:.3g} GB"))
    else:
        gap = abs(found["peak_gb"] / expected - 1)
        rows.append(("peak memory", f"{found['peak_gb']:.1f} GB", at_most(gap, 0.1, f"of {expected:.1f} GB")))
    return rows


def _estimate(where: Where, parameters: int, recompute: bool) -> int:
    """Bytes that the estimate of a dry run gives one trained policy, without reference and generation."""
    from mappa_rl.config import load_config
    from mappa_rl.models.policy_map import PolicyMap
    from mappa_rl.models.shape import Heads, Shape
    from mappa_rl.training.preflight.memory import estimate

    s = where.sizes
    overrides = ["optim.dtype=bf16", "optim.zero_stage=2", f"optim.tokens_per_micro_batch={s.pack}"]
    recomputing = f"optim.gradient_checkpointing={str(recompute).lower()}"
    heads = Heads(s.heads, s.kv_heads, s.head_dim)
    need = estimate(
        load_config("demo", [*overrides, recomputing]),
        Shape.qwen3(parameters, s.vocabulary, s.width, s.layers, heads, s.mlp),
        PolicyMap({"a_0": "p"}),
        processes=1,
        device=where.device,
    )
    return need.weights + need.gradients + need.optimizer + need.activations + need.logits
