"""The evaluations of a run: calibration, before, on the way, after. What is on disk is not measured again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mappa_env.trace.record import TraceStore
from mappa_rl.config import Config
from mappa_rl.errors import ConfigError
from mappa_rl.evaluate import Evaluation, best_temperature, evaluate
from mappa_rl.progress import Progress
from mappa_rl.results import load_results, save_evaluation
from mappa_rl.rollout import Player
from mappa_rl.sampling import Sampling, evaluation_sampling

CALIBRATION = "calibration.json"
CALIBRATION_SEED, EVALUATION_SEED, VALIDATION_SEED = 7_001, 9_001, 8_001


def training_tasks(config: Config, ids: Sequence[str]) -> Sequence[str]:
    """Of the ids of the training split, those that are trained on."""
    return ids[: len(ids) - len(validation_tasks(config, ids))]


def validation_tasks(config: Config, ids: Sequence[str]) -> Sequence[str]:
    """Of the ids of the training split, the last ``eval.validation``. Raises ConfigError if that is all."""
    kept = config.eval.validation
    if kept >= len(ids):
        raise ConfigError(
            f"eval.validation={kept} leaves none of the {len(ids)} training tasks to train on: lower it."
        )
    return ids[len(ids) - kept :]


@dataclass(slots=True)
class HeldOut:
    """``judged`` plays the evaluations that are kept as traces, ``plain`` the others, without the coach.

    ``best`` is the warm start's own best temperature; None where calibration is switched off.
    """

    config: Config
    out: Path
    progress: Progress
    judged: Player
    plain: Player
    best: float | None = None
    calibration: dict[float, float] = field(default_factory=dict)

    def calibrate(self, collector: Player) -> None:
        """Find ``best`` on training tasks, so that held-out tasks have no say in it."""
        path = self.out / CALIBRATION
        wanted = self.config.eval
        if not wanted.calibration_temperatures:
            return
        if not path.is_file():
            ids = collector.task_ids[-wanted.calibration_episodes :]
            temperatures = sorted({*wanted.calibration_temperatures, *wanted.temperatures})
            self.progress.phase("calibration", len(temperatures), "temperatures")
            best, rates = best_temperature(
                collector, ids, [self._sampling(t) for t in temperatures], seed=CALIBRATION_SEED,
                on_done=self.progress.update,
            )  # fmt: skip
            path.write_text(json.dumps({"best": best, "rates": list(rates.items())}), encoding="utf-8")
        saved = json.loads(path.read_text(encoding="utf-8"))
        self.best, self.calibration = saved["best"], {t: rate for t, rate in saved["rates"]}

    @property
    def temperatures(self) -> list[float]:
        """Every temperature that is evaluated, the best one last."""
        fixed = self.config.eval.temperatures
        return [*fixed, *([self.best] if self.best is not None and self.best not in fixed else [])]

    @property
    def topics(self) -> list[str]:
        """Topics of the tasks that were evaluated."""
        return sorted({row.topic for rows in load_results(self.out).values() for row in rows})

    def measure(self, phase: str, temperatures: Sequence[float], *, trace: bool = False) -> None:
        """Evaluate at ``temperatures`` what is not on disk yet; ``trace`` keeps the first one's episodes."""
        known = load_results(self.out)
        todo = [t for t in temperatures if (phase, t) not in known]
        if not todo:
            return
        total, samples = self.config.eval.episodes, self.config.eval.samples
        ids = self.plain.task_ids
        if samples > 1 and total > samples * len(ids):
            raise ConfigError(
                f"eval.episodes={total} with eval.samples={samples} asks for {total // samples} tasks, and "
                f"there are {len(ids)}: use eval.episodes={samples * len(ids)}."
            )
        tasks = [ids[i // samples % len(ids)] for i in range(total)]
        for temperature in todo:
            self.progress.phase(f"{phase}, T={temperature:g}", total, "episodes")
            traced = trace and temperature == temperatures[0]
            done = evaluate(
                self.judged if traced else self.plain, tasks, self._sampling(temperature),
                seed=EVALUATION_SEED, on_done=self.progress.update,
            )  # fmt: skip
            if traced:
                self._trace(phase, done)
            save_evaluation(self.out, phase, done, self.config.run.seed, answers=samples > 1)
            self.progress.note(f"{phase}, T={temperature:g}: success {done.rate:.1%} of {total}")

    def validate(self, collector: Player) -> float | None:
        """Success, at the first temperature, on the training tasks kept for this; None where none are.

        Held-out tasks have no say in which checkpoint is the best: a choice among many by the tasks that are
        reported on would make the report too good.
        """
        tasks = validation_tasks(self.config, collector.task_ids)
        if not tasks:
            return None
        sampling = self._sampling(self.config.eval.temperatures[0])
        return evaluate(collector, tasks, sampling, seed=VALIDATION_SEED).rate

    def _sampling(self, temperature: float) -> Sampling:
        return evaluation_sampling(self.config, temperature)

    def _trace(self, phase: str, done: Evaluation) -> None:
        path = self.out / "traces" / f"{phase}.jsonl"
        draft = path.with_name(path.name + ".new")
        draft.unlink(missing_ok=True)
        store = TraceStore(draft)
        for trajectory in done.trajectories:
            store.append(trajectory)
        store.close()
        draft.replace(path)
