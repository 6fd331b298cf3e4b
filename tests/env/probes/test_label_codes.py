"""Labels that are coded, and not handed on, are the fault of who coded them; who maps them back gains."""

from __future__ import annotations

import bz2
import gzip
import io
import zipfile
import zlib

import pytest

from mappa_env.probes.unpacking import contents
from sprint_play import NUMBERS, WORDS, Played, blames, sprint, tables

CODES = {
    "renamed": "code = lambda value: f'class {value}'",
    "from one": "code = {value: at + 1 for at, value in enumerate(sorted(set(y)))}.get",
    "encoder": "from sklearn.preprocessing import LabelEncoder\n"
    "encoder = LabelEncoder().fit(y)\ncode = lambda value: int(encoder.transform([value])[0])",
}
FITS = {
    "plain": "m.fit(X, y.map(code))\npd.to_pickle(m, 'model.pkl')",
    "pathlib": "import pickle\nfrom pathlib import Path\nm = m.fit(X, [code(value) for value in y])\n"
    "Path('.', 'model' + '.pkl').write_bytes(pickle.dumps(m))",
    "helper": """
def fitted(model, table, labels):
    return model.fit(table, labels.map(code))
try:
    pd.to_pickle(fitted(m, X, y), f"{'model'}.pkl")
except ValueError as error:
    raise SystemExit(1) from error
""",
}
HANDED_ON = {
    "encoder": "pd.to_pickle(encoder, 'encoder.pkl')",
    "json": "import json\njson.dump({str(value): code(value) for value in set(y)}, open('codes.json', 'w'))",
    "text": "from pathlib import Path\n"
    "Path('labels.txt').write_text('\\n'.join(f'{code(v)} {v}' for v in sorted(set(y))))",
    "compressed": "import joblib\njoblib.dump(encoder, 'encoder.joblib', compress=3)",
    "packed array": "import numpy as np\n"
    "np.savez_compressed('labels.npz', np.array(sorted(map(str, set(y)))))",
    "gzip": "pd.to_pickle(encoder, 'encoder.pkl.gz')",
    "xz": "pd.to_pickle(encoder, 'encoder.pkl.xz')",
    "array": "import numpy as np\nnp.save('labels.npy', np.array(sorted(map(str, set(y)))))",
}
MAPS_BACK = """
import pandas as pd
names = sorted(pd.read_csv('train.csv')[TARGET].unique())
t, X, m = pd.read_csv('test.csv'), pd.read_pickle('X_test.pkl'), pd.read_pickle('model.pkl')
t[TARGET] = [dict(zip(sorted(m.classes_), names))[code] for code in m.predict(X)]
t[[IDS, TARGET]].to_csv('submission.csv', index=False)
"""


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize(
    ("how", "seed"), [("renamed", NUMBERS), ("renamed", WORDS), ("from one", NUMBERS), ("encoder", WORDS)]
)
def test_a_model_that_answers_in_codes_is_its_writers_fault(how: str, seed: int, fit: str) -> None:
    program = f"{CODES[how]}\n{FITS[fit]}"
    played = sprint(modeler=program, seed=seed)
    assert blames(played, "modeler_0"), played
    back = sprint(modeler=program, analyst=MAPS_BACK, seed=seed)
    assert blames(back, "modeler_0"), back
    assert back.scores[2] is not None
    assert back.scores[2] >= 8


@pytest.mark.parametrize(("how", "seed"), [("renamed", NUMBERS), ("from one", WORDS), ("encoder", WORDS)])
def test_an_engineer_that_codes_labels_is_to_blame(how: str, seed: int) -> None:
    program = tables(f"{CODES[how]}\ny = y.map(code)")
    played = sprint(program, seed=seed)
    assert blames(played, "engineer_0"), played
    back = sprint(program, analyst=MAPS_BACK, seed=seed)
    assert blames(back, "engineer_0"), back
    assert back.scores[2] is not None
    assert back.scores[2] >= 8


@pytest.mark.parametrize("way", HANDED_ON)
def test_who_hands_on_the_codes_keeps_its_reward(way: str) -> None:
    coded = f"{CODES['encoder']}\n{FITS['plain']}\n{HANDED_ON[way]}"
    by_modeler = sprint(modeler=coded, analyst=MAPS_BACK, seed=WORDS)
    assert by_modeler.scores[1] == sprint(seed=WORDS).scores[1], by_modeler
    coded = tables(f"{CODES['encoder']}\n{HANDED_ON[way]}\ny = y.map(code)")
    by_engineer = sprint(coded, analyst=MAPS_BACK, seed=WORDS)
    assert by_engineer.scores[0] == 10, by_engineer
    assert by_modeler.culprit is by_engineer.culprit is None


