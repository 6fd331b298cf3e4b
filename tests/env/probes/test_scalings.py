"""Which files tell how numbers came to be on another scale: what lies there beside them does not."""

from __future__ import annotations

import dataclasses
import gzip
import json
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.preprocessing import FunctionTransformer, LabelEncoder, StandardScaler

from mappa_env.probes.csv_table import read_csv
from mappa_env.probes.plain import Table
from mappa_env.probes.scalings import scalings
from mappa_env.sandbox import make_sandbox
from sprint_play import TARGETS, blames, sprint, tables

GIVEN = np.random.default_rng(0).uniform(1, 100, 200).round(6)
TRAIN = read_csv(("id,t\n" + "\n".join(f"{i},{v}" for i, v in enumerate(GIVEN))).encode(), 1000)
COLUMNS = ["age", "income", "expected_income", "catalog_login", "region=north"]


def found(
    name: str, content: bytes, change: Callable[[np.ndarray], np.ndarray], column: str = "t"
) -> list[str]:  # type: ignore[type-arg]
    mine = change(GIVEN)
    y = Table(200, 1, 200, (column,), (True,), mine[:, None], (), 0, 0)
    with make_sandbox("local").open_workspace() as workspace:
        workspace.put(name, content)
        workspace.present[name] = dataclasses.replace(workspace.present[name], agent="engineer_0")
        return scalings(workspace, y, ["t"], TRAIN)


def fitted(kind: type, **options: object) -> bytes:
    return pickle.dumps(kind(**options).fit(GIVEN[:, None]))


TELL_NOTHING = {
    "notes.txt": b"hello",
    "README.md": b"# Tables\n\n**All** 5 columns are kept; see the catalog. I expect no problems.",
    "columns.json": json.dumps(COLUMNS).encode(),
    "columns.pkl": pickle.dumps(COLUMNS),
    "columns.npy": b"\x93NUMPY\x01\x00" + b" " * 60 + np.array([1.0, 2.0]).tobytes(),
    "columns.pkl.gz": gzip.compress(pickle.dumps(COLUMNS)),
    "regions.pkl": pickle.dumps(LabelEncoder().fit(["north", "south"])),
    "train.log": b"200 rows, 5 columns",
    "shape.txt": b"200 5",
    "config.json": b'{"seed": 1, "trees": 300}',
}
TELL_OF_A_LOGARITHM = {
    "scale.txt": b"y = log1p(t)",
    "hinweis.txt": b"Zielwerte logarithmiert",
    "note.txt": "\u5bf9\u6570\u53d8\u6362".encode(),
    "wide.txt": "np.log1p".encode("utf-16"),
    "y_is_log1p.flag": b"1",
    "helpers.py": b"import numpy as np\n\ndef undo(p):\n    return np.expm1(p)\n",
    "target.json": json.dumps({"inverse": "undo the above"}).encode(),
    "transformer.pkl": fitted(FunctionTransformer, func=np.log1p, inverse_func=np.expm1),
    "transformer.pkl.gz": gzip.compress(fitted(FunctionTransformer, func=np.log1p)),
    "target.h5": b"\x89HDF\r\n\x1a\n" + bytes(200),
}
TELL_OF_A_LINE = {
    "scale.txt": f"mean {GIVEN.mean():.2f}".encode(),
    "scale.md": b"in thousands",
    "scale.json": json.dumps([GIVEN.mean(), GIVEN.std()]).encode(),
    "numbers.pkl": pickle.dumps((GIVEN.mean(), GIVEN.std())),
    "numbers.npy": b"\x93NUMPY\x01\x00" + np.array([GIVEN.mean(), GIVEN.std()]).tobytes(),
    "scaler.pkl": fitted(StandardScaler),
    "undo.py": b"def undo(p, s, m):\n    return s * p + m\n\ny = undo(y * 3, 1, 2)\n",
}


def standardised(t: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    return (t - t.mean()) / t.std()


@pytest.mark.parametrize("change", [np.log1p, np.sqrt, standardised])
@pytest.mark.parametrize("name", TELL_NOTHING)
def test_any_other_file_tells_nothing(name: str, change: Callable[..., np.ndarray]) -> None:  # type: ignore[type-arg]
    assert found(name, TELL_NOTHING[name], change) == []


@pytest.mark.parametrize("name", TELL_OF_A_LOGARITHM)
def test_what_names_the_function_tells(name: str) -> None:
    assert found(name, TELL_OF_A_LOGARITHM[name], np.log1p) == [name]


@pytest.mark.parametrize("name", TELL_OF_A_LINE)
def test_what_holds_the_numbers_tells(name: str) -> None:
    assert found(name, TELL_OF_A_LINE[name], standardised) == [name]


def test_a_scaler_of_something_else_tells_nothing_of_a_logarithm() -> None:
    scaler = pickle.dumps(StandardScaler().fit([[1.0], [5.0]]))
    assert found("scaler.pkl", scaler, np.log1p) == []


def test_the_name_of_the_column_tells() -> None:
    assert found("notes.txt", b"hello", np.log1p, "log_t") == ["y_train.pkl"]


def test_numbers_on_their_own_scale_need_no_file() -> None:
    assert found("scale.txt", b"log1p", lambda t: t) == []


@pytest.mark.parametrize(
    "note", ["open('notes.txt', 'w').write('hello')", "pd.to_pickle(list(x), 'columns.pkl')"]
)
def test_a_file_that_says_nothing_of_the_scale_excuses_nobody(note: str) -> None:
    played = sprint(tables(f"import numpy as np\n{note}\ny = np.log1p(y - y.min())"), seed=TARGETS)
    assert blames(played, "engineer_0"), played
