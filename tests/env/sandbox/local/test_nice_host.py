"""A host that was started to yield, as with ``nice``: what it starts yields, too."""

from __future__ import annotations

import os
import subprocess
import sys

NICE = 5
RUN = f"""
import os
from mappa_env.sandbox import Limits, make_sandbox
os.nice({NICE})
sandbox = make_sandbox("local")
with sandbox.open_workspace() as workspace:
    print(sandbox.run(workspace, "import os; print(os.nice(0))", Limits()).stdout)
sandbox.close()
"""


def test_an_action_is_as_nice_as_its_host() -> None:
    run = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str(os.nice(0) + NICE)  # whoever runs the tests may be nice, too
