"""Keys of known forms are found wherever they stand in JSON, and nothing else goes with them."""

from __future__ import annotations

import json
import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappa_env.trace.secrets import HIDDEN, Secrets

LETTERS = string.ascii_letters + string.digits
FORMS = {
    "sk-": (LETTERS, 32),
    "sk-proj-": (LETTERS + "_-", 20),
    "sk-ant-api03-": (LETTERS + "_-", 16),
    "sk-or-v1-": ("0123456789abcdef", 64),
    "sk-None-": (LETTERS, 48),
    "pcsk_": (LETTERS + "_", 60),
    "xapp-1-A0B1C2-": (LETTERS + "-", 20),
    "csk-": (string.ascii_lowercase + string.digits, 32),
    "gsk_": (LETTERS, 20),
    "sk_live_": (LETTERS, 20),
    "xai-": (LETTERS, 20),
    "nvapi-": (LETTERS + "_-", 20),
    "pplx-": (LETTERS, 20),
    "fw_": (LETTERS, 20),
    "r8_": (LETTERS, 30),
    "tgp_v1_": (LETTERS + "_-", 20),
    "dapi": ("0123456789abcdef", 32),
    "AIza": (LETTERS + "_-", 35),
    "ya29.": (LETTERS + "_-", 20),
    "hf_": (LETTERS, 30),
    "ghp_": (LETTERS, 36),
    "github_pat_": (LETTERS + "_", 50),
    "glpat-": (LETTERS + "_-", 20),
    "AKIA": (string.ascii_uppercase + string.digits, 16),
    "ASIA": (string.ascii_uppercase + string.digits, 16),
    "xoxb-": (LETTERS + "-", 10),
}


def _written(text: str, ascii_only: bool) -> bytes:
    return json.dumps({"content": text}, ensure_ascii=ascii_only).encode()


@st.composite
def keys(draw: st.DrawFn) -> str:
    start = draw(st.sampled_from(sorted(FORMS)))
    alphabet, length = FORMS[start]
    text = draw(st.text(st.sampled_from(alphabet), min_size=length - 1, max_size=length - 1))
    return f"{start}{text[:9]}7{text[9:]}"  # a digit, which random keys have


BEFORE = ["", " ", "\n", "\r\n", "\t", "key=", "'", '"', "é", "\ud83d", "\\", "\x1b[0m", "\x1b[1;32m"]


@given(keys(), st.sampled_from(BEFORE), st.booleans())
def test_a_key_is_hidden_whatever_stands_before_it(key: str, before: str, ascii_only: bool) -> None:
    text = f"{before}{key} and more"
    hidden = Secrets({}).hide(_written(text, ascii_only or before == "\ud83d"))
    assert json.loads(hidden) == {"content": f"{before}{HIDDEN} and more"}


def test_two_halves_of_a_private_key_hide_nothing_between_them() -> None:
    lines = b'{"a":"see -----BEGIN PRIVATE KEY-----","reward":0.0}\n{"b":"-----END PRIVATE KEY-----"}\n'
    assert Secrets({}).hide(lines) == lines


BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"


@pytest.mark.parametrize(
    "text",
    [
        f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{BODY}",
        f"-----BEGIN PRIVATE KEY-----\n> {BODY[:32]}\n> {BODY[33:]}\n> -----END PRIVATE KEY-----",
        f"-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 1\n\n{BODY}\n-----END PGP PRIVATE KEY BLOCK-----",
    ],
    ids=["whole", "cut off", "quoted", "PGP"],
)
def test_a_private_key_is_hidden_whole_or_not(text: str) -> None:
    assert json.loads(Secrets({}).hide(_written(f"key: {text}", True))) == {"content": f"key: {HIDDEN}"}


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("12345678", {"seed": 12345678, "x": 0.123456789}),
        ("nutshell1", {"t": "a\nutshell1"}),
        ("00e9abcd", {"t": "éabcd"}),
        ("probabil", {"probabilities": 1}),
        ("reward_valid", {"reward_valid": True}),
    ],
)
def test_numbers_escapes_and_keys_of_objects_stay(value: str, found: dict[str, object]) -> None:
    line = json.dumps(found).encode()
    assert Secrets({"A_TOKEN": value}).hide(line) == line
    shown = json.loads(Secrets({"A_TOKEN": value}).hide(json.dumps({**found, "said": f"<{value}>"}).encode()))
    assert shown == {**found, "said": f"<{HIDDEN}>"}


@pytest.mark.parametrize(
    "unit",
    [
        *("-eyJ-", "xoxb-", "sk-proj-", "bearer a", "-----BEGIN PRIVATE KEY-----", "SG.a"),
        *("a_long_name_without_end ", 'a_long_name_without_end"', "a_long_name_without_end."),
    ],
)
def test_no_text_takes_more_than_linear_time(unit: str) -> None:
    began = time.thread_time()
    Secrets({}).hide(_written(unit * (200_000 // len(unit)), True))
    assert time.thread_time() - began < 2


@pytest.mark.parametrize(
    "text",
    [
        "from sklearn.ensemble import RandomForestClassifier as sk_RandomForestClassifier",
        "fw_HistGradientBoostingRegressor",
        "sk-ant-colony-optimisation-of-routes",
        "xoxo-gossip-girl",
        "sk-learnGradientBoostingRegressorModel",
        "ask_GlobalConfigurationSettings",
    ],
)
def test_long_names_are_no_keys(text: str) -> None:
    line = _written(text, True)
    assert Secrets({}).hide(line) == line


NAMES = "high_cardinality_columns = HistGradientBoostingClassifier ---------------------- train-algebra-0308 "


def test_long_names_and_rules_do_not_look_like_keys() -> None:
    assert not Secrets({}).may_be_in(_written(NAMES, True))


@given(keys(), st.sampled_from([NAMES, "a_long_name_without_end.", "task_of_this_very_long_name "]))
def test_a_key_behind_long_names_is_hidden(key: str, before: str) -> None:
    line = _written(f"{before}{key}", True)
    assert Secrets({}).may_be_in(line)
    assert key.encode() not in Secrets({}).hide(line)


@pytest.mark.parametrize("key", ["eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl", "Bearer abcdef-123456-abcdef-7"])
def test_keys_in_short_parts_are_hidden(key: str) -> None:
    assert key.split()[-1].encode() not in Secrets({}).hide(_written(f"\n{key}", True))


@given(st.text(max_size=60))
def test_words_are_no_keys(text: str) -> None:
    line = _written(text, True)
    assert Secrets({}).hide(line) == line
