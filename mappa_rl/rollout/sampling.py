"""How actions are sampled: one setting for the team, and overrides for single agents."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from mappa_env.errors import nearest
from mappa_rl.config import AgentSampling, Config
from mappa_rl.errors import ConfigError
from mappa_rl.models.policy_map import PolicyMap


@dataclass(frozen=True, slots=True)
class Sampling:
    """``temperature`` 0 is greedy; ``max_new_tokens`` bounds an action, ``max_context`` both together.

    ``top_p`` below 1 draws from the most likely tokens of that total probability (evaluation only).
    ``agents``: agent -> its own temperature and bound. ``seeded``: every request has a seed, which follows
    from that of its job.
    """

    temperature: float
    max_new_tokens: int
    max_context: int
    top_p: float
    agents: Mapping[str, AgentSampling]
    seeded: bool = True

    @property
    def longest(self) -> int:
        """Bound of the longest action of any agent, in tokens."""
        return max([self.max_new_tokens, *(own.max_new_tokens or 0 for own in self.agents.values())])

    def of(self, agent: str) -> Sampling:
        """The sampling of one agent."""
        own = self.agents.get(agent)
        if own is None:
            return self
        return dataclasses.replace(
            self,
            temperature=self.temperature if own.temperature is None else own.temperature,
            max_new_tokens=own.max_new_tokens or self.max_new_tokens,
        )


def training_sampling(config: Config) -> Sampling:
    """How ``config.rollout`` samples."""
    rollout = config.rollout
    return Sampling(
        rollout.temperature,
        rollout.max_new_tokens,
        rollout.max_context,
        top_p=1.0,
        agents=rollout.agents,
        seeded=config.engine.name == "hf" or not config.is_async,  # vLLM draws for them one by one
    )


def evaluation_sampling(config: Config, temperature: float) -> Sampling:
    """How ``config.eval`` samples: bounds default to those of training, temperatures do not."""
    rollout, wanted = config.rollout, config.eval
    limits = {} if wanted.max_new_tokens else {a: own.max_new_tokens for a, own in rollout.agents.items()}
    agents = {
        agent: AgentSampling(
            temperature=own.temperature, max_new_tokens=own.max_new_tokens or limits.get(agent)
        )
        for agent in dict.fromkeys([*limits, *wanted.agents])
        for own in [wanted.agents.get(agent, AgentSampling())]
    }
    return Sampling(
        temperature,
        wanted.max_new_tokens or rollout.max_new_tokens,
        rollout.max_context,
        wanted.top_p,
        agents,
    )


def policy_temperatures(config: Config, policy_map: PolicyMap) -> dict[str, float]:
    """Trainable policy -> the temperature that its actions are sampled, and so scored, with.

    Raises ConfigError for agents that are not on the team, for agents that train one policy at different
    temperatures, and for a greedy one, which has nothing to learn from.
    """
    for section, named in (("rollout", config.rollout.agents), ("eval", config.eval.agents)):
        for agent in named:
            if agent not in policy_map.assignment:
                team = list(policy_map.assignment)
                raise ConfigError(
                    f"{section}.agents names {agent!r}, the team is {team}.{nearest(agent, team)}"
                )
    sampling, found = training_sampling(config), dict[str, float]()
    for policy in policy_map.trainable:
        agents = [
            agent
            for agent, name in policy_map.assignment.items()
            if name == policy and agent not in policy_map.frozen
        ]
        temperatures = {agent: sampling.of(agent).temperature for agent in agents}
        if len(set(temperatures.values())) > 1:
            raise ConfigError(
                f"rollout.agents gives the agents of policy {policy!r} different temperatures "
                f"({temperatures}), and it is trained at one: give them the same, or policies of their own "
                "(policies.map=separate)."
            )
        found[policy] = next(iter(temperatures.values()))
        if found[policy] == 0:
            raise ConfigError(
                f"rollout.agents gives {agents[0]} temperature 0, and a greedy agent cannot be trained: "
                "raise it, or freeze the agent (policies.frozen)."
            )
    return found
