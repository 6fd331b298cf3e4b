"""Hundreds of episodes in flight, each a chain of its own: nothing waits for a slower neighbour.

A request goes to the engine; when its answer is there, a worker thread steps the environment, which runs code
and asks the coach, and submits the next request. Engines form their batches of whatever waits, so the timing
decides which requests share one: results repeat up to the rounding of a forward pass, not bit for bit.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from mappa_rl.engines.base import Generation
from mappa_rl.environments import Environments, OnEnvironments
from mappa_rl.errors import RunError
from mappa_rl.failures import is_infrastructure, spoiled
from mappa_rl.finished import Finished, gather
from mappa_rl.policies import Policies
from mappa_rl.rollout import Chain, Collected, Job
from mappa_rl.sampling import Sampling
from mappa_rl.stopwatch import WAIT, Stopwatch


@dataclass(slots=True, eq=False)
class _Try:
    """One try at a job. ``asked`` is the request that is under way; ``deadline`` as of ``monotonic``."""

    job: Job
    sampling: Sampling
    finished: Future[Finished]
    number: int = 1
    chain: Chain | None = None
    deadline: float = float("inf")
    asked: Future[Generation] | None = field(default=None, repr=False)


class Stream(OnEnvironments):
    """Plays at most ``in_flight`` episodes at once; more wait for their turn. Thread-safe.

    ``max_episode_s``: seconds that a try may take from its first prompt on (0: any); then it is ``overdue``,
    and its environment is left to whoever is in it. A try that the infrastructure spoils is made anew up to
    ``retries`` times, then the episode has ``failed``. Threads are as many as environments are being stepped:
    they cost nothing while they wait for a sandbox or for an episode's last verdicts.
    """

    def __init__(
        self,
        make_env: Callable[[], gym.Env[Any, str]],
        policies: Policies,
        *,
        in_flight: int = 128,
        max_episode_s: float = 0.0,
        retries: int = 0,
        watch: Stopwatch | None = None,
    ) -> None:
        self.watch = watch or Stopwatch()
        self._policies, self._in_flight = policies, in_flight
        self._budget_s, self._retries = max_episode_s, retries
        self._envs = Environments(make_env, self.watch)
        self._pool = ThreadPoolExecutor(2 * in_flight, thread_name_prefix="episode")
        self._changed = threading.Condition()
        self._waiting: deque[_Try] = deque()
        self._live: set[_Try] = set()
        self._held = self._closed = False
        self._asked, self._asked_since, self._asked_s = 0, 0.0, 0.0
        self._timer: threading.Thread | None = None
        if max_episode_s:
            self._timer = threading.Thread(target=self._end_overdue, name="overdue", daemon=True)
            self._timer.start()

    @property
    def generating_s(self) -> float:
        """Seconds so far in which at least one request was under way."""
        with self._changed:
            return self._asked_s + (time.perf_counter() - self._asked_since if self._asked else 0.0)

    def submit(self, job: Job, sampling: Sampling) -> Future[Finished]:
        """Play one job. A defect comes out of the future as it was raised."""
        attempt = _Try(job, sampling, Future())
        with self._changed:
            if self._closed:
                raise RunError("This stream of episodes is closed; make another.")
            self._waiting.append(attempt)
        self._fill()
        return attempt.finished

    def collect(
        self, jobs: Sequence[Job], sampling: Sampling, *, on_done: Callable[[int], None] | None = None
    ) -> Collected:
        """See ``Player.collect``."""
        started, generated = time.perf_counter(), self.generating_s
        futures = [self.submit(job, sampling) for job in jobs]
        done = []
        with self.watch.at(WAIT):
            for future in futures:
                done.append(future.result())
                if on_done is not None:
                    on_done(len(done))
        return gather(done, time.perf_counter() - started, self.generating_s - generated)

    @contextmanager
    def drained(self) -> Iterator[None]:
        """Begin no episode, wait until none is under way, and go on after the block."""
        with self._changed:
            self._held = True
            self._changed.wait_for(lambda: not self._live)
        try:
            yield
        finally:
            self._held = False
            self._fill()

    def close(self) -> None:
        """Episodes under way are given up, and what engines have of them is aborted."""
        with self._changed:
            self._closed = True
            left = [*self._live, *self._waiting]
            self._live.clear()
            self._waiting.clear()
            self._changed.notify_all()
        for attempt in left:
            attempt.finished.cancel()
        if any(attempt.asked is not None and not attempt.asked.done() for attempt in left):
            for policy in self._policies.values():
                policy.engine.abort()
        self._envs.release()
        self._pool.shutdown(wait=True, cancel_futures=True)
        if self._timer is not None:
            self._timer.join()
        self._envs.close()

    # -- the chain of one try -----------------------------------------------------------------------------

    def _fill(self) -> None:
        with self._changed:
            while self._waiting and len(self._live) < self._in_flight and not (self._held or self._closed):
                attempt = self._waiting.popleft()
                self._live.add(attempt)
                self._pool.submit(self._carry, attempt, self._begin)

    def _carry(self, attempt: _Try, part: Callable[[_Try], None]) -> None:
        """On a worker thread: one part of the chain; what it raises is retried, or ends the job."""
        try:
            try:
                part(attempt)
            except Exception as error:
                if not is_infrastructure(error):
                    raise
                self._fail(attempt, error)
        except BaseException as defect:  # noqa: BLE001  (the future raises it where its result is asked for)
            self._leave(attempt)
            with suppress(InvalidStateError):  # the job has ended without this try
                attempt.finished.set_exception(defect)

    def _begin(self, attempt: _Try) -> None:
        attempt.chain = Chain(attempt.job, self._envs.lend(), self._policies, attempt.sampling, self.watch)
        attempt.chain.reset()
        with self._changed:
            attempt.deadline = time.monotonic() + (self._budget_s or float("inf"))
            self._changed.notify_all()
        self._ask(attempt)

    def _ask(self, attempt: _Try) -> None:
        assert attempt.chain is not None
        asked = self._policies[attempt.chain.policy].engine.submit(attempt.chain.request())
        attempt.asked = asked
        with self._changed:
            if not self._asked:
                self._asked_since = time.perf_counter()
            self._asked += 1
        self.watch.count("generation", 1)
        asked.add_done_callback(lambda _: self._answered(attempt))

    def _answered(self, attempt: _Try) -> None:
        """On the engine's thread, so it only hands the answer on."""
        self.watch.count("generation", -1)
        with self._changed:
            self._asked -= 1
            if not self._asked:
                self._asked_s += time.perf_counter() - self._asked_since
            if not self._closed:
                self._pool.submit(self._carry, attempt, self._go_on)

    def _go_on(self, attempt: _Try) -> None:
        assert attempt.chain is not None
        assert attempt.asked is not None
        if not self._is_live(attempt):  # overdue meanwhile
            self._envs.discard(attempt.chain.env)
            return
        over = attempt.chain.step(attempt.asked.result())
        if not self._is_live(attempt):
            self._envs.discard(attempt.chain.env)
        elif over:
            self._end(attempt, attempt.chain)
        else:
            self._ask(attempt)

    def _end(self, attempt: _Try, chain: Chain) -> None:
        rollout, trajectory = chain.finish()
        reason = spoiled(rollout, trajectory)
        if not self._leave(attempt, chain):
            self._envs.discard(chain.env)
            return
        if reason and self._again(attempt):
            return
        if reason:
            turns = tuple(dataclasses.replace(turn, reward=0.0, valid=False) for turn in rollout.turns)
            rollout = dataclasses.replace(rollout, turns=turns, ended="failed")
        attempt.finished.set_result(Finished(rollout, trajectory, attempt.number, reason))

    def _fail(self, attempt: _Try, error: Exception) -> None:
        chain = attempt.chain
        if self._leave(attempt) and not self._again(attempt):
            if chain is None or not chain.begun:  # nothing is known of the episode, not even its task
                raise error
            reason = f"{type(error).__name__}: {error}"
            attempt.finished.set_result(Finished(*chain.cut("failed"), attempt.number, reason))
        if chain is not None:
            self._envs.discard(chain.env)

    def _again(self, attempt: _Try) -> bool:
        """Make another try, before all that wait, if there is one left."""
        if attempt.number > self._retries:
            return False
        with self._changed:
            if self._closed:
                return True
            fresh = _Try(attempt.job, attempt.sampling, attempt.finished, attempt.number + 1)
            self._waiting.appendleft(fresh)
        self._fill()
        return True

    def _is_live(self, attempt: _Try) -> bool:
        with self._changed:
            return attempt in self._live

    def _leave(self, attempt: _Try, over: Chain | None = None) -> bool:
        """Whether ``attempt`` was still under way; it no longer is, and another may begin.

        The environment of a chain that is ``over`` can be used again.
        """
        with self._changed:
            if attempt not in self._live:
                return False
            self._live.remove(attempt)
            if over is not None:
                self._envs.give_back(over.env)
            self._changed.notify_all()
        self._fill()
        return True

    def _end_overdue(self) -> None:
        while True:
            with self._changed:
                if self._closed:
                    return
                now = time.monotonic()
                late = [attempt for attempt in self._live if attempt.deadline <= now]
                if not late:
                    first = min((attempt.deadline for attempt in self._live), default=float("inf"))
                    self._changed.wait(None if first == float("inf") else first - now)
            for attempt in late:
                chain = attempt.chain
                assert chain is not None  # a deadline begins with the first prompt
                if self._leave(attempt):
                    if attempt.asked is not None:
                        attempt.asked.cancel()
                    reason = f"overdue: not over after rollout.max_episode_s={self._budget_s:g}"
                    attempt.finished.set_result(Finished(*chain.cut("overdue"), attempt.number, reason))
