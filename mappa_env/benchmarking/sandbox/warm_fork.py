"""The floor of the benchmark: the cost of an action if a warm interpreter only forks for it.

No isolation, no limits, no file history: use it only to measure, never for a model's code. The interpreter
has the environment variables, imports and warm-up of ``local``'s template, so the difference is the cost of
the sandbox itself.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from mappa_env.errors import SandboxError
from mappa_env.sandbox.base import Result
from mappa_env.sandbox.local import start

LOCAL = Path(start.__file__).parent
"""The folder of the sandbox whose interpreter this imitates."""
_Job = tuple[str, str, Future[Result]]
_TEMPLATE = """
import gc, json, os, sys, traceback
sys.path.insert(0, sys.argv[2])
from inside import preload
del sys.path[0]
preload.load(json.loads(sys.argv[1]), os.environ["MPLCONFIGDIR"])
gc.collect()
gc.freeze()
print("ready", flush=True)
for line in sys.stdin:
    folder, code = json.loads(line)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.dup2(write, 1)
            os.dup2(write, 2)
            os.chdir(folder)
            exec(compile(code, "<action>", "exec", dont_inherit=True), {"__name__": "__main__"})
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)
    os.close(write)
    with open(read, "rb") as stream:
        out = stream.read().decode("utf-8", "replace")
    print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), out]), flush=True)
"""


class WarmFork:
    """One warm interpreter per core; they take actions in order of arrival. Thread-safe."""

    name = "floor"

    def __init__(self, python: str, environment: Mapping[str, str], preload: Sequence[str]) -> None:
        """Start ``python`` with ``environment``; it imports the modules of ``preload`` that it has."""
        command = [python, "-s", "-P", "-c", _TEMPLATE, json.dumps(list(preload)), str(LOCAL)]
        self._folder = tempfile.mkdtemp(prefix="mappa-floor-")
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._templates = [
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
                env={**environment, "MPLCONFIGDIR": self._folder},
            )
            for _ in os.sched_getaffinity(0)
        ]
        self._threads = [threading.Thread(target=self._serve, args=(each,)) for each in self._templates]
        ready = [each.stdout is not None and each.stdout.readline() == "ready\n" for each in self._templates]
        for thread in self._threads:
            thread.start()
        if not all(ready):
            self.close()
            raise SandboxError(f"python={python!r} cannot import the sandbox's libraries.")

    def caller(self) -> Caller:
        """See ``backends.Backend.caller``."""
        return Caller(self, tempfile.mkdtemp(dir=self._folder))

    def ask(self, folder: str, code: str) -> Result:
        """Run ``code`` in ``folder`` and wait. Raises SandboxError if the warm interpreter died."""
        answer: Future[Result] = Future()
        self._jobs.put((folder, code, answer))
        return answer.result()

    def close(self) -> None:
        """End all interpreters and remove the callers' folders."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread, template in zip(self._threads, self._templates, strict=True):
            thread.join()
            template.kill()
            template.communicate()
        shutil.rmtree(self._folder)

    def _serve(self, template: subprocess.Popen[str]) -> None:
        assert template.stdin is not None
        assert template.stdout is not None
        while job := self._jobs.get():
            folder, code, answer = job
            try:
                template.stdin.write(json.dumps([folder, code]) + "\n")
                template.stdin.flush()
                status, out = json.loads(template.stdout.readline())
            except (OSError, ValueError) as error:
                answer.set_exception(SandboxError(f"the warm interpreter of the floor has died: {error}"))
            else:
                answer.set_result(Result("error" if status else "ok", status, out, "", isolation="none"))


@dataclass(frozen=True)
class Caller:
    """One caller's folder."""

    floor: WarmFork
    folder: str

    def run(self, code: str, seed: int) -> Result:
        """See ``backends.Caller.run``; the floor ignores ``seed``."""
        return self.floor.ask(self.folder, code)

    def close(self) -> None:
        """See ``backends.Caller.close``."""
        shutil.rmtree(self.folder)


def warm_floor(python: str | None) -> WarmFork:
    """The floor of ``local`` in ``python`` (default: this interpreter)."""
    return WarmFork(python or sys.executable, start.ENVIRONMENT, start.PRELOAD)
