"""Scripted partners of the seat view: who plays which of the other seats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mappa_env.cards import Card
from mappa_env.episode import Episode
from mappa_env.errors import OptionError, nearest
from mappa_env.scripted import ScriptedTeam, make_team

KINDS = ("expert", "faulty")


class Partners:
    """``"expert"``, ``"faulty"``, or ``{agent: "expert" | "faulty" | {"fault": name}}``.

    Agents that a mapping leaves out play as experts. Everything is JSON, so that an ``EnvSpec`` keeps it.
    """

    def __init__(self, card: Card, spec: str | Mapping[str, Any], *, seat: str | None, prompts: str) -> None:
        """``seat`` is the agent that somebody else plays; None: the partners are the whole team."""
        names = card.team.names
        if seat is not None and seat not in names:
            raise OptionError(
                f"seat={seat!r} is not in the team of {card.id}: {', '.join(names)}." + nearest(seat, names)
            )
        others = [name for name in names if name != seat]
        kinds = spec if isinstance(spec, Mapping) else dict.fromkeys(others, spec)
        for name in kinds:
            if name not in others:
                raise OptionError(
                    f"partners names {name!r}; the partners are {', '.join(others) or 'nobody'}."
                    + nearest(str(name), others)
                )
        if others and card.scripted is None:
            raise OptionError(
                f"the card {card.id} names no scripted team, so nobody can play {', '.join(others)}: "
                "leave out seat= and act for every agent."
            )
        self._teams = {
            name: _team(str(card.scripted), name, kinds.get(name, "expert"), prompts) for name in others
        }

    def reset(self, episode: Episode) -> None:
        for team in self._teams.values():
            team.reset(episode.task, episode.trajectory.seed)

    def act(self, episode: Episode) -> str:
        assert episode.agent is not None
        return self._teams[episode.agent].act(episode.agent, episode.turn, episode.actions)


def _team(script: str, agent: str, kind: Any, prompts: str) -> ScriptedTeam:
    style: Any = prompts  # Episode has checked it
    if isinstance(kind, Mapping) and set(kind) == {"fault"}:
        return make_team(script, "single", style=style, agent=agent, fault=str(kind["fault"]))
    if kind not in KINDS:
        raise OptionError(
            f"partners[{agent!r}]={kind!r} is not offered; use one of {KINDS} or {{'fault': name}}."
            + nearest(str(kind), KINDS)
        )
    return make_team(script, str(kind), style=style)
