"""Numbers in another scale, as of ``log1p``: who is given them does not pay, and who undoes them gains."""

from __future__ import annotations

import numpy as np
import pytest

from mappa_env.probes.csv_table import read_csv
from mappa_env.probes.plain import Table
from mappa_env.probes.scale import scale_of
from sprint_play import NUMBERS, TARGETS, Played, blames, sprint, tables

SCALES = {
    "log1p": ("np.log1p(y - MIN + STD)", "np.expm1(p) + MIN - STD"),
    "standardised": ("(y - MEAN) / STD", "p * STD + MEAN"),
    "negated": ("-y", "-p"),
    "thousands": ("(y / 1000).astype('float32')", "p * 1000"),
}
FOREST = """
from sklearn.ensemble import ExtraTreesRegressor
m = ExtraTreesRegressor(60, random_state=0).fit(X, LABELS)
pd.to_pickle(m, 'model.pkl')
"""
SUBMITS = """
import numpy as np
import pandas as pd
y = pd.read_csv('train.csv')[TARGET]
t, X, m = pd.read_csv('test.csv'), pd.read_pickle('X_test.pkl'), pd.read_pickle('model.pkl')
p = m.predict(X)
t[TARGET] = BACK
t[[IDS, TARGET]].to_csv('submission.csv', index=False)
"""


def _played(there: str = "y", back: str = "p", labels: str = "y", *, explained: bool = True) -> Played:
    """An episode with a forest on labels in another scale. The statistics are those of train.csv.

    ``explained``: the engineer hands on a file about it.
    """
    tells = f"open('scale.txt', 'w').write({there!r})\n" if explained else ""
    engineer = tables(f"import numpy as np\n{tells}y = {_worded(there)}")
    analyst = SUBMITS.replace("BACK", _worded(back))
    return sprint(engineer, FOREST.replace("LABELS", labels), analyst, seed=TARGETS)


def _changed(change: str, back: str = "p") -> Played:
    """An episode with a forest on tables that the engineer changed; ``back`` is what the analyst submits."""
    analyst = SUBMITS.replace("BACK", back)
    return sprint(tables(change), FOREST.replace("LABELS", "y"), analyst, seed=TARGETS)


def _worded(text: str) -> str:
    return text.replace("MEAN", "y.mean()").replace("STD", "y.std()").replace("MIN", "y.min()")


@pytest.mark.parametrize("scale", SCALES)
def test_a_scale_that_is_undone_costs_nobody_anything(scale: str) -> None:
    played, plain = _played(*SCALES[scale]), _played()
    assert played.culprit is plain.culprit is None, (played, plain)
    for mine, usual in zip(played.scores, plain.scores, strict=True):
        assert mine is not None
        assert usual is not None
        assert usual >= 8
        assert mine >= usual - 0.5, (played, plain)


@pytest.mark.parametrize("scale", ["log1p", "standardised", "thousands"])
@pytest.mark.parametrize("rows", ["iloc[1:]", "sample(frac=0.9, random_state=0)"])
def test_rows_may_be_dropped_from_labels_in_another_scale(rows: str, scale: str) -> None:
    there, back = (_worded(text) for text in SCALES[scale])
    change = f"y = {there}\nx, y = x.{rows}, y.{rows}\nopen('scale.txt', 'w').write({there!r})"
    played = _changed(change, back)
    assert played.culprit is None, played
    assert min(score or 0 for score in played.scores) >= 7.5, played


@pytest.mark.parametrize(
    "change", ["y", "y.round(1)", "y.clip(upper=y.quantile(0.95))", "y.astype('float32')"]
)
def test_rows_may_be_selected_from_labels_in_their_own_scale(change: str) -> None:
    for rows in ("iloc[3:]", "loc[given < given.quantile(0.9)]", "loc[given > given.quantile(0.2)]"):
        played = _changed(f"given, y = y, {change}\nx, y = x.{rows}, y.{rows}")
        assert played.culprit is None, (rows, played)
        assert played.scores[0] == 10, (rows, played)


OVERSAMPLED = """
rare = y > y.quantile(0.8)
noise = [np.random.default_rng(at).normal(0, SHARE * y.std(), rare.sum()) for at in range(TIMES)]
more = [(x[rare], y[rare] + each) for each in noise]
x, y = (pd.concat([each, *(pair[part] for pair in more)]) for part, each in enumerate((x, y)))
"""


