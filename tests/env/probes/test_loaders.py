"""Whether the loaders that the prompts name load a file, and whether all loaders get the same."""

from __future__ import annotations

import copyreg
import io
import pickle
import pickletools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

from mappa_env.probes import make_probe
from mappa_env.probes.opening import MODEL, TABLES
from probing import look, site_of, workspace_of

X = pd.DataFrame(np.random.default_rng(0).uniform(size=(60, 3)), columns=list("abc"))
Y = pd.Series(X.a * 7, name="t")
FOREST = RandomForestRegressor(3, random_state=0).fit(X, Y)


def polyglot(good: Any, plain: bytes) -> bytes:
    """A file from which joblib loads ``good`` while a reader of pickles runs the opcodes in ``plain``.

    They lie in the padding before the first array, whose length byte becomes an opcode without effect.
    """
    stream = io.BytesIO()
    joblib.dump(good, stream)
    data = stream.getvalue()
    marked = False
    for opcode, value, place in pickletools.genops(io.BytesIO(data)):
        marked = marked or value == "numpy_array_alignment_bytes"
        if marked and opcode.name == "BUILD":
            start = int(place or 0) + 1
            break
    memoize = 0x94
    return data[:start] + bytes([memoize]) + plain.ljust(memoize, b".") + data[start + 1 + data[start] :]


def other(file: str) -> bytes:
    """Opcodes that load ``file`` instead."""
    return b"0cpandas\nread_pickle\n(X" + len(file).to_bytes(4, "little") + file.encode() + b"tR."


def write(folder: Path, **content: Any) -> Path:
    for name, value in zip((*TABLES, MODEL), (X, Y, X, FOREST), strict=True):
        pd.to_pickle(value, folder / name)
    for name, value in content.items():
        path = folder / f"{name}.pkl"
        path.write_bytes(value) if isinstance(value, bytes) else value(path)
    return folder


def dumped(value: Any, **options: Any) -> Callable[[Path], Any]:
    return lambda path: joblib.dump(value, path, **options)


def gzipped(value: Any) -> Callable[[Path], Any]:
    return lambda path: pd.to_pickle(value, path, compression="gzip")


PLAIN = {
    "pickle": (lambda path: pd.to_pickle(X, path), True),
    "protocol 2": (lambda path: pd.to_pickle(X, path, protocol=2), True),
    "gzip": (gzipped(X), False),
    "joblib": (dumped(X.to_numpy()), False),
    "compressed joblib": (dumped(X, compress=3), False),
    "npy": (lambda path: np.save(path.open("wb"), X.to_numpy()), False),
}


@pytest.mark.parametrize("name", PLAIN)
def test_a_fact_says_whether_the_named_loader_loads_a_table(name: str, tmp_path: Path) -> None:
    how, plain = PLAIN[name]
    facts = look(write(tmp_path, X_train=how))["X_train"]
    assert (facts["loads"], facts["table"], facts["plain"], facts["stable"]) == (True, True, plain, True)
    try:
        pd.read_pickle(tmp_path / "X_train.pkl")  # noqa: S301  (a file of this test)
    except Exception:  # noqa: BLE001  (whatever such a file does)
        assert not plain
    else:
        assert plain


def test_joblib_files_of_text_are_honest(tmp_path: Path) -> None:
    """joblib pickles an array of objects apart, so a reader of pickles gets it without its table."""
    words = pd.Series(["a", "b"] * 30, dtype=object)
    facts = look(write(tmp_path, y_train=dumped(words)))["y_train"]
    assert (facts["loads"], facts["plain"], facts["stable"], facts["distinct"]) == (True, False, True, 2)


def test_a_table_that_joblib_and_pickle_read_differently_is_unstable(tmp_path: Path) -> None:
    data = polyglot(Y.to_numpy(), b"0" + pickle.dumps([1.0, 2.0], protocol=0))
    path = write(tmp_path, y_train=data) / "y_train.pkl"
    assert (joblib.load(path) == Y.to_numpy()).all()
    assert pd.read_pickle(path) == [1.0, 2.0]  # noqa: S301
    assert look(tmp_path)["y_train"]["stable"] is False


def refused(tmp_path: Path, data: bytes) -> str:
    facts = look(write(tmp_path, X_train=data))["X_train"]
    assert (facts["loads"], facts.get("unknown", False)) == (False, False)
    return str(facts["error"])


def test_code_that_only_a_reader_of_pickles_sees_is_a_fault(tmp_path: Path) -> None:
    pd.to_pickle(-Y, tmp_path / ".bad")
    path = write(tmp_path, y_train=polyglot(Y.to_numpy(), other(".bad"))) / "y_train.pkl"
    assert (joblib.load(path) == Y.to_numpy()).all()
    assert "read_pickle" in look(tmp_path)["y_train"]["error"]


def test_a_name_of_python_2_in_a_new_pickle_is_a_fault(tmp_path: Path) -> None:
    """``pickle.load`` maps the names of Python 2 below protocol 3 only."""
    data = pickle.dumps(X, protocol=4)
    forged = data[:2] + b"c__builtin__\nset\n0" + data[2:]
    with pytest.raises(ModuleNotFoundError):
        pickle.loads(forged)  # noqa: S301
    assert "__builtin__" in refused(tmp_path, forged)


def test_names_of_python_2_in_an_old_pickle_are_read(tmp_path: Path) -> None:
    facts = look(write(tmp_path, X_train=pickle.dumps(X, protocol=2)))["X_train"]
    assert (facts["loads"], facts["rows"]) == (True, len(X))


