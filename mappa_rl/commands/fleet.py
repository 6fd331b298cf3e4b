"""Several runs at once: each a process of its own that works from its folder."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console

from mappa_rl.commands.ending import GRACE_S, end_tree
from mappa_rl.config import Config, load_config
from mappa_rl.config.run_folder import CONFIG, write_config
from mappa_rl.errors import ConfigError, RunError
from mappa_rl.evaluation.summary import SUMMARY
from mappa_rl.stopping import signal_of
from mappa_rl.training.folder import adopt
from mappa_rl.training.lock import locked

COMMAND = (sys.executable, "-m", "mappa_rl.cli", "train", "--checked", "--resume")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone")


def plan_seeds(config: Config, out: Path, seeds: Iterable[int]) -> list[Path]:
    """Write the config of one run per seed into a folder of its own in ``out``."""
    return [_plan(config, out / f"seed-{seed}", [f"run.seed={seed}"]) for seed in seeds]


def makes_warm_start(config: Config) -> bool:
    """Whether a run saves a warm start in its folder, which another run can start from."""
    own = config.model.kind == "tiny" or config.warmstart.steps > 0
    return own and not config.warmstart.path


def plan_shapings(config: Config, out: Path, seeds: Iterable[int], shapings: Sequence[str]) -> list[Path]:
    """Write one config per seed and shaping; all shapings of a seed start from the first one's warm start.

    Raises ConfigError for shapings whose folders would have the same name.
    """
    folders = []
    names = {shaping: re.sub(r"[^\w.-]+", "-", Path(shaping).name) for shaping in shapings}
    if len(set(names.values())) < len(names):
        raise ConfigError(f"--shapings {','.join(shapings)}: give their files different names.")
    for seed in seeds:
        first = out / f"{names[shapings[0]]}-seed-{seed}"
        for shaping in shapings:
            changes = [f"run.seed={seed}", f"env.shaping={shaping}"]
            if shaping != shapings[0] and makes_warm_start(config):
                changes.append(f"warmstart.path={first / 'warmstart'}")
            folders.append(_plan(config, out / f"{names[shaping]}-seed-{seed}", changes))
    return folders


def unfinished(folders: Sequence[Path]) -> list[Path]:
    """The runs that have no summary yet."""
    return [folder for folder in folders if not (folder / SUMMARY).is_file()]


def run_all(folders: Sequence[Path], console: Console, parallel: int = 1) -> None:
    """Finish every unfinished run, ``parallel`` at a time. Raises RunError that names the runs that failed.

    The preflight of all of them has passed. Each run has its own process; the name of its folder precedes its
    lines here. Runs that start from another run's warm start wait until all warm starts are made.
    """
    open_runs = unfinished(folders)
    own = [folder for folder in open_runs if not load_config(folder / CONFIG).warmstart.path]
    fleet = _Fleet(console)
    failed: list[Path] = []
    for wave in (own, [folder for folder in open_runs if folder not in own]):
        with ThreadPoolExecutor(parallel) as pool:
            try:
                codes = list(pool.map(fleet.run, wave))
            except KeyboardInterrupt as stop:
                fleet.interrupt(signal_of(stop))
                raise
        failed.extend(folder for folder, code in zip(wave, codes, strict=True) if code)
        if failed:
            break
    if failed:
        raise RunError(
            f"{len(failed)} of {len(folders)} runs failed: {', '.join(map(str, failed))}. Their last lines "
            f"above say why; `mappa-rl train --resume {folders[0].parent}` resumes the unfinished ones."
        )


def run_processes(config: Config, out: Path) -> None:
    """Finish the run in ``out`` in several processes, on this machine or a cluster. Raises RunError.

    This process makes the warm start.
    """
    from mappa_rl.telemetry.progress import Progress
    from mappa_rl.telemetry.times import KeptTimes
    from mappa_rl.training.room import check_room
    from mappa_rl.training.start import starting_model

    if config.cluster.name == "ray":
        check_room(config)
    with locked(out), Progress(f"{config.env.id}, seed {config.run.seed}") as progress:
        times = KeptTimes(out, progress)
        try:
            starting_model(adopt(config, out), out, progress)
        finally:
            times.keep()
    if config.cluster.name == "ray":
        from mappa_rl.commands.ray_fleet import lead

        lead(config, out, Console())
        return
    command = [
        *TORCHRUN,
        "--nproc-per-node",
        str(config.run.processes),
        "-m",
        "mappa_rl.training.worker",
        str(out),
    ]
    process = subprocess.Popen(command, env={"OMP_NUM_THREADS": "1", **os.environ}, process_group=0)
    try:
        code = process.wait()
    except KeyboardInterrupt as stop:
        end_tree(process, signal_of(stop))
        raise
    if code:
        raise RunError(
            f"a process of the run in {out} failed; the lines above say why. Resume it with "
            f"`mappa-rl train --resume {out}`."
        )


class _Fleet:
    """The processes of active runs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen[str]] = []
        self._stopping = False

    def run(self, folder: Path) -> int:
        with self._lock:
            if self._stopping:
                return 0
            process = subprocess.Popen(
                [*COMMAND, str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                encoding="utf-8",
                errors="replace",
                bufsize=1,
                process_group=0,
            )
            self._processes.append(process)
        assert process.stdout is not None
        for line in process.stdout:
            self._console.print(
                f"{folder.name} | {line.rstrip()}", markup=False, highlight=False, soft_wrap=True
            )
        return process.wait()

    def interrupt(self, number: signal.Signals) -> None:
        """Pass the signal on, wait until the runs have saved their work, then kill the rest."""
        with self._lock:
            self._stopping = True
            for process in self._processes:
                if process.poll() is None:
                    process.send_signal(number)
        until = time.monotonic() + GRACE_S
        for process in self._processes:
            try:
                process.wait(max(until - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                process.kill()


def _plan(config: Config, out: Path, changes: list[str]) -> Path:
    write_config(config.with_overrides(changes), out)
    return out
