"""The folder of a run, and the config in it."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path

from mappa_rl.atomic import write_text
from mappa_rl.config.command_lines import record_command
from mappa_rl.config.schema import Config, load_config
from mappa_rl.errors import ConfigError, RunError

CONFIG = "config.yaml"
"""The resolved config in a run's folder."""
LOCK = "lock"
"""Names the process that works on the run."""


def new_folder(config: Config, recipe: str) -> Path:
    """The folder of a new run: ``run.out``, or ``runs/<recipe>-<time>``.

    Raises RunError if it is taken, ConfigError where no folder can be made.
    """
    if config.run.out:
        out = Path(config.run.out)
        _check_possible(out)
        if out.is_dir() and any(path.name != LOCK for path in out.iterdir()):
            raise RunError(
                f"{out} is not empty: resume its run with `mappa-rl train --resume {out}`, or choose another "
                "folder with out=."
            )
        return out
    out = next_folder(Path("runs") / f"{Path(recipe).stem}-{time.strftime('%Y%m%d-%H%M%S')}")
    _check_possible(out)
    return out


def _check_possible(out: Path) -> None:
    """Raise ConfigError unless ``out`` is a folder that can be written, or can be made."""
    remedy = "choose another folder with out=."
    for there in (out, *out.absolute().parents):
        try:
            os.lstat(there)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError) as error:
            raise ConfigError(f"run.out names no folder ({error}): {remedy}") from None
        if not there.is_dir():
            raise ConfigError(f"{there} is not a folder, so {out} cannot hold a run: {remedy}")
        if not os.access(there, os.W_OK | os.X_OK):
            raise ConfigError(f"{there} cannot be written, so {out} cannot hold a run: {remedy}")
        return


def next_folder(path: Path) -> Path:
    """The first of ``path``, ``path-2``, ``path-3`` and so on that does not exist."""
    numbered = (path.with_name(f"{path.name}-{n}") for n in itertools.count(2))
    return next(free for free in itertools.chain([path], numbered) if not free.exists())


def own_folder_dropped(config: Config, run: Path) -> Config:
    """``config`` without ``run.out``, if that is still the folder in the config of ``run``."""
    own = load_config(run / CONFIG).run.out
    return config.with_overrides(["run.out=''"]) if config.run.out == own else config


def write_config(config: Config, out: Path) -> Config:
    """Write the config, with ``out`` as its ``run.out``, into the run's folder, and return it."""
    config = config.model_copy(update={"run": config.run.model_copy(update={"out": str(out)})})
    write_text(out / CONFIG, config.dump())
    record_command(out)
    return config
