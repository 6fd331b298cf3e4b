"""The log of an engine's processes: a file of the run, or the console of this process."""

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
_HEADLINE = "--- "


@dataclass(frozen=True, slots=True)
class EngineLog:
    """Appends to the file ``path``; None: no file, and vLLM's errors appear in the console."""

    path: Path | None = None

    @contextmanager
    def config_file(self) -> Iterator[str | None]:
        """The file of a logging configuration that sends all of vLLM's lines to the log; None without one."""
        if self.path is None:
            yield None
            return
        from vllm.logger import DEFAULT_LOGGING_CONFIG

        config = deepcopy(DEFAULT_LOGGING_CONFIG)
        config["handlers"]["vllm"] = {
            "class": "logging.FileHandler",
            "filename": str(self.path),
            "encoding": "utf-8",
            "formatter": "vllm",
            "level": "INFO",
        }
        config["loggers"]["vllm"]["level"] = "INFO"
        with tempfile.NamedTemporaryFile("w", prefix="mappa-logging-", suffix=".json") as file:
            json.dump(config, file)
            file.flush()
            yield file.name

    @contextmanager
    def output(self, began: str) -> Iterator[dict[str, str]]:
        """Send the output of processes spawned in this block to the log, under the headline ``began``.

        Yields the environment variables that these processes need. Replaces the interpreter that
        ``multiprocessing`` starts, as vLLM does to bind processes to memory: there is no other hook.
        """
        if self.path is None:
            yield {}
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{_HEADLINE}{time.strftime('%Y-%m-%d %H:%M:%S')}: {began}\n")
        before = os.fsdecode(multiprocessing.spawn.get_executable())
        multiprocessing.spawn.set_executable(str(PYTHON))
        try:
            yield {"MAPPA_ENGINE_PYTHON": before, "MAPPA_ENGINE_LOG": str(self.path.resolve())}
        finally:
            multiprocessing.spawn.set_executable(before)

    def newest(self) -> str:
        """What was written since the newest headline; empty without a file."""
        if self.path is None:
            return ""
        text = self.path.read_text(encoding="utf-8", errors="replace")
        return text[text.rfind(f"\n{_HEADLINE}") + 1 :]

    def last_lines(self) -> str:
        """The end of an error message: the last lines of the log, or where to find them."""
        if self.path is None:
            return "Its processes wrote the reason above."
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
        return "\n".join([f"Its log, {self.path}, ends with", *lines])
