"""``import mappa_rl`` as a library: what it offers, that it is light, and that it trains and evaluates."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import mappa_env
import mappa_rl
from mappa_rl.errors import ConfigError, RunError
from paths import ROOT
from tiny_run import TINY

SMALL = [
    *TINY,
    "model.hidden=16",
    "model.heads=1",
    "model.kv_heads=1",
    "model.mlp=16",
    "warmstart.episodes=20",
    "warmstart.steps=2",
    "rollout.episodes_per_step=4",
    "rollout.max_new_tokens=4",
    "eval.episodes=4",
    "run.steps=2",
]


def test_everything_offered_is_there() -> None:
    assert all(getattr(mappa_rl, name) is not None for name in mappa_rl.__all__)
    assert set(mappa_rl.__all__) <= set(dir(mappa_rl))
    assert mappa_rl.__version__ == mappa_env.__version__
    with pytest.raises(AttributeError, match="it has Algorithm, Config"):
        mappa_rl.trian  # noqa: B018


def test_the_import_brings_in_nothing_heavy() -> None:
    code = (
        "import sys, mappa_rl; from mappa_rl import Algorithm, Config, load_config, train, evaluate; "
        "sys.exit(any(name in sys.modules for name in ('torch', 'matplotlib', 'transformers')))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_setup_reads_the_one_version() -> None:
    found = subprocess.run(
        [sys.executable, "setup.py", "--version"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert found.stdout.split()[-1] == mappa_env.__version__


@pytest.mark.slow
def test_ten_lines_train_and_evaluate(tmp_path: Path) -> None:
    config = mappa_rl.load_config("demo", SMALL)
    run = mappa_rl.train(config, tmp_path / "run")
    assert run.folder == tmp_path / "run"
    assert (run.summary.arms["mappa/MathChat-v0 T=1.0"].before.n) == 4
    assert (run.folder / "report.html").is_file()
    again = mappa_rl.evaluate(run.folder, ["eval.episodes=6"])
    assert again.folder == run.folder / "again"
    assert again.summary.arms["mappa/MathChat-v0 T=1.0"].after.n == 6
    with pytest.raises(ConfigError, match=r"eval can change only env\.\*"):
        mappa_rl.evaluate(run.folder, ["optim.lr=1"])
    with pytest.raises(RunError, match="is not empty"):
        mappa_rl.train(config, run.folder)
