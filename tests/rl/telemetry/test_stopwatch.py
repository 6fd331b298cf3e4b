"""The split of a run's wall time, on a clock that only moves when told."""

from __future__ import annotations

import itertools
import threading
from contextlib import suppress

import gymnasium as gym
import pytest

from mappa_env import team_env
from mappa_rl.telemetry.stopwatch import KINDS, WAIT, Stopwatch, fractions


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watch(clock: Clock) -> Stopwatch:
    return Stopwatch(clock)


def test_every_second_of_a_phase_is_booked_once(watch: Stopwatch, clock: Clock) -> None:
    clock.now += 5  # before any phase: not kept
    watch.phase("training")
    clock.now += 1
    with watch.at("generation"):
        clock.now += 4
        with watch.at("learner"):
            clock.now += 2
        clock.now += 1
    clock.now += 2
    watch.phase("after")
    clock.now += 7
    watch.phase("")
    clock.now += 50
    watch.phase("")
    assert watch.seconds == {"training": {"rest": 3, "generation": 5, "learner": 2}, "after": {"rest": 7}}
    assert fractions(watch.seconds) == pytest.approx(
        {"generation": 5 / 17, "sandbox": 0, "coach": 0, "learner": 2 / 17, "rest": 10 / 17}
    )
    assert tuple(fractions(watch.seconds)) == KINDS


def test_waiting_is_divided_among_what_is_waited_for(watch: Stopwatch, clock: Clock) -> None:
    inside, leave = threading.Barrier(3), threading.Event()

    def work(kind: str) -> None:
        with watch.working("rest"), watch.working(kind):
            inside.wait(timeout=60)
            leave.wait(timeout=60)

    threads = [threading.Thread(target=work, args=(kind,)) for kind in ("sandbox", "coach")]
    watch.phase("training")
    with watch.at(WAIT):
        clock.now += 3  # nobody is at work: the rest
        for thread in threads:
            thread.start()
        inside.wait(timeout=60)
        clock.now += 10
    with watch.at("generation"):
        clock.now += 4  # they go on behind it
    leave.set()
    for thread in threads:
        thread.join(timeout=60)
    with watch.at(WAIT):
        clock.now += 1
    watch.phase("")
    assert watch.seconds["training"] == {"rest": 4, "sandbox": 5, "coach": 5, "generation": 4}
    assert watch.busy["training"] == {"sandbox": 14, "coach": 14, "generation": 4}


def test_an_environments_sandbox_and_coach_are_timed() -> None:
    ticks = itertools.count()
    watch = Stopwatch(lambda: float(next(ticks)))  # each reading of the clock takes a second
    env = gym.make("mappa/MathChat-v0", sandbox="calculator", coach="rubric", tasks="train")
    watch.attach(env)
    watch.phase("before")
    env.reset(seed=3)
    done = False
    while not done:
        _, _, terminated, truncated, _ = env.step("```python\nprint(6 * 7)\n```")
        done = terminated or truncated
    watch.phase("")
    actions = team_env(env).episode.actions
    env.close()
    runs = sum(action.tool is not None for action in actions)
    assert watch.busy["before"]["sandbox"] == runs > 0
    assert watch.busy["before"]["coach"] >= len(actions) > runs


def test_while_an_engine_generates_by_itself_waiting_is_generation(watch: Stopwatch, clock: Clock) -> None:
    watch.phase("training")
    with watch.at(WAIT), watch.working("sandbox"):
        watch.count("generation", 2)
        clock.now += 3
        watch.count("generation", -2)
        clock.now += 1
    watch.phase("")
    assert watch.seconds["training"] == {"generation": 3, "sandbox": 1}
    assert watch.busy["training"] == {"generation": 3, "sandbox": 4}


def test_an_error_leaves_nobody_at_work(watch: Stopwatch, clock: Clock) -> None:
    watch.phase("training")
    with suppress(KeyError), watch.at(WAIT), watch.working("sandbox"):
        clock.now += 1
        raise KeyError
    with watch.at(WAIT):
        clock.now += 1
    watch.phase("")
    assert watch.seconds == {"training": {"sandbox": 1, "rest": 1}}
