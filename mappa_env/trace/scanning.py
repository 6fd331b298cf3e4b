"""Finds the episodes in a run of lines, without reading more of them than a list needs."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mappa_env.errors import DataError
from mappa_env.trace.jsonlines import VERSION
from mappa_env.trace.recorded import ActionSummary, Summary
from mappa_env.trace.version1 import summary_of_old
from mappa_env.types import Task
from mappa_env.types.revised import revised

_HEAD = re.compile(rb'\{"v":(\d{1,9}),"kind":"(\w{1,20})",(?:"(?:key|id)":"([\w.-]{1,80})")?')
REFERENCE = re.compile(rb'"(?:text|card)":"([0-9a-f]{32})"')
"""Where a line refers to a text or a card. Quotes in JSON text are escaped, so no text looks like this."""
Place = tuple[int, int]
"""Where a line begins and ends."""


class Lines(Protocol):
    """What holds the lines: ``bytes``, or a mapped file."""

    def __getitem__(self, where: slice, /) -> bytes: ...

    def find(self, sub: bytes, start: int = 0, end: int = ..., /) -> int:
        """As ``bytes.find``."""
        ...

    def rfind(self, sub: bytes, start: int = 0, end: int = ..., /) -> int:
        """As ``bytes.rfind``."""
        ...

    def __len__(self) -> int: ...


@dataclass(slots=True)
class Found:
    """The lines of one episode; ``version`` of its lines. ``summary`` is None until it is complete."""

    version: int = VERSION
    actions: list[Place] = field(default_factory=list)
    end: Place | None = None
    learned: list[Place] = field(default_factory=list)
    tokens: list[Place] = field(default_factory=list)
    summary: Summary | None = None

    @property
    def lines(self) -> list[Place]:
        """All of them, in the order in which they are written."""
        end = [] if self.end is None else [self.end]
        return [*self.actions, *end, *self.learned, *self.tokens]


class Scan:
    """The episodes, texts and cards in lines. ``file`` names their source in summaries and messages."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.episodes: dict[str, Found] = {}
        self.texts: dict[bytes, Place] = {}
        """Texts and cards by id."""
        self.recognised = False
        """Whether any line is one of a trace."""
        self._old: list[Place] = []
        self._old_count = 0

    @property
    def complete(self) -> Iterator[tuple[str, Found]]:
        """The keys and lines of episodes that have ended, in the order in which they did."""
        return ((key, found) for key, found in self.episodes.items() if found.summary is not None)

    def read(self, data: Lines, start: int) -> int:
        """Take in the lines from ``start`` on; returns the position after the last whole one.

        Lines that a crash cut short lose only their own episode. Raises DataError for lines of another
        version or another format.
        """
        while (end := data.find(b"\n", start)) >= 0:
            self._line(data, (start, end))
            start = end + 1
        return start

    def _line(self, data: Lines, place: Place) -> None:
        start, end = place
        match = _HEAD.match(data[start : min(start + 160, end)])
        if match is None or data[end - 1 : end] != b"}" or int(match[1]) == 1:
            self._other(data, place)
            return
        version, kind, name = int(match[1]), match[2], match[3]
        if version != VERSION:
            raise self._newer(version)
        self.recognised = True
        if name is None:
            return
        if kind in (b"text", b"card"):
            known = self.texts.get(name, (0, 0))
            if end - start > known[1] - known[0]:  # a crash may have cut one short: the whole one is longer
                self.texts[name] = place
            return
        key = name.decode()
        if kind == b"episode":
            self._close(key, json_line(data, place), place)
            return
        episode = self.episodes.setdefault(key, Found())
        if kind == b"action":
            episode.actions.append(place)
        elif kind == b"tokens":
            episode.tokens.append(place)
        elif kind == b"learned":
            row = json_line(data, place)
            if row is not None:
                episode.learned.append(place)
                self._learn(episode, row)

    def _close(self, key: str, row: dict[str, Any] | None, place: Place) -> None:
        """The episode of these actions is complete; one whose lines are not all there is left out."""
        episode = self.episodes.pop(key, Found())  # its place in the order is that of its end
        if row is None:
            return
        try:
            if len(row["rows"]) != len(episode.actions):
                return
            episode.summary = summary_of(self.file, key, row)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"{self.file} has an episode that is not one: {error!r}") from None
        episode.end = place
        self.episodes[key] = episode

    def _learn(self, episode: Found, row: dict[str, Any]) -> None:
        if episode.summary is None:
            return
        try:
            made = {int(each[0]): (number(each[5]), number(each[6])) for each in row["actions"]}
        except (LookupError, TypeError, ValueError) as error:
            raise DataError(f"{self.file} has a line of a learner that is none: {error!r}") from None
        actions = tuple(
            action._replace(returned=made[action.step][0], advantage=made[action.step][1])
            if action.step in made
            else action
            for action in episode.summary.actions
        )
        episode.summary = revised(episode.summary, actions=actions)

    # -- lines of version 1, and what is not a line at all --------------------------------------------------

    def _other(self, data: Lines, place: Place) -> None:
        """A line that does not begin like those of this version: version 1 wrote its own, in one block."""
        row = json_line(data, place)
        if row is None or "v" not in row or "kind" not in row:
            self._old = []
            return
        if row["v"] == VERSION:
            raise DataError(
                f"{self.file}, byte {place[0]}, is a line of version {VERSION} in another layout, as if a "
                "program had written the file once more: use the original."
            )
        if row["v"] != 1:
            raise self._newer(row["v"])
        self.recognised = True
        if row["kind"] == "action":
            self._old.append(place)
            return
        actions, self._old = self._old, []
        count = row.get("actions")
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise DataError(f"{self.file}, byte {place[0]}, is not a trajectory: its actions are {count!r}.")
        mine = actions[len(actions) - count :]
        if len(mine) != count:
            return
        digest = hashlib.sha256(data[place[0] : place[1]]).hexdigest()[:8]
        key = f"old-{digest}-{self._old_count}"  # other files have their own: exports name episodes by keys
        self._old_count += 1
        summary = summary_of_old(self.file, key, row, [json_line(data, each) or {} for each in mine])
        self.episodes[key] = Found(1, mine, place, summary=summary)

    def _newer(self, version: Any) -> DataError:
        return DataError(
            f"{self.file} has lines of version {version!r}, but this version of mappa reads {VERSION} and 1: "
            "update mappa."
        )


