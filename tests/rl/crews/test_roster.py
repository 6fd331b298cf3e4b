"""Which crew trains which policy."""

from __future__ import annotations

import pytest

from mappa_rl.crews.roster import crews_of
from mappa_rl.errors import ConfigError, PolicyError
from mappa_rl.models.policy_map import PolicyMap

TEAM = ("solver", "coder", "verifier")
SEPARATE = PolicyMap.from_spec("separate", TEAM)


def test_together_apart_and_by_name() -> None:
    assert crews_of("together", SEPARATE) == {"solver": 0, "coder": 0, "verifier": 0}
    assert crews_of("apart", SEPARATE) == {"solver": 0, "coder": 1, "verifier": 2}
    assert crews_of({"verifier": 1}, SEPARATE) == {"solver": 0, "coder": 0, "verifier": 1}
    assert crews_of("apart", PolicyMap.from_spec("shared", TEAM)) == {"shared": 0}


def test_a_frozen_policy_has_no_crew() -> None:
    frozen = PolicyMap.from_spec("separate", TEAM, ["solver"])
    assert crews_of("apart", frozen) == {"coder": 0, "verifier": 1}
    with pytest.raises(PolicyError, match=r"placement\.crews: 'solver' is not a trained policy"):
        crews_of({"solver": 1}, frozen)


def test_the_process_that_plays_may_train_nothing() -> None:
    assert crews_of({"solver": 1, "coder": 1, "verifier": 2}, SEPARATE) == {
        "solver": 1,
        "coder": 1,
        "verifier": 2,
    }


def test_numbers_have_no_gaps() -> None:
    with pytest.raises(ConfigError, match="numbers a crew 3, but none 1"):
        crews_of({"solver": 3}, SEPARATE)
