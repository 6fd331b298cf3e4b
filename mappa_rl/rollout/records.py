"""A training step's episodes in a file: tokens, log-probs and rewards.

``<folder>/rollouts/step-000001.jsonl.gz`` is JSON lines: a header with format, step and counts, then one
``Rollout`` per line, then one ``Turn`` per line for each corrected action. Numbers round-trip bit for bit.
Reading executes nothing from the file, and validates all of it.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import to_json

from mappa_rl.atomic import write_bytes
from mappa_rl.errors import RunError
from mappa_rl.learner.samples import invalid
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

    ``tokens``: number of sampled tokens, including those of actions that the episodes no longer contain.
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
    """Write a step into ``out/rollouts`` atomically; replaces the same step of an earlier write."""
    path = out / FOLDER / f"step-{recorded.step:06d}.jsonl.gz"
    head = _Head(
        step=recorded.step,
        episodes=len(recorded.rollouts),
        corrected=len(recorded.corrected),
        tokens=recorded.tokens,
    )
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as file:  # no time: equal steps, equal files
        for row in (head, *recorded.rollouts, *recorded.corrected):
            file.write(to_json(row, inf_nan_mode="constants") + b"\n")
    write_bytes(path, packed.getvalue())
    return path


def read_step(path: Path) -> Recorded:
    """Read a step. Raises RunError if the file is damaged, or has another version or format."""
    try:
        lines = gzip.decompress(path.read_bytes()).split(b"\n")[:-1]
    except (OSError, EOFError, zlib.error) as error:
        raise RunError(f"{path} cannot be read ({error}): it is damaged or not a gzip file.") from None
    try:
        head = _Head.model_validate_json(lines[0] if lines else b"")
    except ValidationError as error:
        raise RunError(f"{path} does not contain recorded rollouts: {_first(error)}") from None
    if head.version != VERSION:
        raise RunError(f"{path} has version {head.version} of the format; this package reads {VERSION}.")
    if len(lines) != 1 + head.episodes + head.corrected:
        raise RunError(
            f"{path} is damaged: it has {len(lines) - 1} lines after its header, which announces "
            f"{head.episodes} episodes and {head.corrected} corrected actions."
        )
    middle = 1 + head.episodes
    rollouts = list(_read(_ROLLOUT, lines[1:middle], path, 2))
    corrected = list(_read(_TURN, lines[middle:], path, middle + 1))
    for number, turns in enumerate((*(r.turns for r in rollouts), *((t,) for t in corrected)), start=2):
        for turn in turns:
            if wrong := invalid(turn):
                raise RunError(f"{path}, line {number}, action {turn.step} of {turn.agent}: {wrong}.")
    return Recorded(head.step, rollouts, corrected, head.tokens)


def recorded_steps(folder: Path) -> list[Path]:
    """Files of steps 1, 2, ... in ``folder/rollouts`` or ``folder``. Raises RunError if one is missing."""
    for inside in (folder / FOLDER, folder):
        named = {int(found[1]): path for path in inside.glob("*") if (found := _NAME.fullmatch(path.name))}
        if named:
            missing = sorted(set(range(1, max(named) + 1)) - set(named))
            if missing:
                raise RunError(f"{inside}: step {missing[0]} is missing; a replay needs every step, from 1.")
            return [named[step] for step in sorted(named)]
    raise RunError(
        f"{folder} has no recorded rollouts. Train with run.record_rollouts=true, or use `mappa-rl generate`."
    )


def _read(adapter: TypeAdapter[list[_T]], lines: Iterable[bytes], path: Path, first: int) -> Iterator[_T]:
    for number, line in enumerate(lines, start=first):
        try:
            yield adapter.validate_json(b"[" + line + b"]")[0]
        except ValidationError as error:
            raise RunError(f"{path}, line {number}: {_first(error)}") from None


def _first(error: ValidationError) -> str:
    """The first validation error with its place, and the number of further ones."""
    wrong = error.errors(include_url=False, include_input=False)
    where = ".".join(str(part) for part in wrong[0]["loc"]).removeprefix("0.")  # of a list with one row
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    return f"{where}: {wrong[0]['msg']}{more}".removeprefix(": ")
