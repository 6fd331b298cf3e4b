"""The policies of a team, as copies of a model in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mappa_rl.config import Lora
from mappa_rl.engines.base import Engine
from mappa_rl.engines.hf.engine import shared_engines
from mappa_rl.models.chat import ChatTokenizer
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.models.team import TeamModels
from mappa_rl.rollout.policies import Policies


def policies_of(
    policy_map: PolicyMap,
    model: Any,
    chat: ChatTokenizer,
    lora: Lora | None = None,
    make_engines: Callable[[Mapping[str, Any]], Mapping[str, Engine]] = shared_engines,
) -> Policies:
    models = TeamModels.copies(policy_map, model, seed=0, lora=lora).policies
    return Policies.from_models(policy_map, models, dict.fromkeys(models, chat), make_engines(models))
