"""Which policy plays which agent, and which of them are trained."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mappa_env.errors import nearest
from mappa_rl.errors import PolicyError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class PolicyMap:
    """``assignment``: agent -> policy, in the team's order. ``frozen``: agents that play untrained.

    ``lora``: policies are adapters on one frozen base.
    """

    assignment: Mapping[str, str]
    frozen: frozenset[str] = frozenset()
    lora: bool = False

    @classmethod
    def from_spec(
        cls, spec: str | Mapping[str, str], agents: Sequence[str], frozen: Sequence[str] = ()
    ) -> PolicyMap:
        """Read ``"separate"`` (one policy per agent, with its name), ``"shared"`` or ``{agent: policy}``.

        ``"lora"`` is ``"separate"`` with adapters as policies. ``frozen`` names policies or single agents.
        Raises ``PolicyError`` with the nearest known name.
        """
        if not agents:
            raise PolicyError("The team has no agents, so there is nothing to map to policies.")
        if isinstance(spec, Mapping):
            assignment = _explicit(spec, agents)
        elif spec in ("separate", "lora"):
            assignment = {agent: agent for agent in agents}
        elif spec == "shared":
            assignment = {agent: "shared" for agent in agents}
        else:
            raise PolicyError(
                f"Policy map {spec!r} does not exist.{nearest(spec, ('separate', 'shared', 'lora'))} "
                "Use 'separate', 'shared', 'lora' or a mapping from every agent to a policy name."
            )
        held: set[str] = set()
        for name in frozen:
            members = {agent for agent, policy in assignment.items() if name in (agent, policy)}
            if not members:
                known = [*assignment, *assignment.values()]
                raise PolicyError(f"Cannot freeze {name!r}: no such policy or agent.{nearest(name, known)}")
            held |= members
        return cls(assignment, frozenset(held), spec == "lora")

    def of(self, agent: str) -> str:
        """The policy that plays ``agent``. Raises ``PolicyError`` for an agent that is not on the team."""
        try:
            return self.assignment[agent]
        except KeyError:
            team, hint = list(self.assignment), nearest(agent, self.assignment)
            raise PolicyError(f"Agent {agent!r} is not on the team {team}.{hint}") from None

    def check_models(self, models: Iterable[str]) -> None:
        """Raise ``PolicyError`` unless ``models``, named in ``policies.models``, are some of the policies."""
        named = list(models)
        self.check_known(named, "policies.models")
        if set(named) == set(self.names):
            raise PolicyError(
                "policies.models names a model for every policy, so that none starts as model.kind: leave "
                "one model's policies out, and set model.kind to that model with warmstart.steps=0."
            )

    def check_known(self, names: Iterable[str], key: str) -> None:
        """Raise ``PolicyError`` if a name under ``key`` is not a policy."""
        for name in names:
            if name not in self.names:
                raise PolicyError(
                    f"{key}: {name!r} is not a policy; policies: {', '.join(self.names)}."
                    f"{nearest(name, self.names)}"
                )

    def check_trainable(self, names: Iterable[str], key: str) -> None:
        """Raise ``PolicyError`` if a name under ``key`` is not a trained policy."""
        known = list(self.trainable)
        for name in names:
            if name not in known:
                raise PolicyError(
                    f"{key}: {name!r} is not a trained policy; trained policies: {', '.join(known)}."
                    f"{nearest(name, known)}"
                )

    @property
    def names(self) -> tuple[str, ...]:
        """All policies, in the order of the first agent that each plays."""
        return tuple(dict.fromkeys(self.assignment.values()))

    @property
    def trainable(self) -> tuple[str, ...]:
        """Policies with at least one agent that is not frozen."""
        return tuple(dict.fromkeys(p for agent, p in self.assignment.items() if agent not in self.frozen))


def _explicit(spec: Mapping[str, str], agents: Sequence[str]) -> dict[str, str]:
    for agent, policy in spec.items():
        if agent not in agents:
            raise PolicyError(
                f"The policy map names {agent!r}, which is not on the team {list(agents)}."
                f"{nearest(agent, agents)}"
            )
        if not _NAME.fullmatch(policy):
            raise PolicyError(f"Policy name {policy!r} must be letters, digits, '_', '-' and '.' only.")
    missing = [agent for agent in agents if agent not in spec]
    if missing:
        raise PolicyError(f"The policy map leaves out {missing}; name a policy for every agent of the team.")
    return {agent: spec[agent] for agent in agents}
