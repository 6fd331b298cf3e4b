"""``env.id`` names an environment in every way that a user may have it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mappa_env import team_env
from mappa_env.errors import CardError, OptionError
from mappa_rl.config import load_config
from mappa_rl.config.environment import env_card, make_env, registered
from paths import REGISTRY


@pytest.fixture
def card(tmp_path: Path) -> Path:
    """A card folder of one's own: MathChat under another id."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "card.yaml").write_text("extends: mathchat\nid: MyMath-v0\ntitle: Mine\n")
    return folder


def test_a_card_folder_is_an_environment(card: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert registered(str(card)) == "mappa/MyMath-v0"
    assert env_card(str(card)).id == "MyMath-v0"
    env = make_env(str(card), coach="off", sandbox="calculator")
    assert team_env(env).card.folder == card
    env.close()
    monkeypatch.chdir(card.parent)
    config = load_config("demo", ["env.id=./mine"])
    assert config.env.id == str(card)
    assert load_config("demo").env.id == "mappa/MathChat-v0"


def test_ids_with_and_without_namespace_and_with_a_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert registered("MathChat-v0") == registered("mappa/MathChat-v0") == "mappa/MathChat-v0"
    assert env_card("MathChat-v0").folder == REGISTRY / "mathchat"
    (tmp_path / "cards_of_a_user.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert registered("cards_of_a_user:mappa/MathChat-v0") == "mappa/MathChat-v0"
    assert "cards_of_a_user" in sys.modules


def test_a_shipped_card_is_an_environment_by_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    assert registered("mathchat") == registered(str(REGISTRY / "mathchat")) == "mappa/MathChat-v0"
    assert env_card(load_config("demo", ["env.id=mathchat"]).env.id).id == "MathChat-v0"
    make_env("mathchat", coach="off", sandbox="calculator").close()
    monkeypatch.chdir(REGISTRY)
    assert registered(load_config("demo", ["env.id=mathchat"]).env.id) == "mappa/MathChat-v0"


def test_what_is_no_environment_is_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"'mappa/MathsChat-v0'.*Did you mean 'mappa/MathChat-v0'"):
        registered("mappa/MathsChat-v0")
    with pytest.raises(OptionError, match="the module 'no_such_cards' cannot be imported"):
        registered("no_such_cards:mappa/MathChat-v0")
    with pytest.raises(CardError, match=r"card\.yaml"):
        registered(str(tmp_path))
