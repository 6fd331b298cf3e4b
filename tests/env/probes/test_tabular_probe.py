"""The DSBench probe on good and hostile files: every failure is a fact, and no pickle runs code."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, VotingClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from probing import look, look_at, workspace_of

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.uniform(size=(60, 4)), columns=list("abcd"))
Y = pd.Series((X.a > 0.5).astype(int), name="t")
FOREST = RandomForestClassifier(5, random_state=0).fit(X, Y)


class Command:
    """Unpickling it creates a file."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.text,)


class Own:
    """A class in the agent's own script."""

    def predict(self, x: Any) -> Any:
        print('PROBE {"forged": true}')
        return np.zeros(len(x))


Own.__module__ = "__main__"

MODELS: dict[str, Any] = {
    "forest": RandomForestClassifier(5),
    "histogram": HistGradientBoostingClassifier(max_iter=5),
    "scaled": make_pipeline(StandardScaler(), LogisticRegression()),
    "vectors": SVC(),
    "neighbours": KNeighborsClassifier(),
    "columns": make_pipeline(
        ColumnTransformer([("log", FunctionTransformer(np.log1p), ["a"])], remainder="passthrough"),
        GaussianNB(),
    ),
    "searched": GridSearchCV(DecisionTreeClassifier(), {"max_depth": [1, 2]}, scoring="f1"),
    "voted": VotingClassifier([("a", GaussianNB()), ("b", LogisticRegression())]),
    "selected": make_pipeline(PCA(2), SelectKBest(k=1), Ridge()),
}


def good(folder: Path) -> None:
    table = X.assign(id=range(60), t=Y)
    table.to_csv(folder / "train.csv", index=False)
    table.drop(columns="t")[["id", *"abcd"]].to_csv(folder / "test.csv", index=False)
    X.to_pickle(folder / "X_train.pkl")
    Y.to_pickle(folder / "y_train.pkl")
    X.to_pickle(folder / "X_test.pkl")
    (folder / "model.pkl").write_bytes(pickle.dumps(FOREST))


def dump(name: str, value: Any) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(pickle.dumps(value))


def own_class(folder: Path) -> None:
    import __main__

    __main__.Own = Own  # type: ignore[attr-defined]
    try:
        (folder / "model.pkl").write_bytes(pickle.dumps(Own()))
    finally:
        del __main__.Own  # type: ignore[attr-defined]


CASES: dict[str, Callable[[Path], object]] = {
    "good": lambda folder: None,
    **{f"model-{n}": dump("model.pkl", m.fit(X, Y)) for n, m in MODELS.items()},
    **{
        f"joblib-{n}": lambda folder, m=m: joblib.dump(m.fit(X, Y), folder / "model.pkl")
        for n, m in MODELS.items()
    },
    "command": dump("X_train.pkl", Command("touch ../owned")),
    "command-model": dump("model.pkl", [FOREST, Command("touch ../owned")]),
    "eval": lambda folder: (folder / "X_test.pkl").write_bytes(
        b'cbuiltins\neval\n(S\'open("../owned", "w")\'\ntR.'
    ),
    "runstring": lambda folder: (folder / "model.pkl").write_bytes(
        b'cnumpy.testing._private.utils\nrunstring\n(S\'open("../owned", "w")\'\n(dtR.'
    ),
    "own": own_class,
    "shadow": lambda folder: [
        (folder / f"{n}.py").write_text("open('../owned', 'w')") for n in ("json", "pandas")
    ],
    "garbage": lambda folder: [
        (folder / f"{n}.pkl").write_bytes(b"\x00\xff" * 9) for n in ("X_train", "model")
    ],
    "empty": lambda folder: (folder / "y_train.pkl").write_bytes(b""),
    "folder": lambda folder: [(folder / "X_test.pkl").unlink(), (folder / "X_test.pkl").mkdir()],
    "deep": lambda folder: (folder / "X_train.pkl").write_bytes(b"(" * 200_000 + b"."),
    "arrays": lambda folder: [dump(f"{n}.pkl", X.to_numpy())(folder) for n in ("X_train", "X_test")],
    "fewer": dump("X_test.pkl", X[["a", "b"]]),
    "text": dump("X_train.pkl", X.assign(a="red", b=np.nan)),
    "too-large": dump("X_train.pkl", X.assign(a=X.a * 1e300)),
    "infinite": dump("X_test.pkl", X.assign(a=np.inf)),
    "leak": dump("X_train.pkl", X.assign(t=Y)),
    "renamed-leak": dump("X_train.pkl", X.assign(z=Y.to_numpy())),
    "id": dump("X_train.pkl", X.assign(id=range(60))),
    "words": dump("y_train.pkl", "no table at all"),
    "no-test-table": lambda folder: (folder / "test.csv").write_bytes(b"\xff\xfe"),
    "mixed-names": dump("X_train.pkl", X.set_axis([0, "b", "c", "d"], axis=1)),
    "numbered-names": dump("X_train.pkl", X.set_axis(range(4), axis=1)),
    "objects": lambda folder: [
        dump("X_train.pkl", X.astype(object))(folder),
        dump("y_train.pkl", Y.astype(object))(folder),
    ],
    "category-labels": dump("y_train.pkl", Y.astype("category")),
    "text-labels": dump("y_train.pkl", Y.astype(str)),
    "flag-labels": dump("y_train.pkl", Y.astype(bool)),
    "other-labels": lambda folder: [
        pd.read_csv(folder / "train.csv")
        .replace({"t": {0: "no", 1: "yes"}})
        .to_csv(folder / "train.csv", index=False),
        dump("y_train.pkl", Y.map({0: "nein", 1: "yes"}))(folder),
    ],
    "many-test-rows": lambda folder: [
        (folder / "test.csv").write_text("id,a\n" + "1,2\n" * 10),
        dump("X_test.pkl", pd.concat([X] * 200))(folder),
    ],
    "reversed-labels": dump("y_train.pkl", Y[::-1].reset_index(drop=True)),
    "named-labels": dump("y_train.pkl", Y.map({0: "no", 1: "yes"})),
    "no-model": lambda folder: (folder / "model.pkl").unlink(),
    "shuffled-test": dump("X_test.pkl", X.sample(frac=1, random_state=0)),
    "shuffled": lambda folder: [
        dump(f"{n}.pkl", v.sample(frac=1, random_state=0))(folder)
        for n, v in (("X_train", X), ("y_train", Y))
    ],
    "few-rows": dump("model.pkl", DecisionTreeClassifier().fit(X[::-1], Y)),
    "wide": lambda folder: [
        dump("X_test.pkl", pd.concat([X] * 200))(folder),
        pd.concat([pd.read_csv(folder / "test.csv")] * 200).to_csv(folder / "test.csv", index=False),
    ],
    "long-names": dump("X_train.pkl", X.set_axis(["x" * 50_000, "b", "c", "d"], axis=1)),
}


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    root = tmp_path_factory.mktemp("probe")
    found = {}
    for name, prepare in CASES.items():
        folder = root / name
        folder.mkdir()
        good(folder)
        prepare(folder)
        found[name] = look(folder)
        assert "probe_failed" not in found[name]
        assert not (root / "owned").exists()
    return found


