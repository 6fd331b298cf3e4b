"""Python's parser from many threads at once."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from mappa_env.grading.expression import safe_value
from mappa_env.plugins import options_of


class Plain:
    """A class without ``__init__``: its signature is parsed from text."""


class SlowToFree:
    """Gives the interpreter the chance to switch threads in the middle of a collection."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        for _ in range(50):
            pass


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads that switch, and garbage that is collected, as often as can be."""
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(50, 2, 2)
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*thresholds)


@pytest.mark.usefixtures("restless")
def test_threads_that_parse_at_once_do_not_disturb_one_another() -> None:
    together = threading.Barrier(2)

    def repeat(work: Callable[[], object]) -> set[str]:
        together.wait(timeout=60)
        return {str((SlowToFree(), work())[1]) for _ in range(15_000)}

    with ThreadPoolExecutor(2) as threads:
        value = threads.submit(repeat, lambda: safe_value("(62-isqrt(62**2-4*897))//2"))
        options = threads.submit(repeat, lambda: options_of(Plain, 0))
        assert value.result() == {"23"}
        assert options.result() == {"([], False)"}
