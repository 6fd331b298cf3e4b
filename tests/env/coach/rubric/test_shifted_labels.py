"""Labels that are numbers and were shifted, as some libraries ask for: a note may tell by how much."""

from __future__ import annotations

import pytest

from sprint_play import NUMBERS, sprint, tables

SHIFTED = "y = y + 1"
BACK = """
import pickle
import pandas as pd
s = pd.read_csv("sample_submission.csv")
with open("model.pkl", "rb") as f:
    p = pickle.load(f).predict(pd.read_pickle("X_test.pkl"))
s[s.columns[1]] = p - 1
s.to_csv("submission.csv", index=False)
"""
NOTES = {
    "a note": "open('notes.txt', 'w').write('the labels in y_train are target + 1')",
    "a number": """open('meta.json', 'w').write('{"offset": 1}')""",
}


@pytest.mark.slow
@pytest.mark.parametrize("note", NOTES.values(), ids=NOTES)
def test_who_notes_by_how_much_it_shifted_labels_is_not_to_blame(note: str) -> None:
    played = sprint(tables(f"{SHIFTED}\n{note}"), "", BACK, seed=NUMBERS)
    assert played.culprit is None, played.reasons
    assert min(score or 0.0 for score in played.scores) > 8


@pytest.mark.slow
@pytest.mark.parametrize("note", ["", "open('notes.txt', 'w').write('the tables are ready')"])
def test_who_shifts_labels_and_says_nothing_of_it_is_to_blame(note: str) -> None:
    played = sprint(tables(f"{SHIFTED}\n{note}"), "", BACK, seed=NUMBERS)
    assert (played.scores[0], played.culprit) == (1, "engineer_0")
