"""A STAND-IN for a coach that corrects: the scripted expert's action, wherever an agent is to blame itself.

It is there to try what corrections are worth without a language model.
"""

from __future__ import annotations

import zlib
from typing import get_args

import numpy as np

from mappa_env.cards import Card
from mappa_env.errors import OptionError
from mappa_env.scripted import Style, load_script
from mappa_env.types import Evidence, Verdict


class ExpertCorrector:
    """``style``: the length of the prompts that the agents get. Raises OptionError."""

    def __init__(self, card: Card, style: Style) -> None:
        if style not in get_args(Style):
            raise OptionError(f"corrector={style!r} is not offered; use one of {get_args(Style)}.")
        if card.scripted is None:
            raise OptionError(
                f"corrector={style!r}: the card {card.id} names no scripted team to correct by."
            )
        self._script, self._style = load_script(card.scripted)[0], style

    def propose(self, evidence: Evidence, verdict: Verdict) -> str | None:
        """A better action; None where the verdict blames somebody else, or nobody."""
        agent = evidence.agent.name
        if verdict.blame != agent:
            return None
        key = f"{evidence.task.id}/{agent}/{evidence.turn}/{evidence.action}".encode("utf-8", "replace")
        return self._script.act(
            evidence.task, agent, evidence.turn, evidence.history, style=self._style, fault=None,
            rng=np.random.default_rng(zlib.crc32(key)),
        )  # fmt: skip
