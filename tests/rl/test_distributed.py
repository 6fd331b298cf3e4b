"""A process that leaves its group ends in peace."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

LEAVERS = """
import os, pathlib, sys
import torch
import torch.distributed as dist
from mappa_rl.distributed import join_by_file

ends = []
for one in range(20):
    child = os.fork()
    if not child:
        break
    ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
else:
    print(ends)
    os._exit(0)
join_by_file(pathlib.Path(sys.argv[1], str(one)), 0, 1)
kept = dist.group.WORLD  # as DeepSpeed's engines keep it
for _ in range(100):
    dist.all_reduce(torch.ones(8), async_op=True)
"""


def test_threads_of_a_group_that_outlives_its_end_do_not_abort_the_process(tmp_path: Path) -> None:
    """One in ten did, so twenty try: gloo's threads free tensors, with Python's lock, after they report."""
    command = [sys.executable, "-c", LEAVERS, str(tmp_path)]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}  # gloo, also beside a GPU
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=True)
    assert ast.literal_eval(done.stdout.splitlines()[-1]) == [0] * 20, done.stderr
