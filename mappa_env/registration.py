"""Registers cards in gymnasium and pettingzoo as ``mappa/<id>``: all shipped ones, and the user's own."""

from __future__ import annotations

import os
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
    """Folder name -> folder of every shipped card."""
    return {folder.name: folder for folder in envs_registry.folders()}


def find_card(card: str) -> Card:
    """Read a shipped card by its folder's name, or any card folder by its path. Raises CardError."""
    known = shipped()
    if card in known:
        return read_card(known[card])
    if not os.path.isdir(card):
        raise CardError(
            f"{card!r} is neither a shipped card ({', '.join(known)}) nor a card folder."
            + nearest(card, known)
        )
    return read_card(card)


def register_card(folder: str | Path) -> str:
    """Register your own card folder in gymnasium and pettingzoo and return its id, ``mappa/<id>``.

    Registering the same folder again has no effect. Raises CardError for a missing folder or a malformed
    card, OptionError if another card has the same id.
    """
    folder = Path(folder).resolve()
    card = read_card(folder)
    names = {path.resolve(): name for name, path in shipped().items()}
    return _register(card.id, names.get(folder, str(folder)))


def register_shipped() -> None:
    """Register every shipped card. Reads only the ``id:`` line of each, which keeps imports fast."""
    for name, folder in shipped().items():
        match = _ID_LINE.search((folder / "card.yaml").read_text(encoding="utf-8"))
        if match is None:
            raise CardError(f"{folder / 'card.yaml'} lacks the line 'id: <Name>-v<n>' at its top level.")
        _register(match[1], name)


def card_of(id_or_folder: str) -> str:
    """The ``card=`` argument for a registered id (with or without ``mappa/``), a folder, or a shipped card.

    A shipped card's folder name is enough: ``mathchat``. Raises OptionError for anything else.
    """
    full = _full(id_or_folder)
    spec = gymnasium.registry.get(full)
    if spec is not None:
        return str(spec.kwargs["card"])
    if os.path.isdir(id_or_folder):
        return str(Path(id_or_folder).resolve())
    if id_or_folder in shipped():
        return id_or_folder
    known = [key for key in gymnasium.registry if key.startswith(f"{NAMESPACE}/")]
    raise OptionError(
        f"{id_or_folder!r} is neither an id ({', '.join(known)}) nor a card folder." + _nearest(full, known)
    )


def id_of(id_or_folder: str) -> str:
    """The registered id, ``mappa/<name>``, of what ``card_of`` takes. Raises OptionError, CardError."""
    full = _full(id_or_folder)
    if full in gymnasium.registry:
        return full
    card = card_of(id_or_folder)
    if card not in shipped():
        return register_card(card)
    return next(key for key, spec in gymnasium.registry.items() if spec.kwargs.get("card") == card)


def _full(name: str) -> str:
    return name if name.startswith(f"{NAMESPACE}/") else f"{NAMESPACE}/{name}"


def _nearest(full: str, known: list[str]) -> str:
    """The hint of ``nearest``, ignoring the namespace and ``-v<n>``, which make all ids look alike."""
    stems = {re.sub(r"-v\d+$", "", key.removeprefix(f"{NAMESPACE}/")): key for key in known}
    hint = nearest(re.sub(r"-v\d+$", "", full.removeprefix(f"{NAMESPACE}/")), stems)
    return hint and nearest(full, known)


def _register(card_id: str, card: str) -> str:
    full = f"{NAMESPACE}/{card_id}"
    taken = gymnasium.registry.get(full)
    if taken is not None:
        if taken.kwargs.get("card") != card:
            raise OptionError(
                f"the id {full!r} already belongs to the card {taken.kwargs.get('card')!r}: "
                f"give the card in {card!r} another id, or the next version."
            )
        return full
    gymnasium.register(
        full,
        entry_point="mappa_env.envs.gym_env:make_env",
        vector_entry_point="mappa_env.envs.vector:ThreadedVectorEnv",
        kwargs={"card": card},
    )
    pettingzoo.register("aec", full, entry_point="mappa_env.envs.aec:env", kwargs={"card": card})
    parallel = "mappa_env.envs.parallel:ParallelTeamEnv"
    pettingzoo.register("parallel", full, entry_point=parallel, kwargs={"card": card})
    return full
