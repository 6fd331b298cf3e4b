"""Run by torchrun: reports how many parameters each process holds for each layout.

Parameters are found by the garbage collector, so that a forgotten reference counts; each storage once.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from mappa_rl.config import load_config
from mappa_rl.learner.parallel import Processes
from mappa_rl.training import build, members
from several_processes import report


def parameters() -> dict[int, int]:
    """Numbers in memory by address of their storage: whole parameters, and this process's parts of them."""
    found: dict[int, int] = {}
    for thing in gc.get_objects():
        if isinstance(thing, nn.Parameter) and thing.device.type != "meta":
            for tensor in (thing, getattr(thing, "ds_tensor", None)):
                if tensor is not None and tensor.numel():
                    storage = tensor.untyped_storage()
                    found[storage.data_ptr()] = storage.nbytes() // tensor.element_size()
    return found


def main(start: Path, layouts: list[list[str]]) -> None:
    torch.set_num_threads(1)
    counts: list[int] = []
    kept: list[Any] = []  # so that no address is used twice
    held: dict[int, int] = {}
    follow = Processes.follow

    def count() -> None:
        gc.collect()
        now = parameters()
        counts.append(sum(size for place, size in now.items() if place not in held))
        held.update(now)

    def counted(self: Processes) -> None:
        count()
        kept.append(self)
        follow(self)

    Processes.follow = counted  # type: ignore[method-assign]
    for overrides in layouts:
        config = load_config("demo", ["run.processes=2", *overrides])
        if os.environ["RANK"] == "0":
            parts = build.assemble(config, start, plays=config.engine.name == "hf")
            kept.append(parts)
            count()
            with parts.processes:
                pass
        else:
            members.follow(config, start)
    report({"counts": counts})


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