class WithAttribute:
    """Pickles as a frame with one more attribute."""

    def __init__(self, frame: Any, name: str, value: Any) -> None:
        self.frame, self.name, self.value = frame, name, value

    def __reduce__(self) -> tuple[Any, ...]:
        state = {**self.frame.__getstate__(), self.name: self.value}
        return copyreg._reconstructor, (pd.DataFrame, object, None), state  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["__array__", "__array_interface__", "__dataframe__", "_get_value", "mine"])
def test_a_table_with_attributes_of_its_own_is_refused(name: str, tmp_path: Path) -> None:
    assert name in refused(tmp_path, pickle.dumps(WithAttribute(X, name, dict)))


def test_an_index_with_a_method_of_its_own_is_refused(tmp_path: Path) -> None:
    data = pickle.dumps(X.columns)
    forged = data[:-1] + b"}X\x0b\x00\x00\x00get_indexercbuiltins\ndict\nsb."
    assert "get_indexer" in refused(tmp_path, forged)


@pytest.mark.parametrize(
    "names", ["cnopackage.mod\nFrame\n.", "cnumpy.testing._private.utils\nrunstring\n(Vx\n(dtR."]
)
def test_missing_packages_and_code_of_known_ones_are_faults(names: str, tmp_path: Path) -> None:
    refused(tmp_path, names.encode())


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("nosuch.mod Frame", "ModuleNotFoundError"),
        ("sklearn.nosuch Frame", "ModuleNotFoundError"),
        ("gymnasium NoSuch", "AttributeError"),
    ],
)
def test_a_name_that_is_not_there_is_a_fault_with_the_exception_of_the_reader(
    name: str, error: str, tmp_path: Path
) -> None:
    assert refused(tmp_path, "c{}\n{}\n.".format(*name.split()).encode()).startswith(error)


def test_a_class_of_an_unlisted_package_is_unknown(tmp_path: Path) -> None:
    facts = look(write(tmp_path, X_train=b"cgymnasium.spaces.box\nBox\n."))["X_train"]
    assert facts["unknown"] is True


def test_a_class_of_a_module_in_the_workspace_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class Frame: pass")
    assert look(write(tmp_path, X_train=b"cmine\nFrame\n."))["X_train"]["unknown"] is True


class Loaded:
    """Pickles as what the expression ``text`` yields."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (self.text,)


@pytest.mark.parametrize(
    ("how", "plain"),
    [
        (lambda path: pd.to_pickle(FOREST, path), True),
        (dumped(FOREST), False),
        (dumped(FOREST, compress=3), False),
        (gzipped(FOREST), False),
    ],
    ids=["pickle", "joblib", "compressed joblib", "gzip"],
)
def test_a_fact_says_whether_pickle_loads_a_model(how: Any, plain: bool, tmp_path: Path) -> None:
    facts = look(write(tmp_path, model=how))["model"]
    assert (facts["predicts"], facts["plain"], facts["stable"], facts["agreement"]) == (
        True,
        plain,
        True,
        1.0,
    )
    assert "again" not in facts


def test_a_model_that_joblib_and_pickle_read_differently_is_unstable(tmp_path: Path) -> None:
    pd.to_pickle(DummyRegressor().fit(X, Y), tmp_path / ".bad")
    write(tmp_path, model=polyglot(LinearRegression().fit(X.to_numpy(), Y), other(".bad")))
    assert isinstance(joblib.load(tmp_path / MODEL), LinearRegression)
    facts = look(tmp_path)["model"]
    assert (facts["stable"], facts["type"]) == (False, "DummyRegressor")


def test_a_model_is_asked_again_when_a_file_that_it_reads_changes(tmp_path: Path) -> None:
    """Its own bytes stay the same."""
    (tmp_path / "w.bin").write_bytes(pickle.dumps(FOREST))
    text = "__import__('pickle').load(open('w.bin', 'rb'))"
    with workspace_of(write(tmp_path, model=pickle.dumps(Loaded(text)))) as workspace:
        probe = make_probe("tabular")
        assert probe.look(site_of(workspace))["model"]["type"] == "RandomForestRegressor"
        workspace.put("w.bin", pickle.dumps(DummyRegressor().fit(X, Y)))
        assert probe.look(site_of(workspace))["model"]["type"] == "DummyRegressor"


SLOW = """
import time
class Slow:
    classes_ = [0, 1]
    def predict(self, X):
        time.sleep(6)
        return (X.a > .5).astype(int)
    def predict_proba(self, X):
        time.sleep(6)
        return __import__('numpy').column_stack([1 - X.a, X.a])
"""


@pytest.mark.large
@pytest.mark.parametrize("metric", ["roc_auc", "accuracy"])
def test_a_slow_model_is_asked_for_what_its_metric_takes(metric: str, tmp_path: Path) -> None:
    """Labels and probabilities together take longer than an action may."""
    (tmp_path / "slow.py").write_text(SLOW)
    with workspace_of(write(tmp_path, model=b"cslow\nSlow\n(tR.")) as workspace:
        site = site_of(workspace)
        site = site._replace(task=replace(site.task, metric=metric), limits=replace(site.limits, wall_s=10))
        facts = make_probe("tabular").look(site)["model"]
    assert (facts["predicts"], facts["n_predictions"], facts["stable"]) == (True, len(X), True)
    assert ("probabilities" in facts) == (metric == "roc_auc")
