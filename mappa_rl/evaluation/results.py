"""Evaluations on disk: one row per episode, so that runs can be pooled, paired and analysed afterwards."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mappa_env.json_and_yaml import check_type, read_json
from mappa_rl.atomic import write_text
from mappa_rl.errors import RunError

if TYPE_CHECKING:
    from mappa_rl.evaluation.evaluate import Evaluation

FOLDER = "evaluations"


@dataclass(frozen=True, slots=True)
class Result:
    """How one held-out episode ended. ``run_seed`` and ``index`` name the pair it belongs to.

    ``phase`` is ``before``, ``after`` or ``step-<n>``; ``score`` is the outcome's, in [0, 1]; ``rewards`` are
    the summed valid rewards by agent, empty without a coach; ``metrics`` are the outcome's.
    ``answer`` is there where tasks are played several times and have discrete answers.
    """

    phase: str
    temperature: float
    run_seed: int
    index: int
    task_id: str
    topic: str
    success: bool
    score: float
    rewards: dict[str, float]
    metrics: dict[str, float] = field(default_factory=dict)
    answer: str | None = None


_NUMBER = (int, float)
_KINDS: Mapping[str, tuple[type, ...]] = {
    "phase": (str,),
    "temperature": _NUMBER,
    "run_seed": (int,),
    "index": (int,),
    "task_id": (str,),
    "topic": (str,),
    "success": (bool,),
    "score": (*_NUMBER, type(None)),
    "answer": (str, type(None)),
}
"""Field of a result -> the types that JSON gives it."""


def save_evaluation(
    out: Path, phase: str, evaluation: Evaluation, run_seed: int, *, answers: bool = False, env: str = ""
) -> Path:
    """Write one evaluation's rows; an earlier file of the same phase and temperature is replaced.

    ``env``: one of ``eval.also``; empty: the run's own.
    """
    rows = []
    for index, rollout in enumerate(evaluation.rollouts):
        rewards: dict[str, float] = {}
        for turn in rollout.turns:
            if turn.valid:
                rewards[turn.agent] = rewards.get(turn.agent, 0.0) + turn.reward
        rows.append(
            Result(
                phase=phase,
                temperature=evaluation.temperature,
                run_seed=run_seed,
                index=index,
                task_id=rollout.task_id,
                topic=rollout.topic,
                success=bool(rollout.success),
                score=float(rollout.score),
                rewards=rewards,
                metrics=dict(rollout.metrics),
                answer=rollout.answer if answers else None,
            )
        )
    return save_results(out, rows, env)


def save_results(out: Path, rows: Iterable[Result], env: str = "") -> Path:
    """Write rows of one phase and temperature to ``evaluations/<phase>-T<temperature>.jsonl``.

    Those of ``env``, one of ``eval.also``, go to a folder in there.
    """
    rows = list(rows)
    kinds = {(row.phase, row.temperature) for row in rows}
    if len(kinds) != 1:
        raise ValueError(f"rows must share one phase and temperature, found {sorted(kinds)}.")
    phase, temperature = kinds.pop()
    path = _folder(out, env) / f"{phase}-T{temperature:g}.jsonl"
    write_text(path, "".join(json.dumps(_plain(row)) + "\n" for row in rows))
    return path


def _plain(row: Result) -> dict[str, Any]:
    return {
        key: value for key, value in dataclasses.asdict(row).items() if key != "answer" or value is not None
    }


def _result(row: dict[str, Any]) -> Result:
    """The result in an object of a line. Raises TypeError, ValueError, AttributeError."""
    found = Result(**row)
    for name, kinds in _KINDS.items():
        check_type(name, getattr(found, name), kinds)
    for value in found.rewards.values():
        check_type("rewards", value, (*_NUMBER, type(None)))
    for value in found.metrics.values():
        check_type("metrics", value, (*_NUMBER, bool, type(None)))
    return found


def _folder(out: Path, env: str) -> Path:
    """Ids and paths of cards become one name."""
    return out / FOLDER / re.sub(r"[^A-Za-z0-9_.-]+", "-", env).strip("-.") if env else out / FOLDER


def load_results(out: Path, env: str = "") -> dict[tuple[str, float], list[Result]]:
    """(phase, temperature) -> rows, of every evaluation of a run on its own environment, or on ``env``.

    Raises RunError for a damaged file.
    """
    found: dict[tuple[str, float], list[Result]] = {}
    for path in sorted(_folder(out, env).glob("*.jsonl")):
        try:
            rows = [_result(read_json(line)) for line in path.read_text(encoding="utf-8").splitlines()]
        except (ValueError, TypeError, AttributeError) as error:
            raise RunError(f"{path} is not an evaluation ({error}): remove it and evaluate again.") from None
        if rows:
            found[rows[0].phase, rows[0].temperature] = rows
    return found
