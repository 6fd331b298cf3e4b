"""The episodes of an evaluation on disk: one JSON line each, written when it is over."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mappa_env.errors import DataError
from mappa_env.evaluation.plan import Job
from mappa_env.json_and_yaml import check_amount, check_type, read_json
from mappa_env.types import Trajectory

FILE = "episodes.jsonl"
_KINDS: Mapping[str, tuple[type, ...]] = {
    "env": (str,),
    "task_id": (str,),
    "sample": (int,),
    "topic": (str,),
    "success": (bool,),
    "score": (int, float),
    "answer": (str, type(None)),
    "actions": (int,),
    "seconds": (int, float),
}
"""Field of an episode -> the types that JSON gives it."""
_VALUES: Mapping[str, tuple[type, ...]] = {
    "rewards": (int, float),
    "metrics": (int, float, bool),
    "flaws": (int,),
    "versions": (str,),
}
"""Field of an episode that is an object -> the types of its values."""
_AMOUNTS = ("sample", "actions", "seconds")


@dataclass(frozen=True, slots=True)
class Tokens:
    """What one agent's calls took. ``dollars`` is None if the price is unknown, or a call's tokens are.

    ``unknown``: answers whose tokens the server did not say.
    """

    calls: int = 0
    retries: int = 0
    prompt: int = 0
    cached: int = 0
    output: int = 0
    thoughts: int = 0
    dollars: float | None = None
    unknown: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        known = self.dollars is not None and other.dollars is not None
        return Tokens(
            self.calls + other.calls,
            self.retries + other.retries,
            self.prompt + other.prompt,
            self.cached + other.cached,
            self.output + other.output,
            self.thoughts + other.thoughts,
            (self.dollars or 0.0) + (other.dollars or 0.0) if known else None,
            self.unknown + other.unknown,
        )


@dataclass(frozen=True, slots=True)
class Played:
    """How one episode ended. ``score`` is the outcome's, in [0, 1].

    ``rewards``: agent -> sum of its valid rewards. ``flaws``: actions that were ``truncated``, ``refused`` or
    had no prompt that fits (``too_long``).
    ``versions``: agent -> the model that answered, by its server's name. ``seconds``: of wall time.
    ``content``: ``content_of`` the task; empty in episodes of earlier versions.
    """

    env: str
    task_id: str
    sample: int
    topic: str
    success: bool
    score: float
    answer: str | None
    actions: int
    rewards: Mapping[str, float]
    metrics: Mapping[str, float]
    tokens: Mapping[str, Tokens]
    flaws: Mapping[str, int]
    versions: Mapping[str, str]
    seconds: float
    content: str = ""

    @property
    def job(self) -> Job:
        """The job that it was."""
        return Job(self.env, self.task_id, self.sample)

    @classmethod
    def of(
        cls,
        job: Job,
        trajectory: Trajectory,
        answer: str | None,
        tokens: Mapping[str, Tokens],
        versions: Mapping[str, str],
        **more: Any,
    ) -> Played:
        """The episode of ``job`` that is over; ``more``: ``flaws``, ``seconds`` and ``content``."""
        outcome, rewards = trajectory.outcome, dict[str, float]()
        assert outcome is not None, "the episode is over"
        for action in trajectory.actions:
            if action.reward_valid:
                rewards[action.agent] = rewards.get(action.agent, 0.0) + action.reward
        return cls(
            env=job.env,
            task_id=job.task_id,
            sample=job.sample,
            topic=trajectory.task.topic or trajectory.task.family,
            success=outcome.success,
            score=outcome.score,
            answer=answer,
            actions=len(trajectory.actions),
            rewards=rewards,
            metrics=dict(outcome.metrics),
            tokens=tokens,
            versions=versions,
            **more,
        )


def append(folder: Path, played: Played) -> None:
    """Write one line at once, so that a crash can cut only the line that was being written."""
    append_line(folder / FILE, dataclasses.asdict(played))


def append_line(path: Path, row: Mapping[str, Any]) -> None:
    """Append ``row`` as one JSON line, in one write. Raises OSError if it cannot be written whole."""
    data = (json.dumps(row) + "\n").encode()
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        written = os.write(file, data)
    finally:
        os.close(file)
    if written != len(data):
        raise OSError(f"{path}: only {written} of {len(data)} bytes could be written.")


def whole_lines(path: Path, *, repair: bool = False) -> list[str]:
    """The lines without one at the end that a crash cut short; ``repair``: also remove that line.

    Only who holds the folder's lock may repair: the line may be another's that is being written.
    """
    if not path.exists():
        return []
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if repair and len(whole) < len(data):
        os.truncate(path, len(whole))
    return whole.decode("utf-8", "replace").splitlines()


def load(folder: Path, *, repair: bool = False) -> list[Played]:
    """The episodes so far, by ``whole_lines``.

    Raises DataError for lines that are no episodes, and for an episode that is there twice.
    """
    path = folder / FILE
    found = list(_parsed(whole_lines(path, repair=repair), path))
    first: dict[Job, int] = {}
    for number, each in enumerate(found, 1):
        if (before := first.setdefault(each.job, number)) != number:
            raise DataError(
                f"{path} line {number} is the episode of line {before} again (task {each.task_id}, sample "
                f"{each.sample}): remove one of the two lines."
            )
    return found


def run_of(played: Iterable[Played]) -> str:
    """A digest of the episodes, in any order. Their times tell a run from another with the same answers.

    What has its default is left out, so that a version that knows more of an episode finds the same.
    """
    lines = sorted(json.dumps(_stated(each), sort_keys=True) for each in played)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _stated(value: Any) -> Any:
    """The fields that do not have their defaults, as JSON."""
    if isinstance(value, (Played, Tokens)):
        fields = {each.name: (getattr(value, each.name), each.default) for each in dataclasses.fields(value)}
        return {name: _stated(own) for name, (own, default) in fields.items() if own != default}
    if isinstance(value, Mapping):
        return {name: _stated(each) for name, each in value.items()}
    return value


def tokens_of(row: Mapping[str, Mapping[str, Any]]) -> dict[str, Tokens]:
    """What an object says of each agent's tokens. Raises TypeError, ValueError, AttributeError."""
    found = {agent: Tokens(**each) for agent, each in row.items()}
    for each in found.values():
        for name, value in dataclasses.asdict(each).items():
            check_type(f"tokens.{name}", value, (int, float, type(None)) if name == "dollars" else (int,))
            check_amount(f"tokens.{name}", value)
    return found


def _played(row: dict[str, Any]) -> Played:
    """The episode in an object of a line. Raises TypeError, ValueError, KeyError, AttributeError."""
    for name, kinds in _KINDS.items():
        check_type(name, row[name], kinds)
    for name, kinds in _VALUES.items():
        for value in row[name].values():
            check_type(name, value, kinds)
    for name in _AMOUNTS:
        check_amount(name, row[name])
    check_type("content", row.get("content", ""), (str,))
    for value in row["flaws"].values():
        check_amount("flaws", value)
    if not 0 <= row["score"] <= 1:
        raise ValueError(f"score must be from 0 to 1, found {row['score']!r}")
    return Played(**row | {"tokens": tokens_of(row["tokens"])})


def _parsed(lines: Iterable[str], path: Path) -> Iterator[Played]:
    for number, line in enumerate(lines, 1):
        try:
            yield _played(read_json(line))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(
                f"{path} line {number} is no episode of an evaluation ({error}): remove the line, and the "
                "same command plays that episode again."
            ) from None
