"""Episodes as lines of a trace. ``docs/traces.md`` describes the format."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mappa_env.trace.jsonlines import head, record_to_json, to_json
from mappa_env.trace.recorded import Learned, continued, previous, summarised
from mappa_env.trace.secrets import Secrets
from mappa_env.types import ActionRecord, Message, Task, Timing, Trajectory

SHARED = 512
"""Characters from which a prompt is a line of its own, to which actions refer."""
REMEMBERED = 4096
"""Texts that an encoder knows to be in the file; when there are more, it forgets all."""
TASK = ("id", "metric", "compact", "topic", "split")
"""What is written of a task besides its prompt and the sizes of its files: never its truth."""
APART = {"task", "actions", "timings"}
"""Fields of a trajectory that have places of their own in its lines."""
_MESSAGES = {"messages"}
"""The same of an action."""
_TEXT, _CARD, _ACTION, _EPISODE = head("text"), head("card"), head("action"), head("episode")
_LEARNED, _TOKENS = head("learned"), head("tokens")


class Encoder:
    """Encodes episodes for one file, and remembers which texts the file has.

    ``writer`` begins the key of every episode. ``card``: see ``source.described``. ``about`` is repeated in
    every episode. ``environment`` has the secrets to hide; None: that of this process.
    """

    def __init__(
        self,
        writer: str,
        card: Mapping[str, Any] | None = None,
        about: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._writer = writer
        self._about = to_json(dict(about or {}))
        self._environment = os.environ if environment is None else environment
        self._secrets = Secrets(self._environment)
        self._card = None if card is None else self._secrets.hide(to_json(card))
        self._count = 0
        self._texts: dict[str, bytes] = {}
        self._censored: set[bytes] = set()
        """The ids of those that hold a secret."""
        self._withheld: set[str] = set()
        """The keys of episodes that hold one, so that their token ids spell it."""
        self._card_id = b"null" if self._card is None else b'"%b"' % _digest(self._card)
        self._card_known = False
        self._variable: str | None = None

    def episode(self, trajectory: Trajectory, files: Mapping[str, int] | None = None) -> tuple[str, bytes]:
        """The key of an episode, and its lines. ``files``: the sizes of its task's; None: it has them.

        Secrets are looked for once in all that is written: few episodes hold anything like one, and only
        their lines are written again, without it.
        """
        key = f"{self._writer}-{self._count}"
        self._count += 1
        self._know_variable(trajectory.settings)
        if files is None:
            files = sizes(trajectory.task)
        draft = _Draft(key, self._texts, None, self._card_id, self._about)
        lines = draft.lines(trajectory, files)
        if self._secrets.may_be_in(b"\n".join(draft.pieces)):
            draft = _Draft(key, self._texts, self._secrets, self._card_id, self._about)
            lines = draft.lines(trajectory, files)
        self._censored |= draft.censored
        if draft.hidden or not self._censored.isdisjoint(draft.used):
            self._withheld.add(key)
        if len(self._texts) >= REMEMBERED:
            self._texts = {}
        self._texts |= draft.new
        return key, b"".join((self._card_line(), *draft.shared, *lines))

    def learned(self, key: str, actions: Sequence[Learned]) -> bytes:
        """The lines that say what a learner made of the episode ``key``.

        Token ids spell what their text said, so those of an episode with a secret are left out.
        """
        rows = [
            [a.step, a.policy, a.version, a.reward, a.valid, a.returned, a.advantage, a.stopped]
            for a in actions
        ]
        spelled = () if key in self._withheld else actions
        tokens = [[a.step, a.context_ids, a.action_ids, a.logprobs] for a in spelled]
        where = b'"key":"%b","actions":' % key.encode()
        return b"%b%b%b}\n%b%b%b}\n" % (
            _LEARNED,
            where,
            to_json(rows),
            _TOKENS,
            where,
            to_json(shortened(tokens)),
        )

    def forget(self) -> None:
        """Forget which texts the file has: it is another one now."""
        self._texts, self._card_known = {}, False

    def _card_line(self) -> bytes:
        """The line with the card if the file does not have it."""
        if self._card is None or self._card_known:
            return b""
        self._card_known = True
        return b'%b"id":%b,"card":%b}\n' % (_CARD, self._card_id, self._card)

    def _know_variable(self, settings: Mapping[str, Any]) -> None:
        """Look for the coach's key too, which may be in a variable of any name."""
        coach = settings.get("coach")
        name = coach.get("key_variable") if isinstance(coach, Mapping) else None
        if isinstance(name, str) and name != self._variable:
            self._variable = name
            self._secrets = Secrets(self._environment, [name])