@pytest.mark.parametrize("share", ["0.01", "0.02"])
@pytest.mark.parametrize("times", ["3", "9"])
def test_targets_that_are_oversampled_with_noise_are_on_their_scale(times: str, share: str) -> None:
    played = _changed(OVERSAMPLED.replace("SHARE", share).replace("TIMES", times))
    assert played.culprit is None, played
    assert played.scores[0] == 10, played


@pytest.mark.parametrize("scale", ["log1p", "standardised", "thousands", "negated"])
@pytest.mark.parametrize("rows", ["y < y.quantile(0.8)", "y > y.quantile(0.2)"])
def test_rows_that_were_trimmed_make_nobody_a_culprit_for_the_scale(rows: str, scale: str) -> None:
    there, back = (_worded(text) for text in SCALES[scale])
    change = f"x, y = x[{rows}], ({there})[{rows}]\nopen('scale.txt', 'w').write({there!r})"
    played = _changed(change, back)
    assert played.culprit is None, played
    assert played.scores[0] == 10, played


@pytest.mark.parametrize("scale", ["log1p", "negated"])
def test_who_submits_a_scale_that_a_file_may_explain_gets_the_benefit_of_the_doubt(scale: str) -> None:
    played = _played(SCALES[scale][0])
    assert played.scores[2] == 6, played
    assert played.scores[:2] == _played(*SCALES[scale]).scores[:2]
    assert played.culprit is None


def test_a_scale_excuses_no_fault_of_the_analyst() -> None:
    labels = "pd.read_csv('train.csv')[TARGET]"
    played = _played("np.sqrt(y - MIN)", "p[::-1]", labels, explained=False)
    assert played.scores[2] is not None
    assert played.scores[2] <= 3, played


@pytest.mark.parametrize(
    "change",
    [
        "y.clip(upper=y.quantile(0.99))",
        "y.clip(y.quantile(0.01), y.quantile(0.99))",
        "y.round(1)",
        "y + 1e-3",
    ],
)
def test_clipped_and_rounded_numbers_are_on_the_same_scale(change: str) -> None:
    played = _played(change, explained=False)
    assert played.culprit is None, played
    assert played.scores[0] == 10


def test_what_others_make_of_the_explanation_is_not_its_writers_fault() -> None:
    there, back = SCALES["thousands"]
    engineer = tables(f"open('scale.txt', 'w').write('thousands')\ny = {there}")
    modeler = FOREST.replace("LABELS", "y") + "import os\nopen('scale.txt', 'a').write('!')\n"
    analyst = SUBMITS.replace("BACK", back)
    assert sprint(engineer, modeler, analyst, seed=TARGETS).culprit is None
    nothing = tables(f"import os\nos.mkdir('scale')\nopen('scale.txt', 'w').close()\ny = {there}")
    assert sprint(nothing, FOREST.replace("LABELS", "y"), analyst, seed=TARGETS).culprit == "engineer_0"


@pytest.mark.parametrize("scale", SCALES)
def test_a_scale_of_which_no_file_tells_is_its_writers_fault(scale: str) -> None:
    there, back = SCALES[scale]
    for undone in ("p", back):
        played = _played(there, undone, explained=False)
        assert blames(played, "engineer_0"), played
        assert played.scores[1] is not None
        assert played.scores[1] >= 8
    assert played.scores[2] is not None
    assert played.scores[2] >= 8


def test_a_modeler_that_takes_the_labels_of_train_csv_is_judged_by_these() -> None:
    played = _played("-y", labels="pd.read_csv('train.csv')[TARGET]")
    assert played.scores == _played().scores
    assert played.culprit is None


def test_labels_of_other_rows_have_no_scale() -> None:
    played = sprint(tables("y = y.iloc[::-1].reset_index(drop=True)"), seed=TARGETS)
    assert played.culprit == "engineer_0", played
    assert played.scores[0] == 1
    coded = sprint(tables("y = y + 7"), seed=NUMBERS)
    assert coded.culprit == "engineer_0", coded


