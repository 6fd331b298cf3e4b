"""Runs the cases: confirms each fault by repairing it, and has the coach judge the valid ones."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np

from mappa_env.benchmarking.coach.controls import Controlled, controlled
from mappa_env.benchmarking.coach.faults import Fault, faults, need_script
from mappa_env.benchmarking.coach.layouts import Layout, layouts
from mappa_env.benchmarking.coach.play import play
from mappa_env.benchmarking.coach.rows import Play, Row, RowFile, played
from mappa_env.cards import Card
from mappa_env.episode.episode import Episode

HARM = 0.2
NO_FLIP, NO_EXPERT, UNSTABLE = "did no harm", "the expert fails", "ended differently when repeated"


@dataclass(frozen=True)
class Options:
    """Options of a run.

    ``episodes``: tasks per fault; ``limit``: number of valid cases (None: all); ``repeats``: verdicts per
    action, of which all but the first bypass the cache; ``controls``: tasks for the controls.
    """

    coach: str | Mapping[str, Any]
    sandbox: str = "local"
    tasks: str = "train"
    episodes: int = 4
    seed: int = 0
    repeats: int = 1
    workers: int = 2
    controls: int = 2
    limit: int | None = None


@dataclass(frozen=True)
class Case:
    """One fault to inject, with its task, seed and layout."""

    task_id: str
    seed: int
    layout: Layout
    fault: Fault

    @property
    def key(self) -> str:
        """Identifies the case within the run, also after a resume."""
        return f"{self.task_id}/{self.seed}/{self.layout.name}/{self.fault.key}"


Progress = Callable[[int, int, int], None]
"""Called with the numbers of valid, discarded, and all cases."""


class Bench:
    """One run over one card. ``run`` may be interrupted; ``file`` has the finished rows.

    After ``run``, ``controlled`` has the verdicts on the controls.
    """

    def __init__(self, card: Card, options: Options, file: RowFile) -> None:
        need_script(card)
        self.card, self.options, self.file = card, options, file
        self._lock = threading.Lock()
        self._local = threading.local()
        self._episodes: list[Episode] = []
        self.controlled: list[Controlled] = []
        self._twins: dict[tuple[str, int, Layout, bool], Future[Play]] = {}

    def run(self, progress: Progress = lambda counted, discarded, total: None) -> list[Row]:
        """The rows of this run, in the order of its cases. Raises errors of the coach or the sandbox."""
        rows: dict[str, Row] = {}
        try:
            with ThreadPoolExecutor(self.options.workers, thread_name_prefix="bench") as pool:
                cases = self._cases(pool)
                queue = _Queue(self.card.team.names, cases, self.options.limit)
                running: dict[Future[Row], Case] = {}
                try:
                    while True:
                        while len(running) < self.options.workers and (case := queue.take()) is not None:
                            running[pool.submit(self._row, case)] = case
                        if not running:
                            break
                        for done in wait(running, return_when=FIRST_COMPLETED).done:
                            case, row = running.pop(done), done.result()
                            rows[case.key] = row
                            queue.ended(case, counts=not row.discarded)
                            progress(queue.counted, len(rows) - queue.counted, len(cases))
                    for found in pool.map(self._controls_of, self._drawn(self.options.controls)):
                        self.controlled += found
                finally:
                    pool.shutdown(cancel_futures=True)
        finally:
            for episode in self._episodes:
                episode.close()
        return [rows[case.key] for case in cases if case.key in rows]

    def _cases(self, pool: ThreadPoolExecutor) -> list[Case]:
        """Every fault of ``episodes`` tasks; layouts alternate."""
        drawn = self._drawn(self.options.episodes)
        return [case for part in pool.map(lambda pair: self._cases_of(*pair), drawn) for case in part]

    def _drawn(self, count: int) -> list[tuple[str, int]]:
        """(task, seed) of the first ``count`` tasks that the run's seed draws."""
        ids = self._episode("off").tasks.ids
        order = np.random.default_rng([self.options.seed, 7]).permutation(len(ids))[:count]
        return [(ids[int(at)], self.options.seed + k) for k, at in enumerate(order)]

    def _controls_of(self, drawn: tuple[str, int]) -> list[Controlled]:
        return list(controlled(self._episode("coach"), *drawn))

    def _cases_of(self, task_id: str, seed: int) -> list[Case]:
        episode = self._episode("off")
        play(episode, task_id, seed)
        cases = []
        for number, fault in enumerate(faults(self.card, episode.task, seed, episode.actions)):
            found = list(layouts(self.card.team, fault.agent, fault.own))
            layout = found[(number + seed - self.options.seed) % len(found)]
            cases.append(Case(task_id, seed, layout, fault))
        return cases

    def _row(self, case: Case) -> Row:
        known = self.file.rows.get(case.key)
        if known is None:
            known = self._fresh_row(case)
            self.file.add(known)
        return known

    def _fresh_row(self, case: Case) -> Row:
        fault, turn = case.fault, case.layout.turn(case.fault.agent, case.fault.own)
        fields: dict[str, Any] = {
            "key": case.key,
            "task": case.task_id,
            "seed": case.seed,
            "layout": case.layout.name,
            "agent": fault.agent,
            "turn": turn,
            "fault": fault.name,
            "kind": fault.kind,
            "source": fault.source,
        }
        tried = self._episode("off")
        step = play(tried, case.task_id, case.seed, case.layout, fault)
        assert step is not None, case.key
        end = tried.outcome  # saved, because the twin may reuse this episode
        assert end is not None
        repaired = self._twin(case, asked=False)
        if not repaired.success or repaired.outcome <= 0:
            return Row(**fields, step=step, discarded=NO_EXPERT)
        if not harmed(repaired, end.success, end.score):
            return Row(**fields, step=step, discarded=NO_FLIP)
        clean = self._twin(case, asked=True)
        episode = self._episode("coach")
        play(episode, case.task_id, case.seed, case.layout, fault)
        faulty = self._played(episode)
        if not clean.success or not harmed(clean, faulty.success, faulty.outcome):
            return Row(**fields, step=step, discarded=UNSTABLE)
        return Row(**fields, step=step, faulty=faulty, clean=clean)

    def _twin(self, case: Case, *, asked: bool) -> Play:
        """The case's episode with the fault repaired. Cases with the same twin run it once."""
        key = (case.task_id, case.seed, case.layout, asked)
        with self._lock:
            mine = key not in self._twins
            future = self._twins.setdefault(key, Future())
        if mine:
            try:
                episode = self._episode("coach" if asked else "off")
                play(episode, case.task_id, case.seed, case.layout)
                future.set_result(self._played(episode))
            except BaseException as error:  # noqa: BLE001  waiting threads must get the error
                future.set_exception(error)
        return future.result()

    def _played(self, episode: Episode) -> Play:
        """The judged episode; every further repeat asks the coach again about each action."""
        repeats = range(self.options.repeats - 1 if episode.coach.name != "off" else 0)
        again = [
            [episode.coach.judge(evidence, fresh=True) for _ in repeats] for evidence in episode.evidence
        ]
        return played(episode, again)

    def _episode(self, kind: str) -> Episode:
        """This thread's own episode, without verdicts (``off``) or judged by the coach."""
        found: dict[str, Episode] = self._local.__dict__.setdefault("episodes", {})
        if kind not in found:
            coach = "off" if kind == "off" else self.options.coach
            found[kind] = Episode(
                self.card, coach=coach, sandbox=self.options.sandbox, tasks=self.options.tasks
            )
            with self._lock:
                self._episodes.append(found[kind])
        return found[kind]


