"""Options and coach files: what is wrong is named."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mappa_env.cards import Card, read_card
from mappa_env.coach import make_coach
from mappa_env.coach.llm.criteria import read_spec
from mappa_env.coach.llm.prompt import Prompts
from mappa_env.coach.llm.settings import Settings
from mappa_env.errors import CardError, CoachStopped, OptionError
from paths import REGISTRY


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"name": "gemini:gemini-3.8-flash", "bugdet": 1}, "Did you mean 'budget'"),
        ({"name": "gemini:gemini-3.8-flash", "temperature": 0.5}, "does not accept sampling parameters"),
        ({"name": "gemini:gemini-3.8-flash", "thinking": "minimal"}, "low"),
        ({"name": "gemini:gemini-3.8-flash", "key_variable": "X"}, "only 'openai'"),
        ({"name": "gemini:gemini-3.8-flash", "price": {"in": 1.0}}, "price"),
        ({"name": "gemini:gemini-3.8-flash", "samples": 0}, "samples"),
        ({"name": "openai:m@http://h/v1", "extra": {"seed": 3}}, "extra: may only add fields"),
        ({"name": "openai:m@http://h/v1", "extra": {"response_format": {}}}, "not replace 'response_format'"),
        ("gemini:", "gemini:<model>"),
        ("openai:m", "openai:<model>@<base_url>"),
        ("openai:m@localhost", "http://localhost:8000/v1"),
        ("openai:m@http://user:pass@localhost/v1", "without a user name"),
        ("openia:m@http://localhost/v1", "is not a coach; choose from rubric, off, gemini:<model>"),
    ],
)
def test_wrong_options_are_named(card: Card, spec: Any, says: str) -> None:
    with pytest.raises(OptionError, match=re.escape(says)):
        make_coach(spec, card)


def test_a_missing_key_stops_before_anything_runs(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GEMINI_API_KEY")
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    with pytest.raises(CoachStopped, match="GEMINI_API_KEY"):
        make_coach("gemini:gemini-3.8-flash", card)


def test_the_documented_options_are_those_there_are() -> None:
    page = (REGISTRY.parent / "docs" / "coach.md").read_text(encoding="utf-8")
    table = page.partition("<!-- options: begin")[2].partition("<!-- options: end")[0]
    for name, field in Settings.model_fields.items():
        assert f"| `{name}` | `{field.default!r}` | {field.description} |" in table
    assert len(re.findall(r"^\| `", table, re.MULTILINE)) == len(Settings.model_fields)


@pytest.mark.parametrize("name", ["mathchat", "dsbench", "dsbench_sprint", "aime", "amc", "math"])
def test_every_card_can_be_asked_about(name: str) -> None:
    found = read_card(REGISTRY / name)
    assert found.coach is not None
    prompts = Prompts(found)
    for role, system in prompts.systems.items():
        assert prompts.spec.roles[role].duty.split()[0] in system


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("version: 1\ntemplate: coach.jinja\nroles: {}", "no criteria for the role"),
        ("version: 0\ntemplate: coach.jinja\nroles: {}", "version"),
        ("version: 1\ntemplate: x\ngates: [{check: rann, below: 1, at_most: 1}]\nroles: {}", "'ran'"),
        ("version: [", "YAML"),
    ],
)
def test_a_malformed_coach_file_names_the_place(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "coach.yaml"
    path.write_text(text)
    with pytest.raises(CardError, match=re.escape(says)):
        read_spec(path, ("solver",))
