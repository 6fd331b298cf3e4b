"""Conformance checks for any registered id or card folder, including the user's own.

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

import mappa_env.testing.conformance as suites
from mappa_env.errors import SandboxWarning
from mappa_env.registration import card_of, id_of
from mappa_env.testing import card_files, parallel
from mappa_env.testing.conformance import Case

KNOWN_WARNINGS = (
    "Observation is not a NumPy array",
    "Observation space for each agent probably should be",
    "Action space for each agent probably should be",
    "State space for each environment probably should be",
    "State is not NumPy array",
)
"""Warnings of pettingzoo about any environment whose observations and actions are not arrays."""

SUITES: tuple[Callable[[Case], None], ...] = (
    card_files.coach_questions,
    card_files.prompts_of_every_length,
    suites.gymnasium_check_env,
    suites.gymnasium_single_agent,
    suites.spec_round_trip,
    suites.pettingzoo_api_test,
    suites.pettingzoo_seed_test,
    suites.pettingzoo_parallel_api_test,
    suites.pettingzoo_state_test,
    suites.pettingzoo_render_test,
    suites.async_vector,
    suites.sync_vector,
    suites.threaded_vector,
    suites.same_seed_same_episode,
    suites.interfaces_agree,
    parallel.parallel_agrees,
    suites.any_text_is_legal,
)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one suite; ``detail`` is empty or says what is wrong."""

    name: str
    ok: bool
    detail: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """The results of all suites on one environment."""

    env_id: str
    results: tuple[Result, ...]

    @property
    def ok(self) -> bool:
        """Whether every suite passed."""
        return all(result.ok for result in self.results)

    def raise_on_failure(self) -> None:
        """Raise AssertionError with the failed suites if there are any."""
        failed = [f"{result.name}: {result.detail}" for result in self.results if not result.ok]
        if failed:
            raise AssertionError(f"{self.env_id} does not conform:\n" + "\n".join(failed))


def check_environment(id_or_folder: str | os.PathLike[str], **options: Any) -> Report:
    """Run every suite; ``options`` are those of ``gym.make`` (``sandbox="null"`` is the fastest).

    Raises CardError, DataMissingError or OptionError if the environment cannot be made.
    """
    env_id, results = begin(id_or_folder, **options)
    return Report(env_id, tuple(results))


def begin(id_or_folder: str | os.PathLike[str], **options: Any) -> tuple[str, Iterator[Result]]:
    """The id and an iterator that runs the suites one by one, for callers that show progress."""
    card = card_of(os.fspath(id_or_folder))
    env_id = id_of(card)
    case = Case(env_id, card, options)
    case.make().close()  # raises for missing data, malformed cards and wrong options
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
        except Exception as error:  # noqa: BLE001  any exception is the suite's result
            detail = f"{type(error).__name__}: {error}"
    name = suite.__name__.replace("_", " ")
    return Result(name, not detail, detail, time.perf_counter() - start)
