"""Hundreds of episodes in flight, each on its own: nothing waits for a slower neighbour.

A request goes to the engine; when its generation is there, a worker thread steps the environment, which runs
code and asks the coach, and submits the next request. Engines batch whatever is waiting, so timing decides
which requests share a batch: even with seeds, results repeat only up to the rounding of a forward pass.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import contextmanager, suppress

from mappa_rl.environments.base import MakeEnv
from mappa_rl.errors import RunError
from mappa_rl.rollout.attempt import Attempt, Deadlines, GenerationClock
from mappa_rl.rollout.env_pool import EnvPool, PooledWorker
from mappa_rl.rollout.episode_runner import EpisodeRunner
from mappa_rl.rollout.failures import infrastructure_failure, is_infrastructure
from mappa_rl.rollout.policies import Policies
from mappa_rl.rollout.sampling import Sampling
from mappa_rl.rollout.types import Collected, Finished, Job, Seconds, gather
from mappa_rl.telemetry.stopwatch import WAIT, Stopwatch


class AsyncRollout(PooledWorker):
    """Runs at most ``in_flight`` episodes at once; further jobs wait. Thread-safe.

    ``max_episode_s``: seconds that an attempt may take from its first prompt on (0: no limit); then the
    episode has ``timed_out``, and the thread inside its environment closes that environment later. An attempt
    that ends with an infrastructure failure is repeated up to ``retries`` times; then the episode has
    ``failed``. Threads outnumber the episodes: they cost nothing while they wait for a sandbox or a verdict.
    """

    def __init__(
        self,
        make_env: MakeEnv,
        policies: Policies,
        *,
        in_flight: int,
        max_episode_s: float,
        retries: int,
        watch: Stopwatch | None = None,
    ) -> None:
        self.watch = watch or Stopwatch()
        self._policies, self._in_flight = policies, in_flight
        self._max_episode_s, self._retries = max_episode_s, retries
        self._envs = EnvPool(make_env, self.watch)
        self._threads = ThreadPoolExecutor(2 * in_flight, thread_name_prefix="episode")
        self._changed = threading.Condition()
        self._waiting: deque[Attempt] = deque()
        self._live: set[Attempt] = set()
        self._paused = self._closed = False
        self._generating = GenerationClock()
        self._deadlines = Deadlines(max_episode_s, self._time_out)

    @property
    def generating_s(self) -> float:
        """Seconds so far in which at least one request was under way."""
        return self._generating.seconds

    def submit(self, job: Job, sampling: Sampling) -> Future[Finished]:
        """Run one job. The future raises a defect as it was raised."""
        attempt = Attempt(job, sampling, Future())
        with self._changed:
            if self._closed:
                raise RunError("This AsyncRollout is closed; make a new one.")
            self._waiting.append(attempt)
        self._start_waiting()
        return attempt.finished

    def collect(
        self, jobs: Sequence[Job], sampling: Sampling, *, on_done: Callable[[int], None] | None = None
    ) -> Collected:
        """See ``RolloutWorker.collect``."""
        started, generated = time.perf_counter(), self.generating_s
        futures = [self.submit(job, sampling) for job in jobs]
        done = []
        with self.watch.at(WAIT):
            for future in futures:
                done.append(future.result())
                if on_done is not None:
                    on_done(len(done))
        return gather(done, self.seconds_since(started, generated))

    def seconds_since(self, started: float, generated: float) -> Seconds:
        """What passed since ``started`` (``perf_counter``), when ``generating_s`` was ``generated``."""
        total_s, generate_s = time.perf_counter() - started, self.generating_s - generated
        return Seconds(generate_s, max(total_s - generate_s, 0.0), total_s)

    @contextmanager
    def drained(self) -> Iterator[None]:
        """Start no episode and wait until none is under way; continue after the block."""
        with self._changed:
            self._paused = True
            self._changed.wait_for(lambda: not self._live)
        try:
            yield
        finally:
            self._paused = False
            self._start_waiting()

    def close(self) -> None:
        """Give up the episodes under way, abort their requests and close the environments."""
        with self._changed:
            self._closed = True
            left = [*self._live, *self._waiting]
            self._live.clear()
            self._waiting.clear()
            self._changed.notify_all()
        for attempt in left:
            attempt.finished.cancel()
        if any(attempt.is_generating for attempt in left):
            for policy in self._policies.values():
                policy.engine.abort()
        self._envs.release()
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._deadlines.close()
        self._envs.close()

    # -- one attempt, from its start to its end ----------------------------------------------------------

    def _start_waiting(self) -> None:
        """Start waiting attempts, as many as fit."""
        with self._changed:
            while self._waiting and len(self._live) < self._in_flight and not (self._paused or self._closed):
                attempt = self._waiting.popleft()
                self._live.add(attempt)
                self._threads.submit(self._guarded, attempt, self._start)

    def _guarded(self, attempt: Attempt, part: Callable[[Attempt], None]) -> None:
        """On a worker thread: run one part of an attempt; an exception is retried, or ends the job."""
        try:
            try:
                part(attempt)
            except Exception as error:
                if not is_infrastructure(error):
                    raise
                self._fail(attempt, error)
        except BaseException as defect:  # noqa: BLE001  (the future raises it where its result is asked for)
            self._retire(attempt)
            with suppress(InvalidStateError):  # the job has ended without this attempt
                attempt.finished.set_exception(defect)

    def _start(self, attempt: Attempt) -> None:
        env = self._envs.lend()
        attempt.runner = EpisodeRunner(attempt.job, env, self._policies, attempt.sampling, self.watch)
        attempt.runner.reset()
        self._deadlines.start(attempt)
        self._generate(attempt)

    def _generate(self, attempt: Attempt) -> None:
        """Submit the next request; agents whose prompts leave no room for an action pass."""
        runner = attempt.runner
        assert runner is not None
        while (request := runner.request()) is None:
            if self._over(attempt, runner, runner.pass_turn()):
                return
        generation = self._policies[runner.policy].engine.submit(request)
        attempt.generation = generation
        self._generating.begin()
        self.watch.count("generation", 1)
        generation.add_done_callback(lambda _: self._on_generated(attempt))

    def _on_generated(self, attempt: Attempt) -> None:
        """On the engine's thread, so it only hands the attempt to a worker thread."""
        self.watch.count("generation", -1)
        self._generating.end()
        with self._changed:
            if not self._closed:
                self._threads.submit(self._guarded, attempt, self._step)

    def _step(self, attempt: Attempt) -> None:
        """Step the environment with what was generated."""
        runner, generation = attempt.runner, attempt.generation
        assert runner is not None
        assert generation is not None
        if not self._is_live(attempt):  # timed out meanwhile
            self._envs.discard(runner.env)
            return
        if not self._over(attempt, runner, runner.step(generation.result())):
            self._generate(attempt)

    def _over(self, attempt: Attempt, runner: EpisodeRunner, ended: bool) -> bool:
        """After a step: whether the attempt goes no further. The episode has ``ended``, or timed out."""
        if not self._is_live(attempt):
            self._envs.discard(runner.env)
            return True
        if ended:
            self._finish(attempt, runner)
        return ended

    def _finish(self, attempt: Attempt, runner: EpisodeRunner) -> None:
        """The episode is over: deliver it, or retry it after an infrastructure failure."""
        rollout, trajectory = runner.finish()
        reason = infrastructure_failure(rollout, trajectory)
        if not self._retire(attempt, runner):
            self._envs.discard(runner.env)
            return
        if reason and self._retry(attempt):
            return
        attempt.finished.set_result(
            Finished(rollout.failed() if reason else rollout, trajectory, attempt.number, reason)
        )

    def _fail(self, attempt: Attempt, error: Exception) -> None:
        """An infrastructure failure interrupted the episode: retry it, or deliver it as failed."""
        runner = attempt.runner
        if self._retire(attempt) and not self._retry(attempt):
            if runner is None or not runner.begun:  # not even its task is known
                raise error
            reason = f"{type(error).__name__}: {error}"
            attempt.finished.set_result(Finished(*runner.cut("failed"), attempt.number, reason))
        if runner is not None:
            self._envs.discard(runner.env)

    def _time_out(self, attempt: Attempt) -> None:
        """On the thread of the deadlines: deliver the episode as timed out."""
        runner = attempt.runner
        assert runner is not None  # its time starts after its first prompt
        if self._retire(attempt):
            if attempt.generation is not None:
                attempt.generation.cancel()
            reason = f"timed out: not over after rollout.max_episode_s={self._max_episode_s:g}"
            attempt.finished.set_result(Finished(*runner.cut("timed_out"), attempt.number, reason))

    def _retry(self, attempt: Attempt) -> bool:
        """Whether another attempt was queued, ahead of all that wait, or none is needed any more."""
        if attempt.number > self._retries:
            return False
        with self._changed:
            if self._closed:
                return True
            self._waiting.appendleft(attempt.next())
        self._start_waiting()
        return True

    def _is_live(self, attempt: Attempt) -> bool:
        with self._changed:
            return attempt in self._live

    def _retire(self, attempt: Attempt, finished: EpisodeRunner | None = None) -> bool:
        """Free the place of an attempt. Returns False if it had none any more.

        The environment of a ``finished`` episode can be used again.
        """
        self._deadlines.stop(attempt)
        with self._changed:
            if attempt not in self._live:
                return False
            self._live.remove(attempt)
            if finished is not None:
                self._envs.give_back(finished.env)
            self._changed.notify_all()
        self._start_waiting()
        return True
