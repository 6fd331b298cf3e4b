"""Conformance checks for any registered id or card folder, a user's own included.

>>> from mappa_env.testing import check_environment
>>> check_environment("mappa/MathChat-v0").raise_on_failure()
"""

from __future__ import annotations

import contextlib
import io
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import mappa_env.conformance as suites
from mappa_env.conformance import Case
from mappa_env.errors import SandboxWarning
from mappa_env.registration import card_of, find_card, register_card, shipped

KNOWN_WARNINGS = (
    "Observation is not a NumPy array",
    "Observation space for each agent probably should be",
    "Action space for each agent probably should be",
)
"""What pettingzoo says of every environment whose observations and actions are not arrays."""

SUITES: tuple[Callable[[Case], None], ...] = (
    suites.gymnasium_check_env, suites.gymnasium_seat_view, suites.spec_round_trip,
    suites.pettingzoo_api_test, suites.pettingzoo_seed_test, suites.pettingzoo_parallel_api_test,
    suites.pettingzoo_render_test, suites.async_vector, suites.sync_vector, suites.threaded_vector,
    suites.same_seed_same_episode, suites.faces_agree, suites.any_text_is_legal,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Result:
    """One suite: ``detail`` is empty, or says what is wrong."""

    name: str
    ok: bool
    detail: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """All suites of one environment."""

    env_id: str
    results: tuple[Result, ...]

    @property
    def ok(self) -> bool:
        return all(result.ok for result in self.results)

    def raise_on_failure(self) -> None:
        """AssertionError that lists what failed."""
        failed = [f"{result.name}: {result.detail}" for result in self.results if not result.ok]
        if failed:
            raise AssertionError(f"{self.env_id} does not conform:\n" + "\n".join(failed))


def check_environment(id_or_folder: str | os.PathLike[str], **options: Any) -> Report:
    """Run every suite; ``options`` are those of ``gym.make`` (``sandbox="null"`` is the fastest).

    Raises CardError, DataMissingError and OptionError where there is no environment to check.
    """
    env_id, results = begin(id_or_folder, **options)
    return Report(env_id, tuple(results))


def begin(id_or_folder: str | os.PathLike[str], **options: Any) -> tuple[str, Iterator[Result]]:
    """The id and an iterator that runs the suites one by one, for callers that show progress."""
    card = card_of(os.fspath(id_or_folder))
    env_id = f"mappa/{find_card(card).id}" if card in shipped() else register_card(card)
    case = Case(env_id, card, options)
    case.make().close()  # missing data, malformed cards and wrong options speak for themselves
    return env_id, (_run(suite, case) for suite in SUITES)


def _run(suite: Callable[[Case], None], case: Case) -> Result:
    start = time.perf_counter()
    detail = ""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", SandboxWarning)
        warnings.filterwarnings("ignore", ".*multi-threaded.*fork.*", DeprecationWarning)
        for message in KNOWN_WARNINGS:
            warnings.filterwarnings("ignore", message)
        try:
            suite(case)
        except Exception as error:  # noqa: BLE001  a suite may fail in any way: that is its result
            detail = f"{type(error).__name__}: {error}"
    name = suite.__name__.replace("_", " ")
    return Result(name, not detail, detail, time.perf_counter() - start)