def test_good_files_have_good_facts(facts: dict[str, dict[str, Any]]) -> None:
    good = facts["good"]
    assert good["checks"] == {
        "train_rows": 60,
        "test_rows": 60,
        "columns_match": True,
        "rows_match": True,
        "test_rows_match": True,
        "labels_kept": True,
        "rows_in_place": True,
        "labels_follow": 1.0,
        "test_rows_follow": 1.0,
        "scales_match": True,
        "scales_off": [],
        "label_words": 0,
        "labels_huge": 0,
        "labels_known": 1.0,
        "targets": 1,
        "unlike": [],
        "codings": [],
        "codings_unclear": [],
        "target_leaked": [],
        "target_lost": [],
        "id_kept": False,
    }
    assert accuracy(good["allowed"]["predictions"]) == 1.0
    assert (good["X_train"]["rows"], good["X_train"]["cols"], good["y_train"]["distinct"]) == (60, 4, 2)
    assert good["model"]["predictions"] == FOREST.predict(X).tolist()
    assert good["model"]["probabilities"] == pytest.approx(FOREST.predict_proba(X)[:, 1], abs=1e-5)


@pytest.mark.parametrize("how", ["model", "joblib"])
@pytest.mark.parametrize("name", MODELS)
def test_usual_models_load_and_predict(facts: dict[str, dict[str, Any]], name: str, how: str) -> None:
    model = facts[f"{how}-{name}"]["model"]
    assert (model["loads"], model["predicts"], model["finite"], model["n_predictions"]) == (
        True,
        True,
        True,
        60,
    ), model


@pytest.mark.parametrize(
    ("name", "part", "error"),
    [
        ("command", "X_train", "it names posix.system, which is no data"),
        ("eval", "X_test", "it names builtins.eval, which is no data"),
        ("own", "model", "Can't get attribute 'Own'"),
        ("empty", "y_train", "EOFError"),
        ("garbage", "X_train", "Error"),
        ("garbage", "model", "Error"),
        ("folder", "X_test", "it is a dir, not a file"),
        ("deep", "X_train", "Error"),
    ],
)
def test_what_cannot_be_loaded_says_why(
    facts: dict[str, dict[str, Any]], name: str, part: str, error: str
) -> None:
    found = facts[name][part]
    assert (found["exists"], found["loads"]) == (True, False)
    assert error in found["error"]


def test_files_of_the_workspace_stand_in_for_no_module(facts: dict[str, dict[str, Any]]) -> None:
    assert facts["shadow"] == facts["good"]


