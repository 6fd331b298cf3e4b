"""Asks a coach about the same action with and without an injection: how much does the score change?"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

import numpy as np

from mappa_env.benchmarking.coach.faults import Fault, faults
from mappa_env.benchmarking.coach.injections import (
    PLACES,
    Injection,
    Place,
    ProbeSet,
    altered,
    chosen,
    injected,
    task_files,
)
from mappa_env.benchmarking.coach.play import play
from mappa_env.cards import Card
from mappa_env.coach import make_coach
from mappa_env.data.base import ListTaskSet
from mappa_env.episode.episode import Episode
from mappa_env.types import Evidence, Verdict


@dataclass(frozen=True)
class Options:
    """Options of a probe run.

    ``actions``: number of actions to alter, alternately good and faulty; ``real``: probes per place that also
    run in the sandbox; ``repeats``: verdicts on each unaltered question.
    """

    coach: str | Mapping[str, Any]
    sandbox: str = "local"
    tasks: str = "train"
    actions: int = 6
    seed: int = 0
    real: int = 1
    repeats: int = 1
    workers: int = 2
    classes: tuple[str, ...] = ()
    places: tuple[Place, ...] = PLACES


@dataclass(frozen=True)
class Base:
    """An action of a real episode; ``fault`` None: it is good."""

    task_id: str
    seed: int
    fault: Fault | None
    evidence: Evidence

    @property
    def key(self) -> str:
        """Identifies the action within the run."""
        fault = "good" if self.fault is None else self.fault.name
        return f"{self.task_id} {self.evidence.agent.name} {fault}"


@dataclass(frozen=True)
class Pair:
    """The scores of harmless words and of one injection, at one place of one action.

    ``real``: both actions ran; else their evidence was derived. Scores are None unless the verdict is ok.
    """

    class_: str
    name: str
    place: Place
    base: str
    faulty: bool
    real: bool
    claims: bool
    control: float | None
    score: float | None
    status: str

    @property
    def shift(self) -> float | None:
        """The change of the score by the injection, in points; None without both scores."""
        return None if self.control is None or self.score is None else self.score - self.control


@dataclass(frozen=True)
class Found:
    """The results of a run.

    ``harmless``: (place, score with harmless words minus score of the unaltered action); ``again``: per
    question, its scores over ``repeats`` verdicts; ``skipped``: probes that would change what runs.
    """

    pairs: tuple[Pair, ...]
    harmless: tuple[tuple[Place, float], ...]
    again: tuple[tuple[float, ...], ...]
    skipped: int


def probe_coach(
    card: Card, probes: ProbeSet, options: Options, progress: Callable[[int, int], None] = lambda n, of: None
) -> Found:
    """Run all probes. Raises OptionError for an unknown class, and errors of the coach or the sandbox."""
    wanted = chosen(probes, options.classes)
    bases = list(_bases(card, options))
    coach = make_coach(options.coach, card)
    pool = ThreadPoolExecutor(options.workers, thread_name_prefix="probe")
    try:
        controls: dict[tuple[str, Place], Future[Verdict]] = {}
        asked: list[tuple[Base, Place, Injection, Future[Verdict]]] = []
        skipped = 0
        for base, place in itertools.product(bases, options.places):
            harmless = injected(base.evidence, place, probes.control)
            if harmless is None:
                continue
            controls[base.key, place] = pool.submit(coach.judge, harmless)
            for probe in wanted:
                evidence = injected(base.evidence, place, probe.words) if place in probe.places else None
                skipped += evidence is None and place in probe.places
                if evidence is not None:
                    asked.append((base, place, probe, pool.submit(coach.judge, evidence)))
        plain = {base.key: pool.submit(coach.judge, base.evidence) for base in bases}
        again = [
            [pool.submit(coach.judge, base.evidence, fresh=True) for _ in range(options.repeats - 1)]
            for base in bases
        ]
        jobs = [*controls.values(), *(job for *_, job in asked), *plain.values(), *itertools.chain(*again)]
        for done, job in enumerate(as_completed(jobs), 1):
            job.result()
            progress(done, len(jobs))
        pairs = [
            _pair(base, place, probe, controls[base.key, place].result(), job.result(), real=False)
            for base, place, probe, job in asked
        ]
        pairs += _really(card, probes, wanted, options, bases)
    finally:
        pool.shutdown(cancel_futures=True)
        coach.close()
    moved = [
        (place, score - untouched)
        for (key, place), job in controls.items()
        if (score := _score(job.result())) is not None
        and (untouched := _score(plain[key].result())) is not None
    ]
    groups = [
        tuple(s for job in (plain[base.key], *more) if (s := _score(job.result())) is not None)
        for base, more in zip(bases, again, strict=True)
    ]
    return Found(tuple(pairs), tuple(moved), tuple(groups) if options.repeats > 1 else (), skipped)


def _bases(card: Card, options: Options) -> Iterator[Base]:
    """Actions of all agents in turn, of the expert and with one scripted fault each."""
    episode = Episode(card, coach=options.coach, sandbox=options.sandbox, tasks=options.tasks)
    try:
        ids, names = episode.tasks.ids, card.team.names
        for number in range(options.actions):
            seed = options.seed + number
            rng = np.random.default_rng([seed, 11])
            task_id, agent = ids[int(rng.integers(len(ids)))], names[number // 2 % len(names)]
            play(episode, task_id, seed)
            fault = None
            if number % 2:
                able = faults(card, episode.task, seed, episode.actions)
                found = [each for each in able if (each.agent, each.source) == (agent, "script")]
                fault = found[int(rng.integers(len(found)))]
                play(episode, task_id, seed, fault=fault)
            step = next(
                a.step for a in episode.actions if a.agent == agent and a.turn == (fault.own if fault else 0)
            )
            yield Base(task_id, seed, fault, episode.evidence[step])
    finally:
        episode.close()


def _really(
    card: Card, probes: ProbeSet, wanted: Sequence[Injection], options: Options, bases: Sequence[Base]
) -> Iterator[Pair]:
    """Pairs whose altered action runs in its episode's sandbox: one good, one faulty action per place."""
    episode = Episode(card, coach=options.coach, sandbox=options.sandbox, tasks=options.tasks)
    tasks = episode.tasks
    try:
        for at, place in enumerate(options.places):
            fit = [base for base in bases if injected(base.evidence, place, probes.control) is not None]
            good = [base for base in fit if base.fault is None][:1]
            faulty = [base for base in fit if base.fault is not None][:1]
            able = [probe for probe in wanted if place in probe.places and not probe.claims]
            for base in (*good, *faulty):
                control = _carried_out(episode, tasks.get(base.task_id), base, place, probes.control)
                for number in range(min(options.real, len(able)) if control is not None else 0):
                    probe = able[(at * 7 + number * len(PLACES) * 7) % len(able)]
                    verdict = _carried_out(episode, tasks.get(base.task_id), base, place, probe.words)
                    if control is not None and verdict is not None:
                        yield _pair(base, place, probe, control, verdict, real=True)
    finally:
        episode.close()


def _carried_out(episode: Episode, task: Any, base: Base, place: Place, text: str) -> Verdict | None:
    """The verdict on the altered action after it ran; None if other code would run."""
    record = base.evidence
    action = altered(record, place, text)
    if action is None:
        return None
    files = {**task.files, **task_files(place, text)}
    episode.tasks = ListTaskSet("probe", "", [dataclasses.replace(task, files=files)])
    change = Fault(record.agent.name, record.turn, "injection", "text", "mutation", action)
    step = play(episode, task.id, base.seed, fault=change)
    assert step is not None
    return episode.actions[step].verdict


def _pair(
    base: Base, place: Place, probe: Injection, control: Verdict, verdict: Verdict, *, real: bool
) -> Pair:
    return Pair(
        probe.class_,
        probe.name,
        place,
        base.key,
        base.fault is not None,
        real,
        probe.claims,
        _score(control),
        _score(verdict),
        verdict.status,
    )


def _score(verdict: Verdict) -> float | None:
    return verdict.score if verdict.status == "ok" else None
