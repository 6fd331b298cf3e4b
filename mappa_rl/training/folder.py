"""A run's folder, when a config becomes that of its run."""

from __future__ import annotations

from pathlib import Path

from mappa_rl.config import Config, load_config
from mappa_rl.config.run_folder import CONFIG, write_config
from mappa_rl.evaluation.results import FOLDER
from mappa_rl.evaluation.summary import SUMMARY


def adopt(config: Config, out: Path) -> Config:
    """Write the config into the locked folder of its run, and return it with ``run.out``.

    Results measured at the end of the run go if its number of steps changes.
    """
    if (out / CONFIG).is_file() and load_config(out / CONFIG).run.steps != config.run.steps:
        drop_results(out)
    return write_config(config, out)


def drop_results(out: Path) -> None:
    """Remove what was measured at the end of a run."""
    traces = (out / "traces").glob("after.jsonl*")
    for path in (*out.glob(f"{FOLDER}/after-T*.jsonl"), *traces, out / SUMMARY):
        path.unlink(missing_ok=True)