def test_what_is_wrong_inside_is_seen(facts: dict[str, dict[str, Any]]) -> None:
    assert facts["arrays"]["checks"]["columns_match"]
    assert facts["arrays"]["model"]["predicts"]
    fewer = facts["fewer"]
    assert fewer["checks"]["columns_match"] is False
    assert fewer["model"]["predicts"] is False
    text = facts["text"]["X_train"]
    assert (text["numeric"], text["strings"], text["nan"]) == (False, ["a"], 60)
    assert facts["infinite"]["X_test"]["inf"] == 60
    assert (facts["infinite"]["X_test"]["too_large"], facts["too-large"]["X_train"]["too_large"]) == (0, 60)
    assert facts["leak"]["checks"]["target_leaked"] == ["t"]
    assert facts["renamed-leak"]["checks"]["target_leaked"] == ["z"]
    assert facts["id"]["checks"]["id_kept"]
    assert facts["words"]["y_train"]["table"] is False
    assert "rows_match" not in facts["words"]["checks"]
    assert facts["no-test-table"]["checks"]["test_rows"] is None


def test_names_of_mixed_types_are_seen(facts: dict[str, dict[str, Any]]) -> None:
    """scikit-learn refuses them."""
    assert facts["mixed-names"]["X_train"]["mixed_names"]
    for name in ("good", "numbered-names", "arrays"):
        assert not facts[name]["X_train"]["mixed_names"]


def test_labels_that_are_no_numbers_are_seen(facts: dict[str, dict[str, Any]]) -> None:
    assert facts["named-labels"]["checks"]["label_words"] == 60
    for name in ("objects", "category-labels", "text-labels", "flag-labels"):
        assert facts[name]["checks"]["label_words"] == 0
    assert facts["objects"]["X_train"]["numeric"]
    other = facts["other-labels"]["checks"]
    assert 0 < other["labels_known"] < 1
    assert "label_words" not in other


def test_a_table_of_very_many_rows_is_no_test_of_a_model(facts: dict[str, dict[str, Any]]) -> None:
    found = facts["many-test-rows"]
    assert found["checks"]["test_rows_match"] is False
    assert found["model"]["has_predict"]
    assert "predicts" not in found["model"]


def test_labels_that_left_their_rows_are_seen(facts: dict[str, dict[str, Any]]) -> None:
    assert facts["reversed-labels"]["checks"]["labels_follow"] < 0.5
    assert facts["named-labels"]["checks"]["labels_follow"] == 1.0
    assert facts["shuffled"]["checks"]["labels_follow"] == 1.0  # both tables: nothing is wrong


def test_the_host_finds_out_what_the_tables_allow(facts: dict[str, dict[str, Any]]) -> None:
    """Whatever the model predicts and says of itself."""
    poor = facts["few-rows"]
    assert accuracy(poor["model"]["predictions"]) < 0.7 < accuracy(poor["allowed"]["predictions"])
    assert facts["named-labels"]["allowed"]["predictions"][0] in ("no", "yes")
    assert accuracy(facts["reversed-labels"]["allowed"]["predictions"]) < 0.7
    assert not {"fit", "n_features"} & poor["model"].keys()
    for name in ("fewer", "infinite", "text", "garbage"):
        assert "allowed" not in facts[name]
    assert facts["no-model"]["allowed"] == facts["good"]["allowed"]
    assert "partial" not in facts["good"]["allowed"]
    assert facts["wide"]["allowed"]["partial"] is True


def test_test_rows_in_another_order_are_seen(facts: dict[str, dict[str, Any]]) -> None:
    assert facts["shuffled-test"]["checks"]["test_rows_follow"] < 0.5
    assert facts["shuffled"]["checks"]["test_rows_follow"] == 1.0  # only the rows of X_train moved


def accuracy(predictions: list[Any]) -> float:
    return float(np.mean([str(a) == str(b) for a, b in zip(predictions, Y, strict=True)]))


def test_long_predictions_are_cut_and_say_so(facts: dict[str, dict[str, Any]]) -> None:
    model = facts["wide"]["model"]
    assert model["n_predictions"] == 12_000
    assert len(model["predictions"]) == len(model["probabilities"]) == 2000


def test_facts_say_who_attests_them(facts: dict[str, dict[str, Any]]) -> None:
    assert facts["good"]["attested_by"].keys() == {"host", "sandbox", "model"}


@pytest.mark.parametrize(
    "what", ["echo gone > train.csv; rm X_test.pkl", "mkdir new", "chmod 600 test.csv", "chmod 751 ."]
)
def test_what_the_files_do_when_they_are_opened_is_undone(tmp_path: Path, what: str) -> None:
    good(tmp_path)
    dump("model.pkl", Command(what))(tmp_path)
    with workspace_of(tmp_path) as workspace:
        before = {name: workspace.read(name) for name in workspace.present}
        look_at(workspace)
        assert {name: workspace.read(name) for name in workspace.present} == before
        snapshot = workspace.scan()
        after, top = snapshot.entries, snapshot.top
        assert top is not None
        assert top.mode & 0o777 == 0o700
        assert "new" not in after
        assert after["test.csv"].signature[0] & 0o777 == 0o644
