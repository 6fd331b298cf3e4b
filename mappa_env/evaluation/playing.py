"""Plays the episodes of an evaluation, many at once."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mappa_env.cards import Card
from mappa_env.coach.llm.wire import Passing, Rejected
from mappa_env.envs.team_env import TeamEnv
from mappa_env.errors import CoachStopped, EvaluationError, UnknownTaskError
from mappa_env.evaluation.abandoned import Abandoned
from mappa_env.evaluation.chat import Chat
from mappa_env.evaluation.contents import Contents
from mappa_env.evaluation.episodes import Played, Tokens
from mappa_env.evaluation.ledgers import ledger_of
from mappa_env.evaluation.participant import Act, Participant
from mappa_env.evaluation.participants import SERVED, kind_of, make_participant
from mappa_env.evaluation.plan import Job, Plan
from mappa_env.registration import card_of
from mappa_env.seeds import derived_seed

TRIES = 3
"""How often an episode is played whose sandbox is unavailable."""
IN_A_ROW = 8
"""Episodes without a sandbox after which nothing more is played."""
LAST_S = 1.0
"""Seconds that each thread gets after Ctrl-C to write down what its episode has taken."""


class SandboxAway(EvaluationError):
    """The sandbox was unavailable whenever an episode was played."""


@dataclass(slots=True)
class Company:
    """The participants of a plan: one for each distinct specification. Raises OptionError.

    ``folder``: where models behind servers have their ledgers, unless they name others.
    """

    plan: Plan
    folder: Path | None = None
    participants: dict[str, Participant] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for agent, spec in sorted(self.plan.models.items()):
            if _key(spec) not in self.participants:
                options = {name: value for name, value in spec.items() if name != "name"}
                if self.folder is not None and kind_of(str(spec["name"])) == SERVED:
                    options.setdefault("ledger", str(ledger_of(self.folder, agent)))
                self.participants[_key(spec)] = make_participant(str(spec["name"]), options)

    def of(self, agent: str) -> Participant:
        """Who plays ``agent``."""
        return self.participants[_key(self.plan.model(agent))]

    def recall(self, played: Iterable[Played]) -> None:
        """Go on after the episodes ``played``. Raises EvaluationError if this would mix two models."""
        versions: defaultdict[str, set[str]] = defaultdict(set)
        for each in played:
            for agent, version in each.versions.items():
                if version or each.tokens[agent].prompt:
                    versions[_key(self.plan.model(agent))].add(version)
        for key, names in versions.items():
            participant = self.participants.get(key)
            if isinstance(participant, Chat):
                participant.recall(names)

    def check(self, cards: Iterable[Card]) -> None:
        """Raises OptionError if a participant cannot play an agent of a card."""
        for card in cards:
            for agent in card.team.names:
                self.of(agent).check(card, agent)

    def close(self) -> None:
        """Close all participants; waiting threads get CoachStopped."""
        for participant in self.participants.values():
            participant.close()


def _key(spec: Mapping[str, Any]) -> str:
    return repr(sorted(spec.items()))


def play_all(  # noqa: PLR0913  (what an evaluation needs)
    plan: Plan,
    jobs: Sequence[Job],
    company: Company,
    contents: Contents,
    done: Callable[[Played], None],
    lost: Callable[[Abandoned], None],
    *,
    threads: int,
    record: Path | None = None,
) -> list[str]:
    """Play ``jobs`` in ``threads`` threads; ``done`` gets each result, ``lost`` what episodes
    took that have none; one at a time.

    Returns why episodes could not be played, one line each. Raises CoachStopped if a model will not answer
    any more, SandboxAway after ``IN_A_ROW`` episodes without a sandbox, and what an environment raises;
    episodes that are over are ``done`` before.
    """
    todo: queue.SimpleQueue[Job] = queue.SimpleQueue()
    for job in jobs:
        todo.put(job)
    lock, stop = threading.Lock(), threading.Event()
    failed: list[str] = []
    errors: list[BaseException] = []
    away: list[Job] = []
    """Those without a sandbox since the last episode that was played."""

    def count(each: Abandoned) -> None:
        with lock:
            lost(each)

    def work(number: int) -> None:
        envs: dict[str, TeamEnv] = {}
        try:
            while not stop.is_set():
                try:
                    job = todo.get_nowait()
                except queue.Empty:
                    return
                if job.env not in envs:
                    trace = None if record is None else str(record / f"{number}.jsonl")
                    envs[job.env] = TeamEnv(
                        card_of(job.env), tasks=plan.tasks, record=trace, **dict(plan.options)
                    )
                    contents.admit_card(job.env, envs[job.env].card, plan.options)
                try:
                    played = play(plan, job, envs[job.env], company, contents, count)
                except (Passing, Rejected, EvaluationError) as error:
                    with lock:
                        failed.append(f"{job.env}, task {job.task_id}, sample {job.sample}: {error}")
                        away.extend([job] if isinstance(error, SandboxAway) else [])
                        if len(away) >= IN_A_ROW:
                            raise SandboxAway(f"{IN_A_ROW} episodes in a row: {error}") from None
                    continue
                with lock:
                    away.clear()
                    done(played)
        except BaseException as error:  # noqa: BLE001  (raised below, in the caller's thread)
            errors.append(error)
            stop.set()
        finally:
            for env in envs.values():
                env.close()

    workers = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(min(threads, len(jobs)))]
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:  # Ctrl-C: waiting calls end at once, and what is over is kept
        stop.set()
        if any(worker.is_alive() for worker in workers):
            company.close()
            for worker in workers:
                worker.join(LAST_S)
    if errors:
        raise next((each for each in errors if not isinstance(each, CoachStopped)), errors[0])
    return failed


def play(
    plan: Plan,
    job: Job,
    env: TeamEnv,
    company: Company,
    contents: Contents,
    lost: Callable[[Abandoned], None],
) -> Played:
    """Play one episode. Raises Passing, Rejected, CoachStopped, EvaluationError.

    SandboxAway: the sandbox stays away. ``lost`` gets what was spent without a result.
    """
    for _ in range(TRIES):
        spent: dict[str, Tokens] = {}
        why = "the sandbox was unavailable"
        try:
            found = _once(plan, job, env, company, contents, spent)
            outcome = env.episode.outcome
            if outcome is not None and outcome.status != "unavailable":
                spent = {}
                return found
        except BaseException as error:
            why = str(error) or type(error).__name__
            raise
        finally:
            if any(each.calls for each in spent.values()):
                lost(Abandoned(job.env, job.task_id, job.sample, why, spent))
    raise SandboxAway(f"the sandbox was unavailable {TRIES} times: see 'mappa-env doctor'.")


def _once(
    plan: Plan, job: Job, env: TeamEnv, company: Company, contents: Contents, tokens: dict[str, Tokens]
) -> Played:
    """``tokens`` is filled with what each agent has taken so far."""
    began, seed = time.monotonic(), job.seed(plan.seed)
    try:
        env.reset(np.random.default_rng(seed), {"task_id": job.task_id})
    except UnknownTaskError as error:  # this thread's environment read other files than those of the jobs
        raise EvaluationError(
            f"Task {job.task_id} cannot be played: its files have changed since this began ({error})"
        ) from error
    episode = env.episode
    if episode.task.void:
        raise EvaluationError(episode.task.prompt)
    content = contents.admit(job.env, episode.task)
    seats: dict[int, Act] = {}
    flaws: Counter[str] = Counter()
    versions: dict[str, str] = {}
    while episode.agent is not None:
        agent = episode.agent
        participant = company.of(agent)
        if id(participant) not in seats:
            seats[id(participant)] = participant.sit(episode)
        try:
            said = seats[id(participant)](derived_seed(seed, len(episode.actions), bits=31))
        except (Passing, Rejected) as failure:
            _add(tokens, agent, Tokens(failure.calls, max(failure.calls - 1, 0), dollars=0.0))
            raise
        _add(tokens, agent, said.spent)
        versions[agent] = said.version
        flaws.update([said.flaw] if said.flaw else [])
        env.act(said.text)
    return Played.of(
        job,
        episode.trajectory,
        episode.answer,
        tokens,
        versions,
        flaws=dict(flaws),
        seconds=time.monotonic() - began,
        content=content,
    )


def _add(tokens: dict[str, Tokens], agent: str, spent: Tokens) -> None:
    tokens[agent] = tokens[agent] + spent if agent in tokens else spent
