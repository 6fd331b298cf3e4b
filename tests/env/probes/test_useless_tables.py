"""Tables that no reader can use are the engineer's fault: neither pickle.load, nor a fit, nor a grader."""

from __future__ import annotations

import pytest

from sprint_play import NUMBERS, SAVES, SHARES, TARGETS, WORDS, blames, sprint, tables

ONLY_PYTHON = """
def only_python(value):
    text = pickle.dumps(value, protocol=2)
    return text[:-1] + b"r" + (2**31 - 1).to_bytes(4, "little") + b"."
open("X_train.pkl", "wb").write(only_python(x))
"""
USELESS = {
    "two columns of labels": "y = pd.DataFrame({'a': y, 'b': y.iloc[::-1].to_numpy()})",
    "row numbers for labels": "y = pd.Series(range(len(y)))",
    "texts 'nan'": "y = y.astype(str).where(y.index % 4 > 0, 'nan')",
    "a dict": "x = {name: x[name].tolist() for name in x}",
    "a dict of one table": "x = {'X': x}",
    "a matrix": "x, z = (np.matrix(each.to_numpy(float)) for each in (x, z))",
    "records": "x, z = (each.to_records(index=False) for each in (x, z))",
    "one name for all columns": "x.columns = z.columns = ['a'] * x.shape[1]",
    "names with one start": "x.columns, z.columns = (['q' * 200 + f'{i + k}' for i in range(x.shape[1])]"
    " for k in (0, 1))",
    "all columns but the first out of order": "for name in list(z)[1:]:\n"
    "    z[name] = z[name].sample(frac=1, random_state=1).to_numpy()",
    "all columns but the last out of order": "for name in list(z)[:-1]:\n"
    "    z[name] = z[name].sample(frac=1, random_state=1).to_numpy()",
    "a fifth of the rows in reverse": "n = len(z) // 5\nz.iloc[:n] = z.iloc[:n].iloc[::-1].to_numpy()",
    "two columns changed places": "a, b = list(z)[:2]\nz[a], z[b] = z[b].to_numpy(), z[a].to_numpy()",
    "labels changed places": "names = sorted(set(y))\ny = y.map(dict(zip(names, names[::-1])))",
}
OF_NUMBERS = {
    "labels and a little": "y = y + 1e-9",
    "labels of two types": "y = pd.Series([str(v) if i % 2 else v for i, v in enumerate(y)], dtype=object)",
}


@pytest.mark.parametrize("seed", [NUMBERS, WORDS])
@pytest.mark.parametrize("how", USELESS)
def test_who_saves_useless_tables_is_to_blame(how: str, seed: int) -> None:
    played = sprint(tables(USELESS[how]), seed=seed)
    assert blames(played, "engineer_0"), played


@pytest.mark.parametrize("how", OF_NUMBERS)
def test_labels_to_which_no_classifier_is_fitted(how: str) -> None:
    played = sprint(tables(OF_NUMBERS[how]), seed=NUMBERS)
    assert blames(played, "engineer_0"), played


INVERTED = "y = 1 - y"
MIXED = (
    "order = np.random.default_rng(0).permutation(len(x))\n"
    "x, y = (each.iloc[order].reset_index(drop=True) for each in (x, y))"
)


@pytest.mark.parametrize("seed", [16, 19, SHARES])
def test_a_target_in_reverse_is_its_writers_fault(seed: int) -> None:
    assert blames(sprint(tables(INVERTED), seed=seed), "engineer_0")


@pytest.mark.parametrize("seed", [1, 6, SHARES])
def test_rows_in_another_order_do_not_hide_a_target_in_reverse(seed: int) -> None:
    played = sprint(tables(f"{INVERTED}\n{MIXED}"), seed=seed)
    assert blames(played, "engineer_0"), played
    honest = sprint(tables(MIXED), seed=seed)
    assert honest.scores[0] == 10, honest
    assert honest.culprit != "engineer_0"


@pytest.mark.parametrize("save", SAVES)
@pytest.mark.parametrize("how", ["a dict", "row numbers for labels", "one name for all columns"])
def test_it_does_not_matter_how_the_program_is_written(how: str, save: str) -> None:
    played = sprint(tables(USELESS[how], save), seed=NUMBERS)
    assert blames(played, "engineer_0"), played


@pytest.mark.parametrize("seed", [NUMBERS, SHARES, TARGETS])
def test_a_pickle_that_only_a_reader_in_python_reads(seed: int) -> None:
    """Its reader in C allocates a list as long as the largest number of a memo."""
    played = sprint(tables("") + ONLY_PYTHON, seed=seed)
    assert blames(played, "engineer_0"), played


@pytest.mark.parametrize("seed", [NUMBERS, WORDS])
@pytest.mark.parametrize(
    "leak",
    [
        "for i in range(3):\n    x[f'l{i}'], z[f'l{i}'] = codes * 2.0 + 1, 1.0",
        "for i in range(6):\n    x[f'l{i}'], z[f'l{i}'] = codes + np.random.rand(len(y)) * 0.2, 0.5",
    ],
    ids=["codes", "with noise"],
)
def test_labels_among_the_features_are_not_the_fault_of_the_analyst(leak: str, seed: int) -> None:
    forest = """
from sklearn.ensemble import RandomForestClassifier
pd.to_pickle(RandomForestClassifier(50, random_state=0).fit(X, y), "model.pkl")
"""
    played = sprint(tables(f"codes = pd.factorize(y, sort=True)[0]\n{leak}"), forest, seed=seed)
    assert played.culprit != "analyst_0"
    assert played.scores[2] is not None
    assert played.scores[2] >= 4
