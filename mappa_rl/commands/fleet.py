"""Where runs go, and several runs at once: each a process of its own that works from its folder."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console

from mappa_rl.config import Config, load_config
from mappa_rl.errors import RunError
from mappa_rl.results import FOLDER
from mappa_rl.runs import CONFIG
from mappa_rl.summary import SUMMARY

COMMAND = (sys.executable, "-m", "mappa_rl.cli", "train", "--resume")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone")
GRACE_S = 20.0
"""Seconds that interrupted runs have to put their things away."""


def new_folder(config: Config, recipe: str) -> Path:
    """The folder of a new run: ``run.out``, or ``runs/<recipe>-<time>``. Raises RunError if it is taken."""
    if config.run.out:
        out = Path(config.run.out)
        if out.is_dir() and any(out.iterdir()):
            raise RunError(
                f"{out} is not empty: go on with `mappa-rl train --resume {out}`, or choose another out=."
            )
        return out
    return next_folder(Path("runs") / f"{Path(recipe).stem}-{time.strftime('%Y%m%d-%H%M%S')}")


def next_folder(path: Path) -> Path:
    """``path``, or ``path-2``, ``path-3`` and so on where that exists."""
    numbered = (path.with_name(f"{path.name}-{n}") for n in itertools.count(2))
    return next(free for free in itertools.chain([path], numbered) if not free.exists())


def write_config(config: Config, out: Path) -> Config:
    """Put the resolved config into the run's folder, which it names as ``run.out``, and return it."""
    out.mkdir(parents=True, exist_ok=True)
    config = config.model_copy(update={"run": config.run.model_copy(update={"out": str(out)})})
    draft = out / f"{CONFIG}.new"
    draft.write_text(config.dump(), encoding="utf-8")
    draft.replace(out / CONFIG)
    return config


def forget_after(out: Path) -> None:
    """Remove what was measured at the end of a run: its end has moved."""
    for path in (*out.glob(f"{FOLDER}/after-T*.jsonl"), out / "traces" / "after.jsonl", out / SUMMARY):
        path.unlink(missing_ok=True)


def plan_seeds(config: Config, out: Path, seeds: Iterable[int]) -> list[Path]:
    """Write the configs of one run per seed into folders of ``out``."""
    return [_plan(config, out / f"seed-{seed}", [f"run.seed={seed}"]) for seed in seeds]


def makes_warm_start(config: Config) -> bool:
    """Whether a run leaves a warm start of its own in its folder, which another can begin with."""
    own = config.model.kind == "tiny" or config.warmstart.steps > 0
    return own and not config.warmstart.path


def plan_shapings(config: Config, out: Path, seeds: Iterable[int], shapings: Sequence[str]) -> list[Path]:
    """One run per seed and shaping; all shapings of a seed begin with the warm start of the first."""
    folders = []
    for seed in seeds:
        first = out / f"{shapings[0]}-seed-{seed}"
        for shaping in shapings:
            changes = [f"run.seed={seed}", f"env.shaping={shaping}"]
            if shaping != shapings[0] and makes_warm_start(config):
                changes.append(f"warmstart.path={first / 'warmstart'}")
            folders.append(_plan(config, out / f"{shaping}-seed-{seed}", changes))
    return folders


def run_all(folders: Sequence[Path], console: Console, parallel: int = 1) -> None:
    """Carry every unfinished run to its end, ``parallel`` at a time. Raises RunError for those that fail.

    Each run has a process of its own; its lines appear here behind its folder's name. Runs that begin with
    another's warm start wait for all those that make their own.
    """
    open_runs = [folder for folder in folders if not (folder / SUMMARY).is_file()]
    own = [folder for folder in open_runs if not load_config(folder / CONFIG).warmstart.path]
    fleet = _Fleet(console)
    failed: list[Path] = []
    for wave in (own, [folder for folder in open_runs if folder not in own]):
        with ThreadPoolExecutor(parallel) as pool:
            try:
                codes = list(pool.map(fleet.run, wave))
            except KeyboardInterrupt:
                fleet.interrupt()
                raise
        failed.extend(folder for folder, code in zip(wave, codes, strict=True) if code)
        if failed:
            break
    if failed:
        raise RunError(
            f"{len(failed)} of {len(folders)} runs failed: {', '.join(map(str, failed))}. Their last lines "
            f"above say why; `mappa-rl train --resume {folders[0].parent}` goes on with what is unfinished."
        )


def run_processes(config: Config, out: Path) -> None:
    """Carry the run in ``out`` to its end in several processes of this machine. Raises RunError.

    The warm start is made here, in one process.
    """
    from mappa_rl.progress import Progress
    from mappa_rl.warmstart import warm_start

    with Progress(f"{config.env.id}, seed {config.run.seed}") as progress:
        warm_start(config, out, progress)
    command = [*TORCHRUN, "--nproc-per-node", str(config.run.processes), "-m", "mappa_rl.worker", str(out)]
    process = subprocess.Popen(command, env={"OMP_NUM_THREADS": "1", **os.environ})
    try:
        code = process.wait()
    except KeyboardInterrupt:  # the processes have heard it too
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
        raise
    if code:
        raise RunError(
            f"a process of the run in {out} failed, the lines above say why; `mappa-rl train --resume {out}` "
            "goes on with it."
        )


class _Fleet:
    """The processes of runs that are under way."""

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
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, encoding="utf-8", errors="replace", bufsize=1, process_group=0,
            )  # fmt: skip
            self._processes.append(process)
        assert process.stdout is not None
        for line in process.stdout:
            self._console.print(
                f"{folder.name} | {line.rstrip()}", markup=False, highlight=False, soft_wrap=True
            )
        return process.wait()

    def interrupt(self) -> None:
        """Pass Ctrl-C on, wait for the runs to put their things away, then end those that do not."""
        with self._lock:
            self._stopping = True
            for process in self._processes:
                if process.poll() is None:
                    process.send_signal(signal.SIGINT)
        until = time.monotonic() + GRACE_S
        for process in self._processes:
            try:
                process.wait(max(until - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                process.kill()


def _plan(config: Config, out: Path, changes: list[str]) -> Path:
    write_config(config.with_overrides(changes), out)
    return out
