"""Keys of known forms are found wherever they stand in JSON, and nothing else goes with them."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappa_env.trace.secrets import HIDDEN, Secrets

LETTERS = string.ascii_letters + string.digits
FORMS = {
    "sk-": (LETTERS, 32),
    "sk-proj-": (LETTERS + "_-", 16),
    "sk-ant-": (LETTERS + "_-", 16),
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
    return start + draw(st.text(st.sampled_from(alphabet), min_size=length, max_size=length))


@given(
    keys(),
    st.sampled_from(["", " ", "\n", "\r\n", "\t", "key=", "'", '"', "é", "\ud83d", "\\"]),
    st.booleans(),
)
def test_a_key_is_hidden_whatever_stands_before_it(key: str, before: str, ascii_only: bool) -> None:
    if before == "\ud83d":
        ascii_only = True
    hidden = Secrets({}).hide(_written(f"{before}{key} and more", ascii_only))
    assert json.loads(hidden) == {"content": f"{before}{HIDDEN.decode()} and more"}


def test_two_halves_of_a_private_key_hide_nothing_between_them() -> None:
    lines = b'{"a":"-----BEGIN PRIVATE KEY-----\\nMIIE","reward":0.0}\n{"b":"-----END PRIVATE KEY-----"}\n'
    assert Secrets({}).hide(lines) == lines
    whole = _written("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", True)
    assert Secrets({}).hide(whole) == b'{"content": "[secret]"}'


@pytest.mark.parametrize("key", ["eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl", "Bearer abcdef-123456-abcdef-7"])
def test_keys_in_short_parts_are_hidden(key: str) -> None:
    assert key.split()[-1].encode() not in Secrets({}).hide(_written(f"\n{key}", True))


@given(st.text(max_size=60))
def test_words_are_no_keys(text: str) -> None:
    line = _written(text, True)
    assert Secrets({}).hide(line) == line
