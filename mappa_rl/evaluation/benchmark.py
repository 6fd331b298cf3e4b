"""The policies of a run in an evaluation of ``mappa_env``, as a model behind a server is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from mappa_env.coach.llm.wire import TOO_LONG
from mappa_env.data import TaskSet
from mappa_env.evaluation.chat import TRUNCATED
from mappa_env.evaluation.contents import Contents, check_contents
from mappa_env.evaluation.episodes import Played, Tokens, append
from mappa_env.evaluation.extent import expect
from mappa_env.evaluation.folder import Evaluation, finish, opened
from mappa_env.evaluation.plan import Job as Planned
from mappa_env.evaluation.plan import Plan, pending
from mappa_env.evaluation.sources import sources_of
from mappa_env.registration import card_of, find_card
from mappa_rl.evaluation.evaluate import complete
from mappa_rl.rollout.sampling import Sampling
from mappa_rl.rollout.types import Job, RolloutWorker
from mappa_rl.telemetry.progress import Progress
from mappa_rl.types import Rollout

Make = Callable[[str], AbstractContextManager[RolloutWorker]]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Plays a plan with the policies of a run.

    ``make``: environment's id -> a worker on its tasks, whose engines have the weights to evaluate.
    ``tasks``: environment's id -> those tasks, read once more to compare them with what was played before.
    ``wave``: episodes that are played together; what a wave has played is kept, whatever happens then.
    """

    plan: Plan
    make: Make
    tasks: Callable[[str], TaskSet]
    sampling: Sampling
    wave: int
    version: str
    """What the weights are called, for instance ``step 40``."""
    progress: Progress

    def play(self, folder: Path) -> Evaluation:
        """Play what ``folder`` does not hold yet, and write the figures.

        Raises EvaluationError if it holds another evaluation, RunError if the infrastructure failed for good.
        """
        with opened(folder, self.plan) as played:
            contents = Contents(played)
            for env in self.plan.envs:
                with self.make(env) as worker:
                    jobs = self.plan.jobs(env, worker.task_ids)
                    expect(folder, jobs, {env: self._sources(env)})
                    if any(each.env == env for each in played):
                        check_contents(folder, played, {env: self.tasks(env)})
                    todo = list(pending(jobs, [each.job for each in played]))
                    before = len(jobs) - len(todo)
                    self.progress.phase(f"{env}, {self.version}", len(jobs), "episodes", done=before)
                    for wave in _waves(todo, self.wave):
                        for each in self._played(worker, wave, contents):
                            append(folder, each)
                            played.append(each)
                            before += 1
                        self.progress.update(before)
            return finish(folder, played)

    def _sources(self, env: str) -> Mapping[str, str]:
        """A coach judges here only if the agents see its feedback."""
        options = dict(self.plan.options)
        if options.get("coach_feedback", "off") == "off":
            options["coach"] = "off"
        return sources_of(find_card(card_of(env)), options)

    def _played(self, worker: RolloutWorker, wave: Sequence[Planned], contents: Contents) -> Iterator[Played]:
        jobs = [Job(job.seed(self.plan.seed), job.task_id) for job in wave]
        collected = complete(worker, jobs, self.sampling)
        each_s = collected.seconds.total / len(wave)
        for job, rollout, trajectory in zip(wave, collected.rollouts, collected.trajectories, strict=True):
            stops = Counter(turn.stopped for turn in rollout.turns)
            flaws = {TRUNCATED: stops["length"], TOO_LONG: stops["no_room"]}
            yield Played.of(
                job,
                trajectory,
                rollout.answer,
                _tokens(rollout),
                {turn.agent: f"{turn.policy}, {self.version}" for turn in rollout.turns},
                flaws={name: count for name, count in flaws.items() if count},
                seconds=each_s,
                content=contents.admit(job.env, trajectory.task),
            )


def _tokens(rollout: Rollout) -> Mapping[str, Tokens]:
    """Agent -> what its actions took; the price of one's own machine is unknown."""
    found: dict[str, Tokens] = {}
    for turn in rollout.turns:
        spent = Tokens(calls=1, prompt=len(turn.context_ids), output=len(turn.action_ids))
        found[turn.agent] = found[turn.agent] + spent if turn.agent in found else spent
    return found


def _waves(jobs: Sequence[Planned], size: int) -> Iterator[Sequence[Planned]]:
    return (jobs[first : first + size] for first in range(0, len(jobs), size))
