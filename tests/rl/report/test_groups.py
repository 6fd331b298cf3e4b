"""Comparing runs: grouped by the settings that differ, seeds pooled, episodes paired."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import pytest
from rich.console import Console

from mappa_rl.evaluation.results import load_results, save_results
from mappa_rl.report.groups import group_runs
from mappa_rl.report.rows import cautions, comparisons, headline
from mappa_rl.report.runs import RunData, read_run
from mappa_rl.report.tables import report_tables
from synthetic_run import make_run


def made(out: Path, *more: str, seed: int = 0, gain: float = 0.5, episodes: int = 80) -> RunData:
    make_run(out, seed=seed, gain=gain, steps=2, episodes=episodes, more=more)
    return read_run(out)


def printed(runs: list[RunData]) -> str:
    console = Console(width=130, file=io.StringIO(), record=True)
    for table in report_tables(group_runs(runs)):
        console.print(table)
    return " ".join(console.export_text().split())


GRPO = ("algo.name=grpo", "rollout.group_size=4")


def test_two_algorithms_with_the_same_seeds_are_two_groups_and_are_compared(tmp_path: Path) -> None:
    runs = [made(tmp_path / f"r{seed}", seed=seed, gain=0.2) for seed in (0, 1)]
    runs += [made(tmp_path / f"e{seed}", "algo.name=ema", seed=seed) for seed in (0, 1)]
    groups = group_runs(runs)
    assert [(group.heading, group.label, len(group.runs)) for group in groups] == [
        ("algo.name", "reinforce_pp", 2),
        ("algo.name", "ema", 2),
    ]
    pooled = [row for row in headline(groups) if row.seed is None]
    assert [(row.label, row.delta.n) for row in pooled if not row.best] == [
        ("reinforce_pp", 160),
        ("ema", 160),
    ]
    (found,) = comparisons(groups)
    row = found.rows[0]
    assert (found.first, found.second, row.delta.n) == ("reinforce_pp", "ema", 160)
    assert row.delta.mean == pytest.approx(row.after.mean - row.before.mean)
    assert 0 < row.delta.low < row.delta.mean < row.delta.high
    text = printed(runs)
    assert "held-out success after training" in text
    assert "algo.name temperature seed" in text
    assert "episodes reinforce_pp ema difference (points)" in text


def test_intervals_over_seeds_stand_beside_those_over_episodes(tmp_path: Path) -> None:
    runs = [made(tmp_path / f"r{seed}", seed=seed, gain=0.2) for seed in (0, 1, 2)]
    runs += [made(tmp_path / f"e{seed}", "algo.name=ema", seed=seed) for seed in (0, 1, 2)]
    (found,) = comparisons(group_runs(runs))
    over = found.rows[0].over_seeds
    assert over is not None
    assert over.delta.n == 3
    assert over.delta.mean == pytest.approx(found.rows[0].delta.mean)
    assert 0 <= over.before.low <= over.before.mean <= over.before.high <= 1
    assert all(row.over_seeds is None for row in headline(group_runs(runs[:1])))
    assert "T=1.0 over 3" in printed(runs)


def test_runs_of_one_setting_are_compared_run_by_run_where_that_is_asked_for(tmp_path: Path) -> None:
    runs = [made(tmp_path / f"r{seed}", seed=seed) for seed in (0, 1)]
    groups = group_runs(runs, apart=True)
    assert [(group.label, group.values) for group in groups] == [
        ("r0", {"folder": "r0"}),
        ("r1", {"folder": "r1"}),
    ]


def test_settings_that_differ_together_are_named_together(tmp_path: Path) -> None:
    runs = [made(tmp_path / "a"), made(tmp_path / "b", *GRPO), made(tmp_path / "c", "algo.kl_coef=0.02")]
    groups = group_runs(runs)
    assert groups[1].heading == "settings"
    assert groups[1].values == {
        "rollout.group_size": "4",
        "algo.name": "grpo",
        "algo.kl_coef": "0.01",
    }
    assert groups[1].label == "rollout.group_size=4, algo.name=grpo, algo.kl_coef=0.01"
    assert len(comparisons(groups)) == 3
    assert "one in twenty excludes 0 by chance" in printed(runs)


def test_where_a_run_is_kept_is_no_difference_between_settings(tmp_path: Path) -> None:
    runs = [
        made(tmp_path / "a", seed=0),
        made(tmp_path / "b", "run.torch_threads=2", f"warmstart.path={tmp_path}", seed=1),
    ]
    (group,) = group_runs(runs)
    assert (group.label, len(group.runs)) == ("", 2)
    assert comparisons([group]) == []


def test_the_same_settings_and_seed_twice_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    runs = [made(tmp_path / "first"), made(tmp_path / "again")]
    assert [group.label for group in group_runs(runs)] == ["first", "again"]
    (found,) = comparisons(group_runs(runs))
    assert found.rows[0].delta.mean == 0.0


def test_only_common_episodes_are_paired(tmp_path: Path) -> None:
    few, many = made(tmp_path / "few", episodes=60), made(tmp_path / "many", episodes=80)
    (found,) = comparisons(group_runs([few, many]))
    assert found.rows[0].delta.n == 60


def test_groups_without_common_seeds_or_tasks_say_so(tmp_path: Path) -> None:
    plain, other = made(tmp_path / "a"), made(tmp_path / "b", "algo.name=ema", seed=1)
    (found,) = comparisons(group_runs([plain, other]))
    assert (found.rows, found.problem) == ((), "they have no seed in common")
    assert "ema and reinforce_pp: they have no seed in common." in printed([plain, other])
    moved = made(tmp_path / "c", "algo.name=ema")
    for rows in load_results(moved.folder).values():
        save_results(moved.folder, [dataclasses.replace(row, task_id=f"x{row.index}") for row in rows])
    (found,) = comparisons(group_runs([plain, read_run(moved.folder)]))
    assert "no evaluated episode" in found.problem


def test_intervals_without_width_and_few_episodes_are_pointed_out(tmp_path: Path) -> None:
    runs = [made(tmp_path / "a", gain=0.0, episodes=16), made(tmp_path / "b", "algo.name=ema", episodes=16)]
    said = cautions(headline(group_runs(runs)))
    assert any("ema T=1.0: 16 paired episodes are few" in text for text in said)
    flat = [text for text in said if "no width" in text]
    assert flat
    assert "With n=16, changes of up to about 19 points can go unseen." in flat[0]
    assert cautions(headline(group_runs([made(tmp_path / "c", episodes=400)]))) == []
