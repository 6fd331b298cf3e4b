"""Competitions with several targets: each agent answers for its own work, as with one target."""

from __future__ import annotations

from pathlib import Path

import pytest

from several_play import (
    AIR,
    BY_TARGET,
    CHATS,
    CLASSIFIER,
    DEFECTS,
    LISTED,
    NOISE,
    PREDICTS,
    REGRESSOR,
    SHARES,
    SHUFFLED,
    play,
    release,
)
from sprint_play import blames

pytestmark = pytest.mark.slow

LOG = "y = np.log1p(y)"
NOTED = f"{LOG}\nopen('notes.txt', 'w').write('y = log1p(target)')"
TURNED = "y = y[y.columns[::-1]]"
CODES = "y = pd.Series(y.to_numpy().argmax(axis=1))"
TURNED_CODES = "y = pd.Series(2 - y.to_numpy().argmax(axis=1))"
NAMED_CODES = f"import json\njson.dump(list(y.columns[::-1]), open('names.json', 'w'))\n{TURNED_CODES}"
DROPS = "X, y = X.iloc[3:], y.iloc[3:]\n"
JUNK = REGRESSOR.replace("(X, y)", "(X, y.sample(frac=1, random_state=0))")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release(tmp_path_factory.mktemp("release"))


FAULTS_OF_ENGINEERS = {
    "rows of the labels": (AIR, SHUFFLED, REGRESSOR, PREDICTS),
    "rows of one column": (
        AIR,
        "y = y.copy()\ny.iloc[:, 0] = np.random.default_rng(0).permutation(y.iloc[:, 0])",
        REGRESSOR,
        PREDICTS,
    ),
    "noise": (AIR, NOISE, REGRESSOR, PREDICTS),
    "thousands": (AIR, "y = y * 1000", REGRESSOR, PREDICTS),
    "a logarithm": (AIR, LOG, REGRESSOR, PREDICTS),
    "a logarithm of one column": (
        AIR,
        "y = y.copy()\ny.iloc[:, 2] = np.log1p(y.iloc[:, 2])",
        REGRESSOR,
        PREDICTS,
    ),
    "a logarithm of fewer rows": (AIR, DROPS + LOG, REGRESSOR, PREDICTS),
    "columns without names": (AIR, "y = pd.DataFrame(y.to_numpy()[:, ::-1])", REGRESSOR, PREDICTS),
    "names of other columns": (AIR, "y = y.set_axis(y.columns[::-1], axis=1)", REGRESSOR, PREDICTS),
    "one of three": (AIR, "y = y.iloc[:, 0]", REGRESSOR, "np.column_stack([m.predict(Z)] * 3)"),
    "classes: rows": (CHATS, f"{CODES}\n{SHUFFLED}", CLASSIFIER, SHARES),
    "classes: noise": (CHATS, NOISE, BY_TARGET, LISTED),
    "classes: one of three": (CHATS, "y = y.iloc[:, 0]", CLASSIFIER, f"{SHARES}[:, [1, 0, 0]]"),
    "classes: codes that nobody knows": (CHATS, TURNED_CODES, CLASSIFIER, SHARES),
    "flags: rows": (DEFECTS, SHUFFLED, BY_TARGET, LISTED),
    "flags: turned": (DEFECTS, "y = 1 - y", BY_TARGET, LISTED),
    "flags: noise": (DEFECTS, NOISE, BY_TARGET, LISTED),
}


@pytest.mark.parametrize("case", FAULTS_OF_ENGINEERS)
def test_a_fault_of_the_engineer_is_its_own(small: Path, case: str) -> None:
    played = play(small, *FAULTS_OF_ENGINEERS[case])
    assert blames(played, "engineer_0"), played
    assert min(played.scores[1:]) >= 6, played  # type: ignore[type-var]


