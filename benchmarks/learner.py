"""Throughput of one optimizer step on the same recorded rollouts: our learner, TRL, padded loops and a floor.

A random Qwen3 (width 192, 4 layers, vocabulary 4,096, fp32) on a CPU, 64 rollouts of a 48-token prompt and
one action, in 8 groups of 8, with random rewards. Two sets: long-tailed action lengths, and equal ones.
``--rollouts DIR`` writes them there.

    floor                 forward and backward pass of our packs with cross entropy: no ratio, no clip, no
                          entropy, no statistics, no optimizer
    ours                  ``Learner.step``: pack, PPO loss, entropy, backward, clip, AdamW
    padded, as they come  micro-batches of 8 rollouts, padded to their longest; loss, backward, clip, AdamW
    padded, by length     the same, rollouts sorted by length first
    TRL, N at a time      ``GRPOTrainer`` through its ``rollout_func``, from there to the end of the optimizer
                          step, in a process of its own; the best of ``--trl-batches`` counts

All see the same weights (the learning rate is 0), advantages (TRL's own formula) and policy (the ratio is 1),
so loss and gradient norm must agree, and are compared. Logits are made for the actions alone, everywhere. TRL
has neither padding-free batches for this trainer nor Liger kernels on a CPU (they need Triton); gradient
checkpointing, which it turns on by default, is off here.

Repeats go round robin, and the first is not counted. Seconds are processor time, which with one thread equals
the wall time of an idle machine; ``clock`` is wall time. Padding does not count as tokens.

    python benchmarks/learner.py [--quick] [--json PATH]

TRL is left out if it is not installed: pip install trl==1.16.0 datasets
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import json
import math
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from learner_rollouts import (
    PROMPT,
    SETS,
    Outcome,
    Rollouts,
    Stopwatch,
    action_lengths,
    make_model,
    make_rollouts,
)
from learner_trl import TRL, worker
from rich.console import Console
from rich.table import Table

from mappa_rl.config import Algo, Optim
from mappa_rl.learner.attention import Segments, packed_attention
from mappa_rl.learner.batch import Batch
from mappa_rl.learner.learner import Learner
from mappa_rl.learner.losses import Objective
from mappa_rl.learner.lr_schedule import Schedule
from mappa_rl.learner.packing import pack, split_by_tokens

BUDGET = 2048
"""Tokens of a pack. On a CPU small packs are faster: their matrices stay in caches, and below the 32 MB from
which the C library asks the system for fresh, zeroed memory every time."""


def ours(model: Any, rollouts: Rollouts) -> Callable[[], Outcome]:
    optim = Optim(minibatches=1, tokens_per_micro_batch=BUDGET)
    schedule = Schedule(0.0, "constant", warmup=0, total=0, floor=0.0)
    learner = Learner(model, optim, schedule, temperature=1.0, critic=False, seed=0)
    batch = Batch(rollouts.samples, rollouts.advantages, rollouts.weights)

    def step() -> Outcome:
        watch = Stopwatch()
        stats = learner.step(batch, Objective(Algo()))
        return Outcome(*watch.read(), stats["loss"], stats["grad_norm"])

    return step


def floor(model: Any, rollouts: Rollouts) -> Callable[[], Outcome]:
    """The loss is the likelihood weighted by advantages, which has the gradient of PPO's at ratio 1."""
    lengths = [len(sample) for sample in rollouts.samples]
    packs = [
        pack(
            *([every[i] for i in part] for every in (rollouts.samples, rollouts.weights, rollouts.advantages))
        )
        for part in split_by_tokens(lengths, BUDGET)
    ]
    ready = [
        (
            torch.from_numpy(p.ids)[None],
            torch.from_numpy(p.position_ids)[None],
            torch.from_numpy(p.rows),
            torch.from_numpy(p.targets),
            torch.from_numpy(p.advantages),
            Segments.of(p.cu_seqlens, torch.device("cpu")),
        )
        for p in packs
    ]

    def step() -> Outcome:
        watch = Stopwatch()
        model.zero_grad()
        for ids, positions, rows, targets, advantages, segments in ready:
            with packed_attention(model):
                logits = model(
                    input_ids=ids,
                    position_ids=positions,
                    use_cache=False,
                    segments=segments,
                    logits_to_keep=rows,
                ).logits.squeeze(0)
            entropy = F.cross_entropy(logits, targets, reduction="none")
            ((entropy * advantages).sum() / rollouts.actions).backward()
        return Outcome(*watch.read(), -_mean_advantage(rollouts), _norm(model))

    return step