@pytest.mark.parametrize(
    ("change", "known"),
    [
        (lambda t: t, False),
        (lambda t: t * (1 + 1e-9), False),
        (lambda t: np.clip(t, 3, 97), False),
        (np.round, False),
        (np.log, True),
        (np.sqrt, True),
        (lambda t: -t, True),
        (lambda t: t**2, True),
        (lambda t: np.argsort(np.argsort(t)).astype(float), True),
        (lambda t: np.round(t / 20), False),
        (lambda t: (t - 50) ** 2, False),
        (lambda t: np.roll(t, 1), False),
        (lambda t: np.where(t > 99, np.nan, t / 10), False),
    ],
)
def test_only_what_can_be_undone_is_a_scale(change, known: bool) -> None:  # type: ignore[no-untyped-def]
    given = np.random.default_rng(0).uniform(1, 100, 200).round(6)
    train = read_csv(("id,t\n" + "\n".join(f"{i},{v}" for i, v in enumerate(given))).encode(), 1000)
    mine = change(given)
    y = Table(200, 1, 200, ("t",), (True,), mine[:, None], (), int(np.isnan(mine).sum()), 0)
    scale = scale_of(y, ["t"], train)
    assert (scale is not None) == known
    if scale is not None:
        undone = scale.undone(mine.tolist())
        assert undone == pytest.approx(given, rel=1e-3)
        beyond = scale.undone([float(mine.max() + 1), float(mine.min() - 1)])
        assert beyond is not None
        assert np.isfinite(beyond).all()
        huge = scale.undone([1.7e308])
        assert huge is None or np.isfinite(huge).all()
    assert scale is None or scale.undone(["a"]) is None


@pytest.mark.parametrize("scale", ["y * 0.6", "y + 0.7 * y.std()", "np.sqrt(y - y.min())"])
def test_who_submits_predictions_on_another_scale_is_excused(scale: str) -> None:
    """Also where they are better than a constant."""
    silent = _played(scale, explained=False)
    assert blames(silent, "engineer_0"), silent
    assert (silent.scores[2] or 0) >= 6, silent
    noted = _played(scale)
    assert noted.culprit is None, noted
    assert min(score or 0 for score in noted.scores) >= 6, noted


NOISE = {
    "noise": "np.random.default_rng(0).permutation(p)",
    "reversed": "p[::-1]",
    "row numbers": "np.arange(len(p))",
}


@pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE)
@pytest.mark.parametrize(
    "rows", ["", "x, y = x.sample(frac=0.9, random_state=0), y.sample(frac=0.9, random_state=0)"]
)
def test_a_scale_that_a_file_tells_excuses_no_noise(rows: str, noise: str) -> None:
    there, back = (_worded(text) for text in SCALES["log1p"])
    change = f"import numpy as np\nopen('scale.txt', 'w').write('log1p')\ny = {there}\n{rows}"
    played = _changed(change, f"({noise}) * 1.0")
    assert blames(played, "analyst_0"), played
    undone = _changed(change, back)
    assert undone.culprit is None, undone


MADE_UP = SUBMITS.replace("y = pd.read_csv('train.csv')[TARGET]\n", "").replace("BACK", "np.arange(len(p))")
OWN = """
import pandas as pd
from sklearn.neighbors import KNeighborsRegressor
t, Z, m = pd.read_csv('test.csv'), pd.read_pickle('X_test.pkl'), pd.read_pickle('model.pkl')
given = pd.read_csv('train.csv')[TARGET]
own = KNeighborsRegressor(1).fit([[at] for at in range(len(given))], given)
t[TARGET] = own.predict([[at * 2] for at in range(len(t))])
t[[IDS, TARGET]].to_csv('submission.csv', index=False)
"""


@pytest.mark.parametrize("labels", ["y * 0 + 1", "y.sample(frac=1, random_state=1)"])
def test_what_is_made_up_behind_a_useless_model_is_idle(labels: str) -> None:
    engineer, modeler = tables("pass"), FOREST.replace("LABELS", labels)
    idle = sprint(engineer, modeler, MADE_UP, seed=TARGETS)
    assert idle.scores[2] == 2, idle
    tried = sprint(engineer, modeler, OWN, seed=TARGETS)
    assert tried.scores[2] == 6, tried
    assert blames(tried, "modeler_0"), tried
