"""SIMULATED engine, sandbox and coach: they wait as long as they are told and compute nothing.

The episodes around them are real (``mappa_env``), and so is whatever plays them.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import gymnasium as gym

from mappa_env import team_env
from mappa_env.coach.base import BaseCoach, at_once
from mappa_env.sandbox.base import Limits, Result
from mappa_env.types import Evidence, Verdict
from mappa_rl.engines.base import Generation, Request
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.rollout.asynchronous import AsyncRollout
from mappa_rl.rollout.policies import Policies, Policy

TEXT = "```python\nprint(6 * 7)\n```"
"""Every action of every agent: those who may, run it."""
TEAMS = {
    "mappa/MathChat-v0": ("solver_0", "coder_0", "verifier_0"),
    "mappa/DSBench-v0": ("engineer_0", "modeler_0", "analyst_0"),
}


def unit(*key: object) -> random.Random:
    """A generator that depends on ``key`` alone."""
    return random.Random(hashlib.blake2b(repr(key).encode(), digest_size=8).digest())


class Later:
    """One thread that calls functions when their time has come."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        threading.Thread(target=self._work, name="later", daemon=True).start()

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + seconds, next(self._numbers), call))
            self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                wait_s = self._due[0][0] - time.monotonic() if self._due else None
                if wait_s is None or wait_s > 0:
                    self._changed.wait(wait_s)
                    continue
                call = heapq.heappop(self._due)[2]
            call()


LATER = Later()


class SimulatedEngine:
    """Answers a request after ``latency_s(seed)``; None: never. ``errors(seed)`` is raised instead."""

    def __init__(
        self,
        latency_s: Callable[[int | None], float | None] = lambda seed: 0.0,
        errors: Callable[[int | None], Exception | None] = lambda seed: None,
    ) -> None:
        self.version, self.max_len, self.last_sync = 0, 10**6, None
        self._latency_s, self._errors = latency_s, errors
        self.aborted = False

    def submit(self, request: Request) -> Future[Generation]:
        future: Future[Generation] = Future()
        version, error = self.version, self._errors(request.seed)
        latency_s = self._latency_s(request.seed)

        def answer() -> None:
            if not future.set_running_or_notify_cancel():
                return
            if error is None:
                future.set_result(Generation((1, 0), (-0.5, -0.5), "eos", version))
            else:
                future.set_exception(error)

        if latency_s is not None:
            LATER.after(latency_s, answer)
        return future

    def generate(self, requests: Sequence[Request]) -> list[Generation]:
        return [future.result() for future in [self.submit(request) for request in requests]]

    def abort(self) -> None:
        self.aborted = True

    def load_weights(self, source: Any, version: int | None = None) -> None:
        self.version = self.version + 1 if version is None else version

    def sleep(self) -> None: ...

    def wake(self) -> None: ...

    def close(self) -> None: ...


class SimulatedChat:
    """Every prompt is three tokens, every action ``TEXT``."""

    stop_ids = (0,)

    def open(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        return [5, 6, 7]

    def extend(self, ids: Sequence[int], action_ids: Sequence[int], before: Any, after: Any) -> list[int]:
        return [*ids, *action_ids, 8]

    def decode(self, ids: Sequence[int]) -> str:
        return TEXT


def policies(engine: SimulatedEngine, env_id: str = "mappa/MathChat-v0") -> Policies:
    """All agents of the team are played by ``engine``."""
    chat: Any = SimulatedChat()
    members = PolicyMap.from_spec("shared", TEAMS[env_id])
    return Policies(members, [Policy("shared", None, chat, engine)])  # type: ignore[arg-type]


def async_rollout(
    make_env: Callable[[], Any],
    members: Policies,
    *,
    in_flight: int = 128,
    max_episode_s: float = 0.0,
    retries: int = 0,
) -> AsyncRollout:
    """Without a limit on time and without a second try unless the test says otherwise."""
    return AsyncRollout(make_env, members, in_flight=in_flight, max_episode_s=max_episode_s, retries=retries)


class SimulatedSandbox:
    """``run`` waits, then raises the fault that it has, or answers with its status."""

    def __init__(self, env: SimulatedEnv, inner: Any) -> None:
        self._env, self._inner = env, inner
        self.name, self.isolation = "simulated", "null"

    def run(self, workspace: Any, code: str, limits: Limits, *, seed: int = 0) -> Result:
        env = self._env
        step = len(team_env(env).episode.actions)
        time.sleep(env.latency_s("sandbox", env.seed, step))
        fault = env.faults("sandbox", env.seed, step)
        if isinstance(fault, Exception):
            raise fault
        return Result("unavailable" if fault else "ok", 0, "42\n", "", isolation="null")

    def open_workspace(self) -> Any:
        return self._inner.open_workspace()

    def close(self) -> None:
        self._inner.close()


class SimulatedCoach(BaseCoach):
    """Scores 5 after ``latency_s``; a thread per blocking verdict, none for a deferred one."""

    name = "simulated"

    def __init__(self, env: SimulatedEnv, card: Any) -> None:
        super().__init__(card)
        self._env = env

    def judge(self, evidence: Evidence, *, fresh: bool = False) -> Verdict:
        time.sleep(self._seconds(evidence))
        return self._verdict(evidence)

    def judge_later(self, evidence: Evidence) -> Future[Verdict]:
        seconds, verdict = self._seconds(evidence), self._verdict(evidence)
        if not seconds:
            return at_once(lambda _: verdict, evidence)
        future: Future[Verdict] = Future()
        LATER.after(seconds, lambda: future.set_running_or_notify_cancel() and future.set_result(verdict))
        return future

    def _seconds(self, evidence: Evidence) -> float:
        return self._env.latency_s("coach", self._env.seed, evidence.step)

    def _verdict(self, evidence: Evidence) -> Verdict:
        if self._env.faults("coach", self._env.seed, evidence.step):
            return Verdict("error", None, "no answer", coach=self.name)
        return Verdict("ok", 5.0, "", coach=self.name)


class SimulatedEnv(gym.Wrapper[Any, str, Any, str]):
    """A real episode whose sandbox and coach are simulated.

    ``latency_s`` and ``faults`` are asked with ``sandbox`` or ``coach``, the job's seed and the step.
    A fault is an exception (sandbox), or a text: the sandbox is unavailable, the coach has no answer.
    """

    def __init__(
        self,
        env_id: str = "mappa/MathChat-v0",
        *,
        judging: str = "blocking",
        latency_s: Callable[[str, int, int], float] = lambda kind, seed, step: 0.0,
        faults: Callable[[str, int, int], str | Exception | None] = lambda kind, seed, step: None,
    ) -> None:
        super().__init__(gym.make(env_id, sandbox="null", judging=judging, prompts="compact"))
        self.latency_s, self.faults, self.seed = latency_s, faults, 0
        episode = team_env(self).episode
        episode._execution.sandbox = SimulatedSandbox(self, episode._execution.sandbox)
        episode._coach = SimulatedCoach(self, episode.card)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.seed = seed or 0
        return super().reset(seed=seed, options=options)
