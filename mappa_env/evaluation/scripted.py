"""The scripted team of a card as the one who acts: what an expert, or a faulty team, would reach."""

from __future__ import annotations

from collections.abc import Mapping

from mappa_env.cards import Card
from mappa_env.envs.partners import KINDS, Partners
from mappa_env.episode.episode import Episode
from mappa_env.evaluation.participant import Act, Said


class Scripted:
    """``kind``: ``expert``, ``faulty``, or a fault that the agent's role can commit, in every episode.

    Experts know the answer: they show what can be reached, not what a model does.
    """

    def __init__(self, kind: str) -> None:
        self._version = f"scripted:{kind}"
        self._spec: str | Mapping[str, str] = kind if kind in KINDS else {"fault": kind}

    def check(self, card: Card, agent: str) -> None:
        """See ``Participant.check``."""
        self._partners(card, agent, "full")

    def sit(self, episode: Episode) -> Act:
        """See ``Participant.sit``. An agent's script is made at its first turn."""
        seats: dict[str, Partners] = {}

        def act(_: int) -> Said:
            agent = episode.agent
            assert agent is not None
            if agent not in seats:
                seats[agent] = self._partners(episode.card, agent, str(episode.settings["prompts"]))
                seats[agent].reset(episode)
            return Said(seats[agent].act(episode), self._version)

        return act

    def close(self) -> None:
        """It holds nothing."""

    def _partners(self, card: Card, agent: str, prompts: str) -> Partners:
        return Partners(card, {agent: self._spec}, agent=None, prompts=prompts)
