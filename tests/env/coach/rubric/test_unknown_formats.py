"""A file that this coach cannot read is not judged, and shields its agent from nothing else."""

from __future__ import annotations

import pytest

from mappa_env.coach.culprit import culprit
from patched import patched

SEED = 5
UNKNOWN = {
    "sqlite": (
        "import os, sqlite3, pandas as pd\nif os.path.exists('X_train.pkl'):\n    os.remove('X_train.pkl')\n"
        "with sqlite3.connect('X_train.pkl') as place:\n    pd.DataFrame({'a': [1]}).to_sql('x', place)\n"
        "place.close()"
    ),
    "json": "from pathlib import Path\nPath('X_train.pkl').write_text('{\"columns\": [1, 2]}')",
    "hdf5": "name = 'X_' + 'train'\nopen(f'{name}.pkl', 'wb').write(b'\\x89HDF\\r\\n\\x1a\\n' + bytes(99))",
}
DAMAGE = {
    "train.csv": "import os\nos.remove('train.csv')",
    "helper function": "def tidy(name):\n    __import__('os').unlink(name)\ntidy('t' + 'rain.csv')",
    "overwritten": "try:\n    open('test.csv', 'w').write('id\\n1\\n')\nexcept OSError:\n    pass",
}


@pytest.mark.parametrize("save", UNKNOWN.values(), ids=UNKNOWN)
def test_an_unknown_format_alone_is_not_judged(save: str) -> None:
    actions, _ = patched({"engineer_0": ("", save)}, SEED)
    assert (actions[0].verdict.status, actions[0].verdict.score) == ("abstain", None)


@pytest.mark.parametrize("save", UNKNOWN.values(), ids=UNKNOWN)
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damage_beside_an_unknown_format_is_judged(save: str, damage: str) -> None:
    actions, _ = patched({"engineer_0": ("", f"{save}\n{damage}")}, SEED)
    assert (actions[0].verdict.score, actions[0].verdict.blame) == (1, "engineer_0")
    assert culprit(actions) == "engineer_0"


@pytest.mark.parametrize("save", UNKNOWN.values(), ids=UNKNOWN)
def test_what_is_missing_beside_an_unknown_format_is_named(save: str) -> None:
    actions, _ = patched({}, SEED, {"engineer_0": save})
    verdict = actions[0].verdict
    assert verdict.score is not None
    assert (verdict.score <= 2, verdict.blame) == (True, "engineer_0")
    assert "X_test.pkl" in verdict.reasoning
    later = {(each.verdict.score, each.verdict.blame) for each in actions[1:]}
    assert later <= {(None, None), (6, "engineer_0")}  # no score for who used what nobody can read
    actions, _ = patched({}, SEED, {"engineer_0": f"{save}\nraise ValueError"})
    assert (actions[0].verdict.score, actions[0].verdict.blame) == (1, "engineer_0")


@pytest.mark.parametrize("save", UNKNOWN.values(), ids=UNKNOWN)
def test_a_crash_beside_an_unknown_format_counts_as_always(save: str) -> None:
    actions, _ = patched({"engineer_0": ("", f"{save}\nraise RuntimeError('no')")}, SEED)
    assert (actions[0].verdict.score, actions[0].verdict.blame) == (5, "engineer_0")


def test_the_other_files_beside_an_unknown_format_are_judged() -> None:
    words = "import pickle\npickle.dump('words', open('y_train.pkl', 'wb'))"
    actions, _ = patched({"engineer_0": ("", f"{UNKNOWN['json']}\n{words}")}, SEED)
    assert (actions[0].verdict.score, actions[0].verdict.blame) == (1, "engineer_0")


@pytest.mark.parametrize("damage", ["", "import os\nos.remove('X_test.pkl')"])
def test_a_model_of_an_unknown_format(damage: str) -> None:
    save = f"open('model.pkl', 'w').write('tree\\nversion=v4\\n')\n{damage}"
    verdict = patched({"modeler_0": ("", save)}, SEED)[0][1].verdict
    assert (verdict.score, verdict.blame) == ((1, "modeler_0") if damage else (None, None))
