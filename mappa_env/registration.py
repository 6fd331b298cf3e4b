"""Ids into gymnasium and pettingzoo: every shipped card as ``mappa/<id>``, and cards of a user's own."""

from __future__ import annotations

import re
from pathlib import Path

import gymnasium
import pettingzoo

import envs_registry
from mappa_env.cards import Card, read_card
from mappa_env.errors import CardError, OptionError, nearest

NAMESPACE = "mappa"
_ID_LINE = re.compile(r"^id:\s*(\S+)\s*$", re.MULTILINE)


def shipped() -> dict[str, Path]:
    """Folder name -> folder of every card that ships with the package."""
    return {folder.name: folder for folder in envs_registry.folders()}


def find_card(card: str) -> Card:
    """Read a shipped card by its folder's name, or any card folder by its path. Raises CardError."""
    known = shipped()
    if card in known:
        return read_card(known[card])
    if not Path(card).is_dir():
        raise CardError(
            f"{card!r} is neither a shipped card ({', '.join(known)}) nor a folder." + nearest(card, known)
        )
    return read_card(card)


def register_card(folder: str | Path) -> str:
    """Register a card folder of your own in gymnasium and pettingzoo and return its id, ``mappa/<id>``.

    Registering the same folder again changes nothing. Raises CardError for a malformed card, OptionError
    for an id that another card has.
    """
    folder = Path(folder).resolve()
    card = read_card(folder)
    return _register(card.id, str(folder))


def register_shipped() -> None:
    """Register every shipped card; only the ``id:`` line of each is read, so that importing stays fast."""
    for name, folder in shipped().items():
        match = _ID_LINE.search((folder / "card.yaml").read_text(encoding="utf-8"))
        if match is None:
            raise CardError(f"{folder / 'card.yaml'}: no line 'id: <Name>-v<n>' at the top level.")
        _register(match[1], name)


def card_of(id_or_folder: str) -> str:
    """The card that a registered id (with or without ``mappa/``) or a folder stands for, as ``card=``.

    Raises OptionError for what is neither.
    """
    full = id_or_folder if id_or_folder.startswith(f"{NAMESPACE}/") else f"{NAMESPACE}/{id_or_folder}"
    spec = gymnasium.registry.get(full)
    if spec is not None:
        return str(spec.kwargs["card"])
    if Path(id_or_folder).is_dir():
        return str(Path(id_or_folder).resolve())
    known = [key for key in gymnasium.registry if key.startswith(f"{NAMESPACE}/")]
    raise OptionError(
        f"{id_or_folder!r} is neither an id ({', '.join(known)}) nor a card folder." + nearest(full, known)
    )


def _register(card_id: str, card: str) -> str:
    full = f"{NAMESPACE}/{card_id}"
    taken = gymnasium.registry.get(full)
    if taken is not None:
        if taken.kwargs.get("card") != card:
            raise OptionError(
                f"the id {full!r} belongs to the card {taken.kwargs.get('card')!r} already: "
                f"give the card in {card!r} another id, or the next version."
            )
        return full
    gymnasium.register(
        full,
        entry_point="mappa_env.gym_env:make_env",
        vector_entry_point="mappa_env.vector:ThreadedVectorEnv",
        kwargs={"card": card},
    )
    pettingzoo.register("aec", full, entry_point="mappa_env.aec:env", kwargs={"card": card})
    return full
