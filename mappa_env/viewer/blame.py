"""Which actions caused the end of a recorded episode, for the page."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import gymnasium

from mappa_env.cards import Card
from mappa_env.coach.blame.attribution import attribute
from mappa_env.errors import MappaError
from mappa_env.registration import NAMESPACE, card_of, find_card
from mappa_env.types import Attribution, Trajectory


@dataclass(frozen=True, slots=True)
class Blame:
    """``found``: the attribution; None if there is none, and ``why_not`` says why."""

    found: Attribution | None
    why_not: str = ""


def blame(trajectory: Trajectory, env_id: str | None = None) -> Blame:
    """The attribution in the record, or else what backward tracing finds. Asks no model.

    ``env_id``: the card's id or folder; None: that of the record, whose card must be registered.
    """
    if trajectory.attribution is not None:
        return Blame(trajectory.attribution)
    if trajectory.outcome is None:
        return Blame(None, "the episode has no outcome")
    named = trajectory.env_id
    if env_id is None and gymnasium.registry.keys().isdisjoint({named, f"{NAMESPACE}/{named}"}):
        return Blame(None, f"the card of {named} is not known here; name it with --card")
    try:
        return Blame(attribute(trajectory, _card(env_id or named)))
    except (MappaError, StopIteration) as error:  # a team without the agent of an action
        return Blame(None, str(error) or "the agents of the record are not those of the card")


@lru_cache(maxsize=8)
def _card(env_id: str) -> Card:
    """A card is read once: reading it takes longer than tracing an episode."""
    return find_card(card_of(env_id))
