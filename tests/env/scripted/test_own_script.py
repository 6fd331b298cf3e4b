"""Scripted teams of a card's own."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from mappa_env import team_env
from mappa_env.cards import read_card
from mappa_env.envs.gym_env import make_env
from mappa_env.errors import CardError, OptionError
from mappa_env.plugins import TRUST
from mappa_env.scripted import load_script, make_team

CARD = "extends: mathchat\nid: Scripted-v0\ntitle: Scripted\ncoach: {}\nscripted: 'team.py:Team'\n"
TEAM = """
from mappa_env.scripted import FaultPlan

class Team:
    faults = {"solver": ("mute",), "coder": (), "verifier": ()}
    faulty = FaultPlan(rates={"solver": 1.0})

    def act(self, act):
        return "" if act.fault == "mute" else f"{act.role} {act.turn} {act.style}"

class NoFaulty:
    faults = {}
    def act(self, act): ...

class NoAct:
    faults, faulty = {}, FaultPlan(rates={})
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "scripted"
    made.mkdir()
    (made / "card.yaml").write_text(CARD)
    (made / "team.py").write_text(TEAM)
    monkeypatch.setenv(TRUST, str(made))
    return made


@pytest.mark.parametrize(("partners", "first"), [("expert", "solver 0 full"), ("faulty", "")])
def test_it_plays_for_the_others(folder: Path, partners: str, first: str) -> None:
    env = make_env(str(folder), agent="coder_0", partners=partners, coach="off", sandbox="null")
    with contextlib.closing(env):
        env.reset(seed=1)
        _, _, over, _, _ = env.step("mine")
        assert over
        assert [a.action for a in team_env(env).trajectory.actions] == [first, "mine", "verifier 0 full"]


def test_it_commits_a_single_fault(folder: Path) -> None:
    script = str(read_card(folder).scripted)
    assert make_team(script, "single", agent="solver_0", fault="mute") is not None
    with pytest.raises(OptionError, match="Did you mean 'mute'"):
        make_team(script, "single", agent="solver_0", fault="mutee")


def test_it_runs_only_where_the_card_is_trusted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TRUST)
    with pytest.raises(CardError, match=r"scripted='team.py:Team' is the card's Python code"):
        read_card(folder)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("NoFaulty", r"is not a scripted team: it needs faulty"),
        ("NoAct", r"is not a scripted team: it needs act\(\)"),
        ("Taem", "Did you mean 'Team'"),
    ],
)
def test_what_is_no_script_is_refused(folder: Path, name: str, words: str) -> None:
    (folder / "card.yaml").write_text(CARD.replace(":Team", f":{name}"))
    with pytest.raises(OptionError, match=words):
        load_script(str(read_card(folder).scripted))
