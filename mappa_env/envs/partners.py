"""Scripted partners that act for the other agents in the single-agent interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mappa_env.cards import Card
from mappa_env.episode.episode import Episode
from mappa_env.errors import OptionError, nearest
from mappa_env.scripted import ScriptedTeam, make_team

KINDS = ("expert", "faulty")


class Partners:
    """``"expert"``, ``"faulty"``, or ``{agent: "expert" | "faulty" | {"fault": name}}``.

    Agents that a mapping leaves out act as experts. All values are JSON, so an ``EnvSpec`` can store them.
    """

    def __init__(self, card: Card, spec: str | Mapping[str, Any], *, agent: str | None, prompts: str) -> None:
        """``agent``: the agent that the caller acts for; None: the partners are the whole team."""
        names = card.team.names
        if agent is not None and agent not in names:
            raise OptionError(
                f"agent={agent!r} is not in the team of {card.id}: {', '.join(names)}."
                + nearest(agent, names)
            )
        others = [name for name in names if name != agent]
        kinds = spec if isinstance(spec, Mapping) else dict.fromkeys(others, spec)
        for name in kinds:
            if name not in others:
                raise OptionError(
                    f"partners names {name!r}; the partners are {', '.join(others) or 'nobody'}."
                    + nearest(str(name), others)
                )
        if others and card.scripted is None:
            raise OptionError(
                f"the card {card.id} has no scripted team to act for {', '.join(others)}: "
                "leave out agent= and act for every agent yourself."
            )
        self._teams = {
            name: _team(str(card.scripted), name, kinds.get(name, "expert"), prompts) for name in others
        }

    def reset(self, episode: Episode) -> None:
        """Prepare the partners for the task of ``episode``; nobody plays a void one."""
        if episode.task.void:
            return
        for team in self._teams.values():
            team.reset(episode.task, episode.trajectory.seed)

    def act(self, episode: Episode) -> str:
        """The acting partner's next action."""
        assert episode.agent is not None
        return self._teams[episode.agent].act(episode.agent, episode.turn, episode.seen)


def _team(script: str, agent: str, kind: Any, prompts: str) -> ScriptedTeam:
    style: Any = prompts  # checked by Episode
    if isinstance(kind, Mapping) and set(kind) == {"fault"}:
        return make_team(script, "single", style=style, agent=agent, fault=str(kind["fault"]))
    if kind not in KINDS:
        raise OptionError(
            f"partners[{agent!r}]={kind!r} must be one of {KINDS} or {{'fault': name}}."
            + nearest(str(kind), KINDS)
        )
    return make_team(script, str(kind), style=style)
