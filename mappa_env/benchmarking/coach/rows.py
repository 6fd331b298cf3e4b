"""Results of single cases, written to a file with one JSON object per line."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mappa_env.coach.blame.attribution import attribute
from mappa_env.coach.culprit import culprit, culprit_step
from mappa_env.episode.episode import Episode
from mappa_env.errors import OptionError
from mappa_env.json_and_yaml import read_json
from mappa_env.types import ActionRecord, Verdict

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Judged:
    """One action and the coach's verdict. ``ran``: status of its run (None: no code).

    ``usage``: calls, tokens, dollars and seconds of a language model; ``again``: scores of repeated verdicts
    on the same evidence, None without a score.
    """

    agent: str
    turn: int
    ran: str | None
    status: str
    score: float | None
    usage: Mapping[str, float | None] | None = None
    again: tuple[float | None, ...] = ()
    again_usage: tuple[Mapping[str, float | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Play:
    """One judged episode. ``agent`` and ``step``: the culprit by the coach's verdicts.

    ``traced``: the step that backward tracing blames without a coach.
    """

    success: bool
    outcome: float
    agent: str | None
    step: int | None
    traced: int | None
    actions: tuple[Judged, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One case. ``discarded``: the reason why it does not count and has no plays (empty: it counts)."""

    key: str
    task: str
    seed: int
    layout: str
    agent: str
    turn: int
    step: int
    fault: str
    kind: str
    source: str
    discarded: str = ""
    faulty: Play | None = None
    clean: Play | None = None


def judged(action: ActionRecord, again: Sequence[Verdict] = ()) -> Judged:
    """The verdict on ``action``, and repeated verdicts ``again`` on the same evidence."""
    return Judged(
        action.agent,
        action.turn,
        None if action.tool is None else action.tool.status,
        action.verdict.status,
        _valid(action.verdict),
        usage_of(action.verdict),
        tuple(_valid(verdict) for verdict in again),
        tuple(usage for verdict in again if (usage := usage_of(verdict)) is not None),
    )


def played(episode: Episode, again: Sequence[Sequence[Verdict]] = ()) -> Play:
    """The record of a finished episode. ``again``: repeated verdicts on each action."""
    actions, outcome = episode.actions, episode.outcome
    assert outcome is not None
    repeats = again or [()] * len(actions)
    rows = tuple(judged(action, more) for action, more in zip(actions, repeats, strict=True))
    step = culprit_step(actions, episode.card.team)
    traced = None if outcome.success else attribute(episode.trajectory, episode.card).culprit
    return Play(outcome.success, outcome.score, culprit(actions), step, traced, rows)


def usage_of(verdict: Verdict) -> dict[str, float | None] | None:
    """The cost of a verdict; None if no model was asked."""
    asked = verdict.asked
    if asked is None:
        return None
    return {
        "calls": asked.calls,
        "prompt": asked.prompt,
        "cached": asked.cached,
        "output": asked.output,
        "thoughts": asked.thoughts,
        "dollars": asked.cost,
        "seconds": asked.latency_s,
    }


def _valid(verdict: Verdict) -> float | None:
    """The score of an ok verdict; else None."""
    return verdict.score if verdict.status == "ok" else None


class RowFile:
    """The finished rows of a run, which a resumed run reads again.

    Raises OptionError for a file of another run, or another kind of file.
    """

    def __init__(self, path: Path | None, identity: Mapping[str, Any]) -> None:
        self.rows: dict[str, Row] = {}
        self._path, self._lock = path, threading.Lock()
        if path is None:
            return
        head = json.dumps({"format": FORMAT, **identity}, sort_keys=True)
        if path.is_file() and path.stat().st_size:
            self._read(path, head)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(head + "\n", encoding="utf-8")

    def add(self, row: Row) -> None:
        """Add ``row`` and append it to the file. Thread-safe."""
        with self._lock:
            self.rows[row.key] = row
            if self._path is not None:
                with self._path.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(dataclasses.asdict(row)) + "\n")

    def _read(self, path: Path, head: str) -> None:
        text = path.read_text(encoding="utf-8", errors="replace")
        whole = text[: text.rfind("\n") + 1]  # a killed run may leave an incomplete line
        first, *lines = whole.split("\n")[:-1] or [""]
        if first != head:
            raise OptionError(
                f"--out {path} belongs to another run, {first[:400]}; this run is {head}. Use another file."
            )
        try:
            for line in lines:
                row = _row(read_json(line))
                self.rows[row.key] = row
        except (ValueError, TypeError, KeyError) as error:
            raise OptionError(f"--out {path} cannot be read: {type(error).__name__}: {error}") from None
        if whole != text:
            path.write_text(whole, encoding="utf-8")


def _row(found: dict[str, Any]) -> Row:
    return Row(**{**found, "faulty": _play(found["faulty"]), "clean": _play(found["clean"])})


def _play(found: dict[str, Any] | None) -> Play | None:
    if found is None:
        return None
    actions = tuple(
        Judged(**{**a, "again": tuple(a["again"]), "again_usage": tuple(a["again_usage"])})
        for a in found["actions"]
    )
    return Play(**{**found, "actions": actions})
