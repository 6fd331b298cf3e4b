"""A STAND-IN for a coach that corrects: the scripted expert's action wherever an agent is to blame itself.

It measures the effect of corrections without a language model.
"""

from __future__ import annotations

import zlib
from typing import get_args

import numpy as np

from mappa_env.cards import Card
from mappa_env.errors import OptionError
from mappa_env.scripted import Act, load_script
from mappa_env.scripted.base import Style
from mappa_env.types import Evidence, Verdict


class ExpertCorrector:
    """Proposes the scripted expert's actions. ``style``: the card's prompts.

    Raises OptionError for another style, and for a card without a scripted team.
    """

    def __init__(self, card: Card, style: Style) -> None:
        if style not in get_args(Style):
            raise OptionError(f"corrector={style!r} is unknown; use one of {get_args(Style)}.")
        if card.scripted is None:
            raise OptionError(
                f"corrector={style!r}: the card {card.id} has no scripted team (`scripted:` in card.yaml)."
            )
        self._script, self._style, self._order = load_script(card.scripted)[0], style, card.order

    def propose(self, evidence: Evidence, verdict: Verdict) -> str | None:
        """The expert's action if the verdict blames this agent; else None."""
        agent = evidence.agent.name
        if verdict.blame != agent:
            return None
        key = f"{evidence.task.id}/{agent}/{evidence.turn}/{evidence.action}".encode("utf-8", "replace")
        rng = np.random.default_rng(zlib.crc32(key))
        seen = self._order.seen(evidence.history)
        return self._script.act(
            Act(evidence.task, agent, evidence.turn, seen, self._style, fault=None, rng=rng)
        )
