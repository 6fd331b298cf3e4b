"""What holds for every test."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from typing import Any

import gymnasium
import pettingzoo
import pytest
from hypothesis import HealthCheck, settings

import mappa_env  # noqa: F401  it registers the shipped cards, which stay
from browser import chromium
from ray_files import starts_ray

settings.register_profile("shared machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared machine")


LARGE = pytest.mark.skip(reason="minutes: `make test-all` runs it")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put first what starts Ray, then the files with the most slow tests; else one worker would end late.

    Large tests are skipped unless MAPPA_TEST_LARGE is set.
    """
    if not os.environ.get("MAPPA_TEST_LARGE"):
        for item in items:
            if item.get_closest_marker("large"):
                item.add_marker(LARGE)
    slow = Counter(item.path for item in items if any(map(item.get_closest_marker, ("slow", "large"))))
    items.sort(key=lambda item: (not starts_ray(item.path), -slow[item.path]))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """``--dist loadfile``, with the files that start Ray together."""
    from spread import FilesAndRay  # needs pytest-xdist, which is there if this is called

    return FilesAndRay(config, log) if config.option.dist == "loadfile" else None


@pytest.fixture(autouse=True)
def _ctrl_c_interrupts() -> Iterator[None]:
    """Give SIGINT its default handler, in the test and in the programs that it starts.

    A shell starts background jobs with SIGINT ignored, and a program started that way rightly keeps ignoring
    it. Tests of Ctrl-C must not depend on how pytest was started.
    """
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, inherited)


@pytest.fixture(autouse=True)
def _cards_stay_in_their_test() -> Iterator[None]:
    """Take the cards that a test registers out again: another test on this worker may use the same id.

    Those of fixtures for a whole module stay.
    """
    known = set(gymnasium.registry)
    yield
    for name in [name for name in gymnasium.registry if name.startswith("mappa/") and name not in known]:
        for registry in (gymnasium.registry, pettingzoo.aec_registry, pettingzoo.parallel_registry):
            registry.pop(name, None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless browser; skips the test where there is none."""
    with chromium() as found:
        yield found
