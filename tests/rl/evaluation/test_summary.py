"""What a run came to: measures beside success, and where its time went, of one run and of several."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from mappa_rl.errors import RunError
from mappa_rl.evaluation.arms import compare, rate
from mappa_rl.evaluation.calibration import Calibration
from mappa_rl.evaluation.results import Result, load_results, save_results
from mappa_rl.evaluation.summarise import summarise
from mappa_rl.evaluation.summary import read_summary
from mappa_rl.report.combine import combine
from mappa_rl.report.groups import group_runs
from mappa_rl.report.html import build_report
from mappa_rl.report.rows import headline
from mappa_rl.report.runs import read_run
from mappa_rl.report.tables import measures_table, work_table
from mappa_rl.telemetry.progress import Progress
from mappa_rl.telemetry.stopwatch import KINDS, Stopwatch
from synthetic_run import make_run


def row(phase: str, index: int, seed: int = 0, **metrics: float) -> Result:
    return Result(phase, 1.0, seed, index, f"t{index}", "f1", bool(metrics), 0.5, {}, metrics)


def shown(table: object) -> str:
    console = Console(width=130, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(table)
    return console.export_text()


def test_measures_are_paired_over_the_episodes_that_have_them() -> None:
    before = [row("before", i, accuracy_fair=0.5, skill=9.0) for i in range(6)] + [
        row("before", 6, rmse_fair=50.0)
    ]
    after = [row("after", i, accuracy_fair=0.5 + 0.1 * (i % 2)) for i in range(6)]
    after += [row("after", 6, rmse_fair=20.0)]
    arm = compare(before, after)
    assert set(arm.measures) == {"accuracy_fair", "rmse_fair"}
    gain = arm.measures["accuracy_fair"]
    assert (gain.before.mean, gain.before.n, gain.delta.n) == (0.5, 6, 6)
    assert gain.delta.mean == pytest.approx(0.05)
    assert 0 <= gain.delta.low < gain.delta.mean < gain.delta.high <= 0.1
    assert arm.measures["rmse_fair"].delta.mean == -30.0


def test_an_episode_that_has_a_measure_on_one_side_alone_is_left_out() -> None:
    before = [row("before", 0, accuracy_fair=0.5), row("before", 1)]
    after = [row("after", 0, accuracy_fair=1.0), row("after", 1, accuracy_fair=1.0)]
    assert compare(before, after).measures["accuracy_fair"].delta.n == 1
    assert compare([row("before", 0)], [row("after", 0)]).measures == {}


def test_metrics_survive_the_disk_and_older_files_still_read(tmp_path: Path) -> None:
    rows = [row("before", 0, accuracy_fair=0.5)]
    path = save_results(tmp_path, rows)
    assert load_results(tmp_path) == {("before", 1.0): rows}
    path.write_text(path.read_text().replace(', "metrics": {"accuracy_fair": 0.5}', ""))
    assert load_results(tmp_path)["before", 1.0][0].metrics == {}


def finish(out: Path, seed: int) -> None:
    """A run with measures and a watch that saw 10 seconds, 2 of them in the sandbox."""
    config = make_run(out, seed=seed, steps=3, episodes=20)
    for (phase, temperature), rows in load_results(out).items():
        level = 0.5 if phase == "before" else 0.75
        save_results(
            out,
            [
                Result(
                    phase,
                    temperature,
                    seed,
                    r.index,
                    r.task_id,
                    r.topic,
                    r.success,
                    r.score,
                    r.rewards,
                    {"accuracy_fair": level},
                )
                for r in rows
            ],
        )
    now = [0.0]
    watch = Stopwatch(lambda: now[0])
    watch.phase("training")
    for kind, seconds in (("generation", 5), ("sandbox", 2), ("learner", 3)):
        with watch.at(kind):
            now[0] += seconds
    watch.phase("")
    progress = Progress("")
    progress.watch, progress.seconds = watch, {"training": 10.0}
    summarise(out, config, episodes=3, progress=progress, calibration=Calibration({0.4: 0.5}))


def test_shares_and_measures_of_one_run_and_of_several(tmp_path: Path) -> None:
    for seed in (0, 1):
        finish(tmp_path / str(seed), seed)
    one = read_summary(tmp_path / "0")
    assert one is not None
    assert one.work == {"training": {"generation": 5.0, "sandbox": 2.0, "learner": 3.0}}
    assert one.fractions == {"generation": 0.5, "sandbox": 0.2, "coach": 0.0, "learner": 0.3, "rest": 0.0}
    runs = [read_run(tmp_path / str(seed)) for seed in (0, 1)]
    both = combine(runs)
    assert both.work["training"]["sandbox"] == 4.0
    assert both.fractions == pytest.approx(one.fractions)
    arms = [arm for arm in both.arms.values() if arm.best]
    assert arms[0].measures["accuracy_fair"].delta.mean == 0.25
    assert arms[0].measures["accuracy_fair"].delta.n == 40

    text = shown(work_table(both))
    assert all(kind in text for kind in KINDS)
    assert "20.0%" in text
    quality = measures_table(headline(group_runs(runs)))
    assert quality is not None
    assert "+0.250 [+0.250, +0.250]" in shown(quality)
    assert shown(quality).count("accuracy (Fair)") == 2  # pooled lines only: T=1 and the best
    page = build_report(tmp_path).read_text()
    assert page.count("accuracy (Fair)") == 2
    assert "20.0 %" in page


def test_a_summary_with_an_old_name_is_refused(tmp_path: Path) -> None:
    finish(tmp_path, 0)
    path = tmp_path / "summary.json"
    path.write_text(path.read_text().replace('"fractions"', '"shares"'))
    with pytest.raises(RunError, match=r"has 'shares', now called 'fractions': report the run with the"):
        read_summary(tmp_path)


def test_without_measures_there_is_no_table(tmp_path: Path) -> None:
    make_run(tmp_path, steps=3, episodes=20)
    assert measures_table(headline(group_runs([read_run(tmp_path)]))) is None


def test_where_tasks_are_played_again_all_figures_are_over_tasks() -> None:
    """400 episodes of 300 tasks: a task that is played twice weighs no more than another."""

    def rows(phase: str, won: bool) -> list[Result]:
        return [
            Result(phase, 1.0, 0, i, f"t{i % 300}", "f1", won and i % 300 < 100, 0.5, {}) for i in range(400)
        ]

    arm = compare(rows("before", won=False), rows("after", won=True))
    assert arm.after.mean == arm.delta.mean == pytest.approx(1 / 3)
    once = compare(rows("before", won=False)[:300], rows("after", won=True)[:300])
    assert once.after.mean == pytest.approx(1 / 3)
    again = [
        Result("after", 1.0, 0, i, f"t{i % 30}", "f1", i % 2 == 0, 0.5, {}) for i in range(120)
    ]  # 30 tasks, each four times with the same result
    wide, narrow = rate(again), rate(again[:30])
    assert wide.high - wide.low == pytest.approx(narrow.high - narrow.low, abs=0.03)


def test_a_summary_with_a_damaged_byte_is_refused(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_bytes(b"{\xff}")
    with pytest.raises(RunError, match="is not a summary"):
        read_summary(tmp_path)
