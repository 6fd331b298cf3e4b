"""Coasting after a fault does not pay: idling, false claims, stopping, reporting, working around it."""

from __future__ import annotations

import dataclasses

import pytest

from mappa_env.benchmarking.coach import controls
from mappa_env.benchmarking.coach.controls import KINDS, Controlled, Earned, controlled, earned
from mappa_env.episode.episode import Episode
from mappa_env.registration import find_card

pytestmark = pytest.mark.filterwarnings("ignore::mappa_env.errors.SandboxWarning")


@pytest.mark.parametrize(("name", "sandbox"), [("mathchat", "calculator"), ("dsbench", "local")])
def test_coasting_does_not_pay(name: str, sandbox: str) -> None:
    episode = Episode(find_card(name), sandbox=sandbox)
    try:
        rows = list(controlled(episode, episode.tasks.ids[0], 0))
    finally:
        episode.close()
    found = earned(rows)
    assert set(found) == set(KINDS)
    assert found["idle"].most <= 3
    assert found["false claim"].most <= 2
    assert found["stop"].least >= 4
    assert found["report"].kept >= 0.6
    assert found["workaround"].least >= found["stop"].most + 2
    assert {row.culprit for row in rows if row.kind == "false claim"} == {""}
    assert all(row.culprit for row in rows if row.kind != "false claim")


def test_controls_without_a_score_are_left_out() -> None:
    scored = Controlled("t", "idle", "a", "b", (2.0, 1.0), (10.0,))
    assert earned([scored]) == {"idle": Earned(1, 1.0, 1.5, 2.0, 0.15)}
    assert earned([scored, dataclasses.replace(scored, scores=(None,))]) == earned([scored])
    assert earned([dataclasses.replace(scored, clean=(None,))]) == {}


def test_a_task_that_the_expert_fails_has_no_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(episode: Episode, task_id: str, seed: int) -> None:
        episode.reset(seed=seed, task_id=task_id)
        while episode.agent is not None:
            episode.act("I do not know.")

    monkeypatch.setattr(controls, "play", fails)
    episode = Episode(find_card("mathchat"), sandbox="calculator")
    try:
        assert list(controlled(episode, episode.tasks.ids[0], 0)) == []
    finally:
        episode.close()
