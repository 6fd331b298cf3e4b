"""What a process that records tells the one that writes, and what it hears: MessagePack by msgspec.

An episode costs its sender a tenth of what its lines do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mappa_env.json_and_yaml import read_json
from mappa_env.trace.encoding import TASK, sizes
from mappa_env.trace.jsonlines import from_plain, record_to_json
from mappa_env.types import ActionRecord, Attribution, Outcome, Task, Timing, Trajectory
from mappa_env.types.revised import revised


class Open(msgspec.Struct, tag=0, array_like=True):
    """A store begins: the arguments of ``Appender``, JSON as bytes, names as the system has them.

    ``environment``: where its secrets are. Answered, as all that has an ``ask``.
    """

    ask: int
    store: int
    path: bytes
    card: bytes
    about: bytes
    environment: dict[bytes, bytes]


class Episode(msgspec.Struct, tag=1, array_like=True):
    """An episode of a store. ``sizes``: those of its task's files.

    ``record``: MessagePack of ``_Record``, or JSON of a ``Trajectory`` that MessagePack cannot hold.
    """

    store: int
    sizes: dict[str, int]
    record: bytes
    is_json: bool


class Close(msgspec.Struct, tag=2, array_like=True):
    """A store ends."""

    ask: int
    store: int


class Settle(msgspec.Struct, tag=3, array_like=True):
    """Answered when all before it is done."""

    ask: int


class Failed(msgspec.Struct, tag=4, array_like=True):
    """Something that a store was to do could not be done.

    ``code`` (0: unknown) and ``path`` (empty: none) are those of an OSError; None: it was none.
    """

    store: int
    code: int | None
    reason: str
    path: str


class Done(msgspec.Struct, tag=5, array_like=True):
    """The answer to ``ask``, after any ``Failed``."""

    ask: int


LAST = -1
"""What is ``Done`` when all is, and the process ends."""

Request = Open | Episode | Close | Settle
Answer = Failed | Done


class _Record(msgspec.Struct, array_like=True):
    """The fields of ``Trajectory``, and of its task those in ``TASK``."""

    env_id: str
    task: dict[str, str]
    seed: int
    actions: tuple[ActionRecord, ...]
    outcome: Outcome | None
    settings: Mapping[str, Any]
    attribution: Attribution | None
    timings: tuple[Timing, ...]


_ENCODER = msgspec.msgpack.Encoder()
_REQUESTS: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_RECORDS: msgspec.msgpack.Decoder[_Record] = msgspec.msgpack.Decoder(_Record)
_ANSWERS: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


def encoded(message: Request | Answer) -> bytes:
    """A message as it is sent."""
    return _ENCODER.encode(message)


def request(data: bytes) -> Request:
    """What was sent to the process that writes. Raises ValueError."""
    return _REQUESTS.decode(data)


def answer(data: bytes) -> Answer:
    """What it said."""
    return _ANSWERS.decode(data)


def episode(store: int, trajectory: Trajectory) -> Episode:
    """A message with an episode, without truth and files. Raises what ``record_to_json`` does."""
    task = trajectory.task
    shown = {"prompt": task.prompt, **{name: getattr(task, name) for name in TASK}}
    record = _Record(
        trajectory.env_id,
        shown,
        trajectory.seed,
        trajectory.actions,
        trajectory.outcome,
        trajectory.settings,
        trajectory.attribution,
        trajectory.timings,
    )
    try:
        return Episode(store, sizes(task), _ENCODER.encode(record), False)
    except (TypeError, ValueError, OverflowError):  # lone surrogates, huge numbers, other libraries' types
        bare = revised(trajectory, task=Task(**shown))
        return Episode(store, sizes(task), record_to_json(Trajectory, bare), True)


def trajectory_in(message: Episode) -> Trajectory:
    """The episode. Raises ValueError if it is none."""
    if message.is_json:
        found: Trajectory = from_plain(Trajectory, read_json(message.record))
        return found
    record = _RECORDS.decode(message.record)
    return Trajectory(
        record.env_id,
        Task(**record.task),  # type: ignore[arg-type]
        record.seed,
        record.actions,
        record.outcome,
        record.settings,
        record.attribution,
        record.timings,
    )
