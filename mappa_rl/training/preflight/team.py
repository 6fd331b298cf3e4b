"""Names of policies and agents in the settings, against the team of the card."""

from __future__ import annotations

from mappa_env.cards import Card
from mappa_rl.config import Config
from mappa_rl.crews.roster import crews_of
from mappa_rl.errors import ConfigError, PolicyError
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.rollout.sampling import policy_temperatures
from mappa_rl.training.preflight.problem import Problem, problems_of


def team_problems(config: Config, card: Card) -> list[Problem]:
    """Wrong names in ``policies``, ``placement``, ``rollout.agents`` and ``eval.agents``."""
    policies, team = config.policies, card.team.names
    try:
        known = PolicyMap.from_spec(policies.map, team)
    except PolicyError as error:
        return [Problem("policies", str(error))]
    found = problems_of(
        "policies",
        lambda: PolicyMap.from_spec(policies.map, team, policies.frozen),
        lambda: known.check_trainable(policies.lr, "policies.lr"),
        lambda: known.check_models(policies.models),
    )
    if found:
        return found + problems_of("agents", lambda: policy_temperatures(config, known))
    mapped = PolicyMap.from_spec(policies.map, team, policies.frozen)
    return [
        *problems_of("policies", lambda: mapped.check_trainable(policies.lr, "policies.lr")),
        *problems_of("placement", lambda: crews_of(config.placement.crews, mapped)),
        *problems_of("placement", lambda: mapped.check_known(config.placement.engines, "placement.engines")),
        *problems_of("agents", lambda: policy_temperatures(config, mapped)),
    ]


def policy_map(config: Config, card: Card) -> PolicyMap | None:
    """Agents and their policies; None where ``team_problems`` says what is wrong with them."""
    try:
        found = PolicyMap.from_spec(config.policies.map, card.team.names, config.policies.frozen)
        crews_of(config.placement.crews, found)
    except (ConfigError, PolicyError):
        return None
    return found
