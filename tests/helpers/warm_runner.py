"""Runs many scripts quickly: each in a fork of one interpreter that has loaded the data libraries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

WARM = """
import json, os, sys, traceback
import pandas, sklearn.ensemble, sklearn.dummy
for job in json.load(sys.stdin):
    for position, code in enumerate(job["codes"]):
        pid = os.fork()
        if pid == 0:
            os.chdir(job["folder"])
            out = os.open(f"../out{position}", os.O_CREAT | os.O_WRONLY)
            os.dup2(out, 1), os.dup2(out, 2)
            try:
                exec(compile(code, "<action>", "exec", dont_inherit=True), {"__name__": "__main__"})
            except BaseException:
                traceback.print_exc()
                sys.stdout.flush()
                os._exit(1)
            sys.stdout.flush()
            os._exit(0)
        with open(os.path.join(job["folder"], "..", f"exit{position}"), "w") as stream:
            stream.write(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
"""


def run_warm(jobs: Sequence[Mapping[str, Any]]) -> None:
    """Each job: ``folder`` to run in and ``codes`` to run in order.

    The output of code ``i`` goes to ``<folder>/../out<i>``, its exit status to ``<folder>/../exit<i>``.
    """
    subprocess.run(
        [sys.executable, "-c", WARM],
        input=json.dumps(list(jobs)),
        text=True,
        check=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
