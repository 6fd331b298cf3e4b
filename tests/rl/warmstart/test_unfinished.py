"""A warm start that is stopped, or killed, goes on where it was and comes to the same weights."""

from __future__ import annotations

import io
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from mappa_rl.config import Config, load_config
from mappa_rl.learner.learner import Learner
from mappa_rl.stopping import Terminated
from mappa_rl.telemetry.progress import Progress
from mappa_rl.warmstart import unfinished
from mappa_rl.warmstart.unfinished import updates_in
from mappa_rl.warmstart.warmstart import FACTS, warm_start
from tiny_run import TINY

STEPS = 10  # of TINY


def config(*overrides: str) -> Config:
    return load_config("demo", [*TINY, "warmstart.check_every=3", "warmstart.check_episodes=4", *overrides])


class Session:
    """One process's part of the warm start in ``out``; ``during`` is called in the update of a number."""

    def __init__(self, out: Path, until: float = 0.0) -> None:
        self._out, self._until = out, until
        self.updates: list[int] = []
        self.played: list[int] = []

    def run(self, monkeypatch: pytest.MonkeyPatch, during: Callable[[str, int], None] | None = None) -> bytes:
        """The weights that it comes to."""
        supervised = Learner.supervised

        def update(learner: Learner, *data: Any) -> Any:
            self.updates.append(learner.updates + 1)
            if during is not None:
                during("update", self.updates[-1])
            return supervised(learner, *data)

        def played(model: Any, chat: Any) -> float:
            self.played.append(self.updates[-1] if self.updates else updates_in(self._out))
            if during is not None:
                during("check", self.played[-1])
            return self.played[-1] / 100

        self._out.mkdir(exist_ok=True)
        with monkeypatch.context() as patch, Progress("test", console=Console(file=io.StringIO())) as shown:
            patch.setattr(Learner, "supervised", update)
            folder = warm_start(config(f"warmstart.until={self._until}"), self._out, shown, played)
        self.facts = json.loads((folder / FACTS).read_bytes())
        return (folder / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        return Session(tmp_path_factory.mktemp("whole")).run(patch)


def at(place: str, number: int, act: Callable[[], None]) -> Callable[[str, int], None]:
    def during(where: str, update: int) -> None:
        if (where, update) == (place, number):
            act()

    return during


def interrupt(number: signal.Signals) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


@pytest.mark.parametrize(
    ("number", "update"), [(signal.SIGINT, 1), (signal.SIGTERM, 4), (signal.SIGINT, STEPS)]
)
def test_a_signal_saves_the_update_under_way(
    number: signal.Signals, update: int, whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Session(tmp_path), Session(tmp_path)
    with pytest.raises(Terminated if number == signal.SIGTERM else KeyboardInterrupt):
        first.run(monkeypatch, at("update", update, interrupt(number)))
    assert updates_in(tmp_path) == update
    assert second.run(monkeypatch) == whole
    assert [*first.updates, *second.updates] == list(range(1, STEPS + 1))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["warmstart"]


def test_a_killed_process_loses_what_came_after_the_last_save(
    whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies() -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr(unfinished, "SAVE_EVERY_S", 0.0)
    with pytest.raises(RuntimeError, match="killed"):
        Session(tmp_path).run(monkeypatch, at("update", 5, dies))
    assert updates_in(tmp_path) == 4
    second = Session(tmp_path)
    assert second.run(monkeypatch) == whole
    assert second.updates[0] == 5


def test_half_an_update_is_not_saved(whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The patience with an update under way is over."""

    def gives_up() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Session(tmp_path).run(monkeypatch, at("update", 4, gives_up))
    assert updates_in(tmp_path) == 0
    assert Session(tmp_path).run(monkeypatch) == whole


def test_a_check_that_was_interrupted_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the one before it; imitation ends at the same step, with the same weights."""
    straight = Session(tmp_path / "straight", until=0.06)
    expected = straight.run(monkeypatch)
    assert straight.facts["checks"] == [[3, 0.03], [6, 0.06]]
    first, second = (Session(tmp_path / "stopped", until=0.06) for _ in range(2))
    with pytest.raises(KeyboardInterrupt):
        first.run(monkeypatch, at("check", 6, interrupt(signal.SIGINT)))
    assert second.run(monkeypatch) == expected
    assert second.facts == straight.facts
    assert (first.played, second.played, second.updates) == ([3, 6], [6], [])


def test_signals_are_heard_as_before_when_it_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    Session(tmp_path).run(monkeypatch)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
