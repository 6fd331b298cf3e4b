"""Claims of saved files against the files that were written."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappa_env.coach.evidence import MAX_CLAIMS, claims_to_save, missing_inputs, unbacked_claims
from mappa_env.types import AgentSpec


@pytest.mark.parametrize(
    ("text", "claimed"),
    [
        ("Saved X_train.pkl", ("X_train.pkl",)),
        ("I wrote `model.pkl` and the report to out/report.json.", ("model.pkl", "out/report.json")),
        ("submission.csv has been saved.", ("submission.csv",)),
        ("All three were saved to ./X_train.pkl, ./y_train.pkl, /tmp/ws/X_test.pkl",
         ("X_train.pkl", "y_train.pkl", "X_test.pkl")),
        ("I will save model.pkl next", ()),
        ("model.pkl was not saved", ()),
        ("Could not find what should be saved in model.pkl", ()),
        ("If it is saved, load model.pkl", ()),
        ("Saved with sklearn.ensemble in 0.5 s", ()),
        ("", ()),
    ],
)  # fmt: skip
def test_claims_of_a_text(text: str, claimed: tuple[str, ...]) -> None:
    assert unbacked_claims(text, "", ()) == claimed


def test_stdout_claims_as_text_does() -> None:
    assert unbacked_claims("", "shape (3, 4)\nSaved model.pkl\n", ()) == ("model.pkl",)


def test_what_was_written_is_backed() -> None:
    assert unbacked_claims("Saved a.pkl and b.pkl", "", ["a.pkl"]) == ("b.pkl",)


def test_code_has_not_claimed_anything_yet() -> None:
    fence = "```python\nprint('Saved model.pkl')\n```"
    assert unbacked_claims(fence, "", ()) == ()
    assert unbacked_claims(f"{fence}\nSaved model.pkl", "", ()) == ("model.pkl",)


def test_a_claim_without_a_name() -> None:
    assert claims_to_save("", "Saved (120, 4) (60, 4)")
    assert not claims_to_save("the shape is (120, 4)", "120 rows")


@given(st.text(), st.text())
def test_any_text_has_claims_that_are_names(text: str, stdout: str) -> None:
    for name in unbacked_claims(text, stdout, ()):
        assert name
        assert not name.startswith("/")
        assert "\n" not in name


def test_long_texts_take_no_time() -> None:
    start = time.perf_counter()
    for text in ("saved " * 150_000, "saved a.pkl " * 80_000, "saved a.pkl\n" * 80_000, "." * 10**6):
        assert len(unbacked_claims(text, text, ())) <= MAX_CLAIMS
    assert time.perf_counter() - start < 3


def test_missing_inputs_keep_the_order_of_the_card() -> None:
    agent = AgentSpec("analyst_0", "Analyst", reads=("X_test.pkl", "model.pkl", "test.csv"))
    assert missing_inputs(agent, {"test.csv": 1}) == ("X_test.pkl", "model.pkl")
    assert missing_inputs(agent, set(agent.reads)) == ()
