"""Labels and test rows that left their rows are found although X_train lacks rows, or has moved them."""

from __future__ import annotations

import pytest

from sprint_play import NUMBERS, TARGETS, WORDS, blames, sprint, tables

ROWS = {
    "one dropped": "x, y = x.iloc[1:], y.iloc[1:]",
    "many dropped": "x, y = x[x.index % 7 > 0], y[y.index % 7 > 0]",
    "counted again": "x, y = (each[each.index % 7 > 0].reset_index(drop=True) for each in (x, y))",
    "scaled": "x, z = ((each - x.mean()) / x.std() for each in (x, z))\n"
    "x, y = (each.iloc[1:].reset_index(drop=True) for each in (x, y))",
    "bent": "from sklearn.preprocessing import PowerTransformer\nbend = PowerTransformer().fit(x)\n"
    "x, z = (pd.DataFrame(bend.transform(each), columns=x.columns) for each in (x, z))\n"
    "x, y = (each.iloc[1:].reset_index(drop=True) for each in (x, y))",
    "in another order": "order = np.random.default_rng(0).permutation(len(x))\n"
    "x, y = x.iloc[order], y.iloc[order]",
}
LEAVES = {
    "labels mixed": "k = np.arange(len(y)) % 2 > 0\nv = y.to_numpy(copy=True)\n"
    "v[k] = v[k][np.random.default_rng(1).permutation(k.sum())]\ny = pd.Series(v, name=y.name)",
    "a column mixed": "name = z.nunique().idxmax()\n"
    "z[name] = z[name].sample(frac=1, random_state=1).to_numpy()",
}


@pytest.mark.parametrize("seed", [NUMBERS, WORDS, TARGETS])
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("leaves", LEAVES)
def test_dropped_rows_hide_no_values_that_left_theirs(rows: str, leaves: str, seed: int) -> None:
    played = sprint(tables(f"{ROWS[rows]}\n{LEAVES[leaves]}"), seed=seed)
    assert blames(played, "engineer_0"), played


@pytest.mark.parametrize("seed", [NUMBERS, WORDS, TARGETS])
@pytest.mark.parametrize("rows", ROWS)
def test_who_drops_rows_of_both_tables_keeps_its_reward(rows: str, seed: int) -> None:
    played = sprint(tables(ROWS[rows]), seed=seed)
    assert played.scores[0] == 10, played
    assert played.culprit != "engineer_0"


@pytest.mark.parametrize("seed", [NUMBERS, WORDS, TARGETS])
def test_labels_cut_to_the_rows_that_are_left_are_the_engineers_fault(seed: int) -> None:
    played = sprint(tables("x = x[x.index % 7 > 0]\ny = y.iloc[:len(x)]"), seed=seed)
    assert blames(played, "engineer_0"), played


@pytest.mark.parametrize("seed", [NUMBERS, TARGETS])
@pytest.mark.parametrize("rows", ["", *ROWS.values()], ids=["all", *ROWS])
def test_who_moves_the_rows_of_another_agents_table_is_to_blame(rows: str, seed: int) -> None:
    moves = "\nX.sample(frac=1, random_state=3).to_pickle('X_train.pkl')"
    played = sprint(tables(rows) if rows else "", f"{moves}", seed=seed)
    assert played.culprit == "modeler_0", played
    assert played.scores[0] == 10
    assert played.scores[1] is not None
    assert played.scores[1] <= 1.5
