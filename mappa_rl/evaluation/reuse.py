"""What an evaluation of a finished run need not measure again: its calibration and its results before."""

from __future__ import annotations

import shutil
from pathlib import Path

from mappa_env.trace.traces import existing
from mappa_rl.atomic import replacing
from mappa_rl.config import Config
from mappa_rl.evaluation.calibration import read_calibration
from mappa_rl.evaluation.results import load_results, save_results

TEMPERATURES = {"temperatures", "calibration_temperatures", "every", "validation_tasks"}
"""Keys of ``eval`` that choose what is evaluated, and do not change how a single evaluation goes."""


def reuse_stored(run: Path, trained: Config, out: Path, wanted: Config) -> list[str]:
    """Copy the stored calibration and the results before training from ``run`` to ``out``.

    Call it before ``HeldOut.calibrate``, which then measures only what is missing. ``trained`` is the run's
    own config, ``wanted`` the one to evaluate with. Nothing is reused unless both play the same episodes:
    their ``env`` and ``rollout`` sections and seeds agree, and so does ``eval`` apart from its temperatures.

    Returns one line per reused item, for the console.
    """
    if not _same_episodes(trained, wanted):
        return []
    reused = []
    calibration = read_calibration(run)
    if calibration.rates and trained.eval.calibration_episodes == wanted.eval.calibration_episodes:
        calibration.write(out)
        reused.append("calibration: reused from the run")
    trace = existing(run / "traces" / "before.jsonl")
    for (phase, temperature), rows in load_results(run).items():
        if phase != "before":
            continue
        traced = temperature == wanted.eval.temperatures[0]
        if traced:
            if temperature != trained.eval.temperatures[0] or not trace.is_file():
                continue  # the wanted trace is not on record: play these episodes again
            with replacing(out / "traces" / trace.name) as draft:
                shutil.copyfile(trace, draft)
        save_results(out, rows)
        reused.append(f"before, T={temperature:g}: reused from the run")
    for env in wanted.eval.also:
        for (phase, temperature), rows in load_results(run, env).items():
            if phase == "before":
                save_results(out, rows, env)
                reused.append(f"before on {env}, T={temperature:g}: reused from the run")
    return reused


def _same_episodes(trained: Config, wanted: Config) -> bool:
    ours, theirs = (
        config.eval.model_dump(exclude=TEMPERATURES | {"calibration_episodes"})
        for config in (trained, wanted)
    )
    return (
        ours == theirs
        and trained.env == wanted.env
        and trained.rollout == wanted.rollout
        and trained.run.seed == wanted.run.seed
    )
