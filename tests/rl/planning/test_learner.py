"""What a search leaves out would not have been chosen, and what placements share is worked out once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mappa_rl.planning import step
from mappa_rl.planning.flow import flow
from mappa_rl.planning.learner import Learner, Learners
from mappa_rl.planning.machines import Machines
from mappa_rl.planning.placement import Placement
from plans import plan_of


@pytest.mark.parametrize("recipe", ["mathchat", "mathchat_lora", "demo"])
@pytest.mark.parametrize(("machines", "staleness"), [(Machines(8), 0), (Machines(16, 2), 2)])
def test_what_a_plainer_learner_outdoes_is_never_missed(
    recipe: str, machines: Machines, staleness: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    overrides = ["algo.importance_sampling=tis"] if staleness else []
    found = plan_of(recipe, machines, *overrides, staleness=staleness)
    found_of = Learners.of

    def kept(self: Learners, place: Placement) -> Learner | str:
        learner = found_of(self, place)
        return learner if isinstance(learner, str) else replace(learner, outdone=False)

    monkeypatch.setattr(Learners, "of", kept)
    every = plan_of(recipe, machines, *overrides, staleness=staleness)
    assert found.best.placement == every.best.placement
    assert [(label, each.placement) for label, each in found.others] == [
        (label, each.placement) for label, each in every.others
    ]
    assert (found.tried, found.refused) == (every.tried, every.refused)


def test_on_policy_the_episodes_of_thousands_of_gpus_are_predicted_a_few_hundred_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def counted(*args: Any) -> Any:
        asked.append(args)
        return flow(*args)

    step._played.cache_clear()
    monkeypatch.setattr(step, "flow", counted)
    found = plan_of("mathchat", Machines(4096, 512))
    assert found.tried > 10_000
    assert len(asked) < 1000
