"""The same list once more, as an ordinary user: no root, no capability, nothing set up in advance."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from attacks.as_nobody import CLOSED, NOBODY

HERE = Path(__file__).parent
CORE = ["read", "write", "links", "network", "processes", "kernel", "memory", "disk", "exhaustion", "state"]
"""Where it could make a difference who runs it."""
LIMIT_S = 600


@pytest.mark.skipif(
    os.getuid() != 0, reason="only root can become somebody else; this run is the one as a user"
)
def test_the_list_holds_for_an_ordinary_user() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as home:
        os.chown(home, NOBODY, NOBODY)
        command = [
            sys.executable, str(HERE / "as_nobody.py"), sys.executable, "-m", "pytest",
            *(str(HERE / f"test_{name}.py") for name in CORE),
            "-k", "not canary", "-p", "no:cacheprovider", "-p", "no:xdist", "-rf", "--tb=short",
        ]  # fmt: skip
        environment = {
            "HOME": home, "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        with open(os.path.join(home, "output"), "w+b") as output:
            child = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip
            try:
                code = child.wait(LIMIT_S)
            finally:
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGKILL)
                    child.wait()
                output.seek(0)
                said = output.read().decode("utf-8", "replace")[-6000:]
                print(said)
        if code == CLOSED:
            pytest.skip("interpreter or project are closed to other users, and cannot be opened by mounts")
        assert code == 0, said
