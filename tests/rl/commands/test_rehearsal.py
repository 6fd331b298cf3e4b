"""The time estimate of a dry run: its arithmetic, and a rehearsal of a small run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappa_rl.cli import main
from mappa_rl.commands.duration import LAUNCH, durations
from mappa_rl.commands.rehearsal import Rehearsal, reply_lengths
from mappa_rl.commands.work import Work, work
from mappa_rl.config import Config, load_config
from mappa_rl.errors import RunError
from mappa_rl.evaluation.summary import Summary
from mappa_rl.telemetry.pace import Marks, Pace

SMALL = [
    "env.sandbox=calculator",
    "warmstart.episodes=60",
    "warmstart.steps=25",
    "warmstart.warmup_steps=5",
    "warmstart.batch_size=4",
    "rollout.episodes_per_step=8",
    "eval.episodes=8",
    "eval.calibration_episodes=4",
    "run.steps=4",
]


@given(
    start=st.floats(0, 100),
    unit=st.floats(0.001, 10),
    end=st.floats(0, 100),
    first=st.integers(1, 5),
    more=st.integers(1, 50),
)
def test_marks_find_the_pace_that_made_them(
    start: float, unit: float, end: float, first: int, more: int
) -> None:
    marks = Marks()
    for done in range(first, first + more + 1):
        marks.add(start + done * unit, done)
    pace = marks.pace(start + (first + more) * unit + end)
    assert pace is not None
    assert (pace.start_s, pace.unit_s, pace.end_s) == pytest.approx((start, unit, end), abs=1e-6)


def test_a_phase_without_work_has_no_pace_and_one_mark_holds_everything() -> None:
    marks = Marks()
    assert marks.pace(3.0) is None
    marks.add(2.0, 4)
    assert marks.pace(3.0) == Pace(start_s=0.0, unit_s=0.5, end_s=1.0)


def summary(config: Config, phases: dict[str, float], paces: dict[str, Pace]) -> Summary:
    return Summary(
        arms={},
        seeds=[0],
        episodes=0,
        wall_seconds=sum(phases.values()),
        phases=phases,
        paces=paces,
        versions={},
        config=config.model_dump(mode="json"),
    )


def test_durations_scale_every_phase_by_its_own_size() -> None:
    whole = load_config("demo", ["warmstart.episodes=4000", "run.steps=50", "run.checkpoint_every=10"])
    short = whole.with_overrides(["warmstart.episodes=400", "eval.episodes=100"])
    warm = summary(
        short,
        {"demonstrations": 6.0, "warm start": 5.0},
        {
            "demonstrations": Pace(start_s=1.0, unit_s=0.01, end_s=1.0),
            "warm start": Pace(start_s=2.0, unit_s=0.1, end_s=0.5),
        },
    )
    run = summary(short, {"before, T=1": 20.0}, {"training": Pace(start_s=3.0, unit_s=2.0, end_s=0.5)})
    phases = [
        Work("demonstrations", 4000, 0, None),
        Work("warm start", 0, 3000, None),
        Work("training", 6400, 50, 1),
        Work("evaluation after", 400, 0, 1),
    ]
    assert durations(Rehearsal(whole, warm, run, 7.0, 0.01, 0.005), phases) == pytest.approx(
        {
            LAUNCH: 7.0,
            "demonstrations": 1.0 + 4000 * 0.01 + 5 * 1.0,  # the tokenizer learns from 2,000 at most
            "warm start": 10 * 2.0 + 3000 * 0.1 + 0.5,  # ten times as many episodes to tokenize
            "training": 3.0 + 50 * 2.0 + 6400 * 0.01 + 5 * 0.5,  # five checkpoints
            "evaluation after": 400 * (0.2 + 0.005),
        }
    )


@pytest.mark.large
def test_a_rehearsal_times_every_phase_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert main(["train", "demo", "--dry-run", *SMALL]) == 0
    shown = capsys.readouterr().out
    config = load_config("demo", SMALL)
    for phase in work(config, 4):
        assert re.search(rf"{phase.phase} .* \d+:\d\d *\n", shown), phase
    assert re.search(r"time \(estimate\): \d+:\d\d on this machine\n", shown)
    assert list(tmp_path.iterdir()) == []


def test_a_rehearsal_that_fails_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise RunError("the rehearsal failed: too many for me")

    monkeypatch.setattr("mappa_rl.commands.dry_run.rehearse", fails)
    assert main(["train", "demo", "--dry-run", *SMALL]) == 2
    assert (
        "rehearsal: the rehearsal failed: too many for me"
        in capsys.readouterr().out.split("problems (1):")[1]
    )


@pytest.mark.large
def test_what_fails_only_in_the_run_is_a_problem_of_the_dry_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(
        "from mappa_rl.algos.reinforce_pp import ReinforcePP\n"
        "class Mine(ReinforcePP):\n"
        "    def token_advantages(self, samples, reference):\n"
        "        if len(samples) > 4: raise ValueError('too many for me')\n"
        "        return super().token_advantages(samples, reference)\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["train", "demo", "--dry-run", "algo.name=mine.py:Mine", *SMALL]) == 2
    shown = capsys.readouterr().out
    assert "rehearsal: the rehearsal failed:" in shown.split("problems (1):")[1]
    assert "too many for me" in shown


def test_replies_are_as_long_as_the_scripted_team_writes_them(tmp_path: Path) -> None:
    from mappa_rl.models.tiny import train_tokenizer

    config = load_config("demo", SMALL)
    train_tokenizer(["print(1 + 2)"], config.model).save_pretrained(tmp_path)
    lengths = reply_lengths(config, tmp_path)
    assert set(lengths) == {"solver_0", "coder_0", "verifier_0"}
    assert all(5 < length < 400 for length in lengths.values())