HONEST = {
    "as it is": (AIR, "", REGRESSOR, PREDICTS),
    "without names": (AIR, "y = pd.DataFrame(y.to_numpy())", REGRESSOR, PREDICTS),
    "a logarithm": (AIR, NOTED, REGRESSOR, "np.expm1(m.predict(Z))"),
    "a logarithm of fewer rows": (AIR, DROPS + NOTED, REGRESSOR, "np.expm1(m.predict(Z))"),
    "a logarithm of one column": (
        AIR,
        "y = y.copy()\ny.iloc[:, 2] = np.log1p(y.iloc[:, 2])\nopen('notes', 'w').write('log1p')",
        REGRESSOR,
        "[[*row[:2], np.expm1(row[2])] for row in m.predict(Z)]",
    ),
    "another order": (AIR, TURNED, REGRESSOR, "m.predict(Z)[:, ::-1]"),
    "another order and a logarithm": (
        AIR,
        f"{NOTED}\n{TURNED}",
        REGRESSOR,
        "np.expm1(m.predict(Z)[:, ::-1])",
    ),
    "a scaler": (
        AIR,
        "from sklearn.preprocessing import StandardScaler\ns = StandardScaler().fit(y)\n"
        "y = pd.DataFrame(s.transform(y), columns=y.columns)\npd.to_pickle(s, 'scaler.pkl')",
        REGRESSOR,
        "pd.read_pickle('scaler.pkl').inverse_transform(m.predict(Z))",
    ),
    "classes: codes": (CHATS, CODES, CLASSIFIER, SHARES),
    "classes: codes of fewer rows": (
        CHATS,
        f"{CODES}\n{DROPS}",
        CLASSIFIER,
        SHARES,
    ),
    "classes: names": (CHATS, "y = y.idxmax(axis=1)", CLASSIFIER, SHARES),
    "classes: other words": (CHATS, "y = y.idxmax(axis=1).str[-1]", CLASSIFIER, SHARES),
    "classes: codes in a file": (CHATS, NAMED_CODES, CLASSIFIER, f"{SHARES}[:, ::-1]"),
    "classes: as they are": (CHATS, "", BY_TARGET, f"np.clip({LISTED}, .02, 1)"),
    "classes: another order": (CHATS, TURNED, BY_TARGET, f"np.clip({LISTED}, .02, 1)[:, ::-1]"),
    "flags": (DEFECTS, "", BY_TARGET, LISTED),
    "flags: numbers": (DEFECTS, "", REGRESSOR, PREDICTS),
    "flags: another order": (DEFECTS, TURNED, BY_TARGET, f"{LISTED}[:, ::-1]"),
}


@pytest.mark.parametrize("case", HONEST)
def test_honest_work_keeps_its_reward(small: Path, case: str) -> None:
    played = play(small, *HONEST[case])
    assert played.culprit is None, played
    assert played.scores[0] == 10, played
    assert min(played.scores[1:]) >= 8, played  # type: ignore[type-var]


@pytest.mark.parametrize("change", ["", NOTED, TURNED])
def test_a_fault_of_the_modeler_is_its_own(small: Path, change: str) -> None:
    assert blames(play(small, AIR, change, JUNK), "modeler_0")


@pytest.mark.parametrize(("task", "change"), [(AIR, ""), (CHATS, ""), (CHATS, CODES)])
def test_a_fault_of_the_analyst_is_its_own(small: Path, task: str, change: str) -> None:
    junk = "np.random.default_rng(0).uniform(.1, .9, (len(e), 3))"
    model = CLASSIFIER if change else REGRESSOR
    played = play(small, task, change, model, junk)
    assert played.culprit == "analyst_0", played
    assert played.scores[0] == 10
    assert played.scores[2] <= 4.5, played  # type: ignore[operator]


def test_who_cannot_know_the_order_of_columns_is_not_to_blame(small: Path) -> None:
    played = play(small, AIR, TURNED)
    assert played.culprit is None, played
    assert played.scores[2] == 6, played


def test_more_rows_than_are_compared_still_show_a_scale(tmp_path: Path) -> None:
    root = release(tmp_path / "large", 3600)
    drops = "k = y.iloc[:, 0] < y.iloc[:, 0].quantile(.99)\nX, y = X[k], y[k]\n"
    honest = play(root, AIR, drops + NOTED, predictions="np.expm1(m.predict(Z))")
    assert honest.culprit is None, honest
    assert min(honest.scores) >= 8, honest  # type: ignore[type-var]
    assert blames(play(root, AIR, drops + LOG), "engineer_0")
