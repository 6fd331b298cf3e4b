"""Episodes as short rows: a list of ten thousand must reach the browser at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from mappa_env.trace import Summary
from mappa_env.viewer.plain import plain


def rows_of(numbered: Iterable[tuple[int, Summary]]) -> dict[str, Any]:
    """``names``, and one row per episode, in which a string is a position in ``names``.

    A row: number, file, key, environment, task, topic, family, seed, success, score, status, phase, step,
    actions.
    An action: agent, turn, segment, verdict's status, valid score, reward, whether it is valid, status of
    code and calls, stratum, return, advantage. A seed is a string, because a browser's numbers are too coarse
    for it. ``viewer/src/rows.ts`` reads them.
    """
    places: dict[str, int] = {}

    def name(text: str) -> int:
        return places.setdefault(text, len(places))

    rows = []
    for number, summary in numbered:
        actions = [
            [
                name(action.agent),
                action.turn,
                action.segment,
                name(action.verdict),
                plain(action.valid_score),
                plain(action.reward),
                action.valid,
                name(action.tool),
                name("/".join(map(str, action.stratum))),
                plain(action.returned),
                plain(action.advantage),
            ]
            for action in summary.actions
        ]
        phase, step = stage(summary.file, summary.about)
        rows.append(
            [
                number,
                name(summary.file),
                summary.key,
                name(summary.env_id),
                name(summary.task_id),
                name(summary.topic),
                name(summary.family),
                str(summary.seed),
                summary.success,
                plain(summary.score),
                name(summary.status),
                name(phase),
                step,
                actions,
            ]
        )
    return {"names": list(places), "rows": rows}


def stage(file: str, about: Mapping[str, Any]) -> tuple[str, int | None]:
    """The phase of a run and the training step of an episode, as its writer says.

    Without a word of the writer the phase is the name of the file, and there is no step.
    """
    phase, step = about.get("phase"), about.get("step")
    return (
        phase if isinstance(phase, str) else PurePosixPath(file).name.split(".")[0],
        step if isinstance(step, int) and not isinstance(step, bool) else None,
    )
