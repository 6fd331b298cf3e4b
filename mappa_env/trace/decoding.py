"""Whole episodes from the lines that a scan found."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mappa_env.errors import DataError
from mappa_env.trace.jsonlines import from_plain
from mappa_env.trace.recorded import Learned, Recorded, said
from mappa_env.trace.scanning import Found, Lines, Place, Scan, json_line
from mappa_env.trace.version1 import recorded_of_old
from mappa_env.types import ActionRecord, Message, Task, Timing, Trajectory
from mappa_env.types.revised import revised


def decoded(data: Lines, scan: Scan, key: str) -> Recorded:
    """The episode ``key`` of ``scan``. Raises DataError for lines that hold something else."""
    found = scan.episodes[key]
    assert found.end is not None
    try:
        if found.version == 1:
            rows = [_object(data, place) for place in found.actions]
            return recorded_of_old(scan.file, key, _object(data, found.end), rows)
        return _Decoding(data, scan).episode(key, found)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{scan.file}, episode {key}, is damaged: {error!r}") from None


class _Decoding:
    def __init__(self, data: Lines, scan: Scan) -> None:
        self._data, self._scan = data, scan

    def episode(self, key: str, found: Found) -> Recorded:
        assert found.end is not None
        end = _object(self._data, found.end)
        actions: list[ActionRecord] = []
        timings: list[Timing] = []
        for place in found.actions:
            row = _object(self._data, place)
            actions.append(self._action(row, actions))
            if "timing" in row:
                timings.append(from_plain(Timing, row["timing"]))
        episode = {**end["episode"], "task": self._task(end["task"]), "actions": ()}
        trajectory: Trajectory = from_plain(Trajectory, episode)
        card = end.get("card")
        return Recorded(
            key,
            revised(trajectory, actions=tuple(actions), timings=tuple(timings)),
            end.get("about") or {},
            {} if card is None else self._shared(card)["card"],
            end["task"].get("files", {}),
            self._learned(found.learned, found.tokens),
        )

    def _action(self, row: Mapping[str, Any], earlier: Sequence[ActionRecord]) -> ActionRecord:
        messages = row["messages"]
        known: tuple[Message, ...] = ()
        if "after" in messages:
            before = earlier[messages["after"]]
            known = (*before.messages, said(before))
        new = tuple(self._message(message) for message in messages["new"])
        action: ActionRecord = from_plain(ActionRecord, {**row["action"], "messages": (*known, *new)})
        return action

    def _message(self, message: dict[str, str]) -> Message:
        if "text" not in message or "content" in message:
            return message
        return {"role": message["role"], "content": self._shared(message["text"])["text"]}

    def _task(self, task: Mapping[str, Any]) -> Task:
        kept = {name: value for name, value in task.items() if name not in ("text", "files")}
        if "text" in task:
            kept["prompt"] = self._shared(task["text"])["text"]
        return Task(**kept)

    def _shared(self, name: str) -> dict[str, Any]:
        place = self._scan.texts.get(name.encode())
        if place is None:
            raise ValueError(f"the text {name} that it refers to is missing")
        return _object(self._data, place)

    def _learned(self, places: Sequence[Place], tokens: Sequence[Place]) -> dict[int, Learned]:
        """The newest report on every action."""
        sequences: dict[int, tuple[Any, ...]] = {}
        for place in tokens:
            wholes: list[tuple[int, ...]] = []
            for step, (row, new), ids, logprobs in _object(self._data, place)["actions"]:
                context = (*(wholes[row] if row >= 0 else ()), *new)
                wholes.append((*context, *ids))
                sequences[step] = (context, tuple(ids), tuple(logprobs))
        found = {}
        for place in places:
            for row in _object(self._data, place)["actions"]:
                found[row[0]] = Learned(*row[:8], *sequences.get(row[0], ()))
        return found


def _object(data: Lines, place: Place) -> dict[str, Any]:
    found = json_line(data, place)
    if found is None:
        raise ValueError(f"line {json.dumps(data[place[0] : place[0] + 60].decode('utf-8', 'replace'))}")
    return found
