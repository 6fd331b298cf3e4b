"""The evaluations of a run: calibration, before, during and after training. Stored results are reused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mappa_env.trace.appending import Appender
from mappa_env.trace.source import described
from mappa_rl import seeds
from mappa_rl.atomic import replacing
from mappa_rl.config import Config
from mappa_rl.config.environment import env_card
from mappa_rl.evaluation.calibration import Calibration, read_calibration
from mappa_rl.evaluation.evaluate import Evaluation, evaluate
from mappa_rl.evaluation.repeats import check_repeats
from mappa_rl.evaluation.results import load_results, save_evaluation
from mappa_rl.rollout.jobs import validation_tasks
from mappa_rl.rollout.learned import learned
from mappa_rl.rollout.metrics import passed_turns
from mappa_rl.rollout.sampling import Sampling, evaluation_sampling
from mappa_rl.rollout.types import RolloutWorker
from mappa_rl.telemetry.progress import Progress


@dataclass(slots=True)
class HeldOut:
    """The evaluations of the run in ``out``.

    ``judged`` plays the evaluations that are kept as traces, with the coach; ``plain`` plays the others,
    without it. ``also``: environment of ``eval.also`` -> who plays there.
    """

    config: Config
    out: Path
    progress: Progress
    judged: RolloutWorker
    plain: RolloutWorker
    also: Mapping[str, RolloutWorker] = field(default_factory=dict)
    calibration: Calibration = field(default_factory=Calibration)

    def calibrate(self, worker: RolloutWorker) -> None:
        """Find the warm start's best temperature on training tasks; held-out tasks have no influence on it.

        Rates that ``calibration.json`` holds already are not measured again.
        """
        wanted = self.config.eval
        if not wanted.calibration_temperatures:
            return
        temperatures = sorted({*wanted.calibration_temperatures, *wanted.temperatures})
        known = read_calibration(self.out).only(temperatures)
        missing = [t for t in temperatures if t not in known.rates]
        if missing:
            ids = worker.task_ids[-wanted.calibration_episodes :]
            rates = dict(known.rates)
            self.progress.phase("calibration", len(missing), "temperatures")
            for done, temperature in enumerate(missing, start=1):
                sampling = self._sampling(temperature)
                found = evaluate(worker, ids, sampling, seed=seeds.CALIBRATION)
                rates[temperature] = found.rate
                self.progress.update(done)
                self._note_passed(f"calibration, T={temperature:g}", found)
            known = Calibration(dict(sorted(rates.items())))
            known.write(self.out)
        self.calibration = known

    @property
    def best(self) -> float | None:
        """The warm start's best temperature; None if calibration is off."""
        return self.calibration.best

    @property
    def temperatures(self) -> list[float]:
        """Every temperature that is evaluated; the best one comes last unless it is a fixed one."""
        fixed = self.config.eval.temperatures
        return [*fixed, *([self.best] if self.best is not None and self.best not in fixed else [])]

    @property
    def topics(self) -> list[str]:
        """Topics of the evaluated tasks."""
        return sorted({row.topic for rows in load_results(self.out).values() for row in rows})

    def measure(self, phase: str, temperatures: Sequence[float], *, trace: bool = False) -> None:
        """Evaluate at those ``temperatures`` that have no stored result yet.

        ``trace`` keeps the episodes of the first temperature. Raises ConfigError if there are too few tasks.
        """
        self._measure(phase, temperatures, self.plain, self.config.eval.episodes, trace=trace)
        for env, worker in self.also.items():
            self._measure(phase, temperatures, worker, self.config.eval.also[env], env)

    def _measure(
        self,
        phase: str,
        temperatures: Sequence[float],
        worker: RolloutWorker,
        total: int,
        env: str = "",
        *,
        trace: bool = False,
    ) -> None:
        known = load_results(self.out, env)
        todo = [t for t in temperatures if (phase, t) not in known]
        if not todo:
            return
        samples, key = self.config.eval.group_size, f"eval.also.{env}" if env else "eval.episodes"
        ids = worker.task_ids
        check_repeats(samples, key, total, len(ids))
        tasks = [ids[i // samples % len(ids)] for i in range(total)]
        for temperature in todo:
            what = f"{phase}{f' on {env}' if env else ''}, T={temperature:g}"
            self.progress.phase(what, total, "episodes")
            traced = trace and temperature == temperatures[0]
            done = evaluate(
                self.judged if traced else worker,
                tasks,
                self._sampling(temperature),
                seed=seeds.EVALUATION,
                on_done=self.progress.update,
            )
            if traced:
                self._trace(phase, done)
            save_evaluation(self.out, phase, done, self.config.run.seed, answers=samples > 1, env=env)
            self.progress.note(f"{what}: success {done.rate:.1%} of {total}")
            self._note_passed(what, done)

    def validate(self, worker: RolloutWorker) -> float | None:
        """Return success on the validation tasks at the first temperature; None without any.

        Held-out tasks have no influence on which checkpoint is the best: choosing one of many by the tasks
        that are reported would make the report too good.
        """
        tasks = validation_tasks(self.config, worker.task_ids)
        if not tasks:
            return None
        sampling = self._sampling(self.config.eval.temperatures[0])
        found = evaluate(worker, tasks, sampling, seed=seeds.VALIDATION)
        self._note_passed("validation", found)
        return found.rate

    def _note_passed(self, what: str, found: Evaluation) -> None:
        if line := passed_turns(found.rollouts):
            self.progress.note(f"{what}: {line}")

    def _sampling(self, temperature: float) -> Sampling:
        return evaluation_sampling(self.config, temperature)

    def _trace(self, phase: str, done: Evaluation) -> None:
        about = {"phase": phase, "temperature": done.temperature}
        card = described(env_card(self.config.env.id))
        with replacing(self.out / "traces" / f"{phase}.jsonl.gz") as draft:
            writer = Appender(draft, card=card, about=about, packs=True, writer=phase)
            for rollout, trajectory in zip(done.rollouts, done.trajectories, strict=True):
                writer.learned(writer.append(trajectory), learned(rollout, {}))
            writer.close()
