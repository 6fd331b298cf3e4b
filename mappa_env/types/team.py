"""The agents of a card."""

from __future__ import annotations

from dataclasses import dataclass


def role_of(agent: str) -> str:
    """The role in an agent's name: ``"coder"`` for ``"coder_0"``. Prompts and rubrics are per role."""
    return agent.rsplit("_", 1)[0]


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """One agent of a team.

    ``name`` is ``<role>_<n>``; ``requires`` are the files that it must write, ``reads`` those that it needs.
    """

    name: str
    title: str
    max_turns: int = 1
    tools: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()

    @property
    def role(self) -> str:
        """The role: the name without its number."""
        return role_of(self.name)


@dataclass(frozen=True, slots=True)
class Team:
    """The ordered agents of a card."""

    agents: tuple[AgentSpec, ...]

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self.agents)

    def __len__(self) -> int:
        return len(self.agents)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the agents, in the order in which they act."""
        return tuple(agent.name for agent in self.agents)

    def __getitem__(self, name: str) -> AgentSpec:
        return next(agent for agent in self.agents if agent.name == name)
