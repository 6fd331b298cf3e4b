"""Traces of version 1: one line per action with the whole record, then one that closes the episode."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mappa_env.errors import DataError
from mappa_env.trace.jsonlines import from_plain
from mappa_env.trace.recorded import Recorded, Summary, summarised
from mappa_env.types import ActionRecord, Attribution, Outcome, Task, Trajectory


def summary_of_old(
    file: str, key: str, row: Mapping[str, Any], actions: Sequence[Mapping[str, Any]]
) -> Summary:
    """The summary of an episode. Raises DataError for lines that are not one."""
    trajectory = recorded_of_old(file, key, row, actions).trajectory
    outcome, task = trajectory.outcome, trajectory.task
    segment, rows = 0, []
    for step, action in enumerate(trajectory.actions):
        rows.append(summarised(action, step, segment))
        segment += action.last_turn
    return Summary(
        file,
        key,
        trajectory.env_id,
        task.id,
        task.topic,
        task.family,
        trajectory.seed,
        None if outcome is None else outcome.success,
        None if outcome is None else outcome.score,
        "" if outcome is None else outcome.status,
        {},
        tuple(rows),
    )


def recorded_of_old(
    file: str, key: str, row: Mapping[str, Any], actions: Sequence[Mapping[str, Any]]
) -> Recorded:
    """The episode of these lines. Raises DataError for lines that are not one."""
    attribution = row.get("attribution")
    if isinstance(attribution, dict) and "shares" in attribution:
        raise DataError(
            f"{file} has an attribution with 'shares', now called 'fractions': read the file with the "
            "version that wrote it."
        )
    try:
        outcome = row["outcome"]
        if outcome is not None:  # that version wrote NaN as null
            metrics = {name: math.nan if v is None else v for name, v in outcome["metrics"].items()}
            outcome = Outcome(**{**outcome, "metrics": metrics})
        trajectory = Trajectory(
            env_id=row["env_id"],
            task=Task(**row["task"]),
            seed=row["seed"],
            actions=tuple(from_plain(ActionRecord, action["action"]) for action in actions),
            outcome=outcome,
            settings=row["settings"],
            attribution=None if attribution is None else from_plain(Attribution, attribution),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{file} has an episode that is not a trajectory: {error!r}") from None
    return Recorded(key, trajectory)
