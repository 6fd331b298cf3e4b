"""The plan of a recipe on machines, as ``mappa-rl plan`` makes it."""

from __future__ import annotations

from mappa_rl.coach.files import asks_a_model
from mappa_rl.config import Config, load_config
from mappa_rl.config.environment import env_card
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.models.shape import shape_of
from mappa_rl.planning.figures import HARDWARE, found_figures
from mappa_rl.planning.machines import Machines
from mappa_rl.planning.plan import Plan, recommend
from mappa_rl.planning.workload import workload


def plan_of(recipe: str, machines: Machines, *overrides: str, staleness: int = 0, **assumed: float) -> Plan:
    config = load_config(recipe, overrides)
    card = env_card(config.env.id)
    asked = workload(config, card, asks_a_model(config))
    figures = {key: each.value for key, each in found_figures(assumed, HARDWARE, asked).items()}
    return recommend(
        config, [shape_of(config.model)], policies_of(config), machines, figures, staleness=staleness
    )


def policies_of(config: Config) -> PolicyMap:
    return PolicyMap.from_spec(config.policies.map, env_card(config.env.id).team.names)
