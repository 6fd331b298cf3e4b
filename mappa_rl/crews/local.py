"""A crew of processes of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from mappa_rl.config import Config
from mappa_rl.crews.crew import Crew

CONFIG, TASK, STORE = "config.yaml", "task.json", "group"
"""Files in the folder that a crew's processes begin with; ``STORE`` is where they find each other."""
MEMBER = (sys.executable, "-m", "mappa_rl.training.crew_member")
_END_S = 20.0
"""Seconds that a crew may take to end by itself."""


class LocalCrew(Crew):
    """Processes of this machine; their policies begin as ``start``.

    On a machine with GPUs, crew ``number`` takes those after the crews before it. Calls pass over a pipe that
    no other process has; when this process ends, so does the crew.
    """

    def __init__(self, number: int, policies: Sequence[str], config: Config, start: Path) -> None:
        super().__init__(number, policies)
        self._folder = tempfile.TemporaryDirectory(prefix="mappa-crew-")
        self._processes: list[subprocess.Popen[bytes]] = []
        self._pipe, theirs = Pipe()
        try:
            self._start(config, start, theirs)
        except BaseException:
            self.close()
            raise
        finally:
            theirs.close()

    def ready(self) -> None:
        """See ``Crew.ready``."""
        self._receive()

    def close(self) -> None:
        """See ``Crew.close``."""
        if self.idle and self._processes:
            with suppress(OSError):
                self._pipe.send(None)
            for process in self._processes:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_END_S)
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        self._pipe.close()
        self._folder.cleanup()

    def _start(self, config: Config, start: Path, theirs: Connection) -> None:
        folder, count = Path(self._folder.name), config.run.processes
        (folder / CONFIG).write_text(config.dump(), encoding="utf-8")
        task = {"crew": self.number, "start": str(start.resolve()), "pipe": theirs.fileno()}
        (folder / TASK).write_text(json.dumps(task), encoding="utf-8")
        own = _devices(self.number, count)
        for rank in range(count):
            variables = {"RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_RANK": str(rank), **own}
            self._processes.append(
                subprocess.Popen(
                    [*MEMBER, str(folder)],
                    env={"OMP_NUM_THREADS": "1", **os.environ, **variables} if count > 1 else _plain(own),
                    pass_fds=[] if rank else [theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    process_group=0,  # Ctrl-C is for the process that plays
                )
            )

    def _answer(self, member: str, method: str, options: dict[str, Any]) -> Any:
        try:
            self._pipe.send((member, method, options))
        except OSError:
            raise self._lost() from None
        return self._receive()

    def _receive(self) -> Any:
        try:
            found, error = self._pipe.recv()
        except (EOFError, OSError):
            raise self._lost() from None
        if error is not None:
            raise error
        return found


def _plain(variables: dict[str, str]) -> dict[str, str]:
    """The environment of a process that is a group of its own, whatever group this one is in."""
    group = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
    return {**{name: value for name, value in os.environ.items() if name not in group}, **variables}


def _devices(number: int, count: int) -> dict[str, str]:
    """The GPUs of crew ``number``, as an environment variable; empty on a machine without."""
    import torch

    if not torch.cuda.is_available():
        return {}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    every = visible.split(",") if visible else [str(each) for each in range(torch.cuda.device_count())]
    return {"CUDA_VISIBLE_DEVICES": ",".join(every[number * count : (number + 1) * count])}
