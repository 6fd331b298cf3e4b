"""Is the main memory that a dry run shows what the run takes, with its sandboxes and vLLM's processes?

Plays a recipe on a CPU, in a temporary folder, and adds up the proportional sizes (PSS) of all its processes
again and again. Prints the largest sum and what it consists of, beside the estimate.

    python benchmarks/run_memory.py smollm2_lora warmstart.steps=2 warmstart.warmup_steps=1 \\
        run.steps=1 eval.episodes=4 eval.calibration_temperatures=[] [KEY=VALUE ...]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil

from mappa_rl.commands.fleet import COMMAND
from mappa_rl.config import load_config
from mappa_rl.config.environment import env_card
from mappa_rl.config.run_folder import write_config
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.training.preflight.model import known_shape
from mappa_rl.training.preflight.resources import footprint

PAUSE_S = 0.5
"""Between two looks: one at a process of some GB takes up to 30 ms of a core."""


def sizes(root: psutil.Process) -> Counter[str]:
    """Bytes of a process and of all below it, by the end of their command lines; none once it has ended."""
    found = Counter[str]()
    try:
        for process in (root, *root.children(recursive=True)):
            try:
                found[" ".join(process.cmdline())[-60:]] += process.memory_full_info().pss
            except psutil.NoSuchProcess:  # it has ended since
                continue
    except psutil.NoSuchProcess:
        pass
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mappa-run-memory-") as out:
        config = load_config(args.recipe, [*args.overrides, f"run.out={out}"])
        shape = known_shape(config)
        if shape is None:
            sys.exit(f"model.kind={config.model.kind} is not on this machine.")
        team = env_card(config.env.id).team.names
        need = footprint(
            config, shape, PolicyMap.from_spec(config.policies.map, team, config.policies.frozen)
        )
        write_config(config, Path(out))
        largest = Counter[str]()
        with subprocess.Popen([*COMMAND, out]) as process:
            root = psutil.Process(process.pid)
            while process.poll() is None:
                largest = max(largest, sizes(root), key=Counter.total)
                time.sleep(PAUSE_S)
        if process.returncode:
            sys.exit(process.returncode)
    for name, size in largest.most_common():
        print(f"{size / 1e6:8,.0f} MB  ...{name}")
    print(f"peak {largest.total() / 1e9:.2f} GB, estimate {need.main / 1e9:.2f} GB")
    print(f"estimate / peak: {need.main / largest.total():.2f}")


if __name__ == "__main__":
    main()
