"""Run by torchrun: measures the memory that each process of a layout takes, one report a process.

``start`` and ``peak`` (bytes): the growth of the process's largest resident size while the policies start,
and until each has learned from two full micro-batches, over its size before. Before, a tiny team has gone
through all of it, so that libraries, threads and the first process group are not counted.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch

from mappa_rl.config import Config, load_config
from mappa_rl.learner.batch import Batch
from mappa_rl.learner.critic import ValueLoss, ValueTargets
from mappa_rl.learner.losses import Objective
from mappa_rl.learner.parallel import Processes
from mappa_rl.training import build, members
from mappa_rl.types import Sample, Span
from several_processes import report

LENGTH = 256


def samples_of(config: Config) -> list[Sample]:
    """Two full micro-batches for every process."""
    rng = np.random.default_rng(0)
    mask = np.arange(LENGTH) > 0
    logprobs = np.where(mask, -5.0, 0.0).astype(np.float32)
    count = 2 * config.run.processes * config.optim.tokens_per_micro_batch // LENGTH
    span = (Span(1, LENGTH, 1.0, True),)
    return [Sample(rng.integers(0, 250, LENGTH), mask, logprobs, span, "p", "a_0") for _ in range(count)]


def learn(config: Config, parts: Any) -> None:
    samples = samples_of(config)
    mass = [sample.action_mask.astype(np.float32) for sample in samples]
    for name, learner in parts.learners.items():
        reference = parts.references[name].logprobs(samples) if parts.references else None
        targets = None
        if config.algo.name == "ppo":
            values = learner.values(samples)
            targets = ValueTargets(values, mass, ValueLoss(0.5, 0.0))
        for _ in range(2):  # the optimizer's state begins with the first step
            learner.step(Batch(samples, mass, mass, reference, targets), Objective(config.algo))


def run(config: Config, start: Path, started: Callable[[], None]) -> None:
    if os.environ["RANK"] == "0":
        parts = build.assemble(config, start, plays=config.engine.name == "hf")
        started()
        with parts.processes:
            learn(config, parts)
        return
    follow = Processes.follow

    def serve(processes: Processes) -> None:
        started()
        follow(processes)

    Processes.follow = serve  # type: ignore[method-assign]
    members.follow(config, start)
    Processes.follow = follow  # type: ignore[method-assign]


def largest() -> int:
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text(encoding="ascii"))
    assert found is not None
    return int(found[1]) * 1024


def main(tiny: Path, start: Path, tiny_sizes: list[str], overrides: list[str]) -> None:
    torch.set_num_threads(1)
    run(load_config("demo", [*overrides, *tiny_sizes]), tiny, lambda: None)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    before = psutil.Process().memory_info().rss
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the largest size so far
    found: dict[str, int] = {}
    run(load_config("demo", overrides), start, lambda: found.update(start=largest() - before))
    report(found | {"peak": largest() - before})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]), json.loads(sys.argv[4]))
