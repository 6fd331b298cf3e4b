"""A training step's episodes in a file: what was sampled, with which log-probs, and what it was paid.

``<folder>/rollouts/step-000001.jsonl.gz`` is lines of JSON: a head with format, step and counts, then one
``Rollout`` a line, then one ``Turn`` a line for each corrected action that is imitated. Numbers come back
bit for bit. Reading runs no code of the file's, and checks all of it.
"""

from __future__ import annotations

import gzip
import io
import math
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import to_json

from mappa_rl.errors import RunError
from mappa_rl.types import Rollout, Turn

FOLDER = "rollouts"
VERSION = 1
_NAME = re.compile(r"step-(\d{6,})\.jsonl\.gz")
_STRICT = ConfigDict(extra="forbid", strict=True)
_ROLLOUT: TypeAdapter[list[Rollout]] = TypeAdapter(list[Rollout], config=_STRICT)
_TURN: TypeAdapter[list[Turn]] = TypeAdapter(list[Turn], config=_STRICT)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Recorded:
    """One step: its episodes as they were trained on, and its corrected actions as turns.

    ``tokens``: those sampled, also in actions that are not in the episodes any more.
    """

    step: int
    rollouts: Sequence[Rollout]
    corrected: Sequence[Turn] = ()
    tokens: int = 0


class _Head(BaseModel):
    model_config = _STRICT

    format: Literal["mappa-rollouts"] = "mappa-rollouts"
    version: int = VERSION
    step: int = Field(ge=1)
    episodes: int = Field(ge=0)
    corrected: int = Field(ge=0)
    tokens: int = Field(ge=0)


def write_step(out: Path, recorded: Recorded) -> Path:
    """Write a step into ``out/rollouts``, all or nothing; the same step again replaces it."""
    path = out / FOLDER / f"step-{recorded.step:06d}.jsonl.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    head = _Head(
        step=recorded.step, episodes=len(recorded.rollouts), corrected=len(recorded.corrected),
        tokens=recorded.tokens,
    )  # fmt: skip
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as file:  # no time: equal steps, equal files
        for row in (head, *recorded.rollouts, *recorded.corrected):
            file.write(to_json(row, inf_nan_mode="constants") + b"\n")
    draft = path.with_name(path.name + ".new")
    with draft.open("wb") as file:
        file.write(packed.getvalue())
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    return path


def read_step(path: Path) -> Recorded:
    """Read a step back. Raises RunError for a file that is damaged, or of another version or kind."""
    try:
        lines = gzip.decompress(path.read_bytes()).split(b"\n")[:-1]
    except (OSError, EOFError, zlib.error) as error:
        raise RunError(f"{path} cannot be read ({error}): it is damaged, or no gzip file.") from None
    try:
        head = _Head.model_validate_json(lines[0] if lines else b"")
    except ValidationError as error:
        raise RunError(f"{path} holds no recorded rollouts: {_first(error)}") from None
    if head.version != VERSION:
        raise RunError(f"{path} has version {head.version} of the format; this package reads {VERSION}.")
    if len(lines) != 1 + head.episodes + head.corrected:
        raise RunError(
            f"{path} has {len(lines) - 1} lines after its head, which counts {head.episodes} episodes and "
            f"{head.corrected} corrected actions: it is damaged."
        )
    middle = 1 + head.episodes
    rollouts = list(_read(_ROLLOUT, lines[1:middle], path, 2))
    corrected = list(_read(_TURN, lines[middle:], path, middle + 1))
    for number, turns in enumerate((*(r.turns for r in rollouts), *((t,) for t in corrected)), start=2):
        for turn in turns:
            wrong = _wrong(turn)
            if wrong:
                raise RunError(f"{path}, line {number}, action {turn.step} of {turn.agent}: {wrong}.")
    return Recorded(head.step, rollouts, corrected, head.tokens)


def recorded_steps(folder: Path) -> list[Path]:
    """Files of steps 1, 2, ... in ``folder`` or ``folder/rollouts``. Raises RunError for none, or a gap."""
    for inside in (folder / FOLDER, folder):
        named = {int(found[1]): path for path in inside.glob("*") if (found := _NAME.fullmatch(path.name))}
        if named:
            lacking = sorted(set(range(1, max(named) + 1)) - set(named))
            if lacking:
                raise RunError(f"{inside} lacks step {lacking[0]}: steps are trained on in order, from 1.")
            return [named[step] for step in sorted(named)]
    raise RunError(
        f"{folder} holds no recorded rollouts: train with run.record_rollouts=true, or use "
        "`mappa-rl generate`."
    )


def _read(adapter: TypeAdapter[list[_T]], lines: Iterable[bytes], path: Path, first: int) -> Iterator[_T]:
    for number, line in enumerate(lines, start=first):
        try:
            yield adapter.validate_json(b"[" + line + b"]")[0]
        except ValidationError as error:
            raise RunError(f"{path}, line {number}: {_first(error)}") from None


def _first(error: ValidationError) -> str:
    """The first thing that is wrong, where, and how many more there are."""
    wrong = error.errors(include_url=False, include_input=False)
    where = ".".join(str(part) for part in wrong[0]["loc"]).removeprefix("0.")  # of a list with one row
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    return f"{where}: {wrong[0]['msg']}{more}".removeprefix(": ")


def _wrong(turn: Turn) -> str:
    """What a turn cannot be; empty for a sound one."""
    if not turn.context_ids or not turn.action_ids:
        return "its context or its action is empty"
    if min(*turn.context_ids, *turn.action_ids) < 0:
        return "a token id is negative"
    if len(turn.logprobs) != len(turn.action_ids):
        return f"{len(turn.logprobs)} log-probs for {len(turn.action_ids)} ids"
    if not all(math.isfinite(value) and value <= 0 for value in turn.logprobs):
        return "a log-prob is not finite, or above 0"
    if turn.valid and not math.isfinite(turn.reward):
        return f"its reward {turn.reward} is not finite"
    return ""
