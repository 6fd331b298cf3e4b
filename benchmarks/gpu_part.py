"""Run one part of ``gpu_all.sh``: measure one path of the code on one GPU, and check it.

A part returns rows of (figure, value, check). It raises Skipped where it cannot run. What a part compares
with is computed next to it, by a plain forward pass or the CPU, with tolerances for bf16.

    python benchmarks/gpu_part.py PART [--device cuda] [--shape 1b] --json PATH --scratch FOLDER
"""

from __future__ import annotations

import argparse
import json
import traceback
from collections.abc import Callable
from pathlib import Path

import torch
from gpu_parts.attention import attention
from gpu_parts.figure import Figure, Wrong
from gpu_parts.generation import generation_hf
from gpu_parts.gradients import gradients
from gpu_parts.head import head
from gpu_parts.ipc import ipc
from gpu_parts.learner import learner, learner_recomputed
from gpu_parts.machine import machine
from gpu_parts.package import Skipped
from gpu_parts.rollouts import rollouts_ours, rollouts_trl
from gpu_parts.run import run_hf, run_offload, run_vllm, run_vllm_bf16, run_vllm_lora
from gpu_parts.vllm import vllm, vllm_eager
from gpu_parts.where import Where

FUNCTIONS: dict[str, Callable[[Where], list[Figure]]] = {
    "machine": machine,
    "gradients": gradients,
    "attention": attention,
    "ipc, two processes": ipc,
    "learner": learner,
    "head": head,
    "run, hf": run_hf,
    "vllm": vllm,
    "run, vllm, bf16 and sleep": run_vllm_bf16,
    "run, vllm, adapters": run_vllm_lora,
    "learner, layers recomputed": learner_recomputed,
    "generation, hf": generation_hf,
    "rollouts, ours": rollouts_ours,
    "rollouts, TRL": rollouts_trl,
    "run, offload": run_offload,
    "run, vllm": run_vllm,
    "vllm, eager": vllm_eager,
}


def checked(part: str, where: Where) -> list[Figure]:
    """The rows of a part. Raises Skipped, Wrong, and whatever the part raises."""
    if where.device == "cuda" and not torch.cuda.is_available():
        raise Skipped("torch finds no CUDA GPU")
    try:
        rows = FUNCTIONS[part](where)
    except ModuleNotFoundError as error:
        raise Skipped(f"{error.name} is not installed") from error
    if any(row[2].startswith("WRONG") for row in rows):
        raise Wrong(rows)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("part", choices=FUNCTIONS)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--shape", choices=("1b", "tiny"), default="1b")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    args = parser.parse_args()
    kind, why, rows = "ok", "", list[Figure]()
    try:
        rows = checked(args.part, Where(args.device, args.shape, args.scratch))
    except Skipped as error:
        kind, why = "skipped", str(error)
    except Wrong as error:
        kind, why, rows = "wrong", str(error), error.rows
    except Exception as error:  # noqa: BLE001  the table reports it
        traceback.print_exc()
        kind, why = "failed", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    args.json.write_text(json.dumps({"kind": kind, "why": why, "rows": rows}), encoding="utf-8")


if __name__ == "__main__":
    main()
