"""Tables in unusual forms that pandas and scikit-learn take earn what usual ones earn."""

from __future__ import annotations

import pytest

from sprint_play import NUMBERS, SAVES, WORDS, blames, sprint, tables

UNUSUAL = {
    "masked arrays": "x, y, z = (np.ma.masked_array(each.to_numpy()) for each in (x, y, z))",
    "memory maps": """
maps = []
for each in (x, z):
    maps.append(np.memmap(f"{len(maps)}.dat", dtype=float, mode="w+", shape=each.shape))
    maps[-1][:] = each.to_numpy(float)
x, z = maps
""",
    "decimals": "from decimal import Decimal\n"
    "x, z = (each.map(lambda v: Decimal(str(float(v)))) for each in (x, z))",
    "fractions": "from fractions import Fraction\n"
    "x, z = (each.map(lambda v: Fraction(float(v)).limit_denominator(10**6)) for each in (x, z))",
    "deques": "from collections import deque\n"
    "x, y, z = deque(x.to_numpy(float).tolist()), deque(y), list(map(deque, z.to_numpy(float)))",
    "arrays of Python": "import array\n"
    "x, z = ([array.array('d', row) for row in each.to_numpy(float).tolist()] for each in (x, z))",
    "tuples": "x, y, z = (tuple(each.to_numpy().tolist()) for each in (x, y, z))",
    "a table without names for testing": "z = z.to_numpy(float)",
    "long names": "x.columns = z.columns = ['q' * 200 + str(i) for i in range(x.shape[1])]",
    "categories of numbers": "for c in [c for c in x if x[c].nunique() <= 20 or c == x.columns[0]]:\n"
    "    x[c], z[c] = x[c].astype('category'), z[c].astype('category')",
    "truth values and floats as categories": "for n, c in enumerate(x.columns[:2]):\n"
    "    middle = x[c].median()\n"
    "    x['a%d' % n], z['a%d' % n] = (\n"
    "        ((t[c] > middle) if n else (t[c] > middle) * 0.5).astype('category') for t in (x, z)\n"
    "    )",
    "numbered bins": "c = x.columns[0]\nedges = np.unique([-np.inf, *x[c].quantile([0.3, 0.6]), np.inf])\n"
    "x['bin'], z['bin'] = (pd.cut(t[c], edges, labels=range(len(edges) - 1)) for t in (x, z))",
    "other units": "m, s = x.mean(), x.std().replace(0, 1)\nx, z = (x - m) / s, (z - m) / s",
}


@pytest.mark.parametrize("seed", [NUMBERS, WORDS])
@pytest.mark.parametrize("how", UNUSUAL)
def test_an_unusual_form_earns_as_much(how: str, seed: int) -> None:
    played = sprint(tables(UNUSUAL[how]), seed=seed)
    assert played.scores[0] == 10, played
    assert played.culprit is None


@pytest.mark.parametrize("save", SAVES)
def test_it_does_not_matter_how_the_program_is_written(save: str) -> None:
    for how in ("masked arrays", "fractions"):
        assert sprint(tables(UNUSUAL[how], save), seed=NUMBERS).scores[0] == 10


def test_an_array_of_numbers_holds_labels() -> None:
    played = sprint(tables("import array\ny = array.array('q', y.tolist())"), seed=NUMBERS)
    assert played.scores[0] == 10


def test_categories_of_text_are_text() -> None:
    change = (
        "x['c'], z['c'] = (pd.Series(['a', 'b'] * len(t)).head(len(t)).astype('category') for t in (x, z))"
    )
    assert blames(sprint(tables(change), seed=NUMBERS), "engineer_0")


def test_missing_values_count_in_categories_of_numbers() -> None:
    change = (
        "x['c'], z['c'] = (pd.Series([1, None] * len(t)).head(len(t)).astype('category') for t in (x, z))"
    )
    played = sprint(tables(change), seed=NUMBERS)
    assert blames(played, "engineer_0")
    assert "are missing" in played.reasons[0]
