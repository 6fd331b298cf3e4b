"""Jobs on a thread: an error surfaces, and a full queue makes its owner wait."""

from __future__ import annotations

import threading
import time

import pytest

from mappa_rl.training.background import Background


def test_the_error_of_a_job_surfaces_once_and_drops_what_follows() -> None:
    background, done = Background("test", 4), []
    background.submit(lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    with pytest.raises(ZeroDivisionError):
        background.drain()
    with pytest.raises(ZeroDivisionError):
        background.submit(lambda: done.append(1))
    with pytest.raises(ZeroDivisionError):
        background.close()
    background.close()
    assert not done


def test_a_full_queue_makes_its_owner_wait() -> None:
    gate, seen = threading.Event(), []
    background = Background("test", 2)
    background.submit(gate.wait)  # type: ignore[arg-type]
    threading.Timer(0.2, gate.set).start()
    began = time.monotonic()
    for number in range(4):
        background.submit(lambda number=number: seen.append(number))  # type: ignore[misc]
    assert time.monotonic() - began > 0.1
    background.close()
    assert seen == [0, 1, 2, 3]
