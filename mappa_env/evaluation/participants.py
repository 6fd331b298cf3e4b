"""Participants by their specification."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mappa_env.errors import OptionError
from mappa_env.evaluation.chat import Chat
from mappa_env.evaluation.participant import Participant
from mappa_env.evaluation.scripted import Scripted
from mappa_env.evaluation.trivial import Constant, Trivial

SERVED = "openai"
_OWN: dict[str, Callable[[str], Participant]] = {
    "scripted": Scripted,
    "constant": Constant,
    "trivial": Trivial,
}


def kind_of(name: str) -> str:
    """``openai``, ``scripted``, ``constant`` or ``trivial``; empty for a mere name of a model."""
    kind, colon, _ = name.partition(":")
    return kind if colon and (kind == SERVED or kind in _OWN) else ""


def make_participant(name: str, options: Mapping[str, Any]) -> Participant:
    """The participant that ``name`` specifies; ``options`` are those of a server.

    ``openai:<model>@<base_url>``, ``scripted:<expert|faulty|fault>``, ``constant:<text>`` or
    ``trivial:<rule>``. Raises OptionError.
    """
    kind = kind_of(name)
    if kind not in _OWN:
        return Chat(name, options)
    if options:
        raise OptionError(f"{name!r} takes no option, so remove {', '.join(map(str, options))}.")
    return _OWN[kind](name.partition(":")[2])
