"""Which crew trains which policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from mappa_rl.errors import ConfigError
from mappa_rl.models.policy_map import PolicyMap

Spec = Literal["together", "apart"] | Mapping[str, int]


def crews_of(spec: Spec, policies: PolicyMap) -> dict[str, int]:
    """Trained policy -> number of its crew, by ``placement.crews``.

    Raises PolicyError for a name that is not a trained policy, ConfigError for a number that is left out.
    """
    trained = policies.trainable
    if spec == "together":
        return dict.fromkeys(trained, 0)
    if spec == "apart":
        return {name: number for number, name in enumerate(trained)}
    assert not isinstance(spec, str)
    policies.check_trainable(spec, "placement.crews")
    found = {name: spec.get(name, 0) for name in trained}
    numbers = {0, *found.values()}
    if missing := sorted(set(range(max(numbers))) - numbers):
        raise ConfigError(
            f"placement.crews numbers a crew {max(numbers)}, but none {missing[0]}: number them 0, 1, 2, ..."
        )
    return found
