"""Where an engine's processes write: a file of the run, or where this process does."""

from __future__ import annotations

import json
import multiprocessing.spawn
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

PYTHON = Path(__file__).with_name("logged_python.sh")
_LAST_LINES = 20


@dataclass(frozen=True, slots=True)
class EngineLog:
    """``path`` is appended to; None: no file, and vLLM's errors appear in the console."""

    path: Path | None = None

    @contextmanager
    def config_file(self) -> Iterator[str | None]:
        """While vLLM starts: its logging configuration, which sends its lines there, also this process's."""
        if self.path is None:
            yield None
            return
        from vllm.logger import DEFAULT_LOGGING_CONFIG

        config = deepcopy(DEFAULT_LOGGING_CONFIG)
        config["handlers"]["vllm"] = {
            "class": "logging.FileHandler", "filename": str(self.path), "encoding": "utf-8",
            "formatter": "vllm", "level": "INFO",
        }  # fmt: skip
        config["loggers"]["vllm"]["level"] = "INFO"
        with tempfile.NamedTemporaryFile("w", prefix="mappa-logging-", suffix=".json") as file:
            json.dump(config, file)
            file.flush()
            yield file.name

    @contextmanager
    def output(self, began: str) -> Iterator[dict[str, str]]:
        """While processes are spawned: what they and their libraries print goes there, below ``began``.

        Gives the variables that the environment must have meanwhile. The interpreter that ``multiprocessing``
        starts is exchanged, as vLLM does where it binds processes to memory: it offers nothing else.
        """
        if self.path is None:
            yield {}
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"--- {time.strftime('%Y-%m-%d %H:%M:%S')}: {began}\n")
        before = os.fsdecode(multiprocessing.spawn.get_executable())
        multiprocessing.spawn.set_executable(str(PYTHON))
        try:
            yield {"MAPPA_ENGINE_PYTHON": before, "MAPPA_ENGINE_LOG": str(self.path.resolve())}
        finally:
            multiprocessing.spawn.set_executable(before)

    def last_lines(self) -> str:
        """The end of an error's message: why the processes died, or where it is to be read."""
        if self.path is None:
            return "The lines that its processes wrote above say why."
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
        return "\n".join([f"Its log is {self.path}, which ends with", *lines])
