"""A process of a crew: ``python -m mappa_rl.training.crew_member FOLDER``, started by ``LocalCrew``."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

import torch

from mappa_rl.config import load_config
from mappa_rl.crews.local import CONFIG, STORE, TASK
from mappa_rl.distributed import join_by_file
from mappa_rl.errors import LearnerError, MappaRLError
from mappa_rl.stopping import SIGNALS
from mappa_rl.training.members import Members, crew_members


def main(folder: Path) -> None:
    """Train with the others of the crew until it is released, or the process that plays has ended."""
    for number in SIGNALS:  # the process that plays needs this one to save the run, and releases it then
        signal.signal(number, signal.SIG_IGN)
    config = load_config(folder / CONFIG)
    task = json.loads((folder / TASK).read_text(encoding="utf-8"))
    torch.set_num_threads(config.run.torch_threads or torch.get_num_threads())
    rank, count = int(os.environ.get("RANK", "0")), config.run.processes
    if count > 1:
        join_by_file(folder / STORE, rank, count)
    if rank:
        crew_members(config, Path(task["start"]), task["crew"]).processes.follow()
        return
    with Connection(task["pipe"]) as pipe:
        try:
            members = crew_members(config, Path(task["start"]), task["crew"])
        except Exception as error:  # noqa: BLE001  # the process that plays raises it
            _fail(pipe, error)
        pipe.send((None, None))
        with members.processes:
            serve(members, pipe)


def serve(members: Members, pipe: Connection) -> None:
    """Answer calls until there are none, or one raises: the caller gets that."""
    while (order := _next(pipe)) is not None:
        name, method, options = order
        try:
            found = members.answer(name, method, options)
        except Exception as error:  # noqa: BLE001  # the process that plays raises it
            _fail(pipe, error)
        pipe.send((found, None))


def _fail(pipe: Connection, error: Exception) -> NoReturn:
    """End with ``error`` as the answer: there may be half an update."""
    if not isinstance(error, MappaRLError):
        error.add_note("".join(traceback.format_exception(error)))
    try:
        pipe.send((None, error))
    except (pickle.PicklingError, TypeError, AttributeError):
        pipe.send((None, LearnerError(f"{type(error).__name__}: {error}")))
    sys.exit(1)


def _next(pipe: Connection) -> Any:
    try:
        return pipe.recv()
    except EOFError:  # the process that plays was killed
        return None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