class _Draft:
    """Writes the lines of the episode ``key``, without ``secrets``; None: with whatever it holds.

    ``known``: the ids of texts that the file has.
    """

    def __init__(
        self, key: str, known: Mapping[str, bytes], secrets: Secrets | None, card: bytes, about: bytes
    ) -> None:
        self._key, self._known, self._secrets = key.encode(), known, secrets
        self._card, self._about = card, about
        self.pieces: list[bytes] = []
        """All that can hold secrets, as it was."""
        self.shared: list[bytes] = []
        """Lines that the others refer to."""
        self.new: dict[str, bytes] = {}
        """The ids of the texts in ``shared``."""
        self.used: set[bytes] = set()
        """The ids of the texts that it refers to."""
        self.censored: set[bytes] = set()
        """Those of ``new`` that are written without a secret that they hold."""
        self.hidden = False
        """Whether anything is written without a secret that it holds."""

    def lines(self, trajectory: Trajectory, files: Mapping[str, int]) -> list[bytes]:
        """A line per action, and the one that closes the episode."""
        lines: list[bytes] = []
        actions, timings = trajectory.actions, trajectory.timings
        rows, segment = [], 0
        for position, before in enumerate(previous(actions)):
            action = actions[position]
            timing = timings[position] if position < len(timings) else None
            times = b"" if timing is None else b',"timing":' + record_to_json(Timing, timing)
            lines.append(
                b'%b"key":"%b","step":%d,"messages":%b%b,"action":%b}\n'
                % (
                    _ACTION,
                    self._key,
                    position,
                    self._messages(actions, position, before),
                    times,
                    self._shown(record_to_json(ActionRecord, action, _MESSAGES)),
                )
            )
            rows.append(_row(action, segment))
            segment += action.last_turn
        lines.append(self._closing(trajectory, files, rows))
        return lines

    def _messages(self, actions: Sequence[ActionRecord], position: int, before: int | None) -> bytes:
        action = actions[position]
        known = continued(actions[before], action) if before is not None else 0
        new = b",".join([self._message(message) for message in action.messages[known:]])
        if before is not None and known:
            return b'{"after":%d,"new":[%b]}' % (before, new)
        return b'{"new":[%b]}' % new

    def _message(self, message: Message) -> bytes:
        text = message.get("content", "")
        if len(text) < SHARED or len(message) != 2 or "role" not in message:
            return self._shown(to_json(message))
        return b'{"role":%b,"text":"%b"}' % (to_json(message["role"]), self._text(text))

    def _text(self, text: str) -> bytes:
        """The id of a text, after a line with it if the file does not have it."""
        found = self._known.get(text) or self.new.get(text)
        if found is None:
            plain = to_json(text)
            written = self._shown(plain)
            found = _digest(written)
            if written != plain:
                self.censored.add(found)
            self.shared.append(b'%b"id":"%b","text":%b}\n' % (_TEXT, found, written))
            self.new[text] = found
        self.used.add(found)
        return found

    def _closing(self, trajectory: Trajectory, files: Mapping[str, int], rows: list[list[Any]]) -> bytes:
        task = trajectory.task
        shown: dict[str, Any] = {name: getattr(task, name) for name in TASK}
        if len(task.prompt) < SHARED:
            shown["prompt"] = task.prompt
        else:
            shown["text"] = self._text(task.prompt).decode()
        if files:
            shown["files"] = files
        return b'%b"key":"%b","task":%b,"episode":%b,"card":%b,"about":%b,"rows":%b}\n' % (
            _EPISODE,
            self._key,
            self._shown(to_json(shown)),
            self._shown(record_to_json(Trajectory, trajectory, APART)),
            self._card,
            self._shown(self._about),
            self._shown(to_json(rows)),
        )

    def _shown(self, piece: bytes) -> bytes:
        """A piece of JSON as it may be written."""
        self.pieces.append(piece)
        if self._secrets is None:
            return piece
        shown = self._secrets.hide(piece)
        self.hidden |= shown != piece
        return shown


def shortened(tokens: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Rows ``[step, context ids, ids, log-probs]``, with the context as ``[row, its new ids]``.

    A context that begins with the context and the action of an earlier row only names that row (-1: none).
    """
    out: list[list[Any]] = []
    wholes: list[tuple[int, ...]] = []
    for step, context, ids, logprobs in tokens:
        context = tuple(context)
        fits = (r for r in reversed(range(len(wholes))) if context[: len(wholes[r])] == wholes[r])
        row = next(fits, -1)
        new = context[len(wholes[row]) :] if row >= 0 else context
        out.append([step, [row, new], ids, logprobs])
        wholes.append((*context, *ids))
    return out


def _digest(written: bytes) -> bytes:
    return hashlib.sha256(written).hexdigest()[:32].encode()


def _row(action: ActionRecord, segment: int) -> list[Any]:
    """The fields of ``ActionSummary`` between the step and what a learner adds."""
    return list(summarised(action, 0, segment)[1:-2])


def sizes(task: Task) -> dict[str, int]:
    """The sizes of a task's files in bytes."""
    return {
        name: content.stat().st_size if isinstance(content, Path) else len(content)
        for name, content in task.files.items()
    }