def harmed(repaired: Play, success: bool, score: float) -> bool:
    """Whether an episode with this outcome is worse than the repaired one.

    It failed, or lost the fraction HARM of the score: in DSBench, any valid answer is a success.
    """
    return not success or score < (1 - HARM) * repaired.outcome


class _Queue:
    """Cases in an order that balances the agents: the next is of the agent with the fewest valid cases."""

    def __init__(self, agents: tuple[str, ...], cases: list[Case], limit: int | None) -> None:
        self.counted, self._limit = 0, len(cases) if limit is None else limit
        self._level = dict.fromkeys(agents, 0)
        self._waiting = {
            agent: _mixed(case for case in cases if case.fault.agent == agent) for agent in agents
        }
        self._running = 0

    def take(self) -> Case | None:
        left = [agent for agent, cases in self._waiting.items() if cases]
        if not left or self.counted + self._running >= self._limit:
            return None
        agent = min(left, key=lambda name: self._level[name])
        self._level[agent] += 1
        self._running += 1
        return self._waiting[agent].pop()

    def ended(self, case: Case, *, counts: bool) -> None:
        self._running -= 1
        self.counted += counts
        self._level[case.fault.agent] -= not counts


def _mixed(cases: Iterator[Case]) -> list[Case]:
    """The cases in a random, reproducible order, so that a limit keeps a fair sample."""
    found = list(cases)
    return [found[int(i)] for i in np.random.default_rng(len(found)).permutation(len(found))]
