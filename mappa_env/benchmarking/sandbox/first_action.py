"""The latency of the first action: a new process makes an environment and acts once."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any, NamedTuple

from mappa_env.errors import SandboxError

_PROGRAM = r"""
import json, sys, time
import gymnasium
import mappa_env
sandbox = json.loads(sys.argv[1])
began = time.perf_counter()
env = gymnasium.make("mappa/DSBench-v0", sandbox=sandbox)
made = time.perf_counter()
env.reset(seed=0)
info = env.step("```python\nprint('done')\n```")[-1]
done = time.perf_counter()
assert info["tool/status"] == "ok", info
print(json.dumps([made - began, done - began]), flush=True)
env.close()
"""


class FirstAction(NamedTuple):
    """Seconds of ``gym.make``, from its call to the answer, and from process start to the answer."""

    make: float
    answer: float
    whole: float


def first_action(sandbox: str | dict[str, Any]) -> FirstAction:
    """Measure a first action, including reset, the coach and the imports, as a user experiences it."""
    began = time.perf_counter()
    command = [sys.executable, "-W", "ignore", "-c", _PROGRAM, json.dumps(sandbox)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        whole = time.perf_counter() - began
        _, errors = process.communicate()
    if not line:
        raise SandboxError(f"sandbox={sandbox!r}: the first action gave no result: {errors.strip()[-400:]}")
    make, answer = json.loads(line)
    return FirstAction(make, answer, whole)
