"""One process of a distributed run: ``torchrun -m mappa_rl.training.worker RUN``, by ``mappa-rl train``."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

import torch

from mappa_rl.config import load_config
from mappa_rl.config.run_folder import CONFIG
from mappa_rl.distributed import join_first
from mappa_rl.errors import CrewLost, MappaRLError
from mappa_rl.stopping import LIMIT_S, SIGNALS, Stopping, exit_status, signal_of
from mappa_rl.training.exhausted import resumable
from mappa_rl.training.members import follow
from mappa_rl.training.trainer import train
from mappa_rl.warmstart.warmstart import start_folder

HELD = "MAPPA_HELD_PORT"
"""Environment variable with the open socket at whose port the others meet this process, the first."""
LOST = 75
"""Exit status after the death of another crew's process: the run may go on from its last checkpoint."""


def main(out: Path) -> None:
    """Rank 0 runs the training in ``out``, which is checked; the other ranks follow it.

    Exits with status 1 and one line on standard error where the run cannot go on.
    """
    try:
        _take_part(out)
    except MappaRLError as error:
        print(f"mappa-rl: {error}", file=sys.stderr)
        sys.exit(1)


def _take_part(out: Path) -> None:
    config = load_config(out / CONFIG)
    if os.environ["RANK"] == "0":
        try:
            with Stopping(limit_s=LIMIT_S) as stopping, resumable(out):
                if held := os.environ.pop(HELD, None):
                    join_first(socket.socket(fileno=int(held)), config.run.processes)
                train(config, out, resume=True, checked=True, stopping=stopping)
        except KeyboardInterrupt as stop:
            sys.exit(exit_status(signal_of(stop)))
        except CrewLost as lost:
            print(f"error: {lost}", file=sys.stderr)
            sys.exit(LOST)
    else:
        for number in SIGNALS:  # rank 0 needs this process to save the run, and releases it then
            signal.signal(number, signal.SIG_IGN)
        torch.set_num_threads(config.run.torch_threads or torch.get_num_threads())
        with resumable(out):
            follow(config, start_folder(config, out))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