def json_line(data: Lines, place: Place) -> dict[str, Any] | None:
    """The object in a line; None if it is none."""
    try:
        row = json.loads(data[place[0] : place[1]])
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def summary_of(file: str, key: str, row: Mapping[str, Any]) -> Summary:
    """The summary in the closing line of an episode."""
    task, episode = row["task"], row["episode"]
    outcome = episode.get("outcome") or {}
    return Summary(
        file,
        key,
        episode["env_id"],
        task["id"],
        task.get("topic", ""),
        Task(task["id"], "", task.get("metric", "")).family,
        episode["seed"],
        outcome.get("success"),
        outcome.get("score"),
        outcome.get("status", ""),
        dict(row.get("about") or {}),
        tuple(action_of([step, *action[:9]]) for step, action in enumerate(row["rows"])),
    )


def action_of(row: Sequence[Any]) -> ActionSummary:
    """The summary of these fields; the last two may be missing. Raises TypeError, ValueError."""
    step, agent, turn, segment, verdict, score, reward, valid, tool, stratum, *learned = row
    texts = (agent, verdict, tool, *stratum[:2])
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"an action of {row!r:.200}")
    numbers = map(number, (score, reward, *learned))
    return ActionSummary(
        step,
        agent,
        turn,
        segment,
        verdict,
        next(numbers),
        next(numbers),
        valid,
        tool,
        tuple(stratum),
        *numbers,
    )


def number(value: Any) -> Any:
    """``value``, if it is a number or None. Raises TypeError."""
    if value is None or isinstance(value, (int, float)):
        return value
    raise TypeError(f"{value!r:.80} in place of a number")