def padded(model: Any, rollouts: Rollouts, *, by_length: bool, batch: int = 8) -> Callable[[], Outcome]:
    samples = rollouts.samples
    order = list(range(len(samples)))
    if by_length:
        order.sort(key=lambda i: len(samples[i]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, betas=(0.9, 0.95), weight_decay=0.0, fused=True)

    def step() -> Outcome:
        watch, loss = Stopwatch(), 0.0
        for at in range(0, len(order), batch):
            chosen = order[at : at + batch]
            longest = max(len(samples[i]) for i in chosen)

            def rows(arrays: Sequence[Any], chosen: Any = chosen, longest: int = longest) -> torch.Tensor:
                return torch.from_numpy(
                    np.stack([np.pad(arrays[i], (0, longest - len(arrays[i]))) for i in chosen])
                )

            ids, seen = rows([s.ids for s in samples]), rows([np.ones(len(s), np.int64) for s in samples])
            old, values, weights = (
                rows(each)[:, PROMPT:]
                for each in ([s.logprobs for s in samples], rollouts.advantages, rollouts.weights)
            )
            logits = model(
                input_ids=ids, attention_mask=seen, use_cache=False, logits_to_keep=longest - PROMPT + 1
            ).logits[:, :-1]
            logprobs = logits.log_softmax(-1).gather(2, ids[:, PROMPT:, None])[..., 0]
            ratio = (logprobs - old).exp()
            gain = torch.minimum(ratio * values, ratio.clamp(0.8, 1.2) * values)
            part = -(gain * weights).sum() / rollouts.actions
            part.backward()
            loss += float(part.detach())
        norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))
        optimizer.step()
        optimizer.zero_grad()
        return Outcome(*watch.read(), loss, norm)

    return step


def _mean_advantage(rollouts: Rollouts) -> float:
    return float(sum(a.sum(dtype=np.float64) for a in rollouts.advantages)) / rollouts.actions


