"""The bias monitor, its tests, corrections and drift: against direct formulas, and on simulated coaches."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mappa_env.coach.bias import regression as robust
from mappa_env.coach.bias.drift import MIN_EPISODES, TOLERANCE, drifts
from mappa_env.coach.bias.monitor import MIN_TRAJECTORIES, BiasMonitor, MonitorState, trajectories_needed
from mappa_env.coach.bias.strata import BiasCorrection, Running, Strata, StrataState
from mappa_env.errors import OptionError
from mappa_env.types import Outcome, Task, Trajectory, Verdict, VerdictStatus
from recorded import recorded

ROLES = ("engineer", "modeler", "analyst")
FAMILIES = {"classification": "accuracy", "regression": "rmse", "math": "exact_match"}
scores = st.floats(0, 10)
strata = st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["x", "y"]), st.integers(0, 1))


def trajectory(
    family: str,
    outcome: float | None,
    given: dict[tuple[str, int], float | None],
    status: VerdictStatus = "ok",
) -> Trajectory:
    """Scores by (role, turn); None: no score."""
    actions = tuple(
        recorded(
            f"{role}_0",
            step=step,
            turn=turn,
            verdict=Verdict("abstain" if score is None else status, score),
            stratum=(family, role, turn),
        )
        for step, ((role, turn), score) in enumerate(given.items())
    )
    ended = None if outcome is None else Outcome(outcome, outcome >= 0.5, "ok", "")
    return Trajectory("x", Task("t", "", FAMILIES[family]), 0, actions, ended)


def simulated(
    count: int, inject: Callable[[float], float], *, seed: int = 0, families: int = 2, ragged: bool = False
) -> BiasMonitor:
    """A coach who treats ``regression`` with ``inject``; ``ragged``: it takes more turns, failures too."""
    rng, monitor = np.random.default_rng(seed), BiasMonitor(window=2048)
    for number in range(count):
        family, success = list(FAMILIES)[number % families], bool(rng.random() < 0.5)
        turns = 1 + int(rng.integers(1 + (family == "regression") + (not success))) if ragged else 2
        common, given = 5 + 3 * (success - 0.5) + rng.normal(0, 1), {}
        for cell in ((role, turn) for role in ROLES for turn in range(turns)):
            score = common - cell[1] + rng.normal(0, 1.5)
            given[cell] = float(np.clip(inject(score) if family == "regression" else score, 0, 10))
        monitor.add(trajectory(family, float(success), given))
    return monitor


# -- running statistics -----------------------------------------------------------------------------------


@given(st.lists(st.tuples(strata, scores), max_size=40))
def test_running_statistics_are_those_of_numpy_and_go_through_json(batch: list[tuple[tuple, float]]) -> None:
    found, again = Strata(), Strata()
    for stratum, score in batch:
        found.add(stratum, score)
    again.load(StrataState.from_dict(json.loads(json.dumps(found.state().to_dict()))))
    assert again.state() == found.state()
    assert set(found) == {stratum for stratum, _ in batch}
    for each, values in [(found.all, [s for _, s in batch])] + [
        (again[stratum], [s for other, s in batch if other == stratum]) for stratum in found
    ]:
        assert each.count == len(values)
        if values:
            assert math.isclose(each.mean, np.mean(values), abs_tol=1e-9)
            assert math.isclose(each.variance, np.var(values), abs_tol=1e-9)
    assert found["never", "seen", 0] == Running()


def test_a_memory_fades_like_an_exponential_average() -> None:
    rng = np.random.default_rng(6)
    values, running = rng.normal(5, 1, 300).tolist(), Running()
    for value in values:
        running.add(value, 20)
    first = np.mean(values[:20])
    weights = np.array([0.95 ** (299 - at) / 20 for at in range(20, 300)])
    mean = 0.95**280 * first + weights @ values[20:]
    spread = (
        0.95**280 * np.mean((np.array(values[:20]) - mean) ** 2)
        + weights @ (np.array(values[20:]) - mean) ** 2
    )
    assert running.count == 20
    assert math.isclose(running.mean, mean)
    assert math.isclose(running.variance, spread)


# -- corrections ------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(strata, scores), max_size=30), st.integers(0, 30), st.booleans())
def test_a_score_is_corrected_by_what_came_before_its_batch(
    scored: list[tuple[tuple, float]], cut: int, spread: bool
) -> None:
    one, other = BiasCorrection(spread=spread), BiasCorrection(spread=spread)
    before, batch = scored[:cut], scored[cut:]
    one(before)
    other.load(StrataState.from_dict(json.loads(json.dumps(one.state().to_dict()))))
    found = one(batch)
    assert found == [BiasCorrection.__call__(_copy(other, spread), [single])[0] for single in batch]
    assert all(0 <= score <= 10 for score in found)
    if not before:
        assert found == [score for _, score in batch]


def _copy(correction: BiasCorrection, spread: bool) -> BiasCorrection:
    copy = BiasCorrection(spread=spread)
    copy.load(correction.state())
    return copy


def test_correction_takes_an_offset_and_with_spread_a_compression_away() -> None:
    rng = np.random.default_rng(1)

    def left(inject: Callable[[float], float], spread: bool) -> tuple[float, float]:
        correction = BiasCorrection(spread=spread)
        drawn = rng.normal(5, 1.5, 4000)
        batch = [((f"f{i % 2}", "x", 0), float(inject(s) if i % 2 else s)) for i, s in enumerate(drawn)]
        correction(batch)
        found = np.array(correction(batch))
        return abs(found[1::2].mean() - found[::2].mean()), found[1::2].std() / found[::2].std()

    assert left(lambda s: s + 1, spread=False)[0] < 0.1
    assert left(lambda s: 5 + (s - 5) / 2, spread=True)[1] > 0.9
    assert left(lambda s: 5 + (s - 5) / 2, spread=False)[1] < 0.6


# -- least squares ----------------------------------------------------------------------------------------


def test_estimates_are_those_of_the_textbook_formulas() -> None:
    rng = np.random.default_rng(2)
    x = np.column_stack([np.ones(30), rng.normal(size=30), rng.random(30) < 0.4]).astype(float)
    y = x @ [1.0, 2.0, -1.0] + rng.normal(size=30) * (1 + x[:, 2])
    hat = x @ np.linalg.inv(x.T @ x) @ x.T
    maker, beta = np.eye(30) - hat, np.linalg.lstsq(x, y, rcond=None)[0]
    for column in range(3):
        found = robust.estimate(x, y, column)
        weights = (np.linalg.inv(x.T @ x) @ x.T)[column] / (1 - np.diag(hat))
        error = math.sqrt(np.sum((weights * (maker @ y)) ** 2))
        form = maker @ np.diag(weights**2) @ maker
        free = np.trace(form) ** 2 / np.trace(form @ form)
        from scipy import stats

        assert math.isclose(found.effect, beta[column])
        assert math.isclose(found.p, 2 * stats.t.sf(abs(beta[column]) / error, free))
        assert math.isclose(found.high - found.low, 2 * stats.t.ppf(0.975, free) * error)


def test_two_groups_of_equal_size_are_close_to_welchs_test() -> None:
    from scipy import stats

    rng = np.random.default_rng(3)
    a, b = rng.normal(0, 1, 40), rng.normal(0.5, 3, 40)
    x = np.column_stack([np.ones(80), np.repeat([0.0, 1.0], 40)])
    found = robust.estimate(x, np.concatenate([a, b]), 1)
    assert math.isclose(found.p, stats.ttest_ind(a, b, equal_var=False).pvalue, rel_tol=0.2)


def test_what_cannot_be_told_apart_is_not_estimated() -> None:
    flag, alone = np.repeat([0.0, 1.0], 10), np.zeros(20)
    alone[3] = 1
    assert robust.identified(np.column_stack([np.ones(20), flag]))
    assert not robust.identified(np.column_stack([np.ones(20), flag, 1 - flag]))
    assert not robust.identified(np.column_stack([np.ones(20), alone]))
    assert not robust.identified(np.ones((1, 1)))


def test_scores_without_noise_are_equal_or_not() -> None:
    x = np.column_stack([np.ones(40), np.arange(40) % 2])
    assert robust.estimate(x, np.full(40, 0.1) * 3, 1).p == 1
    assert robust.estimate(x, x @ [1.0, 0.7], 1).p == 0


# -- the monitor ------------------------------------------------------------------------------------------


def test_an_offset_and_a_compression_are_told_apart() -> None:
    found = {f.kind: f for f in simulated(400, lambda s: s + 0.8).findings()}
    assert found["offset"].alarm
    assert not found["slope"].alarm
    assert found["offset"].low < 0.8 < found["offset"].high
    found = {f.kind: f for f in simulated(400, lambda s: 4.5 + (s - 4.5) / 2, seed=1).findings()}
    assert found["slope"].alarm
    assert not found["offset"].alarm
    assert found["slope"].effect < -1
    assert {f.family for f in found.values()} == {"regression"}


@pytest.mark.slow
def test_false_alarms_are_rare_also_where_families_take_more_turns() -> None:
    """500 tests: a true rate of 5 % gives 8 % less than once in 500 times."""
    tests = [simulated(60, lambda s: s, seed=seed, ragged=True).findings() for seed in range(500)]
    assert sum(found[0].alarm for found in tests) < 40


def test_every_family_is_held_against_the_rest_and_all_tests_are_corrected_together() -> None:
    found = simulated(300, lambda s: s + 1.5, families=3).findings()
    assert len(found) == 6
    assert (found[0].family, found[0].kind) == ("regression", "offset")
    assert [f.p for f in found] == sorted(f.p for f in found)


def test_a_test_spends_alpha_and_only_tests_that_could_find_anything_count() -> None:
    monitor = simulated(2 * MIN_TRAJECTORIES - 2, lambda s: s)
    assert monitor.test() == monitor.test() == []
    monitor = simulated(200, lambda s: s + 0.4)
    single = monitor.findings()
    for number in (1, 2, 3):
        for one, other in zip(single, monitor.test(), strict=True):
            assert math.isclose(other.p, min(one.p * number * (number + 1), 1.0))
    again = BiasMonitor(window=2048)
    again.load(MonitorState.from_dict(json.loads(json.dumps(monitor.state().to_dict()))))
    assert again.state() == monitor.state()
    assert again.test() == monitor.test()


def test_a_checkpoint_of_an_earlier_version_is_read() -> None:
    stored = {
        "rows": [["math", 1.0, [["coder", 0, 7.0], ["coder", 1, 5.0]]]],
        "tests": 3,
        "strata": {
            "all": [2, 6.0, 2.0],
            "strata": [["math", "coder", 0, 1, 7.0, 0.0], ["math", "coder", 1, 1, 5.0, 0.0]],
        },
    }
    monitor = BiasMonitor(window=5)
    monitor.load(MonitorState.from_dict(stored))
    assert monitor.state().to_dict() == stored
    monitor.add(trajectory("math", 1.0, {("coder", 0): 9.0}))
    assert monitor.strata["math", "coder", 0] == Running(2, 8.0, 2.0)
    assert len(stored["rows"]) == 1


def test_the_state_of_another_version_is_refused_in_one_sentence() -> None:
    before = simulated(50, lambda s: s).state().to_dict()
    old = {("looks" if key == "tests" else key): value for key, value in before.items()}
    with pytest.raises(
        OptionError, match=r"keys \['looks', 'rows', 'strata'\] .* resume the run with that version"
    ):
        MonitorState.from_dict(old)


def test_the_window_forgets_and_one_family_alone_is_never_tested() -> None:
    monitor = BiasMonitor(window=5)
    for number in range(40):
        monitor.add(trajectory("math", 1.0, {("coder", 0): float(number % 10)}))
    assert len(monitor) == 5
    assert monitor.strata.all.count == 40
    assert simulated(100, lambda s: s, families=1).findings() == []


def test_missing_scores_and_outcomes_are_left_out() -> None:
    monitor = BiasMonitor(window=2048)
    monitor.add(trajectory("math", None, {("coder", 0): 5.0}))
    monitor.add(trajectory("math", 1.0, {("coder", 0): None}))
    monitor.add(trajectory("math", 1.0, {("coder", 0): 5.0}, status="suspect"))
    assert len(monitor) == monitor.strata.all.count == 0


cells = st.tuples(st.sampled_from(ROLES), st.integers(0, 2))
rows = st.tuples(
    st.sampled_from(list(FAMILIES)),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.dictionaries(cells, st.sampled_from([0.0, 5.0, 10.0]), min_size=1),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(rows, min_size=2 * MIN_TRAJECTORIES, max_size=60))
@pytest.mark.slow
def test_any_scores_give_proper_figures_or_none(shown: list[tuple[str, float, dict]]) -> None:
    monitor = BiasMonitor(window=2048)
    for each in shown:
        monitor.add(trajectory(*each))
    for found in monitor.test():
        assert 0 <= found.p <= 1
        assert math.isfinite(found.effect)
        assert found.low <= found.effect <= found.high


def test_sample_sizes_grow_with_what_is_asked() -> None:
    assert trajectories_needed(0.5, 1.23) == pytest.approx(253, abs=3)
    assert trajectories_needed(0.25, 1.23) == pytest.approx(4 * 253, abs=6)
    assert trajectories_needed(0.5, 1.23) < trajectories_needed(0.5, 1.23, families=3)
    assert trajectories_needed(0.5, 1.23) < trajectories_needed(0.5, 1.23, test=1)
    assert trajectories_needed(0.5, 1.23, fraction=0.1) > 2 * trajectories_needed(0.5, 1.23)


# -- drift ------------------------------------------------------------------------------------------------


def test_drift_is_exactly_zero_where_nothing_changed_and_found_where_all_did() -> None:
    first = [[(("math", role, 0), 5.0, 5.0) for role in ROLES] for _ in range(MIN_EPISODES)]
    assert all((d.mean, d.low, d.high, d.alarm) == (0, 0, 0, False) for d in drifts(first, 1))
    moved = [[(s, a, b + TOLERANCE + 0.01) for s, a, b in pairs] for pairs in first]
    assert [d.stratum for d in drifts(moved, 9)] == [None, *sorted(("math", role, 0) for role in ROLES)]
    assert all(d.alarm for d in drifts(moved, 9))
    assert not any(d.alarm for d in drifts(moved[:-1], 1)), "too few to be sure"
    assert not any(d.alarm for d in drifts([[(s, a, b + TOLERANCE) for s, a, b in p] for p in first], 1))
    assert drifts([[], []], 1) == []


def test_a_noisy_coach_does_not_drift_and_one_stratum_can_alone() -> None:
    rng = np.random.default_rng(4)

    def judged(shift: float) -> list[list[tuple[tuple[str, str, int], float, float]]]:
        return [
            [
                (("math", role, 0), 5.0, 5.0 + rng.normal(0, 0.5) + shift * (role == "analyst"))
                for role in ROLES
            ]
            for _ in range(40)
        ]

    assert not any(d.alarm for test in range(1, 20) for d in drifts(judged(0.0), test))
    assert {d.stratum for d in drifts(judged(1.0), 1) if d.alarm} >= {("math", "analyst", 0)}


def test_the_package_itself_does_not_load_what_the_monitor_needs() -> None:
    code = "import sys, mappa_env; assert not {'scipy', 'mappa_env.coach.bias.monitor'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0


def test_agents_of_one_role_are_averaged() -> None:
    monitor = BiasMonitor(window=5)
    actions = tuple(
        dataclasses.replace(recorded(agent=f"solver_{i}"), verdict=Verdict("ok", score))
        for i, score in enumerate((0.0, 5.0, 10.0))
    )
    outcome = Outcome(1.0, True, "ok", "")
    monitor.add(Trajectory("X-v0", Task("t", "p", "exact_text"), 1, actions, outcome))
    (row,) = monitor._rows
    assert row.scores == {("solver", 0): 5.0}
