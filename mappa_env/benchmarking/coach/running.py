"""Runs the cases: confirms every fault by repairing it, has the coach judge those that count."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np

from mappa_env.benchmarking.coach.faults import Fault, faults, need_script
from mappa_env.benchmarking.coach.layouts import Layout, layouts
from mappa_env.benchmarking.coach.play import play
from mappa_env.benchmarking.coach.rows import Play, Row, RowFile, played
from mappa_env.cards import Card
from mappa_env.episode import Episode

HARM = 0.2
NO_FLIP, NO_EXPERT, UNSTABLE = "did no harm", "the expert fails", "ended otherwise when played again"


@dataclass(frozen=True)
class Options:
    """``episodes``: tasks per fault; ``limit``: cases that count (None: all); ``repeats``: verdicts per
    action, all but the first asked anew."""

    coach: str | Mapping[str, Any]
    sandbox: str = "local"
    tasks: str = "train"
    episodes: int = 4
    seed: int = 0
    repeats: int = 1
    workers: int = 2
    limit: int | None = None


@dataclass(frozen=True)
class Case:
    task_id: str
    seed: int
    layout: Layout
    fault: Fault

    @property
    def key(self) -> str:
        return f"{self.task_id}/{self.seed}/{self.layout.name}/{self.fault.key}"


Progress = Callable[[int, int, int], None]
"""Called with the numbers of cases that count, that were discarded, and that are to be tried."""


class Bench:
    """One run over one card. ``run`` may be interrupted; finished rows are in ``file``."""

    def __init__(self, card: Card, options: Options, file: RowFile) -> None:
        need_script(card)
        self.card, self.options, self.file = card, options, file
        self._lock = threading.Lock()
        self._local = threading.local()
        self._episodes: list[Episode] = []
        self._twins: dict[tuple[str, int, Layout, bool], Future[Play]] = {}

    def run(self, progress: Progress = lambda counted, discarded, total: None) -> list[Row]:
        """The rows of this run, in the order of its cases. Raises what a coach or sandbox raises."""
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
                finally:
                    pool.shutdown(cancel_futures=True)
        finally:
            for episode in self._episodes:
                episode.close()
        return [rows[case.key] for case in cases if case.key in rows]

    def _cases(self, pool: ThreadPoolExecutor) -> list[Case]:
        """Every fault of ``episodes`` tasks; layouts take turns."""
        ids = self._episode("off").tasks.ids
        rng = np.random.default_rng([self.options.seed, 7])
        drawn = [ids[int(i)] for i in rng.permutation(len(ids))[: self.options.episodes]]
        seeds = range(self.options.seed, self.options.seed + len(drawn))
        return [case for part in pool.map(self._cases_of, drawn, seeds) for case in part]

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
            "key": case.key, "task": case.task_id, "seed": case.seed, "layout": case.layout.name,
            "agent": fault.agent, "turn": turn, "fault": fault.name, "kind": fault.kind,
            "source": fault.source,
        }  # fmt: skip
        tried = self._episode("off")
        step = play(tried, case.task_id, case.seed, case.layout, fault)
        assert step is not None, case.key
        end = tried.outcome  # kept, as the twin may be played in this very episode
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
        """The case's episode with the fault repaired; many cases may have the same, which is played once."""
        key = (case.task_id, case.seed, case.layout, asked)
        with self._lock:
            mine = key not in self._twins
            future = self._twins.setdefault(key, Future())
        if mine:
            try:
                episode = self._episode("coach" if asked else "off")
                play(episode, case.task_id, case.seed, case.layout)
                future.set_result(self._played(episode))
            except BaseException as error:  # noqa: BLE001  whoever waits for it must hear of it
                future.set_exception(error)
        return future.result()

    def _played(self, episode: Episode) -> Play:
        """The episode as it was judged; every further repeat asks the coach anew about each action."""
        anew = range(self.options.repeats - 1 if episode.coach.name != "off" else 0)
        again = [[episode.coach.judge(evidence, fresh=True) for _ in anew] for evidence in episode.evidence]
        return played(episode, again)

    def _episode(self, kind: str) -> Episode:
        """This thread's own episode: judged by nobody (``off``), or by the coach."""
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
    """Whether an episode that ended so is worse than the repaired one: without success, or HARM of its score
    lost (where any valid answer is a success, as in DSBench, the score says how good it is)."""
    return not success or score < (1 - HARM) * repaired.outcome


class _Queue:
    """Cases in an order that keeps the agents level: next is one of the agent with the fewest that count."""

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
    """In an order that a limit cuts fairly: by chance, and always the same."""
    found = list(cases)
    return [found[int(i)] for i in np.random.default_rng(len(found)).permutation(len(found))]