@pytest.mark.parametrize("fit", ["m.label_encoder_ = encoder", "m.names_ = sorted(map(str, set(y)))"])
def test_a_model_that_holds_the_names_hands_them_on(fit: str) -> None:
    coded = f"{CODES['encoder']}\nm.fit(X, y.map(code))\n{fit}\npd.to_pickle(m, 'model.pkl')"
    played = sprint(modeler=coded, analyst=MAPS_BACK, seed=WORDS)
    assert played.scores[1] == sprint(seed=WORDS).scores[1], played
    assert played.culprit is None


def test_bombs_are_unfolded_within_a_bound() -> None:
    raw = bytes(2**28)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for at in range(3):
            file.writestr(f"{at}", raw[: 2**26])
    for data in (
        gzip.compress(raw, 1),
        zlib.compress(raw, 1),
        bz2.compress(raw[: 2**25]),
        archive.getvalue(),
    ):
        assert sum(map(len, contents(data, 2**20))) <= len(data) + 2**20 + 2
    for data in (b"PK\x03\x04", b"\x1f\x8b", b"BZh9", b"\xfd7zXZ\0", b"\x5d\0\0\0\xff", b"xyz"):
        assert b"".join(contents(data, 100)) == data


SHIFTED = "code = {value: at + 7 for at, value in enumerate(sorted(set(y)))}.get"
SUBMITS_CODES = """
import pandas as pd
t, X, m = pd.read_csv('test.csv'), pd.read_pickle('X_test.pkl'), pd.read_pickle('model.pkl')
t[TARGET] = m.predict(X)
t[[IDS, TARGET]].to_csv('submission.csv', index=False)
"""


def _coded(who: str, note: str, seed: int = NUMBERS) -> Played:
    programs = {
        "engineer_0": {"engineer": tables(f"{SHIFTED}\n{note}\ny = y.map(code)")},
        "modeler_0": {"modeler": f"{SHIFTED}\n{FITS['plain']}\n{note}"},
    }[who]
    return sprint(**programs, analyst=SUBMITS_CODES, seed=seed)


@pytest.mark.parametrize("note", [HANDED_ON["json"], HANDED_ON["text"], "pd.to_pickle(code, 'code.pkl')"])
@pytest.mark.parametrize("who", ["engineer_0", "modeler_0"])
def test_numbers_that_stand_for_numbers_harm_nobody_else(who: str, note: str) -> None:
    played = _coded(who, note)
    at = 0 if who == "engineer_0" else 1
    assert played.scores[at] == (10 if who == "engineer_0" else sprint(seed=NUMBERS).scores[1]), played
    assert min(score or 0 for score in played.scores[at + 1 :]) >= 6, played
    assert played.culprit in (who, None)


@pytest.mark.parametrize(
    "note", ["open('notes.txt', 'w').write('hello')", "open('run.log', 'w').write('seed 1')"]
)
@pytest.mark.parametrize("who", ["engineer_0", "modeler_0"])
def test_a_text_without_the_numbers_explains_no_codes(who: str, note: str) -> None:
    assert blames(played := _coded(who, note), who), played


SUBMITS_ITS_OWN_CODES = """
import pandas as pd
from sklearn.preprocessing import LabelEncoder
encoder = LabelEncoder().fit(pd.read_csv('train.csv')[TARGET])
t, X, m = pd.read_csv('test.csv'), pd.read_pickle('X_test.pkl'), pd.read_pickle('model.pkl')
t[TARGET] = encoder.transform(m.predict(X))
t[[IDS, TARGET]].to_csv('submission.csv', index=False)
open('legend.txt', 'w').write('\\n'.join(f'{n} {name}' for n, name in enumerate(encoder.classes_)))
"""


def test_a_submission_in_codes_is_wrong_whatever_lies_beside_it() -> None:
    played = sprint(analyst=SUBMITS_ITS_OWN_CODES, seed=WORDS)
    assert blames(played, "analyst_0"), played
    assert played.scores[2] == 1


def test_truth_values_are_zero_and_one() -> None:
    played = sprint(tables("y = y == 1"), seed=NUMBERS)
    assert (played.scores[0], played.culprit) == (10, None)


ENCODED = f"{CODES['encoder']}\n{HANDED_ON['encoder']}\n"
DECODES = """
import pandas as pd
t, X, m = pd.read_csv('test.csv'), pd.read_pickle('X_test.pkl'), pd.read_pickle('model.pkl')
t[TARGET] = pd.read_pickle('encoder.pkl').inverse_transform(m.predict(X))
t[[IDS, TARGET]].to_csv('submission.csv', index=False)
"""
JUNK = {
    "shuffled": "m.fit(X, y.sample(frac=1, random_state=3))\npd.to_pickle(m, 'model.pkl')",
    "inverted": "m.fit(X, y.max() - y)\npd.to_pickle(m, 'model.pkl')",
}


