"""A script that is put together from roles, so that teams of several shapes can share them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mappa_env.scripted.base import Act


@dataclass(frozen=True, slots=True)
class Role:
    """``write`` returns the text of an action; it can commit ``faults``."""

    faults: tuple[str, ...]
    write: Callable[[Act], str]


@dataclass(frozen=True)
class RoleScript:
    """One ``Role`` for each role of the team, whatever the order in which they act."""

    roles: Mapping[str, Role]

    @property
    def faults(self) -> Mapping[str, tuple[str, ...]]:
        """See ``Script.faults``."""
        return {name: role.faults for name, role in self.roles.items()}

    def act(self, act: Act) -> str:
        """See ``Script.act``."""
        return self.roles[act.role].write(act)


def at_first(write: Callable[[Act], str]) -> Callable[[Act], str]:
    """``write`` for an agent that commits its fault in its first segment only."""

    def first(act: Act) -> str:
        return write(dataclasses.replace(act, fault=None) if act.returns else act)

    return first
