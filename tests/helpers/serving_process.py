"""``mappa-env serve`` as a process of its own, on loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

END_S = 10.0


@dataclass(frozen=True)
class Serving:
    """``output``: where everything that it prints goes."""

    url: str
    process: subprocess.Popen[bytes]
    output: Path

    def end(self, number: int = signal.SIGTERM) -> tuple[int, float]:
        """Its exit status, and the seconds until then."""
        began = time.monotonic()
        self.process.send_signal(number)
        return self.process.wait(END_S), time.monotonic() - began


@contextmanager
def serve(output: Path, *arguments: str, **variables: str) -> Iterator[Serving]:
    """Serves at any free port until the block ends."""
    environment = {k: v for k, v in os.environ.items() if k != "MAPPA_SERVE_TOKEN"} | variables
    with output.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "mappa_env.cli", "serve", *arguments],
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment,
        )
    try:
        yield Serving(_url(process, output), process, output)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _url(process: subprocess.Popen[bytes], output: Path) -> str:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        words = output.read_text().split()
        if "at" in words and words[-1] == "ends)":
            return words[words.index("at") + 1]
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise AssertionError(f"the server did not start: {output.read_text()}")