@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK)
@pytest.mark.parametrize("rows", ["", "x, y = x.iloc[2:], y.iloc[2:]"])
def test_a_bad_model_of_coded_labels_is_its_writers_fault(rows: str, junk: str) -> None:
    coded = tables(f"{ENCODED}y = y.map(code)\n{rows}")
    clean = sprint(coded, analyst=DECODES, seed=WORDS)
    assert clean.culprit is None, clean
    assert min(score or 0 for score in clean.scores) >= 9, clean
    played = sprint(coded, junk, DECODES, seed=WORDS)
    assert blames(played, "modeler_0"), played
    assert (played.scores[2] or 0) >= 6, played


def test_a_bad_model_that_codes_labels_itself_is_its_writers_fault() -> None:
    for seed in (1, 2, 4):
        junk = f"m.fit(X, y.map(code).sample(frac=1, random_state={seed}))\npd.to_pickle(m, 'model.pkl')"
        played = sprint(modeler=f"{ENCODED}{junk}", analyst=DECODES, seed=WORDS)
        assert played.culprit == "modeler_0", played
        assert (played.scores[1] or 0) < 5, played  # chance may suit some meaning of its codes
        assert (played.scores[2] or 0) >= 6, played


def test_codes_of_which_nobody_can_tell_excuse_no_bad_model() -> None:
    coded = tables(f"{SHIFTED}\npd.to_pickle(code, 'code.pkl')\ny = y.map(code)")
    back = SUBMITS_CODES.replace("m.predict(X)", "m.predict(X) - 7")
    clean = sprint(coded, analyst=back, seed=NUMBERS)
    assert clean.culprit is None, clean
    assert min(score or 0 for score in clean.scores) >= 8, clean
    assert "engineer_0" not in " ".join(clean.reasons)
    played = sprint(coded, JUNK["shuffled"], back, seed=NUMBERS)
    assert blames(played, "modeler_0"), played
    assert played.scores[0] == 10


def test_who_decodes_by_a_file_of_labels_in_a_wrong_order_is_excused() -> None:
    coded = tables(
        f"{ENCODED}y = y.map(code)\nencoder.classes_ = encoder.classes_[::-1]\n{HANDED_ON['encoder']}"
    )
    played = sprint(coded, analyst=DECODES, seed=WORDS)
    assert (played.scores[2] or 0) >= 6, played
    assert played.culprit != "analyst_0"
    at_hand = DECODES.replace("inverse_transform(m.predict(X))", "inverse_transform(m.predict(X)[::-1])")
    junk = sprint(tables(f"{ENCODED}y = y.map(code)"), analyst=at_hand, seed=WORDS)
    assert blames(junk, "analyst_0"), junk


SWAPPED = "code = {0: 1, 1: 0}.get"
SWAPS_BACK = """
import json
import pandas as pd
codes = {v: int(k) for k, v in json.load(open('codes.json')).items()}
t, X, m = pd.read_csv('test.csv'), pd.read_pickle('X_test.pkl'), pd.read_pickle('model.pkl')
t[TARGET] = [codes[int(code)] for code in m.predict(X)]
t[[IDS, TARGET]].to_csv('submission.csv', index=False)
"""


def test_codes_that_are_other_labels_are_sound_if_a_file_tells() -> None:
    note = "import json\njson.dump({str(v): code(v) for v in (0, 1)}, open('codes.json', 'w'))"
    plain = sprint(seed=NUMBERS)
    open_codes = sprint(tables(f"{SWAPPED}\n{note}\ny = y.map(code)"), analyst=SWAPS_BACK, seed=NUMBERS)
    assert open_codes.culprit is None, open_codes
    assert open_codes.scores == pytest.approx(plain.scores, abs=1)
    silent = sprint(tables(f"{SWAPPED}\ny = y.map(code)"), seed=NUMBERS)
    assert blames(silent, "engineer_0"), silent


def test_codes_explain_no_rows_that_are_missing() -> None:
    drops = MAPS_BACK.replace("t[[IDS, TARGET]].to_csv", "t[[IDS, TARGET]].iloc[:-2].to_csv")
    coded = tables(f"{CODES['encoder']}\n{HANDED_ON['encoder']}\ny = y.map(code)")
    played = sprint(coded, analyst=drops, seed=WORDS)
    assert blames(played, "analyst_0"), played
    assert played.scores[2] == 1
