"""Every field of every record comes back from a trace, plain or packed, whatever is in it."""

from __future__ import annotations

import dataclasses
import math
import tempfile
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mappa_env.trace import Learned, TraceFile, TraceStore
from mappa_env.trace.appending import Appender
from mappa_env.trace.writer.client import SHARED, Writer
from mappa_env.types import ActionRecord, Task, Timing, Trajectory

SPECIAL = ["\ud800", '{"text":"x"}', "\x00\x1b[31m", "a" * 600]
TEXTS = st.one_of(st.text(max_size=20), st.sampled_from(SPECIAL))
FLOATS = st.one_of(st.floats(), st.sampled_from([0.1, -0.0, math.inf]))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**60), 2**60), FLOATS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(TEXTS, inner, max_size=2)),
    max_leaves=4,
)
MESSAGES = st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": TEXTS})


@pytest.fixture(scope="module", autouse=True)
def _writer() -> Writer:
    """One process writes for all examples."""
    return SHARED.get()


def any_of(kind: Any) -> st.SearchStrategy[Any]:
    """A strategy for the type of a field, so that new fields of the records are covered by themselves."""
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return st.builds(
            kind, **{field.name: any_of(hints[field.name]) for field in dataclasses.fields(kind)}
        )
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if kind == dict[str, str]:
        return MESSAGES
    if kind is Any:
        return JSON
    if origin is tuple and inside[-1] is Ellipsis:
        return st.lists(any_of(inside[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*map(any_of, inside))
    if origin is typing.Literal:
        return st.sampled_from(inside)
    if origin is not None and issubclass_of(origin, "Mapping"):
        return st.dictionaries(any_of(inside[0]), any_of(inside[1]), max_size=2)
    if inside:  # a union
        return st.one_of(*map(any_of, inside))
    return {
        str: TEXTS,
        int: st.integers(0, 2**62),
        float: FLOATS,
        bool: st.booleans(),
        type(None): st.none(),
    }[kind]


def issubclass_of(kind: Any, name: str) -> bool:
    return any(base.__name__ == name for base in getattr(kind, "__mro__", ()))


def shown(record: Any) -> str:
    """What is equal reads the same: NaN differs from itself, and a mapping has no order."""
    if dataclasses.is_dataclass(record):
        record = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    if isinstance(record, Mapping):
        return repr(sorted((repr(name), shown(value)) for name, value in record.items()))
    if isinstance(record, list | tuple):
        return f"{type(record).__name__}{[shown(value) for value in record]}"
    return repr(record)


def trajectories() -> st.SearchStrategy[Trajectory]:
    hints = typing.get_type_hints(Trajectory)
    own = {"task", "actions", "timings"}
    rest = {f.name: any_of(hints[f.name]) for f in dataclasses.fields(Trajectory) if f.name not in own}
    task = st.builds(Task, id=TEXTS, prompt=TEXTS, metric=TEXTS, compact=TEXTS, topic=TEXTS, split=TEXTS)
    actions = st.lists(any_of(ActionRecord), max_size=3).map(tuple)
    timings = st.lists(any_of(Timing), max_size=3).map(tuple)
    return st.builds(Trajectory, task=task, actions=actions, timings=timings, **rest)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(trajectories(), st.booleans())
def test_every_field_survives(trajectory: Trajectory, packed: bool) -> None:
    timings = trajectory.timings[: len(trajectory.actions)]
    trajectory = dataclasses.replace(trajectory, timings=timings)
    with tempfile.TemporaryDirectory() as folder:
        store = TraceStore(Path(folder) / "t.jsonl", packs=packed)
        store.append(trajectory)
        store.close()
        (found,) = TraceFile(store.path)
    assert shown(found.trajectory) == shown(trajectory)
    assert repr(found.trajectory.timings) == repr(timings)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(any_of(Learned), max_size=4, unique_by=lambda made: made.step))
def test_what_was_learned_survives(made: list[Learned]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        writer = Appender(Path(folder) / "t.jsonl.gz")
        key = writer.append(Trajectory("E-v0", Task("t", "", "m"), 1, (), None))
        writer.learned(key, made)
        writer.close()
        (found,) = TraceFile(writer.path)
    assert shown(dict(found.learned)) == shown({each.step: each for each in made})
