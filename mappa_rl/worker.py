"""One of several processes of a run, which ``mappa-rl train`` starts: ``torchrun -m mappa_rl.worker RUN``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

from mappa_rl.assembly import assemble
from mappa_rl.config import Config, load_config
from mappa_rl.runs import CONFIG
from mappa_rl.trainer import train
from mappa_rl.warmstart import start_folder


def main(out: Path) -> None:
    """The first process carries the run in ``out`` on, the others train with it. Raises RunError."""
    config = load_config(out / CONFIG)
    if os.environ["RANK"] == "0":
        train(config, out, resume=True)
    else:
        follow(config, out)


def follow(config: Config, out: Path) -> None:
    """Do what the first process says until it is done."""
    torch.set_num_threads(config.run.torch_threads or torch.get_num_threads())
    assemble(config, start_folder(config, out), plays=False).processes.follow()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