def _norm(model: Any) -> float:
    return float(torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="16 short rollouts, one repeat, TRL with one size"
    )
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument(
        "--rollouts", type=Path, metavar="DIR", help="write the rollouts there, one JSON a line"
    )
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--trl-batches", type=int, nargs="+", default=[4, 8, 16], metavar="N")
    parser.add_argument("--worker", nargs=6, help=argparse.SUPPRESS)  # what TRL's processes are started with
    args = parser.parse_args()
    if args.worker:
        kind, *numbers = args.worker
        worker(kind, *map(int, numbers))
        return
    count, longest, vocabulary, repeats, sizes = 64, 768, 4096, args.repeats, args.trl_batches
    if args.quick:
        count, longest, vocabulary, repeats, sizes = 16, 192, 512, 1, [8]
    torch.set_num_threads(args.threads)
    with_trl = all(importlib.util.find_spec(name) for name in ("trl", "datasets"))
    if not with_trl:
        print("TRL is left out, it is not installed here: pip install trl==1.16.0 datasets")
    found = {}
    for kind in args.sets:
        model = make_model(vocabulary)
        rollouts = make_rollouts(model, action_lengths(kind, count, longest))
        if args.rollouts:
            _publish(args.rollouts, kind, rollouts)
        steps: dict[str, Callable[[], Outcome]] = {
            "floor": floor(copy.deepcopy(model), rollouts),
            "ours": ours(copy.deepcopy(model), rollouts),
            "padded, as they come": padded(copy.deepcopy(model), rollouts, by_length=False),
            "padded, by length": padded(copy.deepcopy(model), rollouts, by_length=True),
        }
        rivals = {
            f"TRL, {size} at a time": TRL([kind, count, longest, vocabulary, size, args.threads])
            for size in (sizes if with_trl else [])
        }
        steps |= rivals
        outcomes: dict[str, list[Outcome]] = {name: [] for name in steps}
        for repeat in range(repeats + 1):
            for name, step in steps.items():
                outcome = step()
                if repeat:
                    outcomes[name].append(outcome)
        for rival in rivals.values():
            rival.close()
        found[kind] = _figures(rollouts, outcomes)
        _show(kind, rollouts, found[kind], args.threads, repeats)
    if args.json:
        facts = {"threads": args.threads, "repeats": repeats, "torch": torch.__version__, "found": found}
        args.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def _figures(rollouts: Rollouts, outcomes: dict[str, list[Outcome]]) -> dict[str, dict[str, float]]:
    out = {}
    right = outcomes["padded, as they come"][0]
    for name, mine in outcomes.items():
        seconds = statistics.median(outcome.seconds for outcome in mine)
        loss, norm = mine[0].loss, mine[0].norm
        out[name] = {
            "seconds": seconds,
            "clock": statistics.median(o.clock for o in mine),
            "tokens_per_s": rollouts.tokens / seconds,
            "least": min(o.seconds for o in mine),
            "most": max(o.seconds for o in mine),
            "action_tokens_per_s": rollouts.actions / seconds,
            "loss": loss,
            "norm": norm,
        }
        close = 2e-3 if name.startswith("TRL") else 1e-4  # TRL logs rounded figures
        if not (math.isclose(norm, right.norm, rel_tol=close) and abs(loss - right.loss) < close):
            raise SystemExit(f"{name} computes a different result: {mine[0]}, not {right}")
    return out


def _show(
    kind: str, rollouts: Rollouts, found: dict[str, dict[str, float]], threads: int, repeats: int
) -> None:
    longest = max(int(weight.sum()) for weight in rollouts.weights)
    table = Table(
        title=f"{kind}: {len(rollouts.samples)} rollouts, {rollouts.tokens:,} tokens, {rollouts.actions:,} "
        f"of actions (longest {longest}); threads {threads}, median of {repeats}"
    )
    columns = (
        "tokens/s",
        "action tokens/s",
        "seconds",
        "least-most",
        "clock",
        "ours is x",
        "loss",
        "grad norm",
    )
    for column in ("", *columns):
        table.add_column(column, justify="right" if column else "left")
    for name, row in found.items():
        table.add_row(
            name,
            f"{row['tokens_per_s']:,.0f}",
            f"{row['action_tokens_per_s']:,.0f}",
            f"{row['seconds']:.2f}",
            f"{row['least']:.2f}-{row['most']:.2f}",
            f"{row['clock']:.2f}",
            f"{row['seconds'] / found['ours']['seconds']:.2f}",
            f"{row['loss']:.5f}",
            f"{row['norm']:.4f}",
        )
    Console(width=140).print(table)
    rivals = {name: row["seconds"] for name, row in found.items() if name.startswith("TRL")}
    best = f"{min(rivals.values()) / found['ours']['seconds']:.1f} x TRL's best, " if rivals else ""
    print(f"ours: {best}{found['floor']['seconds'] / found['ours']['seconds']:.2f} of the floor")


def _publish(folder: Path, kind: str, rollouts: Rollouts) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"prompt": s.ids[:PROMPT].tolist(), "action": s.ids[PROMPT:].tolist(), "reward": reward})
        for s, reward in zip(rollouts.samples, rollouts.rewards, strict=True)
    ]
    (folder / f"{kind}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
